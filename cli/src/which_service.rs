//! Says which service is used where a person named another one: with `--profile prod`, a variable of
//! the environment still comes before the profile.

use svc_sdk::{Operation, Service};

use crate::confirm::confirm;
use crate::context::Context;
use crate::failure::Failure;
use crate::settings::{Source, Sourced, is_same_base_url, url_entry};
use crate::urls::without_password;

/// Says it once in a run. A single email is only sent after a question, if a person can answer it.
pub async fn tell(
    context: &Context,
    service: Service,
    url: &Sourced<String>,
) -> Result<(), Failure> {
    let Some(sentence) = sentence(context, service, url)? else {
        return Ok(());
    };
    if context.told_service.replace(true) {
        return Ok(());
    }
    let settings = &context.settings;
    let sends = [Operation::EmailsSend, Operation::EmailsSendBatch];
    let mut operations = context.command.operations.iter();
    // A job of `svc bulk` has a question of its own.
    let asks = operations.any(|operation| sends.contains(operation))
        && !context.command.path.starts_with("bulk ")
        && context.out.can_ask();
    if asks && !settings.yes && !settings.dry_run {
        return confirm(context, &format!("This {sentence}. Send?")).await;
    }
    context.out.note(&format!("this {sentence}"));
    Ok(())
}

fn sentence(
    context: &Context,
    service: Service,
    url: &Sourced<String>,
) -> Result<Option<String>, Failure> {
    let settings = &context.settings;
    let profile = &settings.profile;
    if !matches!(profile.source, Source::Option(_)) {
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
    let shown = without_password(&url.value);
    let name = &profile.value;
    Ok(match (is_other_url, key) {
        (true, Some(key)) => Some(format!(
            "uses the {service} service at {shown} ({}) and the key of {key}, not those of profile \
             `{name}`",
            url.source
        )),
        (true, None) => Some(format!(
            "uses the {service} service at {shown} ({}), not that of profile `{name}`",
            url.source
        )),
        (false, Some(key)) => Some(format!(
            "uses the {service} service at {shown} with the key of {key}, not that of profile \
             `{name}`"
        )),
        (false, None) => None,
    })
}
