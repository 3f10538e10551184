//! The sandbox as in a container, in namespaces that the tests make themselves: networks with host
//! names, a foreign user, a read-only root, PID 1.
//!
//! They need root and iproute2, so they are ignored, and run with `--include-ignored`.

use std::process::Command;
use std::time::Duration;

use svc_sdk::EmailClient;
use svc_sdk::email::Email;
use webhook_verify::{Secret, Verifier};

use crate::receiver::Receiver;

/// The script runs in namespaces of its own: what it mounts and configures is gone with it, and so
/// are its processes. `$SVC` is the program, `$DIR` a directory, `$TEST` this test binary.
fn run(script: &str) {
    let unshare = [
        "--mount",
        "--net",
        "--pid",
        "--fork",
        "--kill-child",
        "--mount-proc",
    ];
    let directory = tempfile::tempdir().expect("a directory");
    std::fs::write(directory.path().join("seed.toml"), SEED).expect("written");
    let output = Command::new("timeout")
        .args(["-k", "5", "120", "unshare"])
        .args(unshare)
        .args(["sh", "-euc", &format!("{PRELUDE}{script}")])
        .env_clear()
        .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
        .env("SVC", env!("CARGO_BIN_EXE_svc-under-test"))
        .env("DIR", directory.path())
        .env(
            "TEST",
            std::env::current_exe().expect("the path of this test"),
        )
        .output()
        .expect("timeout runs");
    let log = |name: &str| std::fs::read_to_string(directory.path().join(name)).unwrap_or_default();
    assert!(
        output.status.success(),
        "{output:#?}\n{}\n{}",
        log("ready.json"),
        log("log")
    );
}

/// `retry` runs a command until it succeeds.
const PRELUDE: &str = r#"
mount --make-rprivate /
mount -t tmpfs tmpfs /run
ip link set lo up
retry() { for _ in $(seq 300); do "$@" && return; sleep 0.1; done; return 1; }
"#;

const SEED: &str = r#"
[[organizations]]
name = "Shop"
domains = [{ name = "shop.test" }]

[[organizations.keys]]
key = "mk_test_shop"
service = "email"

[[organizations.webhooks]]
url = "http://app:3000/hooks"
events = ["email.delivered"]
secret = "whsec_known_to_both"
"#;

#[test]
#[ignore = "needs root, unshare and iproute2"]
fn an_application_in_another_namespace_sends_by_name_and_receives_its_webhooks() {
    run(r#"
ip netns add sandbox
ip netns add app
ip link add eth0 netns sandbox type veth peer name eth0 netns app
ip -n sandbox address add 10.77.0.1/24 dev eth0
ip -n app address add 10.77.0.2/24 dev eth0
for name in sandbox app; do ip -n $name link set lo up; ip -n $name link set eth0 up; done
printf '127.0.0.1 localhost\n10.77.0.1 sandbox\n10.77.0.2 app\n' > "$DIR/hosts"
mount --bind "$DIR/hosts" /etc/hosts
ip netns exec sandbox env -i SVC_SANDBOX_NETWORK=trusted SVC_SANDBOX_IN_MEMORY=true \
    SVC_SANDBOX_SEED="$DIR/seed.toml" SVC_SANDBOX_LOG_FORMAT=json HOME="$DIR" \
    "$SVC" sandbox serve > "$DIR/ready.json" 2> "$DIR/log" &
ip netns exec app "$TEST" --exact containers::application --ignored --nocapture
# A health check of the container, and one from elsewhere.
ip netns exec sandbox env -i HOME=/nonexistent "$SVC" sandbox status
ip netns exec app env -i HOME=/nonexistent "$SVC" sandbox status --url http://sandbox:4080
if ip netns exec app env -i HOME=/nonexistent "$SVC" sandbox status; then exit 1; fi
# Doctor accepts a sandbox without TLS.
ip netns exec app env -i HOME=/nonexistent SVC_SANDBOX_URL=http://sandbox:4080 "$SVC" --sandbox doctor
# Each line of the log is JSON, and one is that of the request.
grep -q '^{.*"operation":"emails.send".*"status":202' "$DIR/log"
if grep -v '^{' "$DIR/log"; then exit 1; fi
"#);
}

/// The application, in the namespace `app`.
#[tokio::test]
#[ignore = "runs inside of another test"]
async fn application() {
    let mut receiver = Receiver::at("10.77.0.2:3000").await;
    let client = EmailClient::builder("http://sandbox:4080", "mk_test_shop").build();
    let client = client.expect("a client");
    let email = Email::new("hello@shop.test", "ada@example.test", "Hi").text("Hello");
    let mut sent = client.emails().send(&email).await;
    for _ in 0..300 {
        if sent.is_ok() {
            break;
        }
        // The server is starting.
        tokio::time::sleep(Duration::from_millis(100)).await;
        sent = client.emails().send(&email).await;
    }

    let id = sent.expect("accepted").id;
    let delivery = receiver.next().await;
    let secret = Secret::new("whsec_known_to_both").expect("a secret");
    let signature = delivery.header("mail-signature").to_owned();
    let body = delivery.body.to_vec();
    let verified = Verifier::email(secret)
        .verify(signature.as_bytes(), body)
        .expect("verified");
    assert!(
        verified.data_json().contains(&id),
        "{}",
        verified.data_json()
    );
}

/// A root without `/etc`, `/tmp` and `/proc`, which nothing can be written to, and a volume of
/// another user that all can write to.
const ROOT: &str = r#"
root="$DIR/root"
mkdir "$root"
mount -t tmpfs tmpfs "$root"
for dir in usr lib lib32 lib64 libx32; do
    [ -e "/$dir" ] || continue
    mkdir "$root/$dir"
    mount --bind -o ro "/$dir" "$root/$dir"
done
# The build may have given it to its user alone.
install -m 755 "$SVC" "$root/svc"
mkdir "$root/data"
mount -t tmpfs tmpfs "$root/data"
touch "$root/data/lost+found"
chown 4321:0 "$root/data"
chmod "$MODE" "$root/data"
mount -o remount,ro "$root"
# As a user without an entry, without HOME.
as() { user="$1"; shift; chroot --userspec="$user" "$root" /usr/bin/env -i "$@"; }
"#;

#[test]
#[ignore = "needs root, unshare and iproute2"]
fn a_foreign_user_in_a_container_with_a_shared_volume() {
    for mode in ["0777", "2775"] {
        let script = ROOT.replace("$MODE", mode)
            + r#"
as 54321:0 /svc version
if as 54321:0 SVC_SANDBOX_DIR=/data /svc sandbox status; then exit 1; fi
if as 54321:0 SVC_SANDBOX_DIR=/data /svc sandbox serve 2> "$DIR/refused"; then exit 1; fi
grep -q 'cannot use the data directory /data.*the user with ID 54321' "$DIR/refused"
# PID 1 of its namespace.
unshare --pid --fork chroot --userspec=54321:0 "$root" /usr/bin/env -i SVC_SANDBOX_DIR=/data \
    SVC_SANDBOX_NETWORK=trusted SVC_SANDBOX_ADDR=:4080 /svc sandbox serve \
    > "$DIR/ready.json" 2> "$DIR/log" &
parent=$!
retry as 54321:0 SVC_SANDBOX_DIR=/data /svc sandbox status > /dev/null 2>&1
# Without knowing the volume, and as another user who cannot read it.
as 54321:0 /svc sandbox status
as 7777:7777 SVC_SANDBOX_DIR=/data /svc sandbox status
as 54321:0 SVC_SANDBOX_DIR=/data /svc --sandbox emails send --from hello@sandbox.test \
    --to ada@example.test --subject Hi --text Hello --wait
[ "$(grep -c 'the data directory is not private' "$DIR/log")" = 1 ]
# SIGTERM stops PID 1, with exit code 0.
kill -TERM "$(cat /proc/$parent/task/$parent/children)"
wait "$parent"
if as 54321:0 SVC_SANDBOX_DIR=/data /svc sandbox status; then exit 1; fi
"#;
        run(&script);
    }
}

#[test]
#[ignore = "needs root, unshare and iproute2"]
fn a_container_without_a_volume_or_a_home() {
    let script = ROOT.replace("$MODE", "0700")
        + r#"
as 54321:54321 SVC_SANDBOX_NETWORK=trusted SVC_SANDBOX_IN_MEMORY=true SVC_SANDBOX_SMTP=:1025 \
    /svc sandbox serve > "$DIR/ready.json" 2> "$DIR/log" &
retry as 54321:54321 /svc sandbox status > /dev/null 2>&1
# What needs a directory says so.
if as 54321:54321 SVC_SANDBOX_ADDR=127.0.0.1:0 /svc sandbox serve 2> "$DIR/refused"; then exit 1; fi
grep -q 'set HOME or SVC_SANDBOX_DIR' "$DIR/refused"
"#;
    run(&script);
}
