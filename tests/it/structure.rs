//! Rules about the structure of the workspace that neither the compiler nor clippy
//! checks: which crates may depend on which, the layers of the server, and each crate's
//! `rust-version`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::docs::root;
use crate::imports::{Library, exports};

/// The dependencies between our crates that the design allows.
const DEPENDENCIES: [(&str, &[&str]); 9] = [
    ("svc-webhook-verify", &[]),
    ("svc-sql", &[]),
    ("svc-webhook-inbox", &["svc-webhook-verify", "svc-sql"]),
    ("svc-sdk", &[]),
    ("svc-bulk", &["svc-sdk", "svc-sql"]),
    ("svc-reference-server", &["svc-sdk"]),
    (
        "svc-cli",
        &[
            "svc-sdk",
            "svc-bulk",
            "svc-webhook-verify",
            "svc-reference-server",
        ],
    ),
    (
        "svc-tests",
        &[
            "svc-sdk",
            "svc-bulk",
            "svc-webhook-verify",
            "svc-webhook-inbox",
            "svc-reference-server",
            "svc-cli",
        ],
    ),
    (
        "svc-examples",
        &[
            "svc-sdk",
            "svc-bulk",
            "svc-webhook-verify",
            "svc-webhook-inbox",
            "svc-reference-server",
            "svc-cli",
        ],
    ),
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
        for dependency in dependencies
            .iter()
            .filter(|other| packages.contains_key(*other) && *other != name)
        {
            assert!(
                allowed[name.as_str()].contains(&dependency.as_str()),
                "{name} must not depend on {dependency}"
            );
        }
    }
}

#[test]
fn only_the_sdk_the_server_and_the_cli_depend_on_reqwest() {
    for (name, dependencies) in workspace_packages() {
        let depends = dependencies.iter().any(|other| other == "reqwest");
        let may = ["svc-sdk", "svc-reference-server", "svc-cli"].contains(&name.as_str());
        assert!(!depends || may, "{name} depends on reqwest");
    }
}

/// The oldest compiler that our own code needs: let chains, and file locks in bulk sending.
fn oldest_for_our_code(package: &str) -> Vec<u32> {
    if package == "svc-sdk" {
        vec![1, 89]
    } else {
        vec![1, 88]
    }
}

/// Each published crate's `rust-version` is exactly what its code and its own
/// dependencies need. No older toolchain is installed to try, so this trusts what
/// the dependencies declare; clippy's `incompatible_msrv` checks our code.
#[test]
fn each_rust_version_is_the_lowest_that_the_crates_dependencies_allow() {
    let host = host_triple();
    // Only what this host's build has downloaded: no network, no crates of other platforms.
    let metadata = metadata(&["--filter-platform", &host]);
    let array = |value: &Value| value.as_array().expect("an array").clone();
    let packages: BTreeMap<String, Value> = array(&metadata["packages"])
        .into_iter()
        .map(|each| (text(&each["id"]), each))
        .collect();
    let nodes: BTreeMap<String, Value> = array(&metadata["resolve"]["nodes"])
        .into_iter()
        .map(|each| (text(&each["id"]), each))
        .collect();
    let is_published =
        |id: &str| packages[id]["source"].is_null() && packages[id]["publish"].is_null();
    let version = |id: &str| -> Option<Vec<u32>> {
        let version = packages[id]["rust_version"].as_str()?;
        version
            .split('.')
            .take(2)
            .map(|part| part.parse().ok())
            .collect()
    };

    let published: Vec<&String> = packages.keys().filter(|id| is_published(id)).collect();
    assert_eq!(published.len(), 7, "{published:?}");

    for id in published {
        let mut lowest = oldest_for_our_code(packages[id]["name"].as_str().unwrap_or_default());
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
            waiting.extend(
                array(&nodes[&next]["deps"])
                    .into_iter()
                    .filter_map(|dependency| {
                        let kinds = array(&dependency["dep_kinds"]);
                        kinds
                            .iter()
                            .any(|each| each["kind"] != "dev")
                            .then(|| text(&dependency["pkg"]))
                    }),
            );
        }
        assert_eq!(
            version(id),
            Some(lowest),
            "rust-version of {id}; required by {required_by}"
        );
    }
}

/// The SDK does not change other parts of the program that uses it: `serde_json` keeps the
/// type behind `Map`, and without a TLS feature, reqwest has none.
#[test]
fn the_sdk_switches_on_no_feature_that_changes_its_host() {
    let tree = tree(&["-p", "svc-sdk", "-e", "normal,features", "--prefix", "none"]);
    assert!(
        tree.contains("serde_json v") && tree.contains("reqwest v"),
        "{tree}"
    );
    assert!(!tree.contains("preserve_order"), "{tree}");
    assert!(!tree.contains("reqwest feature"), "{tree}");

    // Nor does any other feature of the SDK.
    let manifest = fs::read_to_string(root().join("sdk/Cargo.toml")).expect("readable");
    assert!(!manifest.contains("preserve_order"), "{manifest}");
}

/// Nor does the sandbox in the tests of a program.
#[test]
fn the_local_server_switches_on_no_feature_that_changes_its_host() {
    let tree = tree(&[
        "-p",
        "svc-reference-server",
        "-e",
        "normal,features",
        "--prefix",
        "none",
    ]);
    assert!(
        tree.contains("serde_json v") && tree.contains("rusqlite v"),
        "{tree}"
    );
    for feature in [
        "preserve_order",
        "arbitrary_precision",
        "float_roundtrip",
        "unbounded_depth",
    ] {
        assert!(!tree.contains(feature), "{feature}: {tree}");
    }
}

/// Programs that use a server in a container need no server of their own.
/// Otherwise `.ci/programs` compiles again what the workspace has compiled.
#[test]
fn the_separate_test_workspaces_have_the_profile_of_the_workspace() {
    let profile = |folder: &str| {
        let manifest =
            fs::read_to_string(root().join(folder).join("Cargo.toml")).expect("it exists");
        let manifest = toml::from_str::<toml::Table>(&manifest).expect("TOML");
        manifest["profile"]["dev"]
            .as_table()
            .expect("a table")
            .clone()
    };
    let whole = profile(".");
    for folder in ["tests/peers", "webhook-inbox/sqlx-tests"] {
        let own = profile(folder);
        assert_eq!(own["debug"], whole["debug"], "{folder}");
        for (package, settings) in own["package"].as_table().expect("a table") {
            assert_eq!(settings, &whole["package"][package], "{folder}: {package}");
        }
    }
}

#[test]
fn the_client_of_the_control_interface_needs_no_server() {
    let options = [
        "-p",
        "svc-reference-server",
        "--no-default-features",
        "-e",
        "normal",
    ];
    let tree = tree(&[&options[..], &["--prefix", "none"]].concat());
    assert!(tree.contains("svc-sdk v"), "{tree}");
    for name in [
        "rusqlite",
        "libsqlite3-sys",
        "axum",
        "hickory-resolver",
        "rsa",
    ] {
        assert!(!tree.contains(&format!("{name} v")), "{name} in\n{tree}");
    }
}

/// aws-lc spends 40 ms of CPU time on its first random number.
#[test]
fn svc_uses_ring_only() {
    let tree = tree(&["-p", "svc-cli", "-e", "normal,build", "--prefix", "none"]);
    assert!(
        tree.contains("ring v") && !tree.contains("aws-lc"),
        "{tree}"
    );
}

/// With two, whoever takes the default of rustls in an application panics (`tests/tls`).
#[test]
fn no_library_enables_a_crypto_provider() {
    for (package, features) in [
        ("svc-bulk", "postgres"),
        ("svc-webhook-verify", "redis"),
        ("svc-webhook-inbox", "postgres,sqlite"),
        ("svc-reference-server", "server"),
    ] {
        let options = ["-p", package, "--features", features, "--prefix", "none"];
        let tree = tree(&[&options[..], &["-e", "normal,features"]].concat());
        for provider in ["ring", "aws-lc-rs", "aws_lc_rs"] {
            let enabled = format!("rustls feature \"{provider}\"");
            assert!(!tree.contains(&enabled), "{package} enables {provider}");
        }
    }
}

fn tree(options: &[&str]) -> String {
    let output = Command::new(env!("CARGO"))
        .args(["tree", "--offline", "--locked"])
        .args(options)
        .current_dir(root())
        .output()
        .expect("cargo runs");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).expect("UTF-8")
}

/// The directions of the server: wire ← platform ← rows ← rules ← api ← routes ← server. A module
/// imports from its own layer and from those before it.
///
/// Of a resource, the file says the layer: `webhooks/webhook_rows.rs` has rows. `wire` is what clients
/// know, and with `model/` what all others know.
const DIRECTIONS: [&str; 7] = [
    "wire", "platform", "rows", "rules", "api", "routes", "server",
];

/// The modules that are no resource, each with the modules below it. What speaks SMTP, and what does the
/// jobs, uses rules as handlers do.
const OTHER_MODULES: [(&str, &[&str]); 5] = [
    ("wire", &["model", "control", "seeds::seed_file"]),
    (
        "platform",
        &[
            "runtime", "jobs", "store", "net", "mail", "settings", "app", "http",
        ],
    ),
    ("api", &["smtp", "engine"]),
    ("routes", &["routes"]),
    ("server", &["client", "server"]),
];

/// The position of a module's layer in [`DIRECTIONS`]; `None` for one that only declares others.
fn layer(module: &str) -> Option<usize> {
    let file = module.split("::").nth(1).unwrap_or_default();
    let of_file = file.rsplit_once('_').map(|(_, layer)| layer);
    let other = OTHER_MODULES
        .iter()
        .find(|(_, names)| names.iter().any(|name| is_within(module, name)));
    let name = other.map(|(layer, _)| *layer).or(of_file)?;
    DIRECTIONS.iter().position(|layer| *layer == name)
}

#[test]
fn the_server_reads_in_its_directions() {
    let mut wrong = Vec::new();
    for (module, imports) in &server_modules() {
        let Some(own) = layer(module) else {
            assert!(
                imports.is_empty(),
                "`{module}` is in no layer: add it to OTHER_MODULES"
            );
            continue;
        };
        for import in imports {
            if layer(import).is_some_and(|other| other > own) {
                wrong.push(format!("{module} imports {import}"));
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "imports against the directions {}:\n{}",
        DIRECTIONS.join(" ← "),
        wrong.join("\n")
    );
}

/// A resource uses the rules and the rows of another, but never its api.
#[test]
fn no_api_of_the_server_uses_that_of_another_resource() {
    let folder = |module: &str| module.split("::").next().unwrap_or_default().to_owned();
    let is_api = |module: &str| module.contains("_api");
    for (module, imports) in &server_modules() {
        for import in imports
            .iter()
            .filter(|import| is_api(module) && is_api(import))
        {
            assert_eq!(folder(module), folder(import), "{module} imports {import}");
        }
    }
}

/// Everyone else calls a function of the rows, so that a table can be changed in one place.
#[test]
fn only_rows_and_the_store_have_sql() {
    for (module, source) in sources("reference-server/src") {
        let source = program(&source);
        let may = is_within(&module, "store") || module.ends_with("_rows");
        for statement in ["\"SELECT ", "\"INSERT ", "\"UPDATE ", "\"DELETE FROM "] {
            assert!(may || !source.contains(statement), "{module} has SQL");
        }
    }
}

/// What clients need compiles without the server, and so whole files of a resource do or do not.
#[test]
fn no_file_of_a_resource_is_in_the_client_by_half() {
    for (module, source) in sources("reference-server/src") {
        let is_of_resource = module.contains("::") && layer(&module).is_some_and(|own| own != 1);
        let is_half = program(&source).contains("#[cfg(feature");
        assert!(!is_of_resource || !is_half, "{module} has a `cfg` inside");
    }
}

#[test]
fn the_modules_of_the_server_form_no_circles() {
    for (module, circle) in circles(&server_modules()) {
        let is_pair = |other: &String| is_child(&module, other) || is_child(other, &module);
        assert!(
            circle.len() == 1 && circle.iter().all(is_pair),
            "{module} is in a circle with {circle:?}; only a module and its own child may \
             import each other"
        );
    }
}

/// A group of commands and its commands share what the group declares, such as the columns of its
/// tables. Any other circle is forbidden.
#[test]
fn the_modules_of_the_cli_and_of_the_sdk_form_no_circles() {
    let circles = ["cli/src", "sdk/src"].map(|folder| circles(&modules(folder)));
    for (module, circle) in circles.into_iter().flatten() {
        let all: Vec<&String> = circle.iter().chain([&module]).collect();
        let is_above_all = |top: &&String| all.iter().all(|other| is_within(other, top));
        assert!(
            all.iter().any(is_above_all),
            "{module} is in a circle with {circle:?}; only a module and modules below it may \
             import each other"
        );
    }
}

/// The modules that are in circles, each with the others of its circle.
fn circles(modules: &BTreeMap<String, BTreeSet<String>>) -> Vec<(String, BTreeSet<String>)> {
    let reachable = |from: &str| {
        let mut seen = BTreeSet::new();
        let mut waiting = vec![from.to_owned()];
        while let Some(module) = waiting.pop() {
            for import in &modules[&module] {
                if seen.insert(import.clone()) {
                    waiting.push(import.clone());
                }
            }
        }
        seen
    };

    let reachable: BTreeMap<&String, BTreeSet<String>> = modules
        .keys()
        .map(|module| (module, reachable(module)))
        .collect();
    let circle = |module: &String| {
        let back = |other: &&String| *other != module && reachable[other].contains(module);
        reachable[module]
            .iter()
            .filter(back)
            .cloned()
            .collect::<BTreeSet<_>>()
    };

    let circles = modules
        .keys()
        .map(|module| (module.clone(), circle(module)));
    circles.filter(|(_, circle)| !circle.is_empty()).collect()
}

/// The compiler does not mention a file that no module names, and its tests do not run.
#[test]
fn every_file_is_in_a_module() {
    let listed = Command::new("git")
        .args(["ls-files", "*.rs"])
        .current_dir(root())
        .output();
    let listed = String::from_utf8(listed.expect("git").stdout).expect("UTF-8");
    let mut lost = Vec::new();
    for file in listed.lines().map(Path::new) {
        let folder = file.parent().expect("a folder");
        let name = file.file_stem().expect("a name");
        let name = name.to_string_lossy();
        let is_in = |part: &str| folder.components().any(|it| it.as_os_str() == part);
        // Each file of the other folders is a program of its own.
        let is_module = (is_in("src") || is_in("it")) && !is_in("bench") && !is_in("bin");
        if !is_module || ["main", "lib", "svc"].contains(&&*name) {
            continue;
        }
        let parents = [
            folder.join("main.rs"),
            folder.join("lib.rs"),
            folder.with_extension("rs"),
        ];
        let declared = [format!("mod {name};"), format!("/{name}.rs\"")];
        let names = |parent: &PathBuf| {
            let text = fs::read_to_string(root().join(parent)).unwrap_or_default();
            declared.iter().any(|declared| text.contains(declared))
        };
        if !parents.iter().any(names) {
            lost.push(file.display().to_string());
        }
    }

    assert_eq!(lost, [""; 0], "no module names these files");
}

fn server_modules() -> BTreeMap<String, BTreeSet<String>> {
    modules("reference-server/src")
}

/// The modules in a folder, each with the modules that it imports from, except in tests.
fn modules(folder: &str) -> BTreeMap<String, BTreeSet<String>> {
    let lib = root().join(folder).join("lib.rs");
    let sources = sources(folder);
    assert!(sources.len() > 40, "found only {} modules", sources.len());

    let library = Library {
        modules: sources.keys().cloned().collect(),
        exports: exports(&fs::read_to_string(lib).expect("a library")),
    };
    let mut modules = BTreeMap::new();
    for (module, source) in &sources {
        modules.insert(module.clone(), library.imports(module, source));
    }

    modules
}

/// The modules in a folder, except its root, each with its source.
fn sources(folder: &str) -> BTreeMap<String, String> {
    let folder = root().join(folder);
    let mut sources = BTreeMap::new();
    let mut waiting = vec![folder.clone()];
    while let Some(next) = waiting.pop() {
        for entry in fs::read_dir(&next)
            .expect("a folder")
            .map(|entry| entry.expect("an entry"))
        {
            let path = entry.path();
            if path.is_dir() {
                waiting.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let name = path.strip_prefix(&folder).expect("below the folder");
                let name = name.with_extension("");
                let parts: Vec<_> = name.iter().map(|part| part.to_string_lossy()).collect();
                assert!(
                    parts.last().is_some_and(|last| last != "mod"),
                    "{}",
                    path.display()
                );
                sources.insert(parts.join("::"), fs::read_to_string(&path).expect("UTF-8"));
            }
        }
    }

    sources.remove("lib");
    sources.remove("main");
    sources
}

/// A source without its tests.
fn program(source: &str) -> &str {
    source
        .split("#[cfg(test)]\nmod tests")
        .next()
        .unwrap_or_default()
}

fn is_within(module: &str, name: &str) -> bool {
    module == name || is_child_or_deeper(module, name)
}

fn is_child_or_deeper(module: &str, parent: &str) -> bool {
    module
        .strip_prefix(parent)
        .is_some_and(|rest| rest.starts_with("::"))
}

fn is_child(module: &str, parent: &str) -> bool {
    module
        .rsplit_once("::")
        .is_some_and(|(above, _)| above == parent)
}

fn workspace_packages() -> BTreeMap<String, Vec<String>> {
    metadata(&["--no-deps"])["packages"]
        .as_array()
        .expect("a list of packages")
        .iter()
        .map(|package| {
            let dependencies = package["dependencies"].as_array().expect("a list").iter();
            (
                text(&package["name"]),
                dependencies.map(|other| text(&other["name"])).collect(),
            )
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
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    serde_json::from_slice(&output.stdout).expect("metadata is JSON")
}

fn text(value: &Value) -> String {
    value.as_str().expect("a text").to_owned()
}

/// The target triple of the compiler that builds these tests.
fn host_triple() -> String {
    let output = Command::new("rustc")
        .arg("-vV")
        .output()
        .expect("rustc runs");
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    let host = text.lines().find_map(|line| line.strip_prefix("host: "));
    host.expect("rustc -vV names the host").to_owned()
}
