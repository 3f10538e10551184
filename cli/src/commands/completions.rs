//! The `svc completions` command.

use clap::Args;
use clap_complete::env::Shells;

use crate::command_spec::local;
use crate::complete;
use crate::context::Context;
use crate::failure::Failure;
use crate::output_schema::of;

/// Print a shell completion script
///
/// Besides commands and options, the script completes ids and names. They come from the service of
/// the profile, or from the running sandbox with --sandbox, if it responds within one second
/// (SVC_COMPLETE_TIMEOUT=3s changes that). Nothing is looked up without a base URL and a stored
/// key. Nushell completes commands, options and fixed values only. The script matches the version of svc
/// that printed it: reload it after an update, or load it when the shell starts, as below.
#[derive(Args, Debug)]
#[command(add = local(of::<String>))]
#[command(after_long_help = "\
  bash:        echo 'source <(svc completions bash)' >> ~/.bashrc
  zsh:         echo 'source <(svc completions zsh)' >> ~/.zshrc
  fish:        echo 'svc completions fish | source' \\
      > ~/.config/fish/completions/svc.fish
  powershell:  svc completions powershell >> $PROFILE
  elvish:      svc completions elvish >> ~/.config/elvish/rc.elv
  nushell:     svc completions nushell | save -f ~/.config/nushell/svc.nu")]
pub struct Completions {
    /// Shell
    #[arg(value_parser = ["bash", "zsh", "fish", "powershell", "elvish", "nushell"])]
    shell: String,
}

impl Completions {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        let mut script = Vec::new();
        match Shells::builtins().completer(&self.shell) {
            Some(it) => {
                it.write_registration(complete::VARIABLE, "svc", "svc", "svc", &mut script)?;
            }
            None => {
                let nushell = clap_complete_nushell::Nushell;
                let tree = &mut (context.tree)();
                clap_complete::generate(nushell, tree, "svc", &mut script);
            }
        }

        let script = String::from_utf8_lossy(&script);
        context.out.document(&script, &script)
    }
}
