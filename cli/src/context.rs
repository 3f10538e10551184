//! The context of a command: the run itself (`run.rs`: settings, streams, signals, directories), the
//! clients that follow from its settings (`clients.rs`), and the caller (`caller.rs`), which sends
//! their requests. The clients and the caller know the run, but not each other.

mod caller;
mod clients;
mod inputs;
mod run;
mod trace;
mod which_service;

pub use caller::Caller;
pub use clients::{Clients, is_cleartext_url};
pub use run::{Invocation, NotFound, Run, RunInside};
pub use trace::{beginning, masked_message};

use std::ops::Deref;
use std::rc::Rc;

use schemars::JsonSchema;
use serde::Serialize;

use crate::failure::Failure;
use crate::output::{Printer, View};
use crate::settings::Settings;

/// The context of one command. What is about its run can be had from it directly.
pub struct Context {
    run: Rc<Run>,
    pub clients: Clients,
    pub caller: Caller,
}

impl Context {
    /// A context for one command.
    pub fn new(
        settings: Settings,
        out: Printer,
        mut invocation: Invocation,
        tree: fn() -> clap::Command,
        run_inside: RunInside,
    ) -> Self {
        let idempotency_key = invocation.idempotency_key.take();
        let run = Rc::new(Run::new(settings, out, invocation, tree, run_inside));
        Self {
            clients: Clients::new(Rc::clone(&run)),
            caller: Caller::new(Rc::clone(&run), idempotency_key),
            run,
        }
    }

    /// Reports a deletion of what `shown` describes to people.
    pub fn deleted(&self, noun: &str, id: &str, shown: &str) -> Result<(), Failure> {
        self.out.done(
            &format!("deleted {noun} {shown}"),
            &Deleted { id, deleted: true },
        )
    }
}

impl Deref for Context {
    type Target = Run;

    fn deref(&self) -> &Run {
        &self.run
    }
}

#[derive(Serialize, JsonSchema)]
pub struct Deleted<'a> {
    id: &'a str,
    deleted: bool,
}

/// A view that names no columns: every field as the service sent it.
pub const PLAIN: View = View(&[]);
