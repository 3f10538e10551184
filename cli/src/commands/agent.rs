//! The `svc agent` commands: assistants that use `svc`.

mod clients;
mod json;
mod setup;
mod toml;

group! {
    pub enum Command {
        Setup(setup::Setup),
    }
}
