//! Rules for the source code that the compiler does not check.

use std::fs;
use std::path::{Path, PathBuf};

/// Every source file of the crate, with its text.
fn sources() -> Vec<(PathBuf, String)> {
    fn walk(dir: &Path, found: &mut Vec<(PathBuf, String)>) {
        for entry in fs::read_dir(dir)
            .expect("a directory")
            .map(|entry| entry.expect("an entry"))
        {
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
    walk(
        &Path::new(env!("CARGO_MANIFEST_DIR")).join("src"),
        &mut found,
    );
    found
}

/// All output goes through `output.rs`, which knows the format, colors and a closed pipe.
#[test]
fn only_the_output_module_uses_the_standard_streams() {
    // `process.rs` passes the streams to a run.
    let elsewhere = |path: &Path| {
        ["output.rs", "output/streams.rs", "process.rs"]
            .iter()
            .all(|own| !path.ends_with(own))
    };
    for (path, text) in sources().iter().filter(|(path, _)| elsewhere(path)) {
        for stream in [
            "stdout()",
            "stderr()",
            "io::stdout",
            "io::stderr",
            "println!",
            "eprint",
        ] {
            assert!(!text.contains(stream), "{} uses {stream}", path.display());
        }
    }
}
