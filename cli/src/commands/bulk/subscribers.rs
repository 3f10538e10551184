//! Who is subscribed to the audience of a job when it is continued.

use std::collections::HashSet;
use std::hash::{BuildHasher as _, RandomState};

use svc_sdk::EmailClient;

use crate::contact_pages;
use crate::context::Context;
use crate::failure::Failure;
use crate::input::email::check;
use crate::names::{self, Names};
use crate::stop::StopSignal;

/// Hashes of the addresses that are subscribed, in place of a million addresses.
#[derive(Default)]
pub struct Subscribers {
    hasher: RandomState,
    addresses: HashSet<u64>,
}

impl Subscribers {
    /// Reads the audience of a job again, if it has one: people may have unsubscribed since it was
    /// started.
    pub async fn read(
        context: &Context,
        client: &EmailClient,
        audience: Option<&String>,
        stop: &mut StopSignal,
    ) -> Result<Option<Self>, Failure> {
        let Some(audience) = audience else { return Ok(None) };
        let read = async |audience: &str| {
            let mut subscribers = Self::default();
            // Another contact of the audience may have the same address.
            let mut opted_out = HashSet::new();
            let progress = context.out.progress("reading the audience again");
            contact_pages::for_each(client, audience, None, |contact| {
                let Ok(address) = check(contact.email.as_deref().unwrap_or_default()) else {
                    return Ok(());
                };
                let hash = subscribers.hasher.hash_one(&address);
                match contact.subscribed {
                    Some(true) => subscribers.addresses.insert(hash),
                    _ => opted_out.insert(hash),
                };
                Ok(())
            })
            .await?;
            drop(progress);
            subscribers.addresses.retain(|address| !opted_out.contains(address));
            Ok(subscribers)
        };
        tokio::select! {
            read = names::with_id(context, Names::Audience(client), audience, read) => read.map(Some),
            _ = stop.recv() => Err(context.changes.interruption()),
        }
    }

    /// Whether this address is subscribed.
    pub fn contains(&self, address: &str) -> bool {
        check(address).is_ok_and(|address| self.addresses.contains(&self.hasher.hash_one(address)))
    }
}
