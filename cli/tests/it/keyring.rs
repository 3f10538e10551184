//! `svc login --keyring`: accessed only when necessary, and always with a time limit.

use std::os::unix::net::UnixListener;

#[cfg(all(feature = "keyring", target_os = "linux"))]
use crate::support::with_longer_timeouts;
use crate::support::{Home, Service};

const KEY: &str = "mk_test_topsecretvalue";

/// A D-Bus session bus that accepts connections and never responds.
struct SilentBus {
    listener: UnixListener,
    address: String,
}

impl SilentBus {
    fn start(home: &Home) -> Self {
        let path = home.path("bus");
        let listener = UnixListener::bind(&path).expect("bound");
        listener.set_nonblocking(true).expect("set");
        Self { listener, address: format!("unix:path={}", path.display()) }
    }

    fn was_contacted(&self) -> bool {
        self.listener.accept().is_ok()
    }
}

/// A home directory with a profile whose email key is in the keyring.
fn with_key_in_keyring() -> Home {
    let home = Home::new();
    let file = home
        .file("config/svc/credentials.toml", "[profiles.default]\nemail_key_in = \"keyring\"\n");
    let owner_alone = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    std::fs::set_permissions(file, owner_alone).expect("changed");
    home
}

#[test]
fn not_accessed_if_the_key_has_another_source() {
    let home = with_key_in_keyring();
    let bus = SilentBus::start(&home);
    let service = Service::always(200, "[]");
    let key = home.file("key", KEY);
    let (url, address) = (service.url(), bus.address.clone());
    let env = [("SVC_EMAIL_URL", url.as_str()), ("DBUS_SESSION_BUS_ADDRESS", address.as_str())];
    let run = home.run_with_env(&["audiences", "list", "--key-file", &key], &env);
    assert_eq!(run.code, 0, "{run:?}");
    let run =
        home.run_with_env(&["audiences", "list"], &[&env[..], &[("SVC_EMAIL_KEY", KEY)]].concat());
    assert_eq!(run.code, 0, "{run:?}");
    for command in [&["config", "show"][..], &["profiles", "list"]] {
        let run = home.run_with_env(command, &env);
        assert_eq!(run.code, 0, "{run:?}");
        assert!(run.stdout.contains("in the system's keyring"), "{run:?}");
    }
    assert!(!bus.was_contacted());
}

#[cfg(all(feature = "keyring", target_os = "linux"))]
#[test]
fn a_keyring_that_hangs_times_out() {
    let home = with_key_in_keyring();
    let bus = SilentBus::start(&home);
    let service = Service::always(200, "[]");
    let (url, address) = (service.url(), bus.address.clone());
    let env = [("SVC_EMAIL_URL", url.as_str()), ("DBUS_SESSION_BUS_ADDRESS", address.as_str())];
    let run = with_longer_timeouts(|timeout| {
        let run = home.run_with_env(&["audiences", "list", "--timeout", timeout], &env);
        // Under load, the timeout can expire before svc contacts the bus.
        bus.was_contacted().then_some(run)
    });
    assert_eq!((run.code, run.error()["code"].clone()), (1, "keyring".into()), "{run:?}");
    assert!(run.error()["message"].as_str().is_some_and(|m| m.contains("no response within ")));
    assert!(service.requests().is_empty());
}

#[cfg(all(feature = "keyring", target_os = "linux"))]
#[test]
fn a_login_that_cannot_store_the_key_stores_nothing() {
    let home = Home::new();
    let service = Service::always(200, "[]");
    let mut child = home
        .command(&["login", "--keyring", "--email-url", &service.url()])
        .env("DBUS_SESSION_BUS_ADDRESS", "unix:path=/nowhere")
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .expect("svc starts");
    std::io::Write::write_all(&mut child.stdin.take().expect("piped"), KEY.as_bytes())
        .expect("taken");
    let run = crate::support::Run::wait(child);
    assert_eq!((run.code, run.stdout.as_str()), (1, ""), "{run:?}");
    assert!(run.error()["hint"].as_str().is_some_and(|hint| hint.contains("without --keyring")));
    assert!(!run.stderr.contains("topsecret"), "{run:?}");
    assert!(!home.path("config/svc/credentials.toml").exists());
}

/// A session bus with an unlocked GNOME keyring. Both end when this is dropped.
#[cfg(all(feature = "keyring", target_os = "linux"))]
struct SecretService {
    session: std::process::Child,
    bus: String,
}

#[cfg(all(feature = "keyring", target_os = "linux"))]
impl SecretService {
    /// Starts both. If they are not installed, prints a notice, or panics with
    /// `SVC_TEST_KEYRING=1`.
    fn start(home: &Home) -> Option<Self> {
        use std::io::BufRead as _;

        home.file("keyring/none", "");
        let script = "printf password | gnome-keyring-daemon --unlock --components=secrets \
                      >/dev/null && echo \"$DBUS_SESSION_BUS_ADDRESS\" && exec cat";
        let session = std::process::Command::new("dbus-run-session")
            .args(["--", "sh", "-c", script])
            .env("HOME", home.path("keyring"))
            .env("XDG_RUNTIME_DIR", home.path("keyring"))
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::null())
            .spawn();
        let mut bus = String::new();
        let session = session.and_then(|mut session| {
            let _watchdog = crate::support::Watchdog::start(&session);
            let stdout = session.stdout.as_mut().expect("piped");
            std::io::BufReader::new(stdout).read_line(&mut bus)?;
            Ok(session)
        });
        match session {
            Ok(session) if !bus.is_empty() => Some(Self { session, bus: bus.trim().to_owned() }),
            other => {
                let demanded = std::env::var_os("SVC_TEST_KEYRING").is_some_and(|v| v == "1");
                assert!(!demanded, "SVC_TEST_KEYRING=1, but no keyring is available: {other:?}");
                // Write directly, because the harness hides the output of passing tests.
                let notice = "NOT RUN: no dbus-run-session with a gnome-keyring-daemon\n";
                std::io::Write::write_all(&mut std::io::stderr(), notice.as_bytes())
                    .expect("written");
                None
            }
        }
    }

    fn run(&self, home: &Home, args: &[&str], input: &str) -> crate::support::Run {
        let mut command = home.command(args);
        command.env("DBUS_SESSION_BUS_ADDRESS", &self.bus);
        Home::run_command_with_input(command, input)
    }

    /// The stored key, as another program reads it.
    fn holds(&self) -> String {
        let found = std::process::Command::new("secret-tool")
            .args(["lookup", "service", "svc", "username", "default/email"])
            .env("DBUS_SESSION_BUS_ADDRESS", &self.bus)
            .output()
            .expect("secret-tool runs");
        String::from_utf8(found.stdout).expect("UTF-8")
    }
}

#[cfg(all(feature = "keyring", target_os = "linux"))]
impl Drop for SecretService {
    fn drop(&mut self) {
        // Closing its input ends the session.
        drop(self.session.stdin.take());
        let _ = self.session.wait();
    }
}

#[cfg(all(feature = "keyring", target_os = "linux"))]
#[test]
fn stores_reads_and_removes_a_key_in_a_real_keyring() {
    let home = Home::new();
    let Some(keyring) = SecretService::start(&home) else { return };
    let service = Service::always(200, "[]");
    let url = service.url();

    let run = keyring.run(&home, &["login", "--keyring", "--email-url", &url], KEY);
    assert_eq!(run.code, 0, "{run:?}");
    assert_eq!(keyring.holds(), KEY);
    let file = std::fs::read_to_string(home.path("config/svc/credentials.toml")).expect("a file");
    assert!(file.contains("keyring") && !file.contains("topsecret"), "{file}");

    let run = keyring.run(&home, &["audiences", "list", "--email-url", &url], "");
    assert_eq!(run.code, 0, "{run:?}");
    let asked = service.requests().pop().expect("a request");
    assert!(asked.contains(&format!("Bearer {KEY}")), "{asked}");

    let run = keyring.run(&home, &["logout"], "");
    assert_eq!((run.code, keyring.holds().as_str()), (0, ""), "{run:?}");
    let run = keyring.run(&home, &["audiences", "list", "--email-url", &url], "");
    assert_ne!(run.code, 0, "{run:?}");
}

#[cfg(not(feature = "keyring"))]
#[test]
fn a_build_without_keyring_support_stores_nothing() {
    let home = Home::new();
    let service = Service::always(200, "[]");
    let run = home.run_with_input(&["login", "--keyring", "--email-url", &service.url()], KEY);
    assert_eq!((run.code, run.error()["code"].clone()), (2, "keyring".into()), "{run:?}");
    assert!(!home.path("config/svc/credentials.toml").exists());
    let stored = with_key_in_keyring().run(&["audiences", "list", "--email-url", &service.url()]);
    assert_eq!((stored.code, stored.error()["code"].clone()), (2, "keyring".into()), "{stored:?}");
}
