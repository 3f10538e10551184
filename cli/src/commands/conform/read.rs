//! The level `read` of `svc conform`: finds out how the service takes the key, and sends GET
//! requests. `find_key_scheme` tries headers and schemes, those first that `WWW-Authenticate`
//! names, until one is accepted; all later requests use that one. Nothing is changed at the
//! service. The exchanges are kept in `Seen`, where `statements.rs` and `points.rs` look at them.

use svc_sdk::{Dialect, Point};

use super::examiner::{Examiner, Step, is_about_scope, step, wrong_key};
use crate::failure::{Failure, Kind};

/// How services take a key: the header and the scheme, the usual ones first.
const SCHEMES: [(&str, &str); 10] = [
    ("authorization", "bearer"),
    ("authorization", "token"),
    ("authorization", "basic"),
    ("authorization", "basic-user"),
    ("authorization", "bare"),
    ("x-api-key", "bare"),
    ("x-auth-token", "bare"),
    ("x-goog-api-key", "bare"),
    ("api-key", "bare"),
    ("x-access-token", "bare"),
];

const EMAIL: &[Step] = &[
    step(
        "audiences.get",
        "GET",
        "/api/v1/audiences/{audiences.list}",
        "",
    ),
    step(
        "contacts.list",
        "GET",
        "/api/v1/audiences/{audiences.list}/contacts",
        "",
    ),
    step("domains.list", "GET", "/api/v1/domains", ""),
    step("webhooks.list", "GET", "/api/v1/webhooks", ""),
    // An id that nothing has.
    step(
        "audiences.missing",
        "GET",
        "/api/v1/audiences/00000000-0000-4000-8000-000000000000",
        "",
    ),
];
const EXTRACTION: &[Step] = &[
    step("me", "GET", "/v1/me", ""),
    step("extraction.webhooks.list", "GET", "/v1/webhooks", ""),
];

impl Examiner<'_> {
    pub(super) async fn read(&mut self) -> Result<(), Failure> {
        if self.email.is_some() {
            self.find_key_scheme().await?;
            self.read_email_service().await?;
        }
        self.read_extraction_service().await
    }

    async fn read_email_service(&mut self) -> Result<(), Failure> {
        let Some(email) = self.email.clone() else {
            return Ok(());
        };
        let audiences = self
            .call("audiences.list", email.audiences().list())
            .await?;
        let first = audiences.and_then(|list| list.items.into_iter().next());
        if let Some(audience) = first {
            self.keep_id("audiences.list", &audience.id);
        }
        self.follow(EMAIL).await
    }

    async fn read_extraction_service(&mut self) -> Result<(), Failure> {
        let Some(url) = self.target.extraction_url.clone() else {
            return Ok(());
        };
        self.follow(EXTRACTION).await?;
        let stranger = self.extraction_client(&url, &wrong_key()?)?;
        self.call("me.wrong-key", stranger.raw("GET", "/v1/me"))
            .await?;
        Ok(())
    }

    /// Sends a GET for each scheme until one is accepted, those that `WWW-Authenticate` names first.
    async fn find_key_scheme(&mut self) -> Result<(), Failure> {
        let known = self.context.dialect().clone();
        let mut left = vec![known.clone()];
        for (header, scheme) in SCHEMES {
            let mut dialect = known.clone();
            pin(&mut dialect, Point::KeyHeader, header);
            pin(&mut dialect, Point::KeyScheme, scheme);
            let is_known = [Point::KeyHeader, Point::KeyScheme]
                .iter()
                .all(|point| dialect.choice(*point) == known.choice(*point));
            if !is_known {
                left.push(dialect);
            }
        }
        let mut refused: Vec<(u16, Dialect)> = Vec::new();
        while !left.is_empty() {
            let dialect = left.remove(0);
            self.speak(dialect.clone())?;
            let Some(email) = &self.email else {
                return Ok(());
            };
            let list = email.raw("GET", "/api/v1/audiences");
            let result = self.try_key(list).await?;
            let Some(status) = result else {
                self.seen.key = Some(dialect);
                return Ok(());
            };
            if let Some(word) = self.challenge() {
                let mut named = known.clone();
                pin(&mut named, Point::KeyHeader, "authorization");
                pin(&mut named, Point::KeyScheme, &word);
                // The word as the service spells it; what has a name of its own, under that.
                let is_named = |each: &Dialect| {
                    each.choice(Point::KeyScheme) == named.choice(Point::KeyScheme)
                };
                left.sort_by_key(|each| !is_named(each));
                let is_tried = is_named(&dialect) || refused.iter().any(|(_, each)| is_named(each));
                if !is_tried && !left.iter().any(is_named) {
                    left.insert(0, named);
                }
            }
            refused.push((status, dialect));
        }
        // A key without the scope is refused, too, but otherwise than one that is not read.
        let is_only =
            |status: u16| refused.iter().filter(|(other, _)| *other == status).count() == 1;
        let odd = refused
            .iter()
            .find(|(status, _)| *status == 403 && is_only(*status));
        if let Some((_, dialect)) = odd {
            let dialect = dialect.clone();
            self.seen.key = Some(dialect.clone());
            return self.speak(dialect);
        }
        let tried = SCHEMES
            .map(|(header, scheme)| format!("{header}: {scheme}"))
            .join(", ");
        Err(Failure::new(
            Kind::Unauthenticated,
            "the email service accepts the key in none of the usual ways",
        )
        .code("key_not_accepted")
        .hint(format!(
            "check the key; tried were {tried}\nif the service has another way, set key-header and key-scheme of the profile's dialect"
        )))
    }

    /// The status of a response that refuses the key.
    async fn try_key(
        &mut self,
        list: svc_sdk::Call<svc_sdk::RawResponse>,
    ) -> Result<Option<u16>, Failure> {
        let accepted = self.call("key", list).await?;
        if accepted.is_some() {
            return Ok(None);
        }
        let Some(exchange) = self.seen.at("key") else {
            return Ok(Some(0));
        };
        let is_scope = exchange.status == 403 && is_about_scope(exchange);
        Ok((!is_scope).then_some(exchange.status))
    }

    /// The scheme that the last response asks for, such as `Token`.
    fn challenge(&self) -> Option<String> {
        let challenge = self.seen.at("key")?.header("www-authenticate")?;
        let word = challenge.split([' ', ',']).next()?;
        (!word.is_empty()).then(|| word.to_owned())
    }
}

/// Sets a choice that is valid.
pub(super) fn pin(dialect: &mut Dialect, point: Point, choice: &str) {
    // Free text of a service may be no choice.
    let _ = dialect.pin(point, choice);
}
