//! Writes the chapters of the book into a Rust file, for `svc mcp`. A package of this crate alone
//! has no book, and then the program has no chapters.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

fn main() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs");
    println!("cargo::rerun-if-changed={}", root.display());
    let mut chapters = Vec::new();
    find(&root, &mut chapters);
    chapters.sort();
    let mut list = "&[\n".to_owned();
    for path in chapters {
        let name = path.strip_prefix(&root).expect("below the folder");
        let name = name.to_str().expect("UTF-8").replace('\\', "/");
        let path = path.to_str().expect("UTF-8");
        writeln!(list, "    ({name:?}, include_str!({path:?})),").expect("written");
    }

    list.push_str("]\n");
    let folder = PathBuf::from(std::env::var_os("OUT_DIR").expect("set by Cargo"));
    std::fs::write(folder.join("book.rs"), list).expect("written");
    find_shells();
}

/// Tells the tests which shells are installed: the others' are ignored, unless SVC_TEST_SHELLS demands
/// all of them.
fn find_shells() {
    const SHELLS: [&str; 3] = ["zsh", "elvish", "fish"];

    println!("cargo::rerun-if-env-changed=SVC_TEST_SHELLS");
    println!("cargo::rustc-check-cfg=cfg(has_shell, values(\"zsh\", \"elvish\", \"fish\"))");
    let all = std::env::var_os("SVC_TEST_SHELLS").is_some_and(|value| value == "1");
    let path = std::env::var_os("PATH").unwrap_or_default();
    for shell in SHELLS {
        if all || std::env::split_paths(&path).any(|folder| folder.join(shell).is_file()) {
            println!("cargo::rustc-cfg=has_shell={shell:?}");
        }
    }
}

fn find(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        let is_chapter = path.extension().is_some_and(|extension| extension == "md")
            && path.file_name().is_some_and(|name| name != "SUMMARY.md");
        if path.is_dir() {
            find(&path, found);
        } else if is_chapter {
            found.push(path);
        }
    }
}
