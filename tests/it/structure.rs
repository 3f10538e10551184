//! The rules about the structure: which crate may know which, who may print,
//! who may know the HTTP client, how long a file may be without saying why.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// Every arrow between our crates that the design allows.
const ARROWS: [(&str, &[&str]); 6] = [
    ("svc-webhook-verify", &[]),
    ("svc-sdk", &[]),
    ("svc-reference-server", &["svc-sdk"]),
    ("svc-cli", &["svc-sdk", "svc-webhook-verify", "svc-reference-server"]),
    ("svc-tests", &["svc-sdk", "svc-webhook-verify", "svc-reference-server", "svc-cli"]),
    ("svc-examples", &["svc-sdk", "svc-webhook-verify", "svc-reference-server"]),
];

#[test]
fn the_arrows_between_the_crates_are_the_designs() {
    let allowed: BTreeMap<&str, &[&str]> = ARROWS.into_iter().collect();
    let packages = workspace_packages();
    assert_eq!(
        packages.keys().map(String::as_str).collect::<BTreeSet<_>>(),
        allowed.keys().copied().collect::<BTreeSet<_>>(),
        "the workspace's packages"
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
fn only_the_sdk_knows_reqwest() {
    for (name, dependencies) in workspace_packages() {
        let knows = dependencies.iter().any(|other| other == "reqwest");
        assert!(!knows || name == "svc-sdk", "{name} depends on reqwest");
    }
}

#[test]
fn only_the_output_module_of_the_command_prints() {
    let output = root().join("cli/src/output.rs");
    for file in library_sources() {
        if file == output || file.starts_with(root().join("cli/src/output")) {
            continue;
        }
        for (number, line) in numbered_code(&file) {
            for forbidden in ["println!(", "print!(", "eprint!(", "eprintln!(", "io::stdout()"] {
                assert!(
                    !line.contains(forbidden),
                    "{}:{number} prints past cli/src/output.rs",
                    relative(&file)
                );
            }
        }
    }
}

#[test]
fn nothing_is_unfinished_or_silenced() {
    let forbidden = [["todo", "!("], ["unimplemented", "!("], ["#[all", "ow("], ["#[ign", "ore]"]];
    for file in rust_sources() {
        for (number, line) in numbered_code(&file) {
            for parts in forbidden {
                let pattern = parts.concat();
                assert!(!line.contains(&pattern), "{}:{number} has {pattern}", relative(&file));
            }
        }
    }
}

#[test]
fn a_file_of_over_500_lines_says_why_it_is_one_thing() {
    for file in rust_sources() {
        let text = fs::read_to_string(&file).expect("a source is readable");
        let says = text.starts_with("//!") || text.starts_with("#![doc");
        assert!(
            text.lines().count() <= 500 || says,
            "{} has over 500 lines and no word at its top",
            relative(&file)
        );
    }
}

/// No older toolchain is at hand to try it with, so what the dependencies say
/// of themselves is believed; clippy holds our own code to it.
#[test]
fn the_rust_version_is_the_lowest_that_the_dependencies_allow() {
    let metadata = metadata(&[]);
    let array = |value: &Value| value.as_array().expect("an array").clone();
    let packages: BTreeMap<String, Value> =
        array(&metadata["packages"]).into_iter().map(|each| (text(&each["id"]), each)).collect();
    let nodes: BTreeMap<String, Value> = array(&metadata["resolve"]["nodes"])
        .into_iter()
        .map(|each| (text(&each["id"]), each))
        .collect();
    let ours = |id: &str| packages[id]["source"].is_null();
    let published = |id: &str| ours(id) && packages[id]["publish"].is_null();

    let mut waiting: Vec<String> = packages.keys().filter(|id| published(id)).cloned().collect();
    let mut seen = BTreeSet::new();
    while let Some(id) = waiting.pop() {
        for dependency in array(&nodes[&id]["deps"]) {
            let needed = array(&dependency["dep_kinds"]).iter().any(|each| each["kind"] != "dev");
            if needed {
                waiting.extend(
                    (!seen.contains(&text(&dependency["pkg"]))).then(|| text(&dependency["pkg"])),
                );
            }
        }
        seen.insert(id);
    }
    let version = |id: &str| -> Option<Vec<u32>> {
        let version = packages[id]["rust_version"].as_str()?;
        version.split('.').take(2).map(|part| part.parse().ok()).collect()
    };
    let (of_us, of_others): (Vec<_>, Vec<_>) = seen.iter().partition(|id| ours(id));
    let lowest = of_others.iter().filter_map(|id| version(id)).max();
    for id in of_us {
        assert_eq!(version(id), lowest, "{id}");
    }
}

#[test]
fn every_library_asks_for_documentation() {
    for room in ["sdk", "webhook-verify", "reference-server"] {
        let text = fs::read_to_string(root().join(room).join("src/lib.rs")).expect("a lib.rs");
        assert!(text.contains("warn(missing_docs)"), "{room}/src/lib.rs warns of missing docs");
    }
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

/// The lines of a file that are neither comments nor below `mod tests`.
fn numbered_code(file: &Path) -> Vec<(usize, String)> {
    let text = fs::read_to_string(file).expect("a source is readable");
    text.lines()
        .enumerate()
        .take_while(|(_, line)| !line.starts_with("mod tests"))
        .filter(|(_, line)| !line.trim_start().starts_with("//"))
        .map(|(index, line)| (index + 1, line.to_owned()))
        .collect()
}

/// The sources of the libraries and of `svc`, without their tests.
fn library_sources() -> Vec<PathBuf> {
    let rooms = ["sdk", "webhook-verify", "reference-server", "cli"];
    rooms.iter().flat_map(|room| sources_below(&root().join(room).join("src"))).collect()
}

fn rust_sources() -> Vec<PathBuf> {
    let rooms = ["sdk", "webhook-verify", "reference-server", "cli", "tests", "examples"];
    rooms.iter().flat_map(|room| sources_below(&root().join(room))).collect()
}

fn sources_below(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).expect("a readable folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() && path.file_name().is_some_and(|name| name != "target") {
            found.extend(sources_below(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    found.sort();
    found
}

fn relative(path: &Path) -> String {
    path.strip_prefix(root()).unwrap_or(path).display().to_string()
}

fn root() -> PathBuf {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR"));
    tests.parent().expect("tests/ lies in the workspace").to_owned()
}
