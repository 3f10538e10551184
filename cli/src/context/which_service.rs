//! Says which service is used where a person named another one: with `--profile prod`, a variable of
//! the environment still comes before the profile.

use svc_sdk::Service;

use super::Clients;
use crate::failure::Failure;
use crate::settings::{Source, Sourced, is_same_base_url, url_entry};
use crate::urls::without_password;

impl Clients {
    /// Says once in a run that another service or key is used than that of the named profile.
    pub(super) fn tell_service(
        &self,
        service: Service,
        url: &Sourced<String>,
    ) -> Result<(), Failure> {
        if let Some(uses) = self.other_service(service, url)?
            && !self.told_service.replace(true)
        {
            self.run.out.note(&format!("this {uses}"));
        }
        Ok(())
    }

    /// Whether a person was told that another service or key is used.
    pub fn told_other_service(&self) -> bool {
        self.told_service.get()
    }

    /// The question before a single email goes to another service than that of the named profile, if
    /// a person can answer it.
    pub fn question_about_service(&self) -> Result<Option<String>, Failure> {
        let settings = &self.run.settings;
        let Some(url) = settings.url(Service::Email) else {
            return Ok(None);
        };
        if settings.yes || !self.run.out.can_ask() {
            return Ok(None);
        }

        let uses = self.other_service(Service::Email, url)?;
        self.told_service.set(uses.is_some());
        Ok(uses.map(|uses| format!("This {uses}. Send?")))
    }

    fn other_service(
        &self,
        service: Service,
        url: &Sourced<String>,
    ) -> Result<Option<String>, Failure> {
        let settings = &self.run.settings;
        let profile = &settings.profile;
        if settings.sandbox || !matches!(profile.source, Source::Option(_)) {
            return Ok(None);
        }

        let is_variable =
            |source: &Source| matches!(source, Source::Environment(_) | Source::EnvFile(_));
        let profiles = settings.profiles()?;
        let of_profile = profiles.text(&profile.value, url_entry(service));
        let is_other_url = is_variable(&url.source)
            && of_profile.is_none_or(|of_profile| !is_same_base_url(of_profile, &url.value));
        let key = match settings.key_file {
            Some(_) => None,
            None => settings.stored_key(service)?.map(|key| key.source),
        };
        let key = key.filter(is_variable);
        let name = &profile.value;
        let source = &url.source;
        let uses = format!(
            "uses the {service} service at {}",
            without_password(&url.value)
        );
        Ok(match (is_other_url, key) {
            (true, Some(key)) => Some(format!(
                "{uses} ({source}) and the key of {key}, not those of profile `{name}`"
            )),
            (true, None) => Some(format!("{uses} ({source}), not that of profile `{name}`")),
            (false, Some(key)) => Some(format!(
                "{uses} with the key of {key}, not that of profile `{name}`"
            )),
            (false, None) => None,
        })
    }
}
