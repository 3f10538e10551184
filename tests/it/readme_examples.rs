//! The examples in the READMEs of the libraries for receivers are complete: each compiles with the
//! dependencies above it.
//!
//! That they compile with the dependencies of the library itself is a doc test. A test that is ignored
//! compiles each in a package of its own, which may download crates.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::process::Command;

use crate::docs::root;

/// The folders of the libraries.
const LIBRARIES: [&str; 2] = ["webhook-inbox", "webhook-verify"];

/// An example, with the dependencies of the nearest `toml` block above it.
struct Example {
    /// The library, and the line of its README in which the example ends.
    place: String,
    dependencies: String,
    code: String,
}

fn examples() -> Vec<Example> {
    LIBRARIES.into_iter().flat_map(examples_of).collect()
}

fn examples_of(library: &str) -> Vec<Example> {
    let readme = fs::read_to_string(root().join(library).join("README.md")).expect("a README");
    let mut examples = Vec::new();
    let mut dependencies = None;
    let mut block: Option<(&str, String)> = None;
    for (at, line) in readme.lines().enumerate() {
        match (&mut block, line.strip_prefix("```")) {
            (None, Some(language)) => block = Some((language, String::new())),
            (Some((language, text)), Some(_)) => {
                if *language == "toml" {
                    dependencies = Some(std::mem::take(text));
                } else if language.starts_with("rust") {
                    let dependencies = dependencies.take();
                    let dependencies = dependencies
                        .unwrap_or_else(|| panic!("{library}, line {}: no dependencies", at + 1));
                    let place = format!("{library}-line-{}", at + 1);
                    examples.push(Example {
                        place,
                        dependencies,
                        code: text.clone(),
                    });
                }
                block = None;
            }
            (Some((_, text)), None) => text.extend([line, "\n"]),
            (None, None) => {}
        }
    }

    examples
}

#[test]
fn every_example_lists_the_crates_that_it_uses() {
    let examples = examples();
    assert!(examples.len() >= 8, "{} examples", examples.len());
    for Example {
        place,
        dependencies,
        code,
    } in examples
    {
        // The packages of our libraries have other names.
        let listed: BTreeSet<String> = dependencies
            .lines()
            .filter_map(|line| line.split_once(" = "))
            .map(|(name, _)| name.replace('-', "_").replace("svc_webhook_", "webhook_"))
            .collect();
        let (imports, rest): (Vec<&str>, Vec<&str>) =
            code.lines().partition(|line| line.starts_with("use "));
        let imported = |name: &str| {
            let ends = [format!(" {name}}};"), format!("::{name};")];
            imports
                .iter()
                .any(|import| ends.iter().any(|end| import.ends_with(end)))
        };
        let rest = rest.join("\n");
        let roots = imports
            .iter()
            .map(|import| {
                import["use ".len()..]
                    .split("::")
                    .next()
                    .unwrap_or_default()
            })
            .chain(rest.match_indices("::").map(|(at, _)| {
                // With a period in front, it is the type argument of a method.
                let name = |c: char| c.is_ascii_alphanumeric() || "_:.".contains(c);
                let start = rest[..at].rfind(|c| !name(c)).map_or(0, |at| at + 1);
                rest[start..at].split("::").next().unwrap_or_default()
            }));
        let used: BTreeSet<String> = roots
            .filter(|name| name.starts_with(|c: char| c.is_ascii_lowercase()))
            .filter(|name| *name != "std" && !imported(name))
            .map(ToOwned::to_owned)
            .collect();
        assert_eq!(used, listed, "crates of the example {place}");
    }
}

#[test]
#[ignore = "may download crates, and compiles them"]
fn every_example_compiles_as_printed() {
    let directory = tempfile::tempdir().unwrap();
    let mut members = Vec::new();
    for Example {
        place,
        dependencies,
        code,
    } in examples()
    {
        let package = directory.path().join(&place);
        fs::create_dir_all(package.join("src")).unwrap();
        let manifest = format!(
            "[package]\nname = \"{place}\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n{dependencies}"
        );
        fs::write(package.join("Cargo.toml"), manifest).unwrap();
        let code = if code.contains("fn main()") {
            code
        } else if code.contains("fn ") {
            code + "\nfn main() {}\n"
        } else {
            format!("#[test]\nfn example() {{\n{code}}}\n\nfn main() {{}}\n")
        };
        fs::write(package.join("src/main.rs"), code).unwrap();
        members.push(format!("{place:?}"));
    }

    let mut workspace = format!(
        "[workspace]\nresolver = \"3\"\nmembers = [{}]\n\n[patch.crates-io]\n",
        members.join(", ")
    );
    for library in LIBRARIES {
        writeln!(
            workspace,
            "svc-{library} = {{ path = {:?} }}",
            root().join(library)
        )
        .unwrap();
    }

    // With the same profile, what the lints in CI have compiled is used again.
    let manifest = fs::read_to_string(root().join("Cargo.toml")).unwrap();
    let profile =
        manifest.find("[profile.dev]").unwrap()..manifest.find("[profile.release]").unwrap();
    workspace.push_str(&manifest[profile]);
    fs::write(directory.path().join("Cargo.toml"), workspace).unwrap();
    fs::copy(
        root().join("Cargo.lock"),
        directory.path().join("Cargo.lock"),
    )
    .unwrap();
    let target = std::env::current_exe().unwrap();
    let debug = target
        .ancestors()
        .find(|path| path.ends_with("debug"))
        .unwrap();
    let check = Command::new(env!("CARGO"))
        .args(["check", "--workspace", "--all-targets"])
        .current_dir(directory.path())
        .env("CARGO_TARGET_DIR", debug.parent().unwrap())
        .output()
        .unwrap();
    assert!(
        check.status.success(),
        "{}",
        String::from_utf8_lossy(&check.stderr)
    );
}
