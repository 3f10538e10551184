//! The `svc bulk resume` command.

use clap::Args;
use svc_sdk::bulk::FileJournal;

use super::drive;
use super::jobs::Jobs;
use super::options::Unknown;
use super::send::service;
use crate::context::Context;
use crate::failure::{Failure, Kind};
use crate::stop::StopSignal;

/// Continue a job
///
/// Emails that were accepted or refused are not sent again; those that were not sent are sent.
/// Emails whose outcome is unknown are kept back, unless --unknown resend is given, or the profile
/// says that the service honors idempotency keys (`honors_idempotency_key`). The
/// attachments must be unchanged; the rows are those of the job's copy of the file.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  svc bulk resume 20261122-101500-1f3a9c02
  svc bulk resume 20261122 --unknown resend

Scope: emails:send")]
pub struct Resume {
    /// Job id, or its start
    job: String,
    /// What to do with emails whose outcome is unknown: hold or resend
    #[arg(long, value_name = "hold|resend", hide_possible_values = true, default_value = "hold")]
    unknown: Unknown,
}

impl Resume {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        let job = Jobs::of(&context.settings).find(&self.job)?;
        let client = context.email_client().await?;
        let here = service(context);
        if job.plan.service != here {
            return Err(Failure::usage(format!(
                "the job was started with {}, not with {here}",
                job.plan.service
            ))
            .hint("use the same profile or base URL as for `svc bulk send`"));
        }
        let stop = StopSignal::listen_with_hangup()?;
        let source = job.plan.checksum(&job.folder)?;
        if source != job.info.source {
            return Err(Failure::input(
                "an attachment or the job's copy of the rows has changed since the job was started",
            )
            .code("source_changed")
            .hint(
                "restore it, or start a new job with the rows that `svc bulk report` does not list",
            ));
        }
        if context.settings.dry_run {
            let settled = drive::settled_rows(&job.folder)?;
            return drive::show_first_request(context, &client, &job.folder, &job.plan, settled);
        }
        let journal =
            FileJournal::open(job.journal_path(), &source).map_err(|error| match error.kind() {
                std::io::ErrorKind::WouldBlock => {
                    Failure::new(Kind::Refused, "another process is working on this job")
                        .code("job_is_running")
                }
                _ => Failure::other(format!("the journal cannot be opened: {error}")),
            })?;
        drive::run(context, &client, &job.folder, &job.plan, journal, self.unknown, stop).await
    }
}
