//! Rules about the source that the compiler does not know.

use std::fs;
use std::path::{Path, PathBuf};

fn sources() -> Vec<(PathBuf, String)> {
    fn walk(dir: &Path, found: &mut Vec<(PathBuf, String)>) {
        for entry in fs::read_dir(dir).expect("a directory").map(|entry| entry.expect("an entry")) {
            let path = entry.path();
            if path.is_dir() {
                walk(&path, found);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = fs::read_to_string(&path).expect("UTF-8");
                found.push((path, text));
            }
        }
    }
    let mut found = Vec::new();
    walk(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut found);
    found
}

#[test]
fn only_the_output_prints() {
    for (path, text) in sources().iter().filter(|(path, _)| !path.ends_with("src/output.rs")) {
        for stream in ["stdout()", "stderr()", "io::stdout", "io::stderr", "println!", "eprint"] {
            assert!(!text.contains(stream), "{} uses {stream}", path.display());
        }
    }
}

#[test]
fn files_stay_small() {
    let sources = sources();
    for (path, text) in &sources {
        assert!(text.lines().count() <= 500, "{} is too long", path.display());
        assert!(text.starts_with("//! "), "{} does not say what it is", path.display());
    }
    let mut lengths = sources.iter().map(|(_, text)| text.lines().count()).collect::<Vec<_>>();
    lengths.sort_unstable();
    assert!(lengths[lengths.len() / 2] <= 150);
}

#[test]
fn every_leaf_has_a_file_of_its_own() {
    for leaf in svc_cli::COMMANDS {
        let path = format!("src/commands/{}.rs", leaf.path.replace(' ', "/"));
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
        assert!(path.exists(), "{} is missing", path.display());
    }
}
