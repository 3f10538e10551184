//! DMARC (RFC 7489): whether the domain of the header `From` is one that SPF or DKIM has
//! authenticated. Policies and organizational domains are found by walking up the names, as the
//! successor of the RFC does, because that needs no list of public suffixes.

use crate::control::messages::DmarcVerdict;

use super::check::{is_dmarc, tag};
use super::resolver::{LookupError, Resolver};

/// Evaluates the policy of an author's domain, given the domains that SPF and DKIM authenticated.
pub(crate) async fn evaluate(
    resolver: &Resolver,
    author: &str,
    spf: Option<&str>,
    dkim: &[String],
) -> DmarcVerdict {
    let policy = match policy_of(resolver, author).await {
        Ok(Some(policy)) => policy,
        Ok(None) => return DmarcVerdict::None,
        Err(_) => return DmarcVerdict::TempError,
    };
    let mut dkim = dkim.iter().map(String::as_str);
    let passes = spf.is_some_and(|domain| policy.aligns("aspf", author, domain))
        || dkim.any(|domain| policy.aligns("adkim", author, domain));
    if passes { DmarcVerdict::Pass } else { DmarcVerdict::Fail }
}

struct Policy {
    record: String,
    /// The organizational domain of the author.
    organization: String,
}

impl Policy {
    /// Whether an authenticated domain is that of the author, or of the same organization unless
    /// `mode` is strict.
    fn aligns(&self, mode: &str, author: &str, domain: &str) -> bool {
        let is_strict = tag(&self.record, mode).is_some_and(|mode| mode.eq_ignore_ascii_case("s"));
        let domain = domain.to_ascii_lowercase();
        let is_below = |above: &str| {
            domain.strip_suffix(above).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
        };
        domain.eq_ignore_ascii_case(author) || !is_strict && is_below(&self.organization)
    }
}

/// Maximum number of labels of a name that is looked up, besides the domain itself: it bounds the
/// number of lookups.
const MAX_LABELS: usize = 7;

/// The policy that is closest to the domain. The record furthest up is that of its organization.
async fn policy_of(resolver: &Resolver, domain: &str) -> Result<Option<Policy>, LookupError> {
    let domain = domain.to_ascii_lowercase();
    let mut policy: Option<Policy> = None;
    let mut below = domain.as_str();
    let mut name = Some(domain.as_str());
    while let Some(current) = name {
        let labels = current.split('.').count();
        // No organization has a top-level domain for itself.
        if labels < 2 {
            break;
        }
        if labels <= MAX_LABELS || current.len() == domain.len() {
            let mut records = resolver.txt(&format!("_dmarc.{current}")).await?;
            records.retain(|record| is_dmarc(record));
            // Several records count as none.
            if let [record] = &records[..] {
                let psd = tag(record, "psd").unwrap_or_default();
                // A registry's record is about the names below it.
                let organization = if psd == "y" { below } else { current };
                let first = policy.take().map(|policy| policy.record);
                let record = first.unwrap_or_else(|| record.clone());
                policy = Some(Policy { record, organization: organization.to_owned() });
                if psd == "y" || psd == "n" {
                    break;
                }
            }
        }
        (below, name) = (current, current.split_once('.').map(|(_, parent)| parent));
    }
    Ok(policy)
}

#[cfg(test)]
mod tests {
    use super::super::testing;
    use super::*;
    use crate::model::dns::RecordKind;

    #[tokio::test]
    async fn a_domain_of_the_same_organization_is_aligned_unless_the_policy_is_strict() {
        use DmarcVerdict::{Fail, None, Pass};
        let zone = testing::zone(&[
            (RecordKind::Dmarc, "_dmarc.shop.test", "v=DMARC1; p=reject"),
            (RecordKind::Dmarc, "_dmarc.strict.test", "v=DMARC1; p=none; aspf=s; adkim=s"),
            (RecordKind::Dmarc, "_dmarc.own.shop.test", "v=DMARC1; p=none; psd=n"),
            (RecordKind::Dmarc, "_dmarc.registry.test", "v=DMARC1; p=none; psd=y"),
        ]);
        let resolver = Resolver::new(zone, Option::None);
        for (author, spf, dkim, verdict) in [
            ("shop.test", Some("shop.test"), "", Pass),
            ("shop.test", Some("mail.shop.test"), "", Pass),
            ("Mail.Shop.test", Option::None, "SHOP.test", Pass),
            ("a.b.shop.test", Option::None, "c.shop.test", Pass),
            ("shop.test", Some("notshop.test"), "other.test", Fail),
            ("shop.test", Option::None, "", Fail),
            ("strict.test", Some("strict.test"), "", Pass),
            ("strict.test", Some("mail.strict.test"), "mail.strict.test", Fail),
            ("own.shop.test", Some("shop.test"), "", Fail),
            ("a.registry.test", Some("b.registry.test"), "", Fail),
            ("a.registry.test", Some("mail.a.registry.test"), "", Pass),
            ("nothing.test", Some("nothing.test"), "nothing.test", None),
        ] {
            let dkim = [dkim.to_owned()];
            let found = evaluate(&resolver, author, spf, &dkim).await;
            assert_eq!(found, verdict, "{author} {spf:?} {dkim:?}");
        }
    }
}
