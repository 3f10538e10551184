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
