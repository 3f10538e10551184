//! Completion scripts and the format of candidates for each shell.

use std::ffi::OsString;
use std::path::Path;

use clap::Command;
use clap_complete::env::{Elvish, EnvCompleter, Fish, Powershell, Zsh};

use super::{VARIABLE, bash};
use crate::settings::Env;

/// A shell with dynamic completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shell {
    Bash,
    Zsh,
    Fish,
    Powershell,
    Elvish,
}

impl Shell {
    /// The shell with this name, as its script passes it.
    pub fn named(name: &str) -> Option<Self> {
        Some(match name {
            "bash" => Self::Bash,
            "zsh" => Self::Zsh,
            "fish" => Self::Fish,
            "powershell" => Self::Powershell,
            "elvish" => Self::Elvish,
            _ => return None,
        })
    }

    /// The index of the word being completed, if the shell passes it.
    pub(super) fn index(self, env: &Env) -> Option<usize> {
        matches!(self, Self::Zsh | Self::Elvish)
            .then(|| env.get("_CLAP_COMPLETE_INDEX")?.parse().ok())?
    }

    /// The candidates in the format of the shell's script.
    pub(super) fn complete(
        self,
        command: &mut Command,
        words: Vec<OsString>,
        env: &Env,
        here: Option<&Path>,
    ) -> std::io::Result<String> {
        let Some(completer) = self.completer() else {
            return bash::complete(command, words, env, here);
        };
        let current = self.index(env).unwrap_or(words.len() - 1);
        let nothing_typed = words.get(current).is_none_or(|word| word.is_empty());
        let mut text = Vec::new();
        completer.write_complete(command, words, here, &mut text)?;
        let text = String::from_utf8_lossy(&text).into_owned();
        // Options are offered only after a dash.
        if nothing_typed && !text.lines().all(|line| line.starts_with('-')) {
            let values = text.lines().filter(|line| !line.starts_with('-'));
            return Ok(values.collect::<Vec<_>>().join("\n"));
        }
        Ok(text)
    }

    fn completer(self) -> Option<&'static dyn EnvCompleter> {
        Some(match self {
            Self::Bash => return None,
            Self::Zsh => &Zsh,
            Self::Fish => &Fish,
            Self::Powershell => &Powershell,
            Self::Elvish => &Elvish,
        })
    }
}

/// The completion script of a shell.
pub fn script(shell: Shell) -> String {
    let Some(completer) = shell.completer() else { return bash::SCRIPT.to_owned() };
    let mut text = Vec::new();
    // Writing to memory cannot fail.
    let _ = completer.write_registration(VARIABLE, "svc", "svc", "svc", &mut text);
    let text = String::from_utf8_lossy(&text).into_owned();
    if shell == Shell::Zsh {
        // As a file in `fpath`, the script is itself called to complete.
        return text.replace(
            "\ncompdef _clap_dynamic_completer_svc svc",
            "\nif [[ $funcstack[1] == _svc ]]; then\n    _clap_dynamic_completer_svc \"$@\"\n\
             else\n    compdef _clap_dynamic_completer_svc svc\nfi",
        );
    }
    text
}
