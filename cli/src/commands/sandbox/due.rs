//! `svc sandbox due`: what is due next.

use std::time::Duration;

use clap::Args;
use svc_reference_server::client::{Client, Due as DueWork};

use crate::context::Context;
use crate::control::{self, Paging, reads};
use crate::failure::Failure;
use crate::output::{Column, View};
use crate::output_schema::of;

const VIEW: View = View(&[
    Column::time("AT", "/at"),
    Column::text("KIND", "/kind"),
    Column::prose("WHAT HAPPENS", "/description"),
    Column::id("ABOUT", "/subject").droppable(),
]);

/// List what is due next
///
/// Scheduled emails, attempts of webhook deliveries, delayed recipients and expiries, by the time of
/// the sandbox, the earliest first.
#[derive(Args, Debug)]
#[command(add = reads(of::<Vec<DueWork>>).of_organization())]
#[command(after_long_help = "\
  svc sandbox due
  svc sandbox due --limit 100 --jq .[].description")]
pub struct Due {
    #[command(flatten)]
    paging: Paging,
}

impl Due {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        let client = control::client(context).await?;
        self.paging
            .pages(context, VIEW, "nothing is due", || client.due())
            .await
    }
}

/// Prints what falls due if the clock is advanced.
pub async fn until(context: &Context, client: &Client, by: Duration) -> Result<(), Failure> {
    let clock = control::read(context, client.clock()).await?;
    let end = *clock.now + by;
    let mut due = Vec::new();
    let mut cursor = None::<String>;
    loop {
        let request = client.due().limit(100);
        let request = match &cursor {
            Some(cursor) => request.cursor(cursor),
            None => request,
        };
        let page = control::read(context, request).await?;
        let is_last = page.data.last().is_none_or(|last| *last.at > end);
        due.extend(page.data.into_iter().filter(|each| *each.at <= end));
        cursor = page.next.filter(|_| !is_last);
        if cursor.is_none() {
            let shown = context.out.local_time(&end.to_rfc3339());
            context
                .out
                .note(&format!("the clock would move to {shown}"));
            return context.out.list(&due, VIEW, "nothing falls due until then");
        }
    }
}
