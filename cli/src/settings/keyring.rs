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
    let key = key.clone();
    store::with(profile, service, within, move |entry| entry.set_password(key.expose()))
}

/// Reads a key.
pub fn get(profile: &str, service: Service, within: Duration) -> Result<Key, Failure> {
    let text = store::with(profile, service, within, store::Entry::get_password)?;
    Key::parse(&text, "the system's keyring")
}

/// Removes a key. A missing key is not an error.
pub fn forget(profile: &str, service: Service, within: Duration) -> Result<(), Failure> {
    store::with(profile, service, within, |entry| match entry.delete_credential() {
        Err(store::Error::NoEntry) => Ok(()),
        done => done,
    })
}

#[cfg(feature = "keyring")]
mod store {
    use std::sync::mpsc;

    pub(super) use keyring::{Entry, Error};

    use super::{Duration, Failure, Service};

    /// Accesses an entry in a separate thread, which is abandoned after the time limit.
    pub(super) fn with<T: Send + 'static>(
        profile: &str,
        service: Service,
        within: Duration,
        work: impl FnOnce(&Entry) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Failure> {
        let user = format!("{profile}/{}", service.as_str());
        let (done, result) = mpsc::sync_channel(1);
        std::thread::spawn(move || {
            let outcome = match Entry::store_status() {
                Ok(()) => Entry::new("svc", &user).and_then(|entry| work(&entry)),
                Err(error) => Err(Error::Invalid("store".to_owned(), error.to_string())),
            };
            // The receiver is gone after the time limit.
            let _ = done.send(outcome.map_err(|error| describe(&error)));
        });
        match result.recv_timeout(within) {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(why)) => Err(failure(&why)),
            Err(_) => Err(failure(&format!("no response within {} s", within.as_secs_f64()))),
        }
    }

    /// Describes an error without quoting the stored value.
    fn describe(error: &Error) -> String {
        match error {
            Error::NoEntry => "no key is stored for this profile".to_owned(),
            Error::Invalid(_, why) => format!("not available: {why}"),
            Error::BadEncoding(_) | Error::BadDataFormat(..) => {
                "the stored value is not text".to_owned()
            }
            other => other.to_string(),
        }
    }

    fn failure(why: &str) -> Failure {
        Failure::other(format!("the system's keyring: {why}")).code("keyring").hint(
            "store the key in a file that only you can read: svc login without --keyring\n\
             or pass it for this run: --key-file PATH",
        )
    }
}

#[cfg(not(feature = "keyring"))]
mod store {
    use super::{Duration, Failure, Service};

    /// Never exists: this `svc` was built without keyring support.
    pub(super) struct Entry(std::convert::Infallible);

    pub(super) enum Error {
        #[expect(dead_code, reason = "only a keyring returns it")]
        NoEntry,
    }

    impl Entry {
        pub(super) fn set_password(&self, _: &str) -> Result<(), Error> {
            match self.0 {}
        }

        pub(super) fn get_password(&self) -> Result<String, Error> {
            match self.0 {}
        }

        pub(super) fn delete_credential(&self) -> Result<(), Error> {
            match self.0 {}
        }
    }

    pub(super) fn with<T>(
        _: &str,
        _: Service,
        _: Duration,
        _: impl FnOnce(&Entry) -> Result<T, Error>,
    ) -> Result<T, Failure> {
        Err(Failure::usage("this svc was built without keyring support")
            .code("keyring")
            .hint("build it with the cargo feature `keyring`, or log in without --keyring"))
    }
}
