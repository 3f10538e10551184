//! On `wasm32-unknown-unknown`, the clocks of std panic. `.ci/features` compiles the crate for
//! it; this test finds calls of these clocks.

use std::fs;
use std::path::Path;

/// The features that do not compile for `wasm32-unknown-unknown`.
const NOT_ON_WASM: [&str; 2] = ["dedup", "dedup.rs"];

#[test]
fn no_clock_of_std_is_called_on_wasm() {
    let mut files = Vec::new();
    collect(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut files);
    assert!(files.len() > 20, "{} files", files.len());
    for (path, text) in files {
        let mut previous = "";
        // Unit tests run on other platforms only.
        let code = text.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
        for line in code.lines() {
            let calls = ["SystemTime::now()", "Instant::now()", "tokio::time::"];
            if calls.iter().any(|call| line.contains(call)) && !line.contains("web_time::") {
                let condition =
                    r#"#[cfg(not(all(target_family = "wasm", target_os = "unknown")))]"#;
                let guarded = previous.trim() == condition || text.contains("struct Deadline;");
                assert!(guarded, "{path}: {}", line.trim());
            }
            previous = line;
        }
    }
}

fn collect(directory: &Path, files: &mut Vec<(String, String)>) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if NOT_ON_WASM.iter().any(|name| path.ends_with(name)) {
            continue;
        }
        if path.is_dir() {
            collect(&path, files);
        } else {
            files.push((path.display().to_string(), fs::read_to_string(&path).unwrap()));
        }
    }
}
