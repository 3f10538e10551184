//! `svc man`.

use std::path::PathBuf;

use clap::Args;
use serde_json::json;

use crate::context::Context;
use crate::failure::Failure;

/// Print the manual page, or write a page for every command into a directory
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  svc man | man -l -
  svc man ~/.local/share/man/man1

Scope: none")]
pub struct Man {
    /// Where to write the pages
    dir: Option<PathBuf>,
}

impl Man {
    pub fn run(self, context: &Context) -> Result<(), Failure> {
        let mut tree = crate::command();
        tree.build();
        let Some(dir) = self.dir else {
            let page = page(&tree)?;
            return context.out.document(&page, || json!({"name": "svc.1", "page": page}));
        };
        let failed = |error: std::io::Error| Failure::input(format!("{}: {error}", dir.display()));
        std::fs::create_dir_all(&dir).map_err(failed)?;
        let mut written = Vec::new();
        let mut todo = vec![("svc".to_owned(), &tree)];
        while let Some((name, command)) = todo.pop() {
            let path = dir.join(format!("{name}.1"));
            std::fs::write(&path, page(command)?).map_err(failed)?;
            written.push(path.display().to_string());
            let below = command.get_subcommands().filter(|c| !c.is_hide_set());
            todo.extend(below.map(|c| (format!("{name}-{}", c.get_name()), c)));
        }
        written.sort();
        let sentence = format!("wrote {} pages to {}", written.len(), dir.display());
        context.out.done(&sentence, &json!({"pages": written}))
    }
}

fn page(command: &clap::Command) -> Result<String, Failure> {
    let mut bytes = Vec::new();
    clap_mangen::Man::new(command.clone()).render(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
