//! `svc login --keyring`: asked for by name, never touched otherwise, never
//! waited for without end.

use std::os::unix::net::UnixListener;

#[cfg(all(feature = "keyring", target_os = "linux"))]
use crate::support::in_enough_time;
use crate::support::{Home, Service};

const KEY: &str = "mk_test_topsecretvalue";

/// A session bus that takes connections and never says a word.
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

    fn was_asked(&self) -> bool {
        self.listener.accept().is_ok()
    }
}

/// A home whose key for the email service is in the keyring.
fn with_key_in_keyring() -> Home {
    let home = Home::new();
    let file = home
        .file("config/svc/credentials.toml", "[profiles.default]\nemail_key_in = \"keyring\"\n");
    let owner_alone = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    std::fs::set_permissions(file, owner_alone).expect("changed");
    home
}

#[test]
fn it_is_not_touched_where_the_key_comes_from_elsewhere() {
    let home = with_key_in_keyring();
    let bus = SilentBus::start(&home);
    let service = Service::one(200, "[]");
    let key = home.file("key", KEY);
    let (url, address) = (service.url(), bus.address.clone());
    let env = [("SVC_EMAIL_URL", url.as_str()), ("DBUS_SESSION_BUS_ADDRESS", address.as_str())];
    let run = home.run_with(&["audiences", "list", "--key-file", &key], &env);
    assert_eq!(run.code, 0, "{run:?}");
    let run =
        home.run_with(&["audiences", "list"], &[&env[..], &[("SVC_EMAIL_KEY", KEY)]].concat());
    assert_eq!(run.code, 0, "{run:?}");
    for command in [&["config", "show"][..], &["profiles", "list"]] {
        let run = home.run_with(command, &env);
        assert_eq!(run.code, 0, "{run:?}");
        assert!(run.stdout.contains("in the system's keyring"), "{run:?}");
    }
    assert!(!bus.was_asked());
}

#[cfg(all(feature = "keyring", target_os = "linux"))]
#[test]
fn one_that_hangs_is_given_up() {
    let home = with_key_in_keyring();
    let bus = SilentBus::start(&home);
    let service = Service::one(200, "[]");
    let (url, address) = (service.url(), bus.address.clone());
    let env = [("SVC_EMAIL_URL", url.as_str()), ("DBUS_SESSION_BUS_ADDRESS", address.as_str())];
    let run = in_enough_time(|timeout| {
        let run = home.run_with(&["audiences", "list", "--timeout", timeout], &env);
        // On a busy machine the time is over before it is asked.
        bus.was_asked().then_some(run)
    });
    assert_eq!((run.code, run.error()["code"].clone()), (1, "keyring".into()), "{run:?}");
    assert!(run.error()["message"].as_str().is_some_and(|m| m.contains("no answer within ")));
    assert!(service.requests().is_empty());
}

#[cfg(all(feature = "keyring", target_os = "linux"))]
#[test]
fn a_login_that_cannot_keep_the_key_keeps_nothing() {
    let home = Home::new();
    let service = Service::one(200, "[]");
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
    let run = crate::support::Run::of(child.wait_with_output().expect("ends"));
    assert_eq!((run.code, run.stdout.as_str()), (1, ""), "{run:?}");
    assert!(run.error()["hint"].as_str().is_some_and(|hint| hint.contains("without --keyring")));
    assert!(!run.stderr.contains("topsecret"), "{run:?}");
    assert!(!home.path("config/svc/credentials.toml").exists());
}

/// A session bus with GNOME's keyring on it, unlocked; both end with this.
#[cfg(all(feature = "keyring", target_os = "linux"))]
struct SecretService {
    session: std::process::Child,
    bus: String,
}

#[cfg(all(feature = "keyring", target_os = "linux"))]
impl SecretService {
    /// Where it is not installed this says so, and fails if
    /// `SVC_TEST_KEYRING=1` demands it.
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
            let stdout = session.stdout.as_mut().expect("piped");
            std::io::BufReader::new(stdout).read_line(&mut bus)?;
            Ok(session)
        });
        match session {
            Ok(session) if !bus.is_empty() => Some(Self { session, bus: bus.trim().to_owned() }),
            other => {
                let demanded = std::env::var_os("SVC_TEST_KEYRING").is_some_and(|v| v == "1");
                assert!(!demanded, "SVC_TEST_KEYRING=1, but there is no keyring: {other:?}");
                // Past the harness, which keeps what a passing test prints to itself.
                let said = "NOT RUN: no dbus-run-session with a gnome-keyring-daemon\n";
                std::io::Write::write_all(&mut std::io::stderr(), said.as_bytes()).expect("said");
                None
            }
        }
    }

    fn run(&self, home: &Home, args: &[&str], input: &str) -> crate::support::Run {
        let mut command = home.command(args);
        command.env("DBUS_SESSION_BUS_ADDRESS", &self.bus);
        Home::feed_to(command, input)
    }

    /// What somebody else's program finds there.
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
        // The end of its input is the end of the session.
        drop(self.session.stdin.take());
        let _ = self.session.wait();
    }
}

#[cfg(all(feature = "keyring", target_os = "linux"))]
#[test]
fn a_real_one_keeps_a_key_gives_it_and_forgets_it() {
    let home = Home::new();
    let Some(keyring) = SecretService::start(&home) else { return };
    let service = Service::one(200, "[]");
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
fn a_build_without_it_says_so_and_keeps_nothing() {
    let home = Home::new();
    let service = Service::one(200, "[]");
    let run = home.feed(&["login", "--keyring", "--email-url", &service.url()], KEY);
    assert_eq!((run.code, run.error()["code"].clone()), (2, "keyring".into()), "{run:?}");
    assert!(!home.path("config/svc/credentials.toml").exists());
    let stored = with_key_in_keyring().run(&["audiences", "list", "--email-url", &service.url()]);
    assert_eq!((stored.code, stored.error()["code"].clone()), (2, "keyring".into()), "{stored:?}");
}
