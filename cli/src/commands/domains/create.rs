//! `svc domains create`.

use clap::Args;

use crate::context::Context;
use crate::failure::Failure;
use crate::output;

use super::{RECORDS, VIEW, rows};

/// Add a sending domain and show the DNS records to publish
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  svc domains create example.com
  svc domains create example.com --jq '.records[] | [.type, .name, .value] | @tsv'

Scope: domains:manage")]
pub struct Create {
    /// The domain name
    name: String,
}

impl Create {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        let client = context.email_client().await?;
        let call = client.domains().create(self.name.as_str());
        let Some(domain) = context.call(call, "adding").await? else { return Ok(()) };
        let value = output::to_value(&domain);
        let records = domain.dns_records();
        if records.is_empty() {
            context.out.one(&value, VIEW)?;
        } else {
            context
                .out
                .note(&format!("added {} as {}; publish these records:", self.name, domain.id));
            context.out.one_as_list(&value, &rows(&records), RECORDS)?;
        }
        context.out.hint(&format!(
            "then have them checked: {}",
            context.svc(&format!("domains verify {}", domain.id))
        ));
        if context.settings.sandbox {
            context.out.hint(&format!(
                "here the sandbox can publish them: {}",
                context.svc(&format!("sandbox dns publish {}", self.name))
            ));
        }
        Ok(())
    }
}
