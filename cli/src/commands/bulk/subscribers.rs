//! Who is subscribed to the audience of a job when it is continued.

use std::collections::HashSet;
use std::hash::{BuildHasher as _, RandomState};

use svc_sdk::EmailClient;

use super::address;
use crate::contact_pages;
use crate::context::Context;
use crate::failure::Failure;
use crate::names::{self, Names};

/// Hashes of the addresses that are subscribed, in place of a million addresses.
#[derive(Default)]
pub struct Subscribers {
    hasher: RandomState,
    addresses: HashSet<u64>,
}

impl Subscribers {
    /// Reads the audience again: people may have unsubscribed since the job was started.
    pub async fn read(
        context: &Context,
        client: &EmailClient,
        audience: &str,
    ) -> Result<Self, Failure> {
        let read = async |audience: &str| {
            let mut subscribers = Self::default();
            // Another contact of the audience may have the same address.
            let mut opted_out = HashSet::new();
            let progress = context.out.progress("reading the audience again");
            contact_pages::for_each(client, audience, None, |contact| {
                let Ok(address) = address::check(contact.email.as_deref().unwrap_or_default())
                else {
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
        names::with_id(context, Names::Audience(client), audience, read).await
    }

    /// Whether this address is subscribed.
    pub fn contains(&self, address: &str) -> bool {
        address::check(address)
            .is_ok_and(|address| self.addresses.contains(&self.hasher.hash_one(address)))
    }
}
