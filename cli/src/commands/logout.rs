//! The `svc logout` command.

use clap::Args;
use serde_json::json;
use svc_sdk::Service;

use super::verify::ServiceName;
use crate::context::Context;
use crate::failure::Failure;
use crate::settings::keyring;

/// Delete the stored keys of the profile
///
/// The keys stay valid. Revoke them in the service's dashboard.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  svc logout
  svc logout --service extraction --profile staging

Scope: none (works offline)")]
pub struct Logout {
    /// Delete only the key of this service
    #[arg(long, value_name = "email|extraction", hide_possible_values = true)]
    service: Option<ServiceName>,
}

impl Logout {
    pub fn run(self, context: &Context) -> Result<(), Failure> {
        let profile = &context.settings.profile.value;
        let _lock = context.settings.lock()?;
        let mut credentials = context.settings.credentials()?;
        let services = match self.service {
            Some(service) => vec![Service::from(service)],
            None => vec![Service::Email, Service::Extraction],
        };
        let timeout = context.settings.keyring_timeout();
        for service in services.iter().filter(|s| credentials.in_keyring(profile, **s)) {
            keyring::forget(profile, *service, timeout)?;
        }
        let forgotten = services
            .into_iter()
            .filter(|service| credentials.forget(profile, *service))
            .map(Service::as_str)
            .collect::<Vec<_>>();
        if !forgotten.is_empty() {
            credentials.save()?;
        }
        let sentence = if forgotten.is_empty() {
            format!("profile `{profile}` has no stored key")
        } else {
            format!("deleted the {} key of profile `{profile}`", forgotten.join(" and the "))
        };
        context.out.done(&sentence, &json!({"profile": profile, "deleted": forgotten}))
    }
}
