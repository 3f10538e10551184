//! Decides whether a new job, or one that is continued, may send: its people may have got this
//! email or another one from earlier jobs. A `Candidate` is a job whose rows wait; `refuse` and
//! `refuse_after` compare it with the others in the ledger, and return a failure that says what to
//! do. The same email is refused without `--again`, and even with it while a job with it is not
//! complete; another email only if it is soon and for half of the people. `clean_up` removes what
//! was kept for long enough.

use chrono::Utc;
use svc_bulk::Ledger;

use super::ledger::{JobState, LedgerOption, StoredJob, all};
use super::plan::Plan;
use crate::context::Context;
use crate::failure::Failure;
use crate::settings::table::RECENT;

/// Fewer people are no reason to refuse another email to them.
const FEW: u64 = 10;

/// How long a draft is kept that no process has declined.
const DRAFTS: std::time::Duration = std::time::Duration::from_secs(24 * 60 * 60);

/// A job whose rows wait to be sent.
pub struct Candidate<'a> {
    pub ledger: &'a Ledger,
    pub option: &'a LedgerOption,
    pub id: &'a str,
    pub plan: &'a Plan,
    /// The identity of the email.
    pub email: Option<&'a str>,
    /// How many rows wait.
    pub count: u64,
}

impl Candidate<'_> {
    /// Refuses to send if these people have got the same email, or will; and, unless `again`, if half
    /// of them have got another one within the last hours.
    pub async fn refuse(&self, context: &Context, again: bool) -> Result<(), Failure> {
        if self.plan.only_to.is_some() {
            return Ok(());
        }

        let before = self.ledger.got_before(self.id).await?;
        let mut found: Option<(u64, StoredJob)> = None;
        for (people, job) in self.others(context).await? {
            let is_same = job.record.email.as_deref() == self.email;
            let people = match &before {
                Some(before) if is_same => (people + before.people).min(self.count),
                _ => people,
            };
            let is_refused = if is_same {
                // This very email is half sent: that job is to be continued, whatever else.
                !again || !job.has_ended()
            } else {
                !again && self.is_too_soon(people, &job)
            };
            let is_more = found.as_ref().is_none_or(|(most, _)| people > *most);
            if is_refused && is_more {
                found = Some((people, job));
            }
        }

        if let Some((people, job)) = found {
            return Err(self.refusal(context, people, &job));
        }
        if again {
            return Ok(());
        }
        let Some(before) = before else {
            return Ok(());
        };

        let when = context.out.local_time(&before.last.to_rfc3339());
        let message = format!(
            "{} already got this email, {when}",
            self.part(before.people)
        );
        Err(Failure::input(message).code("sent_again").hint(self.rest()))
    }

    /// Refuses to continue this job if a newer one has sent emails to half of its people.
    pub async fn refuse_after(&self, context: &Context, old: &StoredJob) -> Result<(), Failure> {
        for (people, job) in self.others(context).await? {
            let is_half = people * 2 >= self.count;
            if job.record.created_at >= old.record.created_at && is_half {
                let message = format!(
                    "{} got an email of the newer job {}",
                    self.part(people),
                    job.id()
                );
                let cancel = old.svc(context, "cancel");
                let hint = format!(
                    "give up this job: {cancel}, and {}\nsend it all the same: --again",
                    job.without(context)
                );
                return Err(Failure::input(message).code("sent_again").hint(hint));
            }
        }
        Ok(())
    }

    /// The other jobs with these people, and how many of them each has.
    async fn others(&self, context: &Context) -> Result<Vec<(u64, StoredJob)>, Failure> {
        let shared = self.ledger.shared(self.id).await?;
        if shared.is_empty() {
            return Ok(Vec::new());
        }

        let jobs = all(context, self.ledger, self.option).await?;
        let with_people = |job: StoredJob| {
            let shared = shared.iter().find(|shared| shared.id == job.id())?;
            (job.plan.service == self.plan.service).then_some((shared.people, job))
        };

        Ok(jobs.into_iter().filter_map(with_people).collect())
    }

    /// Whether another job with so many of these people is not complete, or has just ended.
    fn is_too_soon(&self, people: u64, job: &StoredJob) -> bool {
        let age = self.plan.time(Utc::now()) - job.sent_at();
        let is_recent =
            age.to_std().is_ok_and(|age| age <= RECENT) || age < chrono::TimeDelta::zero();
        let is_half = people * 2 >= self.count || people * 2 >= job.record.totals.total();
        people >= FEW && is_half && (is_recent || !job.has_ended())
    }

    fn refusal(&self, context: &Context, people: u64, job: &StoredJob) -> Failure {
        let is_same = job.record.email.as_deref() == self.email;
        let email = if is_same {
            "this email".to_owned()
        } else {
            format!("the email \"{}\"", job.plan.email.subject)
        };
        let when = context.out.local_time(&job.sent_at().to_rfc3339());
        let are = if people == 1 { "is" } else { "are" };
        let people = self.part(people);
        let (message, next) = if job.has_ended() {
            let got = if job.sent_at() > self.plan.time(Utc::now()) {
                "will get"
            } else {
                "already got"
            };
            let message = format!("{people} {got} {email}, {when} (job {})", job.id());
            let next = if is_same {
                self.rest()
            } else {
                job.without(context)
            };
            (message, next)
        } else {
            let summary = job.summary().summary;
            let message = format!(
                "{people} {are} in the unfinished job {} with {email}, which is {summary}",
                job.id()
            );
            let next = match job.state() {
                JobState::Running => {
                    format!("see how far it is: {}", job.svc(context, "status"))
                }
                _ => {
                    let [resume, cancel] = ["resume", "cancel"].map(|verb| job.svc(context, verb));
                    format!("go on with that job: {resume}, or give it up: {cancel}")
                }
            };
            (message, next)
        };
        let hint = if is_same && !job.has_ended() {
            next
        } else {
            format!("{next}\nsend to them all the same: --again")
        };
        Failure::input(message).code("sent_again").hint(hint)
    }

    fn rest(&self) -> String {
        let count = self.count;
        format!("send this email only to those who have not got it: --limit {count}")
    }

    /// Such as `12 of 40 recipients`.
    fn part(&self, people: u64) -> String {
        match (people, self.count) {
            (1, 1) => "the recipient".to_owned(),
            (people, count) if people >= count => format!("all {count} recipients"),
            (people, count) => format!("{people} of {count} recipients"),
        }
    }
}

/// Removes jobs that ended long ago, old drafts, and what was remembered for long enough: they hold
/// addresses.
pub async fn clean_up(
    context: &Context,
    ledger: &Ledger,
    option: &LedgerOption,
) -> Result<(), Failure> {
    let settings = &context.settings;
    ledger.clean_up(DRAFTS, settings.bulk_memory).await?;
    for job in all(context, ledger, option).await? {
        let age = (Utc::now() - job.sent_at()).to_std().unwrap_or_default();
        if job.has_ended() && age > settings.bulk_retention {
            ledger.remove(job.id()).await?;
        }
    }
    Ok(())
}
