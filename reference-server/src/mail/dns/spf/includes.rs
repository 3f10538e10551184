//! Checks whether an SPF policy includes another one, for the verification of a domain.

use super::term::{Qualifier, Term, terms};
use super::{BoxFuture, MAX_LOOKUPS, policy_of};
use crate::mail::dns::resolver::{LookupError, Resolver};

/// Whether a receiver that evaluates the policy reaches `include:<wanted>` with a
/// passing qualifier, directly or through policies of other domains.
pub(in crate::mail::dns) async fn includes(
    resolver: &Resolver,
    policy: &str,
    wanted: &str,
) -> Result<bool, LookupError> {
    let mut lookups = MAX_LOOKUPS;
    includes_within(resolver, policy.to_owned(), wanted, &mut lookups).await
}

fn includes_within<'a>(
    resolver: &'a Resolver,
    policy: String,
    wanted: &'a str,
    lookups: &'a mut u32,
) -> BoxFuture<'a, Result<bool, LookupError>> {
    Box::pin(async move {
        let mut redirect = None;
        for term in terms(&policy) {
            let target = match (&term, term.value) {
                (Term { name: "all", .. }, _) => return Ok(false),
                (Term { name: "include", qualifier: Qualifier::Pass, .. }, Some(target)) => target,
                (Term { name: "redirect", .. }, target) => {
                    redirect = target;
                    continue;
                }
                _ => continue,
            };
            if target.trim_end_matches('.').eq_ignore_ascii_case(wanted) {
                return Ok(true);
            }
            if *lookups == 0 {
                return Ok(false);
            }
            *lookups -= 1;
            if let Some(policy) = policy_of(resolver, target).await?.single()
                && includes_within(resolver, policy, wanted, lookups).await?
            {
                return Ok(true);
            }
        }
        let Some(target) = redirect.filter(|_| *lookups > 0) else { return Ok(false) };
        *lookups -= 1;
        match policy_of(resolver, target).await?.single() {
            Some(policy) => includes_within(resolver, policy, wanted, lookups).await,
            None => Ok(false),
        }
    })
}
