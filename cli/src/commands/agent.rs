//! The `svc agent` commands: assistants that use `svc`.

mod clients;
mod json;
mod setup;
mod toml;

/// The name of the entry and of the skill.
const NAME: &str = "svc";

group! {
    pub enum Command {
        Setup(setup::Setup),
    }
}
