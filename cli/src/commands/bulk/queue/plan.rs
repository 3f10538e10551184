//! The `svc bulk plan` command.

use clap::Args;
use svc_bulk::{BulkRow, RedisQueue};
use svc_sdk::Service;

use super::{LEFT_OUT, QueueOption, Row, attachment, check_durability, find, shown};
use crate::commands::bulk::content::{Content, Prepared};
use crate::commands::bulk::drive::emails;
use crate::commands::bulk::plan;
use crate::context::Context;
use crate::failure::Failure;
use crate::stop::StopSignal;

/// Put a job into Redis, to be sent by workers on several machines
///
/// Takes the options of `svc bulk send` and makes the same checks. Nothing is sent: start any
/// number of workers with `svc bulk work`. The rows, texts and attachments are copied into Redis.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  svc bulk plan people.csv --queue redis://10.0.0.5 --from hello@example.com \\
      --subject 'Hi {{ first_name }}' --html @news.html --rate 200/s
  svc bulk plan --audience Newsletter --queue redis://10.0.0.5 \\
      --from hello@example.com \\
      --subject News --text @news.txt

Scope: none (contacts:manage with --audience; the workers need emails:send)")]
pub struct Plan {
    #[command(flatten)]
    content: Content,
    #[command(flatten)]
    queue: QueueOption,
}

impl Plan {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        let plan = self.content.plan(context, 1)?;
        let (url, key) = context.endpoint(Service::Email).await?;
        let client = context.email_client_at(&url, &key)?;
        let mut stop = StopSignal::listen_with_hangup(context.settings.env.signals)?;
        let queue = match context.settings.dry_run {
            true => None,
            // Before the rows are read and the question is asked.
            false => Some(connect(context, &self.queue).await?),
        };
        let prepared =
            self.content.prepare(context, (&client, &key), plan, "Queue", &mut stop).await?;
        let (Some(prepared), Some(queue)) = (prepared, queue) else { return Ok(()) };
        let job = prepared.info.job.clone();
        tokio::select! {
            stored = store(&queue, &prepared) => stored?,
            _ = stop.recv() => return Err(context.changes.interruption()),
        }
        let status = find(&queue, &job).await?;
        context.out.hint(&format!(
            "send it, on any number of machines: {}",
            context.svc(&format!("bulk work {job}{}", self.queue.hint()))
        ));
        let sentence =
            format!("queued job {job}: {} emails", prepared.info.rows.unwrap_or_default());
        context.out.done(&sentence, &shown(&status)?)
    }
}

async fn connect(context: &Context, option: &QueueOption) -> Result<RedisQueue, Failure> {
    let queue = option.connect(context).await?;
    check_durability(context, &queue).await?;
    Ok(queue)
}

async fn store(queue: &RedisQueue, prepared: &Prepared) -> Result<(), Failure> {
    let Prepared { draft, plan, info } = prepared;
    let folder = draft.folder();
    let mut files = vec![(LEFT_OUT.to_owned(), std::fs::read(folder.join(plan::LEFT_OUT))?)];
    for (number, file) in plan.message.attachments.iter().enumerate() {
        files.push((attachment(number), std::fs::read(&file.path)?));
    }
    let files = files.iter().map(|(name, content)| (name.as_str(), content.as_slice()));
    let rows = emails(plan, folder)?.map(|row| {
        let row =
            row.map_err(|failure| std::io::Error::other(failure.details().message.clone()))?;
        Ok(BulkRow::new(row.number, Row::new(&row)))
    });
    let rate = plan.rate.unwrap_or_default();
    Ok(queue.create(info, rate, &files.collect::<Vec<_>>(), rows).await?)
}
