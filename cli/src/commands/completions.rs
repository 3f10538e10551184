//! The `svc completions` command.

use clap::{Args, ValueEnum};
use clap_complete::generate;
use schemars::JsonSchema;
use serde::Serialize;

use crate::complete::{self, Shell};
use crate::context::Context;
use crate::failure::Failure;

/// Print a shell completion script
///
/// Besides commands and options, the script completes ids and names. They come from the service of
/// the profile, or from the sandbox with --sandbox, if it responds within one second
/// (SVC_COMPLETE_TIMEOUT=3s changes that). Nothing is looked up without a base URL and a stored
/// key. Nushell completes commands, options and fixed values only.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  bash:        svc completions bash \\
      > ~/.local/share/bash-completion/completions/svc
  zsh:         svc completions zsh > \"${fpath[1]}/_svc\"
  fish:        svc completions fish > ~/.config/fish/completions/svc.fish
  powershell:  svc completions powershell >> $PROFILE
  elvish:      svc completions elvish >> ~/.config/elvish/rc.elv
  nushell:     svc completions nushell | save -f ~/.config/nushell/svc.nu

Scope: none")]
pub struct Completions {
    /// Shell
    shell: ShellName,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum ShellName {
    Bash,
    Zsh,
    Fish,
    Powershell,
    Elvish,
    Nushell,
}

impl Completions {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        let script = match self.shell {
            ShellName::Bash => complete::script(Shell::Bash),
            ShellName::Zsh => complete::script(Shell::Zsh),
            ShellName::Fish => complete::script(Shell::Fish),
            ShellName::Powershell => complete::script(Shell::Powershell),
            ShellName::Elvish => complete::script(Shell::Elvish),
            ShellName::Nushell => nushell(),
        };
        let name = self.shell.to_possible_value();
        let shell = name.as_ref().map_or("", |name| name.get_name());
        context.out.document(&script, &Output { shell, script: &script })
    }
}

#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Output<'a> {
    shell: &'a str,
    script: &'a str,
}

/// Nushell has a static script: it cannot complete ids.
fn nushell() -> String {
    let mut bytes = Vec::new();
    generate(clap_complete_nushell::Nushell, &mut crate::command(), "svc", &mut bytes);
    String::from_utf8_lossy(&bytes).into_owned()
}
