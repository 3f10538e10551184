//! Rules about the structure of the workspace that neither the compiler nor clippy
//! checks: which crates may depend on which, and each crate's `rust-version`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// The dependencies between our crates that the design allows.
const DEPENDENCIES: [(&str, &[&str]); 6] = [
    ("svc-webhook-verify", &[]),
    ("svc-sdk", &[]),
    ("svc-reference-server", &["svc-sdk"]),
    ("svc-cli", &["svc-sdk", "svc-webhook-verify", "svc-reference-server"]),
    ("svc-tests", &["svc-sdk", "svc-webhook-verify", "svc-reference-server", "svc-cli"]),
    ("svc-examples", &["svc-sdk", "svc-webhook-verify", "svc-reference-server"]),
];

#[test]
fn dependencies_between_crates_follow_the_design() {
    let allowed: BTreeMap<&str, &[&str]> = DEPENDENCIES.into_iter().collect();
    let packages = workspace_packages();
    assert_eq!(
        packages.keys().map(String::as_str).collect::<BTreeSet<_>>(),
        allowed.keys().copied().collect::<BTreeSet<_>>(),
        "packages of the workspace"
    );
    for (name, dependencies) in &packages {
        for dependency in
            dependencies.iter().filter(|other| packages.contains_key(*other) && *other != name)
        {
            assert!(
                allowed[name.as_str()].contains(&dependency.as_str()),
                "{name} must not depend on {dependency}"
            );
        }
    }
}

#[test]
fn only_the_sdk_depends_on_reqwest() {
    for (name, dependencies) in workspace_packages() {
        let depends = dependencies.iter().any(|other| other == "reqwest");
        assert!(!depends || name == "svc-sdk", "{name} depends on reqwest");
    }
}

/// The oldest compiler that our own code needs: let chains.
const OLDEST_FOR_OUR_CODE: [u32; 2] = [1, 88];

/// Each published crate's `rust-version` is exactly what its code and its own
/// dependencies need. No older toolchain is installed to try, so this trusts what
/// the dependencies declare; clippy's `incompatible_msrv` checks our code.
#[test]
fn each_rust_version_is_the_lowest_that_the_crates_dependencies_allow() {
    let host = host_triple();
    // Only what this host's build has downloaded: no network, no crates of other platforms.
    let metadata = metadata(&["--filter-platform", &host]);
    let array = |value: &Value| value.as_array().expect("an array").clone();
    let packages: BTreeMap<String, Value> =
        array(&metadata["packages"]).into_iter().map(|each| (text(&each["id"]), each)).collect();
    let nodes: BTreeMap<String, Value> = array(&metadata["resolve"]["nodes"])
        .into_iter()
        .map(|each| (text(&each["id"]), each))
        .collect();
    let is_published =
        |id: &str| packages[id]["source"].is_null() && packages[id]["publish"].is_null();
    let version = |id: &str| -> Option<Vec<u32>> {
        let version = packages[id]["rust_version"].as_str()?;
        version.split('.').take(2).map(|part| part.parse().ok()).collect()
    };

    let published: Vec<&String> = packages.keys().filter(|id| is_published(id)).collect();
    assert_eq!(published.len(), 4, "{published:?}");
    for id in published {
        let mut lowest = OLDEST_FOR_OUR_CODE.to_vec();
        let mut required_by = id.clone();
        let mut seen = BTreeSet::new();
        let mut waiting = vec![id.clone()];
        while let Some(next) = waiting.pop() {
            if !seen.insert(next.clone()) {
                continue;
            }
            if next != *id
                && let Some(needed) = version(&next)
                && needed > lowest
            {
                lowest = needed;
                required_by = next.clone();
            }
            waiting.extend(array(&nodes[&next]["deps"]).into_iter().filter_map(|dependency| {
                let kinds = array(&dependency["dep_kinds"]);
                kinds.iter().any(|each| each["kind"] != "dev").then(|| text(&dependency["pkg"]))
            }));
        }
        assert_eq!(version(id), Some(lowest), "rust-version of {id}; required by {required_by}");
    }
}

/// The SDK does not change other parts of the program that uses it: `serde_json` keeps the
/// type behind `Map`, and without a TLS feature, reqwest has none.
#[test]
fn the_sdk_switches_on_no_feature_that_changes_its_host() {
    let tree = tree(&["-p", "svc-sdk", "-e", "normal,features", "--prefix", "none"]);
    assert!(tree.contains("serde_json v") && tree.contains("reqwest v"), "{tree}");
    assert!(!tree.contains("preserve_order"), "{tree}");
    assert!(!tree.contains("reqwest feature"), "{tree}");
    // Nor does any other feature of the SDK.
    let manifest = std::fs::read_to_string(root().join("sdk/Cargo.toml")).expect("readable");
    assert!(!manifest.contains("preserve_order"), "{manifest}");
}

/// TLS is rustls on ring: aws-lc spends 40 ms of CPU time on its first random number, and
/// takes long to compile.
#[test]
fn the_programs_of_this_workspace_use_ring_only() {
    let tree = tree(&["--workspace", "-e", "normal,build,dev", "--prefix", "none"]);
    assert!(tree.contains("ring v") && !tree.contains("aws-lc"), "{tree}");
}

fn tree(options: &[&str]) -> String {
    let output = Command::new(env!("CARGO"))
        .args(["tree", "--offline", "--locked"])
        .args(options)
        .current_dir(root())
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("UTF-8")
}

fn workspace_packages() -> BTreeMap<String, Vec<String>> {
    metadata(&["--no-deps"])["packages"]
        .as_array()
        .expect("a list of packages")
        .iter()
        .map(|package| {
            let dependencies = package["dependencies"].as_array().expect("a list").iter();
            (text(&package["name"]), dependencies.map(|other| text(&other["name"])).collect())
        })
        .collect()
}

fn metadata(options: &[&str]) -> Value {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--offline"])
        .args(options)
        .current_dir(root())
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("metadata is JSON")
}

fn text(value: &Value) -> String {
    value.as_str().expect("a text").to_owned()
}

/// The target triple of the compiler that builds these tests.
fn host_triple() -> String {
    let output = Command::new("rustc").arg("-vV").output().expect("rustc runs");
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    let host = text.lines().find_map(|line| line.strip_prefix("host: "));
    host.expect("rustc -vV names the host").to_owned()
}

fn root() -> PathBuf {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR"));
    tests.parent().expect("tests/ lies in the workspace").to_owned()
}
