//! The system's keyring, for those who ask for it at `svc login`. It may ask a
//! person, hang, or start a daemon: it is never touched where the key comes
//! from elsewhere, and never waited for without end.

use std::time::Duration;

use svc_sdk::Service;

use super::Key;
use crate::failure::Failure;

/// Long enough to type a password that unlocks it.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// Keeps a key.
pub fn set(profile: &str, service: Service, key: &Key, within: Duration) -> Result<(), Failure> {
    let key = key.clone();
    store::with(profile, service, within, move |entry| entry.set_password(key.expose()))
}

/// The key that was kept.
pub fn get(profile: &str, service: Service, within: Duration) -> Result<Key, Failure> {
    let text = store::with(profile, service, within, store::Entry::get_password)?;
    Key::parse(&text, "the system's keyring")
}

/// Forgets a key; one that is not there is forgotten already.
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

    /// Works on an entry in a thread of its own, which is left behind when it
    /// takes too long.
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
            // Nobody waits any more when it took too long.
            let _ = done.send(outcome.map_err(|error| describe(&error)));
        });
        match result.recv_timeout(within) {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(why)) => Err(failure(&why)),
            Err(_) => Err(failure(&format!("no answer within {} s", within.as_secs_f64()))),
        }
    }

    /// In words that hold nothing of what is kept.
    fn describe(error: &Error) -> String {
        match error {
            Error::NoEntry => "it holds no key of this profile".to_owned(),
            Error::Invalid(_, why) => format!("it is not there: {why}"),
            Error::BadEncoding(_) | Error::BadDataFormat(..) => {
                "what it holds is no text".to_owned()
            }
            other => other.to_string(),
        }
    }

    fn failure(why: &str) -> Failure {
        Failure::other(format!("the system's keyring: {why}")).code("keyring").hint(
            "keep the key in a file that only you can read: svc login without --keyring\n\
             or give it for this run: --key-file PATH",
        )
    }
}

#[cfg(not(feature = "keyring"))]
mod store {
    use super::{Duration, Failure, Service};

    /// Nothing: this `svc` was built without the keyring.
    pub(super) struct Entry(std::convert::Infallible);

    pub(super) enum Error {
        #[expect(dead_code, reason = "only a keyring can say it")]
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
        Err(Failure::usage("this svc was built without the keyring")
            .code("keyring")
            .hint("build it with the cargo feature `keyring`, or log in without --keyring"))
    }
}
