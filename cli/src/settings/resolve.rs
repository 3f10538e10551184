//! `Settings::resolve` takes the flags, the environment and the profile, and returns the settings
//! of the run, each with its `Source`: option, environment, `--env-file`, profile, default, in this
//! order. A sandbox run ignores what is for live services. A key of the profile belongs to the base
//! URL it was stored with (`check_destination_of_stored_key`), and a variable that is empty is
//! refused. Over 500 lines, because keys follow the same precedence.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

use clap::{ColorChoice, ValueEnum as _};
use serde::de::DeserializeOwned;
use serde_json::Value as Json;
use svc_sdk::{Dialect, Operation, Service};

use super::directories::{directories, state_directory};
use super::env::{Env, key_variables};
use super::files::{self, DEFAULT_PROFILE, UnknownEntry};
use super::table::{Setting, settings};
use super::{GlobalFlags, Guard, Key, ProfileFile, Proxies, key_command};
use crate::command_line;
use crate::failure::{Failure, Kind};
use crate::input::{duration, switch};
use crate::output::Format;
use crate::urls::without_password;
use crate::zone::{self, Zone};

/// The resolved settings of one run.
pub struct Settings {
    pub sandbox: bool,
    pub sandbox_dir: PathBuf,
    pub profile: Sourced<String>,
    pub organization: Option<String>,
    pub key_file: Option<PathBuf>,
    pub format: Option<Sourced<Format>>,
    pub color: ColorChoice,
    pub timeout: Sourced<Duration>,
    pub retries: Sourced<u32>,
    pub ca_bundle: Option<Sourced<PathBuf>>,
    pub proxies: Proxies,
    pub dry_run: bool,
    pub yes: bool,
    /// Who may get emails, in the sandbox too.
    pub guard: Guard,
    /// How the service behaves where its reference is silent.
    pub dialect: Dialect,
    pub config_dir: PathBuf,
    pub data_dir: PathBuf,
    /// The groups that `svc mcp` opens for the profile.
    pub mcp_policy: Option<Vec<String>>,
    /// The PostgreSQL database with the jobs of `svc bulk`. Its URL may hold a password.
    pub bulk_ledger: Option<String>,
    /// How long it is remembered who got the emails of jobs that were removed.
    pub bulk_memory: Duration,
    /// How long jobs of `svc bulk` that have ended are kept.
    pub bulk_retention: Duration,
    /// Where `bulk.db` is, the ledger of `svc bulk`.
    pub state_dir: PathBuf,
    /// The environment of the run.
    pub env: Env,
    env_file: Env,
    values: Values,
    /// The entries of `config.toml` that have no effect.
    pub unknown_entries: Vec<UnknownEntry>,
    /// The URLs of the email and the extraction service.
    urls: [Option<Sourced<String>>; 2],
    /// The keys that the key commands of both services have printed.
    keys_of_commands: [OnceLock<Key>; 2],
}

/// A key in the environment.
struct GivenKey {
    text: String,
    /// The file with the key, if the variable names one.
    file: Option<PathBuf>,
    source: Source,
}

/// Where a setting comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// A command-line option.
    Option(&'static str),
    /// An environment variable.
    Environment(&'static str),
    /// A variable in the file of `--env-file`.
    EnvFile(&'static str),
    /// The profile.
    Profile,
    /// The built-in default.
    Default,
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Option(name) => f.write_str(name),
            Self::Environment(name) => write!(f, "environment {name}"),
            Self::EnvFile(name) => write!(f, "--env-file {name}"),
            Self::Profile => f.write_str("profile"),
            Self::Default => f.write_str("default"),
        }
    }
}

/// A setting with its source.
#[derive(Clone, Debug)]
pub struct Sourced<T> {
    pub value: T,
    pub source: Source,
}

/// The value of each setting, in the order of the table.
#[derive(Default)]
struct Values(Vec<(&'static Setting, Option<Sourced<Json>>)>);

impl Values {
    fn get<T: DeserializeOwned>(&self, name: &str) -> Option<Sourced<T>> {
        let (_, found) = self.0.iter().find(|(setting, _)| setting.name == name)?;
        let Sourced { value, source } = found.as_ref()?;
        Some(Sourced {
            value: T::deserialize(value).ok()?,
            source: source.clone(),
        })
    }

    /// Like [`get`](Self::get), of a setting that has a default.
    fn with_default<T: DeserializeOwned>(&self, name: &str) -> Result<Sourced<T>, Failure> {
        self.get(name)
            .ok_or_else(|| Failure::other(format!("the setting {name} has no value")))
    }

    fn duration(&self, name: &str) -> Result<Sourced<Duration>, Failure> {
        let Sourced { value, source } = self.with_default::<String>(name)?;
        Ok(Sourced {
            value: duration::parse_limit(&value).map_err(Failure::input)?,
            source,
        })
    }

    /// The settings that are the fields of a type.
    fn fields<T: DeserializeOwned>(&self) -> Result<T, Failure> {
        let values = self.0.iter().filter_map(|(setting, found)| {
            Some((setting.name.to_owned(), found.as_ref()?.value.clone()))
        });
        serde_json::from_value(values.collect()).map_err(|error| Failure::other(error.to_string()))
    }
}

impl Settings {
    /// Applies precedence: option, environment, `--env-file`, profile, default.
    pub fn resolve(flags: &GlobalFlags, env: &Env) -> Result<Self, Failure> {
        let file = flags
            .env_file
            .as_deref()
            .map(|path| Env::from_file(path, &env.cwd));
        let file = file.transpose()?.unwrap_or_default();
        env.refuse_misspelled()?;
        file.refuse_misspelled()?;

        let (config_dir, data_dir) = directories(env);
        let profiles = ProfileFile::config(&config_dir)?;
        let given = |setting: &Setting, profile: Option<String>| {
            if let Some((option, value)) = flags.given(setting.name) {
                return Ok(Some(Sourced {
                    value,
                    source: Source::Option(option),
                }));
            }
            if let Some(name) = setting.variable
                && let Some(Sourced { value, source }) = variable(env, &file, name)?
            {
                let value = setting.parse(&value);
                let value =
                    value.map_err(|problem| Failure::usage(format!("{source}: {problem}")))?;
                return Ok(Some(Sourced { value, source }));
            }
            let profile = profile.filter(|_| setting.in_profile());
            let value = profile
                .map(|profile| profiles.value(&profile, setting))
                .transpose()?;
            Ok::<_, Failure>(value.flatten().map(|value| Sourced {
                value,
                source: Source::Profile,
            }))
        };

        let mut values = Values::default();
        for setting in settings() {
            let profile = values.get("profile").map(|profile| profile.value);
            let is_sandbox = values.get("sandbox").is_some_and(|sandbox| sandbox.value);
            // A sandbox run never reaches a live service, whatever the other settings are.
            let given = if is_sandbox && setting.live_only {
                None
            } else {
                given(setting, profile)?
            };
            let default = || match setting.name {
                "profile" => Some(default_profile(&profiles)),
                _ => Some(Sourced {
                    value: setting.default_value()?,
                    source: Source::Default,
                }),
            };
            values.0.push((setting, given.or_else(default)));
        }

        let profile = values.with_default::<String>("profile")?;
        let sandbox = values.with_default("sandbox")?.value;
        let mut guard = values.fields::<Guard>()?;
        let unknown_entries = profiles.unknown_entries();
        let of_run = unknown_entries
            .iter()
            .filter(|entry| entry.is_of(&profile.value));
        let names = of_run.map(|entry| entry.name.as_str()).chain(env.unknown());
        let mut names = names.chain(file.unknown());
        guard.misspelled = names
            .find(|name| Guard::is_meant_by(name))
            .map(str::to_owned);
        let format = values
            .get::<String>("output")
            .and_then(|Sourced { value, source }| {
                Some(Sourced {
                    value: Format::from_str(&value, false).ok()?,
                    source,
                })
            });
        variable(env, &file, "SVC_SANDBOX_DIR")?;
        let sandbox_dir = env
            .path("SVC_SANDBOX_DIR")
            .or_else(|| file.path("SVC_SANDBOX_DIR"));
        // An option may name a file whose name is not UTF-8.
        let ca_bundle = flags.ca_bundle.clone();
        let ca_bundle = ca_bundle.map(|value| Sourced {
            value,
            source: Source::Option("--ca-bundle"),
        });
        Ok(Self {
            sandbox,
            sandbox_dir: sandbox_dir.unwrap_or_else(|| data_dir.join("sandbox")),
            organization: values.get("organization").map(|id| id.value),
            key_file: flags.key_file.clone(),
            format,
            color: color_choice(flags, [env, &file]),
            timeout: values.duration("timeout")?,
            retries: values.with_default("retries")?,
            ca_bundle: ca_bundle.or_else(|| values.get("ca_bundle")),
            // A proxy cannot reach the loopback interface of this machine.
            proxies: if sandbox {
                Proxies::default()
            } else {
                Proxies::resolve(env, &file)
            },
            mcp_policy: values.get("mcp_policy").map(|policy| policy.value),
            bulk_ledger: values.get("bulk_ledger").map(|ledger| ledger.value),
            bulk_memory: values.duration("bulk_memory")?.value,
            bulk_retention: values.duration("bulk_retention")?.value,
            dry_run: flags.dry_run,
            yes: flags.yes,
            guard,
            dialect: values
                .get("dialect")
                .map(|dialect| dialect.value)
                .unwrap_or_default(),
            urls: ["email_url", "extraction_url"].map(|name| values.get(name)),
            keys_of_commands: Default::default(),
            profile,
            state_dir: state_directory(env).unwrap_or_else(|| data_dir.join("state")),
            config_dir,
            data_dir,
            env: env.clone(),
            env_file: file,
            values,
            unknown_entries,
        })
    }

    /// Fails if a variable with a key is empty, or set twice, whichever service is used.
    pub fn check_keys(&self) -> Result<(), Failure> {
        self.given_key(Service::Email)?;
        self.given_key(Service::Extraction).map(drop)
    }

    /// Every setting with its value and its source, in the order of the table.
    pub fn all(&self) -> impl Iterator<Item = (&'static Setting, Option<&Sourced<Json>>)> {
        self.values
            .0
            .iter()
            .map(|(setting, value)| (*setting, value.as_ref()))
    }

    /// Settings that svc does not know, and ignores: variables, and entries of the configuration that this
    /// run would use.
    pub fn unknown(&self) -> Vec<String> {
        let mut variables = self.env.unknown();
        variables.extend(self.env_file.unknown());
        let mut unknown = Vec::new();
        if !variables.is_empty() {
            unknown.push(format!(
                "ignoring unknown variables: {}",
                variables.join(", ")
            ));
        }

        let of_run = self
            .unknown_entries
            .iter()
            .filter(|one| one.is_of(&self.profile.value));
        unknown.extend(of_run.map(|entry| {
            let meant = entry.meant.as_ref().map(|meant| format!("; {meant}"));
            format!(
                "{} is unknown and has no effect{}",
                entry.shown,
                meant.unwrap_or_default()
            )
        }));
        unknown
    }

    /// A path on the command line, from the directory of the run.
    pub fn path(&self, path: &Path) -> PathBuf {
        self.env.cwd.join(path)
    }

    /// A variable of the environment or of the file of `--env-file`, which must not be empty.
    pub fn variable(&self, name: &'static str) -> Result<Option<Sourced<String>>, Failure> {
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
        self.urls[index(service)].as_ref()
    }

    /// The key for a service from the environment or the profile. The command that needs
    /// `--key-file` reads it.
    pub fn stored_key(&self, service: Service) -> Result<Option<Sourced<Key>>, Failure> {
        let Some(given) = self.given_key(service)? else {
            return self.key_of_profile(service);
        };

        let GivenKey { text, file, source } = given;
        let text = match file {
            None => text,
            Some(path) => std::fs::read_to_string(&path).map_err(|error| {
                Failure::input(format!("{source}: {}: {error}", path.display()))
            })?,
        };
        Ok(Some(Sourced {
            value: Key::parse(&text, &source.to_string())?,
            source,
        }))
    }

    /// The key that the profile stores, or that its command prints.
    fn key_of_profile(&self, service: Service) -> Result<Option<Sourced<Key>>, Failure> {
        let stored = self.credentials()?.key(&self.profile.value, service)?;
        let value = match (stored, self.key_command(service)) {
            (None, None) => return Ok(None),
            (Some(key), None) => key,
            (None, Some(command)) => self.key_of_command(service, &command)?,
            (Some(_), Some(_)) => return Err(two_keys(&self.profile.value, service)),
        };
        Ok(Some(Sourced {
            value,
            source: Source::Profile,
        }))
    }

    /// The command of the profile that prints the key of a service.
    pub fn key_command(&self, service: Service) -> Option<String> {
        let command = self.values.get(key_command_entry(service))?;
        Some(command.value)
    }

    /// The output of the command. It runs once.
    fn key_of_command(&self, service: Service, command: &str) -> Result<Key, Failure> {
        let known = &self.keys_of_commands[index(service)];
        if let Some(key) = known.get() {
            return Ok(key.clone());
        }
        let key = key_command::run(key_command_entry(service), command, &self.env)?;
        Ok(known.get_or_init(|| key).clone())
    }

    /// Whether the key of a service is the output of a command.
    pub fn is_from_command(&self, service: Service) -> bool {
        self.key_command(service).is_some() && !self.is_key_overridden(service)
    }

    /// Whether there is a key for a service. A command that prints it is not run.
    pub fn has_key(&self, service: Service) -> Result<bool, Failure> {
        let has_key = self.key_file.is_some() || self.key_command(service).is_some();
        Ok(has_key || self.stored_key(service)?.is_some())
    }

    /// The key of the environment, or the file with it.
    fn given_key(&self, service: Service) -> Result<Option<GivenKey>, Failure> {
        let [key, key_file] = key_variables(service);
        for (env, source) in [
            (&self.env, Source::Environment as fn(&'static str) -> Source),
            (&self.env_file, Source::EnvFile),
        ] {
            let text = not_empty(env, key, source)?;
            let path = not_empty(env, key_file, source)?;
            if text.is_some() && path.is_some() {
                return Err(Failure::usage(format!("both {key} and {key_file} are set"))
                    .hint(format!("unset one of them: unset {key_file}")));
            }
            // The bytes of the variable: a path need not be UTF-8.
            let file = path.as_ref().and_then(|_| env.path(key_file));
            if let Some(Sourced { value, source }) = text.or(path) {
                return Ok(Some(GivenKey {
                    text: value,
                    file: file.map(|file| self.path(&file)),
                    source,
                }));
            }
        }
        Ok(None)
    }

    /// The option or variable that gives the key for an operation, if one does.
    pub fn given_key_source(&self, operation: Option<Operation>) -> Option<Source> {
        if self.key_file.is_some() {
            return Some(Source::Option("--key-file"));
        }
        Some(self.given_key(operation?.service()).ok()??.source)
    }

    /// Fails if this run's base URL is not the one that the profile's key was stored for.
    ///
    /// An option, a variable or an edited profile that replaces only the base URL must not send the
    /// key of one service to another.
    pub fn check_destination_of_stored_key(&self, service: Service) -> Result<(), Failure> {
        let Some(url) = self.url(service) else {
            return Ok(());
        };

        let credentials = self.credentials()?;
        let name = &self.profile.value;
        let profiles = self.profiles()?;
        let in_profile = profiles.text(name, url_entry(service));
        let stored_for = credentials.key_url(name, service).or(in_profile);
        if stored_for.is_some_and(|stored| is_same_base_url(stored, &url.value)) {
            return Ok(());
        }

        let shown = without_password(&url.value);
        let belongs = match stored_for {
            Some(stored) => format!("belongs to {stored}"),
            None => "was stored without a base URL".to_owned(),
        };
        let (store, profile) = match url.source {
            Source::Profile => (
                "the profile",
                command_line::shell_quoted(&self.profile.value),
            ),
            _ => ("another profile", "NAME".into()),
        };
        Err(Failure::usage(format!(
            "the key of profile `{}` {belongs} and is not sent to {} ({})",
            self.profile.value, shown, url.source
        ))
        .code("key_for_another_url")
        .hint(format!(
            "use a key of that service: --key-file PATH or {}\n\
             or store one in {store}: svc login --service {service} --profile {profile} --{service}-url {}",
            key_variables(service)[0],
            command_line::shell_quoted(&shown),
        )))
    }

    /// The base URL of a service in the profile, if it is another one than this.
    pub fn replaced_url(&self, service: Service, url: &str) -> Result<Option<String>, Failure> {
        let profiles = self.profiles()?;
        let credentials = self.credentials()?;
        let stored = profiles.text(&self.profile.value, url_entry(service));
        let stored = stored.or_else(|| credentials.key_url(&self.profile.value, service));
        Ok(stored
            .filter(|stored| !is_same_base_url(stored, url))
            .map(str::to_owned))
    }

    /// Whether an option or the environment overrides the profile's key for a service.
    pub fn is_key_overridden(&self, service: Service) -> bool {
        self.key_file.is_some() || self.given_key(service).is_ok_and(|key| key.is_some())
    }

    /// Fails if the selected profile does not exist. Only `svc login` accepts a new one.
    pub fn refuse_unknown_profile(&self) -> Result<(), Failure> {
        let name = &self.profile.value;
        if self.profile.source == Source::Default || self.has_profile(name)? {
            Ok(())
        } else {
            Err(unknown_profile(name))
        }
    }

    /// Whether a profile has settings or keys.
    pub fn has_profile(&self, name: &str) -> Result<bool, Failure> {
        Ok(self.profiles()?.exists(name) || self.credentials()?.exists(name))
    }

    /// Locks profiles and keys against changes by other commands, until the handle is dropped.
    pub fn lock(&self) -> Result<std::fs::File, Failure> {
        files::lock(&self.config_dir)
    }

    /// The profiles on disk.
    pub fn profiles(&self) -> Result<ProfileFile, Failure> {
        ProfileFile::config(&self.config_dir)
    }

    /// The keys on disk.
    pub fn credentials(&self) -> Result<ProfileFile, Failure> {
        ProfileFile::credentials(&self.config_dir)
    }
}

/// The failure for a profile that does not exist.
pub fn unknown_profile(name: &str) -> Failure {
    Failure::new(
        Kind::InvalidInput,
        format!("profile `{name}` does not exist"),
    )
    .code("unknown_profile")
    .hint(format!(
        "list the profiles: svc profiles list; create it: svc login --profile {}",
        command_line::shell_quoted(name)
    ))
}

fn variable(env: &Env, file: &Env, name: &'static str) -> Result<Option<Sourced<String>>, Failure> {
    let here = not_empty(env, name, Source::Environment)?;
    if here.is_some() {
        Ok(here)
    } else {
        not_empty(file, name, Source::EnvFile)
    }
}

/// A variable that is set. One of svc that is empty is more likely a missing secret of a CI system
/// than the wish to use the profile.
fn not_empty(
    env: &Env,
    name: &'static str,
    source: fn(&'static str) -> Source,
) -> Result<Option<Sourced<String>>, Failure> {
    match env.get_or_empty(name) {
        Some(text) if text.trim().is_empty() && name.starts_with("SVC_") => {
            Err(Failure::usage(format!("{}: it is empty", source(name)))
                .hint(format!("unset {name}, or set a value")))
        }
        text => Ok(text.filter(|text| !text.is_empty()).map(|text| Sourced {
            value: text.to_owned(),
            source: source(name),
        })),
    }
}

/// The entry of a profile with the base URL of a service.
pub const fn url_entry(service: Service) -> &'static str {
    match service {
        Service::Email => "email_url",
        _ => "extraction_url",
    }
}

/// The entry of a profile with the command that prints the key of a service.
pub const fn key_command_entry(service: Service) -> &'static str {
    match service {
        Service::Email => "email_key_command",
        _ => "extraction_key_command",
    }
}

/// The failure for a profile that stores a key and has a command for one.
pub fn two_keys(profile: &str, service: Service) -> Failure {
    let entry = key_command_entry(service);
    let name = command_line::shell_quoted(profile);
    Failure::usage(format!(
        "profile `{profile}` has both a stored key of the {service} service and {entry}"
    ))
    .code("two_keys")
    .hint(format!(
        "delete the stored key: svc logout --service {service} --profile {name}\n\
         or keep it: svc config unset {entry} --profile {name}"
    ))
}

fn index(service: Service) -> usize {
    usize::from(service == Service::Extraction)
}

/// Compares base URLs as the client uses them: with or without a slash at the end. The client
/// reports one that is not valid.
pub fn is_same_base_url(one: &str, other: &str) -> bool {
    let parse = |text: &str| url::Url::parse(text.trim_end_matches('/')).ok();
    one == other || parse(one).is_some_and(|one| Some(one) == parse(other))
}

/// The profile of a run that names none.
fn default_profile(profiles: &ProfileFile) -> Sourced<Json> {
    match profiles.active() {
        Some(active) => Sourced {
            value: active.into(),
            source: Source::Profile,
        },
        None => Sourced {
            value: DEFAULT_PROFILE.into(),
            source: Source::Default,
        },
    }
}

/// When to use colors, by the option or else the environment.
pub fn color_choice<const N: usize>(flags: &GlobalFlags, environments: [&Env; N]) -> ColorChoice {
    let variable = environments
        .iter()
        .find_map(|env| match env.get("NO_COLOR") {
            Some(_) => Some(ColorChoice::Never),
            None => {
                let forced = env.get("CLICOLOR_FORCE")?;
                // A convention of many programs, of which some set other words.
                (switch::parse(forced) != Some(false)).then_some(ColorChoice::Always)
            }
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
            let path = self.0.path().display();
            let mut file = format!("XDG_CONFIG_HOME={path}/config\nXDG_DATA_HOME={path}/data\n");
            for (name, value) in extra {
                file.push_str(&format!("{name}={value}\n"));
            }

            let env_path = self.0.path().join("vars");
            std::fs::write(&env_path, file).expect("written");
            Settings::resolve(
                flags,
                &Env::from_file(&env_path, Path::new("")).expect("read"),
            )
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
            let url = home.resolve(flags, extra).expect("resolved");
            let url = url.url(Service::Email).expect("a URL");
            (url.value.clone(), url.source.clone())
        };

        assert_eq!(
            seen(&flags, &[]),
            ("http://profile".into(), Source::Profile)
        );
        flags.env_file = Some(env_file);
        let from_file = ("http://file".into(), Source::EnvFile("SVC_EMAIL_URL"));
        assert_eq!(seen(&flags, &[]), from_file);
        let extra = [("SVC_EMAIL_URL", "http://env")];
        let from_env = ("http://env".into(), Source::Environment("SVC_EMAIL_URL"));
        assert_eq!(seen(&flags, &extra), from_env);
        flags.email_url = Some("http://option".into());
        assert_eq!(
            seen(&flags, &extra),
            ("http://option".into(), Source::Option("--email-url"))
        );

        let settings = home
            .resolve(&GlobalFlags::default(), &[])
            .expect("resolved");
        assert_eq!(
            (settings.retries.value, settings.timeout.value.as_secs()),
            (7, 30)
        );
    }

    #[test]
    fn the_sandbox_overrides_urls_and_keys() {
        let home = Home::new(PROFILE);
        let extra = [
            ("SVC_SANDBOX", "1"),
            ("SVC_EMAIL_URL", "http://live"),
            ("SVC_EMAIL_KEY", "mk_live_secret"),
        ];
        let settings = home
            .resolve(&GlobalFlags::default(), &extra)
            .expect("resolved");
        assert!(settings.sandbox && settings.url(Service::Email).is_none());
        // The sandbox is asked first whether it has issued it.
        assert!(settings.is_key_overridden(Service::Email));
        let broken = [("SVC_SANDBOX", "1"), ("SVC_EMAIL_KEY", "")];
        let settings = home
            .resolve(&GlobalFlags::default(), &broken)
            .expect("resolved");
        assert!(!settings.is_key_overridden(Service::Email));
    }

    #[test]
    fn color_precedence_is_option_environment_file() {
        let flags = |color| GlobalFlags {
            color,
            ..GlobalFlags::default()
        };

        let none = Env::default();
        let no = Env::from([("NO_COLOR", "1"), ("CLICOLOR_FORCE", "1")]);
        assert_eq!(color_choice(&flags(None), [&no, &none]), ColorChoice::Never);
        assert_eq!(
            color_choice(&flags(Some(ColorChoice::Always)), [&no, &none]),
            ColorChoice::Always
        );
        let force = Env::from([("CLICOLOR_FORCE", "1")]);
        assert_eq!(
            color_choice(&flags(None), [&force, &none]),
            ColorChoice::Always
        );
        assert_eq!(
            color_choice(&flags(None), [&force, &no]),
            ColorChoice::Always
        );
        assert_eq!(color_choice(&flags(None), [&none, &no]), ColorChoice::Never);
        assert_eq!(
            color_choice(&flags(None), [&none, &none]),
            ColorChoice::Auto
        );
    }

    #[test]
    fn rejects_unknown_formats_in_a_profile() {
        let home = Home::new("[profiles.default]\noutput = \"xml\"\n");
        let refused = home
            .resolve(&GlobalFlags::default(), &[])
            .err()
            .expect("refused");
        assert!(
            refused
                .message
                .contains("`output`: `xml` is not an output format")
        );
    }
}
