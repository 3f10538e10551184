//! Resolves the settings of one run and records the source of each.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::ValueEnum as _;
use svc_sdk::Service;

use super::directories::{directories, state_directory};
use super::env::{self, Env, key_variable};
use super::files::{self, DEFAULT_PROFILE, Profile};
use super::source::{Source, Sourced};
use super::{Compatibility, Credentials, GlobalFlags, Guard, Key, Profiles, Proxies, keyring};
use crate::command_line;
use crate::failure::{Failure, Kind};
use crate::output::{ColorChoice, Format};
use crate::urls::without_password;
use crate::zone::{self, Zone};

/// Default time limit of a call, over all attempts.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Default maximum number of retries.
const RETRIES: u32 = 2;

/// The resolved settings of one run.
pub struct Settings {
    pub sandbox: bool,
    pub sandbox_from: Source,
    pub sandbox_dir: PathBuf,
    pub profile: Sourced<String>,
    pub email_url: Option<Sourced<String>>,
    pub extraction_url: Option<Sourced<String>>,
    pub organization: Option<String>,
    pub key_file: Option<PathBuf>,
    pub format: Option<Sourced<Format>>,
    pub color: ColorChoice,
    pub timeout: Sourced<Duration>,
    pub retries: Sourced<u32>,
    pub ca_bundle: Option<Sourced<PathBuf>>,
    pub proxies: Proxies,
    pub idempotency_key: Option<String>,
    pub dry_run: bool,
    pub yes: bool,
    /// Who may get emails, in the sandbox too.
    pub guard: Guard,
    pub compatibility: Compatibility,
    pub config_dir: PathBuf,
    pub data_dir: PathBuf,
    /// The Redis server of `svc bulk work`. Its URL may hold a password.
    pub bulk_queue: Option<String>,
    /// The journals of `svc bulk`.
    pub state_dir: PathBuf,
    /// The environment of the run.
    pub env: Env,
    env_file: Env,
    profile_known: bool,
    /// The base URLs in the profile, which its keys were stored for.
    profile_email_url: Option<String>,
    profile_extraction_url: Option<String>,
    email_key: Option<Sourced<Key>>,
    extraction_key: Option<Sourced<Key>>,
}

impl Settings {
    /// Applies precedence: option, environment, `--env-file`, profile, default.
    pub fn resolve(flags: &GlobalFlags, env: &Env) -> Result<Self, Failure> {
        let file = flags.env_file.as_deref().map(|path| Env::from_file(path, &env.cwd));
        let file = file.transpose()?.unwrap_or_default();
        env.refuse_misspelled()?;
        file.refuse_misspelled()?;
        let variable = |name| variable(env, &file, name);

        let sandbox_from = match variable("SVC_SANDBOX") {
            _ if flags.sandbox => Source::Option("--sandbox"),
            Some(variable) if env::is_truthy(&variable.value) => variable.source,
            _ => Source::Default,
        };
        let sandbox = sandbox_from != Source::Default;
        if sandbox {
            refuse_urls_with_sandbox(flags)?;
        }

        let (config_dir, data_dir) = directories(env);
        let state_dir = state_directory(env).unwrap_or_else(|| data_dir.join("state"));
        let profiles = Profiles::load(config_dir.join("config.toml"))?;
        let named = option("--profile", flags.profile.clone()).or_else(|| variable("SVC_PROFILE"));
        let ChosenProfile { name: profile, values, known: profile_known } =
            chosen_profile(&profiles, &config_dir, named)?;

        let profile_value = |value: Option<String>| value.map(Sourced::from_profile);
        let guard = Guard::resolve(
            values.guard,
            misspelled_guard(&profiles, &profile.value, [env, &file]),
            |name| {
                let here = env.get_or_empty(name).map(|value| (value, Source::Environment(name)));
                here.or_else(|| file.get_or_empty(name).map(|value| (value, Source::EnvFile(name))))
                    .map(|(value, source)| Sourced { value: value.to_owned(), source })
            },
        )?;
        let mut settings = Self {
            sandbox,
            sandbox_from,
            sandbox_dir: env
                .path("SVC_SANDBOX_DIR")
                .or_else(|| file.path("SVC_SANDBOX_DIR"))
                .unwrap_or_else(|| data_dir.join("sandbox")),
            profile,
            profile_known,
            profile_email_url: values.email_url.clone(),
            profile_extraction_url: values.extraction_url.clone(),
            email_url: option("--email-url", flags.email_url.clone())
                .or_else(|| variable("SVC_EMAIL_URL"))
                .or_else(|| profile_value(values.email_url)),
            extraction_url: option("--extraction-url", flags.extraction_url.clone())
                .or_else(|| variable("SVC_EXTRACTION_URL"))
                .or_else(|| profile_value(values.extraction_url)),
            organization: values.organization,
            key_file: flags.key_file.clone(),
            format: format(flags, variable("SVC_OUTPUT").or_else(|| profile_value(values.output)))?,
            color: color_choice(flags, [env, &file]),
            timeout: option("--timeout", flags.timeout)
                .or_else(|| values.timeout.map(Sourced::from_profile))
                .unwrap_or(Sourced { value: TIMEOUT, source: Source::Default }),
            retries: option("--retries", flags.retries)
                .or_else(|| values.retries.map(Sourced::from_profile))
                .unwrap_or(Sourced { value: RETRIES, source: Source::Default }),
            ca_bundle: option("--ca-bundle", flags.ca_bundle.clone())
                .or_else(|| {
                    variable("SSL_CERT_FILE")
                        .map(|path| Sourced { value: path.value.into(), source: path.source })
                })
                .or_else(|| values.ca_bundle.map(Sourced::from_profile)),
            proxies: Proxies::resolve(env, &file),
            bulk_queue: variable("SVC_BULK_QUEUE").map(|variable| variable.value),
            idempotency_key: flags.idempotency_key.clone(),
            dry_run: flags.dry_run,
            yes: flags.yes,
            guard,
            compatibility: values.compatibility,
            config_dir,
            data_dir,
            state_dir,
            env: env.clone(),
            env_file: Env::default(),
            email_key: None,
            extraction_key: None,
        };
        settings.env_file = file.clone();
        if sandbox {
            // A sandbox run never reaches a live service, whatever the other settings are.
            settings.email_url = None;
            settings.extraction_url = None;
            settings.organization = None;
            settings.proxies = Proxies::none();
            settings.compatibility =
                Compatibility { insecure_webhooks: true, ..Compatibility::default() };
            return Ok(settings);
        }
        settings.email_key = key(variable("SVC_EMAIL_KEY"))?;
        settings.extraction_key = key(variable("SVC_EXTRACTION_KEY"))?;
        Ok(settings)
    }

    /// A path on the command line, from the directory of the run.
    pub fn path(&self, path: &Path) -> PathBuf {
        self.env.cwd.join(path)
    }

    /// A variable of the environment or of the file of `--env-file`.
    pub fn variable(&self, name: &'static str) -> Option<Sourced<String>> {
        variable(&self.env, &self.env_file, name)
    }

    /// The time zone of times without one, which the machine must know.
    pub fn zone(&self) -> Result<Zone, Failure> {
        let unknown = self.env.get("TZ").filter(|name| !zone::is_known(name));
        match unknown.filter(|_| self.env.zone == Zone::Local) {
            None => Ok(self.env.zone),
            Some(name) => Err(Failure::usage(format!(
                "TZ: the time zone `{name}` is not known on this machine"
            ))
            .hint("use a name such as Europe/Berlin (of the package tzdata) or UTC, or unset TZ")),
        }
    }

    /// The base URL of a service.
    pub fn url(&self, service: Service) -> Option<&Sourced<String>> {
        match service {
            Service::Email => self.email_url.as_ref(),
            _ => self.extraction_url.as_ref(),
        }
    }

    /// The key for a service from the environment or the profile. The command that needs
    /// `--key-file` reads it.
    pub fn stored_key(&self, service: Service) -> Result<Option<Sourced<Key>>, Failure> {
        if self.is_in_keyring(service)? {
            let key = keyring::get(&self.profile.value, service, self.keyring_timeout())?;
            return Ok(Some(Sourced::from_profile(key)));
        }
        if let Some(key) = self.key_of_environment(service) {
            return Ok(Some(key.clone()));
        }
        Ok(self.credentials()?.key(&self.profile.value, service)?.map(Sourced::from_profile))
    }

    /// Fails if this run's base URL is not the one that the profile's key was stored for.
    ///
    /// An option, a variable or an edited profile that replaces only the base URL must not send the
    /// key of one service to another.
    pub fn check_destination_of_stored_key(&self, service: Service) -> Result<(), Failure> {
        let Some(url) = self.url(service) else { return Ok(()) };
        let credentials = self.credentials()?;
        let in_profile = match service {
            Service::Email => self.profile_email_url.as_deref(),
            _ => self.profile_extraction_url.as_deref(),
        };
        let stored_for = credentials.url(&self.profile.value, service).or(in_profile);
        if stored_for.is_some_and(|stored| is_same_base_url(stored, &url.value)) {
            return Ok(());
        }
        let shown = without_password(&url.value);
        let belongs = match stored_for {
            Some(stored) => format!("belongs to {stored}"),
            None => "was stored without a base URL".to_owned(),
        };
        let profile = match url.source {
            Source::Profile => command_line::shell_quoted(&self.profile.value),
            _ => "NAME".into(),
        };
        let store = match url.source {
            Source::Profile => "store one in the profile",
            _ => "store one in another profile",
        };
        Err(Failure::usage(format!(
            "the key of profile `{}` {belongs} and is not sent to {} ({})",
            self.profile.value, shown, url.source
        ))
        .code("key_for_another_url")
        .hint(format!(
            "use a key of that service: --key-file PATH or {}\n\
             or {store}: svc login --service {service} --profile {profile} --{service}-url {shown}",
            key_variable(service),
        )))
    }

    /// The base URL of a service in the profile, if it is another one than this.
    pub fn replaced_url(&self, service: Service, url: &str) -> Result<Option<String>, Failure> {
        let profile = self.profiles()?.get(&self.profile.value)?.unwrap_or_default();
        let stored = match service {
            Service::Email => profile.email_url,
            _ => profile.extraction_url,
        };
        let stored_for = match stored {
            Some(stored) => Some(stored),
            None => self.credentials()?.url(&self.profile.value, service).map(str::to_owned),
        };
        Ok(stored_for.filter(|stored| !is_same_base_url(stored, url)))
    }

    /// Whether an option or the environment overrides the profile's key for a service.
    pub fn is_key_overridden(&self, service: Service) -> bool {
        self.key_file.is_some() || self.key_of_environment(service).is_some()
    }

    /// Whether the key for a service is in the system's keyring.
    pub fn is_in_keyring(&self, service: Service) -> Result<bool, Failure> {
        Ok(self.key_of_environment(service).is_none()
            && self.credentials()?.in_keyring(&self.profile.value, service))
    }

    /// Time limit for the system's keyring.
    pub fn keyring_timeout(&self) -> Duration {
        self.timeout.value.min(keyring::UNLOCK_TIMEOUT)
    }

    fn key_of_environment(&self, service: Service) -> Option<&Sourced<Key>> {
        match service {
            Service::Email => self.email_key.as_ref(),
            _ => self.extraction_key.as_ref(),
        }
    }

    /// Fails if the selected profile does not exist. Only `svc login` accepts a new one.
    pub fn refuse_unknown_profile(&self) -> Result<(), Failure> {
        if self.profile_known { Ok(()) } else { Err(unknown_profile(&self.profile.value)) }
    }

    /// Locks profiles and keys against changes by other commands, until the handle is dropped.
    pub fn lock(&self) -> Result<std::fs::File, Failure> {
        files::lock(&self.config_dir)
    }

    /// The profiles on disk.
    pub fn profiles(&self) -> Result<Profiles, Failure> {
        Profiles::load(self.config_dir.join("config.toml"))
    }

    /// The keys on disk.
    pub fn credentials(&self) -> Result<Credentials, Failure> {
        Credentials::load(self.config_dir.join("credentials.toml"))
    }
}

/// The failure for a profile that does not exist.
pub fn unknown_profile(name: &str) -> Failure {
    Failure::new(Kind::InvalidInput, format!("profile `{name}` does not exist"))
        .code("unknown_profile")
        .hint(format!(
            "list the profiles: svc profiles list; create it: svc login --profile {}",
            command_line::shell_quoted(name)
        ))
}

fn variable(env: &Env, file: &Env, name: &'static str) -> Option<Sourced<String>> {
    let here = env.get(name).map(|value| (value, Source::Environment(name)));
    here.or_else(|| file.get(name).map(|value| (value, Source::EnvFile(name))))
        .map(|(value, source)| Sourced { value: value.to_owned(), source })
}

/// Compares base URLs as the client uses them: with or without a slash at the end. The client
/// reports one that is not valid.
fn is_same_base_url(one: &str, other: &str) -> bool {
    let parse = |text: &str| url::Url::parse(text.trim_end_matches('/')).ok();
    one == other || parse(one).is_some_and(|one| Some(one) == parse(other))
}

fn chosen_profile(
    profiles: &Profiles,
    config_dir: &Path,
    named: Option<Sourced<String>>,
) -> Result<ChosenProfile, Failure> {
    let chosen = named.unwrap_or_else(|| match profiles.active() {
        Some(active) => Sourced::from_profile(active.to_owned()),
        None => Sourced { value: DEFAULT_PROFILE.to_owned(), source: Source::Default },
    });
    let explicit = !matches!(chosen.source, Source::Default);
    let values = profiles.get(&chosen.value)?;
    let known = values.is_some() || !explicit || {
        Credentials::load(config_dir.join("credentials.toml"))?.names().contains(&chosen.value)
    };
    Ok(ChosenProfile { name: chosen, values: values.unwrap_or_default(), known })
}

/// The selected profile. `known` is false for the new one of `svc login --profile new`.
struct ChosenProfile {
    name: Sourced<String>,
    values: Profile,
    known: bool,
}

fn refuse_urls_with_sandbox(flags: &GlobalFlags) -> Result<(), Failure> {
    let given = [
        ("--email-url", flags.email_url.is_some()),
        ("--extraction-url", flags.extraction_url.is_some()),
        ("--key-file", flags.key_file.is_some()),
    ];
    match given.iter().find(|(_, given)| *given) {
        Some((name, _)) => Err(Failure::usage(format!(
            "{name} cannot be used with --sandbox: the sandbox has its own URL and keys"
        ))
        .hint(format!("omit {name}, or omit --sandbox and unset SVC_SANDBOX"))),
        None => Ok(()),
    }
}

fn option<T>(name: &'static str, value: Option<T>) -> Option<Sourced<T>> {
    value.map(|value| Sourced { value, source: Source::Option(name) })
}

/// An entry of the configuration, or a variable, that was probably meant to be a part of the guard.
fn misspelled_guard(profiles: &Profiles, profile: &str, environments: [&Env; 2]) -> Option<String> {
    let entries = profiles.unknown_entries().into_iter();
    let entries = entries.filter(|(of, _)| of.as_ref().is_none_or(|of| of == profile));
    let entries = entries.map(|(_, entry)| entry);
    let variables = environments.into_iter().flat_map(Env::names).map(str::to_owned);
    entries
        .chain(variables.filter(|name| name.starts_with("SVC_")))
        .find(|name| Guard::is_meant_by(name))
}

fn key(text: Option<Sourced<String>>) -> Result<Option<Sourced<Key>>, Failure> {
    text.map(|text| {
        let value = Key::parse(&text.value, &text.source.to_string())?;
        Ok(Sourced { value, source: text.source })
    })
    .transpose()
}

fn format(
    flags: &GlobalFlags,
    otherwise: Option<Sourced<String>>,
) -> Result<Option<Sourced<Format>>, Failure> {
    if flags.json {
        return Ok(option("--json", Some(Format::Json)));
    }
    if let Some(format) = flags.output {
        return Ok(option("--output", Some(format)));
    }
    otherwise
        .map(|text| {
            let value = Format::from_str(&text.value, false).map_err(|_| {
                Failure::usage(format!(
                    "{}: `{}` is not an output format: use table, json, ndjson or yaml",
                    text.source, text.value
                ))
            })?;
            Ok(Sourced { value, source: text.source })
        })
        .transpose()
}

/// When to use colors, by the option or else the environment.
pub fn color_choice<const N: usize>(flags: &GlobalFlags, environments: [&Env; N]) -> ColorChoice {
    let variable = environments.iter().find_map(|env| match env.get("NO_COLOR") {
        Some(_) => Some(ColorChoice::Never),
        None => env.is_on("CLICOLOR_FORCE").then_some(ColorChoice::Always),
    });
    flags.color.or(variable).unwrap_or(ColorChoice::Auto)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Home(tempfile::TempDir);

    impl Home {
        fn new(config: &str) -> Self {
            let dir = tempfile::tempdir().expect("a directory");
            std::fs::create_dir_all(dir.path().join("config/svc")).expect("created");
            std::fs::write(dir.path().join("config/svc/config.toml"), config).expect("written");
            Self(dir)
        }

        fn resolve(
            &self,
            flags: &GlobalFlags,
            extra: &[(&str, &str)],
        ) -> Result<Settings, Failure> {
            let path = |name: &str| self.0.path().join(name).display().to_string();
            let (config, data) = (path("config"), path("data"));
            let mut file = String::new();
            for (name, value) in extra {
                file.push_str(&format!("{name}={value}\n"));
            }
            let env_path = self.0.path().join("vars");
            std::fs::write(&env_path, file).expect("written");
            let mut env = Env::from_file(&env_path, Path::new("")).expect("read");
            env.extend([("XDG_CONFIG_HOME", config), ("XDG_DATA_HOME", data)]);
            Settings::resolve(flags, &env)
        }
    }

    const PROFILE: &str = "[profiles.default]\nemail_url = \"http://profile\"\nretries = 7\n";

    #[test]
    fn precedence_is_option_environment_file_profile_default() {
        let home = Home::new(PROFILE);
        let env_file = home.0.path().join(".env");
        std::fs::write(&env_file, "SVC_EMAIL_URL=http://file\n").expect("written");
        let mut flags = GlobalFlags::default();
        let seen = |flags: &GlobalFlags, extra: &[(&str, &str)]| {
            let url = home.resolve(flags, extra).expect("resolved").email_url.expect("a URL");
            (url.value, url.source)
        };
        assert_eq!(seen(&flags, &[]), ("http://profile".into(), Source::Profile));
        flags.env_file = Some(env_file);
        let from_file = ("http://file".into(), Source::EnvFile("SVC_EMAIL_URL"));
        assert_eq!(seen(&flags, &[]), from_file);
        let extra = [("SVC_EMAIL_URL", "http://env")];
        let from_env = ("http://env".into(), Source::Environment("SVC_EMAIL_URL"));
        assert_eq!(seen(&flags, &extra), from_env);
        flags.email_url = Some("http://option".into());
        assert_eq!(seen(&flags, &extra), ("http://option".into(), Source::Option("--email-url")));

        let settings = home.resolve(&GlobalFlags::default(), &[]).expect("resolved");
        assert_eq!((settings.retries.value, settings.timeout.value), (7, TIMEOUT));
    }

    #[test]
    fn the_sandbox_overrides_urls_and_keys() {
        let home = Home::new(PROFILE);
        let extra = [
            ("SVC_SANDBOX", "1"),
            ("SVC_EMAIL_URL", "http://live"),
            ("SVC_EMAIL_KEY", "mk_live_secret"),
        ];
        let settings = home.resolve(&GlobalFlags::default(), &extra).expect("resolved");
        assert!(settings.sandbox && settings.email_url.is_none() && settings.email_key.is_none());

        for set in [
            GlobalFlags { email_url: Some("http://x".into()), ..GlobalFlags::default() },
            GlobalFlags { extraction_url: Some("http://x".into()), ..GlobalFlags::default() },
            GlobalFlags { key_file: Some("k".into()), ..GlobalFlags::default() },
        ] {
            let refused = home.resolve(&set, &extra).err().expect("refused");
            assert_eq!(refused.kind(), Kind::Usage);
        }
    }

    #[test]
    fn color_precedence_is_option_environment_file() {
        let flags = |color| GlobalFlags { color, ..GlobalFlags::default() };
        let none = Env::default();
        let no = Env::from([("NO_COLOR", "1"), ("CLICOLOR_FORCE", "1")]);
        assert_eq!(color_choice(&flags(None), [&no, &none]), ColorChoice::Never);
        assert_eq!(
            color_choice(&flags(Some(ColorChoice::Always)), [&no, &none]),
            ColorChoice::Always
        );
        let force = Env::from([("CLICOLOR_FORCE", "1")]);
        assert_eq!(color_choice(&flags(None), [&force, &none]), ColorChoice::Always);
        assert_eq!(color_choice(&flags(None), [&force, &no]), ColorChoice::Always);
        assert_eq!(color_choice(&flags(None), [&none, &no]), ColorChoice::Never);
        assert_eq!(color_choice(&flags(None), [&none, &none]), ColorChoice::Auto);
    }

    #[test]
    fn rejects_unknown_formats_in_a_profile() {
        let home = Home::new("[profiles.default]\noutput = \"xml\"\n");
        let refused = home.resolve(&GlobalFlags::default(), &[]).err().expect("refused");
        assert!(refused.details().message.contains("profile: `xml`"));
    }
}
