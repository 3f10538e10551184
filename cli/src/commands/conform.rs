//! `svc conform`: compares a live service with its reference. `run.rs` takes the steps of `steps.toml`,
//! level by level; then `report.rs` judges every statement and every point of `checks.toml` by what was
//! seen (`seen.rs`). Whatever the run makes is recorded before it is created, and removed at the end,
//! also after an error or Ctrl-C; `--clean-up` removes what a killed run left. Nothing but GET is sent
//! before a person has confirmed.

use std::fmt;
use std::path::PathBuf;

use clap::{Args, ValueEnum, ValueHint};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use svc_sdk::Operation;
use uuid::Uuid;

use self::examiner::Examiner;
use self::made::{Kind, Made};
use self::receiver::Receiver;
use self::report::{Baseline, Grade, Report, VIEW};
use crate::command_spec::changes;
use crate::context::Context;
use crate::failure::Failure;
use crate::output_schema::{any_of, list, of};
use crate::prepared::{Preview as _, confirm};

mod examiner;
mod exchange;
mod made;
mod receiver;
mod report;
mod run;
mod seen;

/// The emails that a run sends at most to each address.
const MOST_EMAILS: u32 = 6;

/// Compare a live service with its reference
///
/// Sends requests, and reports for every statement of the reference whether the service agrees, and
/// for every point that the reference leaves open what the service does. The exit code is 10 if it
/// breaks a statement, or if something changed since --baseline.
///
/// Level read sends GET requests only, and finds out how the service takes the key. Level write also
/// makes and deletes an audience, contacts, a domain and webhooks, whose names begin with
/// `svc-conform-`. Level send also sends up to 6 emails to the addresses of --to, and schedules one
/// that it cancels. Levels above read ask first. What a killed run has left behind, --clean-up
/// removes.
#[derive(Args, Debug)]
#[command(add = changes(Operation::ALL, || any_of(&[of::<Report>, || list(of::<Removed>)])).until_interrupted().with_scope("depends on --level"))]
#[command(after_long_help = "\
  svc conform
  svc conform --level write --yes --save dialect.toml
  svc conform --level send --to me@example.com --yes
  svc conform --clean-up")]
pub struct Conform {
    /// What the run may do: read, write or send
    #[arg(
        long,
        value_name = "LEVEL",
        default_value = "read",
        hide_possible_values = true
    )]
    level: Level,
    /// Recipient of the emails; repeatable, for --level send
    #[arg(long, value_name = "ADDRESS")]
    to: Vec<String>,
    /// Sender of the emails [default: svc-conform@ a verified domain]
    #[arg(long, value_name = "ADDRESS", hide_short_help = true)]
    from: Option<String>,
    /// URL at which this machine receives deliveries
    #[arg(long, value_name = "URL", value_hint = ValueHint::Url)]
    listen: Option<String>,
    /// Port on which they arrive here [default: that of a local URL]
    #[arg(long, value_name = "N", requires = "listen", hide_short_help = true)]
    port: Option<u16>,
    /// Report what changed since this report (JSON)
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    baseline: Option<PathBuf>,
    /// Write the dialect of the service to this file (TOML)
    ///
    /// For `svc config set --from FILE` and `svc sandbox serve --like FILE`. Points that stay
    /// ambiguous are not written.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    save: Option<PathBuf>,
    /// Remove what runs that were killed have left
    #[arg(long, conflicts_with_all = ["level", "to", "from", "listen", "baseline", "save"])]
    clean_up: bool,
}

/// How far a run may go. Each level includes those before it.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    ValueEnum,
    Serialize,
    Deserialize,
    JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub(super) enum Level {
    Read,
    Write,
    Send,
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Send => "send",
        })
    }
}

/// Something that `--clean-up` has removed.
#[derive(Serialize, JsonSchema)]
pub struct Removed {
    kind: Kind,
    name: String,
}

impl Conform {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        if self.clean_up {
            return clean_up(context).await;
        }

        self.check()?;
        let baseline = self.read_baseline(context)?;
        let id = Uuid::new_v4().simple().to_string();
        let mut examiner = Examiner::new(context, format!("svc-conform-{}", &id[..8])).await?;
        if context.settings.dry_run {
            return self.show_requests(&examiner).await;
        }

        if let Some(url) = &self.listen {
            let receiver = Receiver::start(url, self.port).await?;
            examiner.seen.ids.insert("hooks", receiver.hooks());
            examiner.keep_id("listener", url);
            examiner.receiver = Some(receiver);
        }

        self.ask(&examiner).await?;
        let examined = self.examine(&mut examiner).await;
        // Also after Ctrl-C, and after an error.
        if let Some(mut made) = examiner.made.take() {
            examiner.clean_up(&mut made).await.map_err(|failure| {
                failure.hint("something is left: svc conform --clean-up removes it")
            })?;
            made.end()?;
        }

        examined?;
        let mut report = Report::new(&examiner, self.level)?;
        if let Some(baseline) = &baseline {
            report.compare(baseline);
        }
        if let Some(path) = &self.save {
            std::fs::write(context.settings.path(path), report.toml()?)
                .map_err(|error| Failure::other(format!("--save: {}: {error}", path.display())))?;
        }
        self.show(context, &report)
    }

    fn check(&self) -> Result<(), Failure> {
        let problem = match self.level {
            Level::Send if self.to.is_empty() => {
                "--level send needs --to, the addresses that get emails"
            }
            Level::Read | Level::Write if !self.to.is_empty() => {
                "--to has no effect below --level send"
            }
            Level::Read if self.listen.is_some() => "--listen has no effect below --level write",
            _ => return Ok(()),
        };
        Err(Failure::usage(problem))
    }

    fn read_baseline(&self, context: &Context) -> Result<Option<Baseline>, Failure> {
        let Some(path) = &self.baseline else {
            return Ok(None);
        };

        let refused =
            |problem: String| Failure::input(format!("--baseline: {}: {problem}", path.display()));
        let text = std::fs::read(context.settings.path(path))
            .map_err(|error| refused(error.to_string()))?;
        let read = serde_json::from_slice(&text).map_err(|_| {
            refused("not a report".to_owned()).hint("write one: svc conform -o json > FILE")
        })?;
        Ok(Some(read))
    }

    /// Says what the run will do, and asks. Reading alone needs no answer where nobody can give one.
    async fn ask(&self, examiner: &Examiner<'_>) -> Result<(), Failure> {
        let context = examiner.context;
        let target = &examiner.target;
        let urls = [&target.email_url, &target.extraction_url]
            .into_iter()
            .flatten();
        let urls = urls.cloned().collect::<Vec<_>>().join(" and ");
        context.out.note(&format!(
            "reads lists and single resources at {urls}, with GET requests"
        ));
        if self.level >= Level::Write {
            context.out.note(&format!(
                "makes and deletes an audience with contacts, a domain and webhooks, all named {}…",
                examiner.run()
            ));
        }

        if self.level == Level::Send {
            context.out.note(&format!(
                "sends up to {} emails to {}, and schedules one that it cancels",
                MOST_EMAILS,
                self.to.join(", ")
            ));
        }
        if self.level == Level::Read && !context.out.can_ask() {
            return Ok(());
        }

        confirm(context, &format!("Examine {urls} at level {}?", self.level)).await
    }

    async fn examine(&self, examiner: &mut Examiner<'_>) -> Result<(), Failure> {
        examiner.follow(Level::Read).await?;
        if self.level == Level::Read {
            return Ok(());
        }

        let dir = examiner.context.settings.state_dir.join("conform");
        examiner.made = Some(Made::start(&dir, examiner.run(), &examiner.target)?);
        examiner.follow(Level::Write).await?;
        if self.level == Level::Send && examiner.prepare_email(self.from.as_deref(), &self.to)? {
            examiner.follow(Level::Send).await?;
        }
        Ok(())
    }

    /// The operations that the level may call, for `--dry-run`.
    async fn show_requests(&self, examiner: &Examiner<'_>) -> Result<(), Failure> {
        let context = examiner.context;
        for operation in Operation::ALL {
            let is_read = operation.method() == "GET";
            let sends = operation.path().starts_with("/api/v1/emails");
            let level = match (sends, is_read) {
                (true, _) => Level::Send,
                (false, true) => Level::Read,
                (false, false) => Level::Write,
            };
            if level > self.level {
                continue;
            }
            let path = operation.path().replace(['{', '}'], "");
            let call = examiner.request(&format!("{} {path}", operation.method()), "");
            if let Some(call) = call {
                context.caller.with_options(call).show(context).await?;
            }
        }

        context.out.hint("dry run: nothing was sent");
        Ok(())
    }

    fn show(&self, context: &Context, report: &Report) -> Result<(), Failure> {
        let rows = [&report.statements[..], &report.points[..]].concat();
        context.out.one_as_list(report, &rows, VIEW)?;
        let [agree, differ, ambiguous, not_tried] = [
            Grade::Agrees,
            Grade::Differs,
            Grade::Ambiguous,
            Grade::NotTried,
        ]
        .map(|it| report.count(it));
        context.out.note(&format!(
            "{agree} agree, {differ} differ, {ambiguous} ambiguous, {not_tried} not tried"
        ));
        for change in &report.changes {
            context.out.note(&change.to_string());
        }

        if self.save.is_none() && !report.dialect.is_empty() {
            context.out.hint(
                "--save FILE writes the dialect that was found, for svc config set --from FILE",
            );
        }

        let broken = report.broken();
        if !broken.is_empty() {
            let message = format!("the service breaks its reference: {}", broken.join(", "));
            return Err(Failure::check(message).code("reference_broken"));
        }

        match report.changes.len() {
            0 => Ok(()),
            many => {
                let message = format!("{many} results changed since the baseline");
                Err(Failure::check(message).code("changed"))
            }
        }
    }
}

/// Removes what killed runs have left at the services of this run.
async fn clean_up(context: &Context) -> Result<(), Failure> {
    let mut examiner = Examiner::new(context, "svc-conform".to_owned()).await?;
    let mut removed = Vec::new();
    for mut made in Made::of_killed_runs(&context.settings.state_dir.join("conform"))? {
        let target = made.target.clone();
        let is_here = target.email_url == examiner.target.email_url
            && (target.extraction_url.is_none()
                || target.extraction_url == examiner.target.extraction_url);
        if !is_here {
            let url = target
                .email_url
                .or(target.extraction_url)
                .unwrap_or_default();
            context.out.note(&format!(
                "a run at {url} has left something there; clean up with its profile"
            ));
            continue;
        }
        let names = made
            .left
            .iter()
            .map(|thing| thing.name.as_str())
            .collect::<Vec<_>>();
        if !names.is_empty() {
            confirm(context, &format!("Remove {}?", names.join(", "))).await?;
        }
        examiner.speak(target.dialect)?;
        for thing in examiner.clean_up(&mut made).await? {
            let kind = thing.kind;
            let name = thing.name;
            removed.push(Removed { kind, name });
        }
        made.end()?;
    }

    context
        .out
        .list(&removed, crate::context::PLAIN, "nothing was left")
}
