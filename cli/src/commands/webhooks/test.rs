//! The `svc webhooks test` command.

use clap::Args;

use crate::complete::Values;
use crate::context::Context;
use crate::failure::Failure;
use crate::names::{self, Names};
use crate::output::{Column, Show, View};

/// Table columns of a test.
const TEST: View = View(&[
    Column::new("STATUS CODE", "/statusCode", Show::HttpStatus),
    Column::new("DURATION MS", "/durationMs", Show::Number),
    Column::prose("ERROR", "/error"),
]);

/// Send a test event to a webhook
///
/// The service sends the event. The exit code is 10 if the endpoint's response is not 2xx.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  svc webhooks test whk_019a

Scope: webhooks:manage")]
pub struct Test {
    /// Webhook id or URL
    #[arg(add = Values::Webhook.candidates())]
    id: String,
}

impl Test {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        let client = context.email_client().await?;
        let call = async |id: &str| context.call(client.webhooks().test(id), "testing").await;
        let names = Names::Webhook(&client);
        let Some(test) = names::with_id(context, names, &self.id, call).await? else {
            return Ok(());
        };
        context.out.one(&test, TEST)?;
        match test.status.map(|status| status.as_u16()) {
            Some(200..=299) => Ok(()),
            Some(status) => Err(Failure::check(format!(
                "the endpoint of webhook {} responded with {status}, which is not 2xx",
                self.id
            ))
            .code("endpoint_answered_error")),
            None => Err(Failure::check(format!(
                "the service could not reach the endpoint of webhook {}",
                self.id
            ))
            .code("endpoint_unreachable")
            .hint(format!("check its URL: {}", context.svc("webhooks list")))),
        }
    }
}
