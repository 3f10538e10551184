//! The level `read`: how the key is presented, and GET requests.

use reqwest::Method;
use svc_sdk::{Dialect, Point};

use super::examiner::{Examiner, is_about_scope, wrong_key};
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

/// An id that nothing has.
const NO_ID: &str = "00000000-0000-4000-8000-000000000000";

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
        if let Some(audience) = first.filter(|audience| !audience.id.is_empty()) {
            let id = &audience.id;
            self.call("audiences.get", email.audiences().get(id))
                .await?;
            let contacts = email.contacts().list(id);
            self.call("contacts.list", contacts).await?;
        }
        self.call("domains.list", email.domains().list()).await?;
        self.call("webhooks.list", email.webhooks().list()).await?;
        let missing = format!("/api/v1/audiences/{NO_ID}");
        self.raw("audiences.missing", Method::GET, &missing, None)
            .await?;
        Ok(())
    }

    async fn read_extraction_service(&mut self) -> Result<(), Failure> {
        let (Some(extraction), Some(url)) =
            (self.extraction.clone(), self.target.extraction_url.clone())
        else {
            return Ok(());
        };
        self.call("me", extraction.raw("GET", "/v1/me")).await?;
        let list = extraction.raw("GET", "/v1/webhooks");
        self.call("extraction.webhooks.list", list).await?;
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
            left.push(dialect);
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
                left.retain(|each| *each != dialect);
                let mut named = known.clone();
                pin(&mut named, Point::KeyHeader, "authorization");
                pin(&mut named, Point::KeyScheme, &word);
                let is_new = !refused
                    .iter()
                    .any(|(_, tried)| tried.choice(Point::KeyScheme) == word);
                left.sort_by_key(|each| each.choice(Point::KeyScheme) != word);
                let is_there = left
                    .iter()
                    .any(|each| each.choice(Point::KeyScheme) == word);
                if is_new && !is_there {
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
        let word = challenge.split([' ', ',']).next()?.to_ascii_lowercase();
        (!word.is_empty()).then_some(word)
    }
}

/// Sets a choice that is valid.
pub(super) fn pin(dialect: &mut Dialect, point: Point, choice: &str) {
    // Free text of a service may be no choice.
    let _ = dialect.pin(point, choice);
}
