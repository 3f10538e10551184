//! Keys in the system's keyring, for profiles created with `svc login --keyring`. A keyring may
//! prompt, hang, or start a daemon. It is therefore accessed only when the key has no other
//! source, and always with a time limit.

use std::time::Duration;

use svc_sdk::Service;

use super::Key;
use crate::failure::Failure;

/// Maximum wait for the keyring: long enough to type a password that unlocks it.
pub const UNLOCK_TIMEOUT: Duration = Duration::from_secs(30);

/// Stores a key.
pub fn set(profile: &str, service: Service, key: &Key, within: Duration) -> Result<(), Failure> {
    access(profile, service, Access::Set(key.clone()), within).map(drop)
}

/// Reads a key.
pub fn get(profile: &str, service: Service, within: Duration) -> Result<Key, Failure> {
    let text = access(profile, service, Access::Get, within)?;
    Key::parse(&text, "the system's keyring")
}

/// Removes a key. A missing key is not an error.
pub fn forget(profile: &str, service: Service, within: Duration) -> Result<(), Failure> {
    access(profile, service, Access::Forget, within).map(drop)
}

#[cfg_attr(not(feature = "keyring"), expect(dead_code, reason = "only a keyring reads the key"))]
enum Access {
    Set(Key),
    Get,
    Forget,
}

/// Accesses an entry in a separate thread, which is abandoned after the time limit.
#[cfg(feature = "keyring")]
fn access(
    profile: &str,
    service: Service,
    access: Access,
    within: Duration,
) -> Result<String, Failure> {
    use keyring::{Entry, Error};

    let user = format!("{profile}/{}", service.as_str());
    let (done, result) = std::sync::mpsc::sync_channel(1);
    std::thread::spawn(move || {
        let outcome = match Entry::store_status() {
            Ok(()) => Entry::new("svc", &user).and_then(|entry| match access {
                Access::Set(key) => entry.set_password(key.expose()).map(|()| String::new()),
                Access::Get => entry.get_password(),
                Access::Forget => match entry.delete_credential() {
                    Ok(()) | Err(Error::NoEntry) => Ok(String::new()),
                    Err(error) => Err(error),
                },
            }),
            Err(error) => Err(Error::Invalid("store".to_owned(), error.to_string())),
        };
        // The error without the stored value. The receiver is gone after the time limit.
        let _ = done.send(outcome.map_err(|error| match error {
            Error::NoEntry => "no key is stored for this profile".to_owned(),
            Error::Invalid(_, why) => format!("not available: {why}"),
            Error::BadEncoding(_) | Error::BadDataFormat(..) => {
                "the stored value is not text".to_owned()
            }
            other => other.to_string(),
        }));
    });
    let late = |_| Err(format!("no response within {} s", within.as_secs_f64()));
    result.recv_timeout(within).unwrap_or_else(late).map_err(|why| {
        Failure::other(format!("the system's keyring: {why}")).code("keyring").hint(
            "store the key in a file that only you can read: svc login without --keyring\n\
             or pass it for this run: --key-file PATH",
        )
    })
}

#[cfg(not(feature = "keyring"))]
fn access(_: &str, _: Service, _: Access, _: Duration) -> Result<String, Failure> {
    Err(Failure::usage("this svc was built without keyring support")
        .code("keyring")
        .hint("build it with the cargo feature `keyring`, or log in without --keyring"))
}
