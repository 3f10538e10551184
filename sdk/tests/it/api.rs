//! The list of everything public: it changes only on purpose.
//!
//! After such a change: `SVC_SDK_API=write cargo test -p svc-sdk api`.

use std::fmt::Write;
use std::path::{Path, PathBuf};

#[test]
fn the_public_api_is_the_one_written_down() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = Vec::new();
    collect(&root.join("src"), &mut files);
    files.sort();
    let mut list =
        String::from("# Everything public, by source file. Written by tests/it/api.rs.\n");
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap();
        let items = public_items(&text);
        if !items.is_empty() {
            let name = file.strip_prefix(root).unwrap().display();
            write!(list, "\n{name}\n{items}").unwrap();
        }
    }
    let path = root.join("api.txt");
    if std::env::var_os("SVC_SDK_API").is_some_and(|write| write == "write") {
        std::fs::write(&path, &list).unwrap();
    }
    let known = std::fs::read_to_string(&path).unwrap_or_default();
    let line = known.lines().zip(list.lines()).position(|(known, now)| known != now);
    assert!(
        known == list,
        "api.txt differs from the source at line {:?}",
        line.map(|line| line + 1)
    );
}

/// Who reads either learns of every feature.
#[test]
fn every_feature_is_documented() {
    let text =
        |name| std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(name)).unwrap();
    let manifest = text("Cargo.toml");
    let features = manifest.lines().skip_while(|line| *line != "[features]").skip(1);
    let features = features.take_while(|line| !line.starts_with('['));
    let names = features.filter_map(|line| line.split_once(" = ")).map(|(name, _)| name);
    let names: Vec<_> = names.filter(|name| *name != "default").collect();
    assert!(names.len() >= 8, "{names:?}");
    for (file, start) in [("README.md", "| `"), ("src/lib.rs", "//! | `")] {
        let lines = text(file);
        for name in &names {
            let row = format!("{start}{name}`");
            assert!(lines.lines().any(|line| line.starts_with(&row)), "{name} is not in {file}");
        }
    }
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(&path, files);
        } else {
            files.push(path);
        }
    }
}

/// Every `pub` item up to its body, on one line each, and the variants of
/// public enums.
fn public_items(text: &str) -> String {
    let mut items = String::new();
    let mut lines = text.lines().take_while(|line| *line != "mod tests {");
    let mut in_enum = None;
    while let Some(line) = lines.next() {
        let trimmed = line.trim();
        let indent = line.len() - line.trim_start().len();
        if let Some(outer) = in_enum {
            if indent == outer && trimmed == "}" {
                in_enum = None;
            } else if indent == outer + 4 && trimmed.starts_with(|c: char| c.is_ascii_uppercase()) {
                let name = trimmed.trim_end_matches([',', '{', ' ']);
                writeln!(items, "        {name}").unwrap();
            }
            continue;
        }
        if !trimmed.starts_with("pub ") {
            continue;
        }
        let mut item = trimmed.to_owned();
        // A signature goes on to its brace or semicolon, a field to its comma.
        let is_function = item.split('(').next().unwrap_or_default().contains("fn ");
        let ends: &[char] = if is_function { &['{', ';'] } else { &['{', ';', ','] };
        while !item.ends_with(ends) {
            let Some(next) = lines.next() else { break };
            item.push(' ');
            item.push_str(next.trim());
        }
        if item.starts_with("pub enum") {
            in_enum = Some(indent);
        }
        writeln!(items, "    {}", item.trim_end_matches(['{', ' ', ',']).replace("( ", "("))
            .unwrap();
    }
    items
}
