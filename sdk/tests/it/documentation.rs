//! Checks of the documentation.

use std::path::Path;

/// Every Cargo feature is listed in the README and in the crate's documentation.
#[test]
fn every_feature_is_documented() {
    let read =
        |name| std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(name)).unwrap();
    let manifest = read("Cargo.toml");
    let features = manifest
        .lines()
        .skip_while(|line| *line != "[features]")
        .skip(1);
    let features = features.take_while(|line| !line.starts_with('['));
    let names = features
        .filter_map(|line| line.split_once(" = "))
        .map(|(name, _)| name);
    let names: Vec<_> = names
        .filter(|name| *name != "default" && !name.starts_with('_'))
        .collect();
    assert!(names.len() >= 4, "{names:?}");

    for (file, start) in [("README.md", "| `"), ("src/lib.rs", "//! | `")] {
        let text = read(file);
        for name in &names {
            let row = format!("{start}{name}`");
            let is_listed = text.lines().any(|line| line.starts_with(&row));
            assert!(is_listed, "the feature {name} is missing in {file}");
        }
    }
}
