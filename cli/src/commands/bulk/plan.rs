//! The plan of a job: what is sent to whom. It is stored in the journal, so that the job can be
//! continued.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::hash::{BuildHasher as _, RandomState};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::{Path, PathBuf};

use futures_util::FutureExt as _;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use svc_sdk::email::Email;

use super::address;
use super::message::{Message, Renderer};
use super::rows::{Row, Rows, Subscribed};
use crate::context::Context;
use crate::failure::Failure;
use crate::input::old_opt_outs::MISSING_SUBSCRIBED;
use crate::output::{Printer, to_value};
use crate::settings::Key;
use crate::stop::StopSignal;

/// The rows that are left out, in the folder of the job.
pub const LEFT_OUT: &str = "left-out.ndjson";
/// The copy of the rows, in the folder of the job, so that an edit of the file changes nothing.
pub const COPY: &str = "rows";

/// What is sent to whom.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Plan {
    /// The base URL of the service, or `sandbox`.
    pub service: String,
    /// The file that the rows were copied from, for messages.
    pub file: Option<PathBuf>,
    /// The column with the addresses.
    pub column: Option<String>,
    pub message: Message,
    /// The most emails.
    pub limit: Option<u64>,
    /// Where all emails go instead.
    pub only_to: Option<String>,
    /// Emails a second.
    pub rate: Option<f64>,
    /// Requests in flight.
    pub concurrency: usize,
    pub keep_duplicates: bool,
    /// The audience that the rows were copied from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub audience: Option<String>,
    /// The fingerprint of the key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// Who may get emails, according to the recipient guard.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recipients: Option<String>,
    #[serde(default)]
    pub left_out: LeftOut,
}

/// How many rows are left out, and why.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct LeftOut {
    pub unsubscribed: u64,
    pub invalid: u64,
    pub duplicate: u64,
}

impl LeftOut {
    pub fn total(self) -> u64 {
        self.unsubscribed + self.invalid + self.duplicate
    }

    /// Such as `12 unsubscribed and 3 invalid left out`.
    pub fn describe(self) -> Option<String> {
        let counts = [
            (self.unsubscribed, "unsubscribed"),
            (self.invalid, "invalid"),
            (self.duplicate, "duplicate"),
        ];
        let counts = counts.into_iter().filter(|(count, _)| *count > 0);
        let counts = counts.map(|(count, what)| format!("{count} {what}")).collect::<Vec<_>>();
        (!counts.is_empty()).then(|| format!("{} left out", counts.join(" and ")))
    }
}

/// Who must not get an email, according to the rows. It has hashes in place of a million addresses.
#[derive(Default)]
struct OptOuts {
    /// Whether a row says who is subscribed. Then every row has to.
    are_told: bool,
    /// The addresses with a row that is not subscribed.
    addresses: HashSet<u64>,
    /// The addresses with a row that may not be subscribed, and the number of that row.
    unclear: HashMap<u64, u64>,
}

impl OptOuts {
    /// Why a row must not be sent.
    fn refusal(&self, row: &Row, address: u64) -> Option<(&'static str, String)> {
        if row.subscribed == Subscribed::Unsaid && self.are_told {
            return Some(("invalid", MISSING_SUBSCRIBED.to_owned()));
        }
        if row.subscribed == Subscribed::No {
            let why = match &row.opted_out_by {
                Some(column) => format!("not subscribed, as the column `{column}` says"),
                None => "not subscribed".to_owned(),
            };
            return Some(("unsubscribed", why));
        }
        if self.addresses.contains(&address) {
            let why = "another row with the same address is not subscribed";
            return Some(("unsubscribed", why.to_owned()));
        }
        let unclear = self.unclear.get(&address)?;
        let why = format!(
            "row {unclear} has the same address, and its value of `subscribed` cannot be read"
        );
        Some(("invalid", why))
    }
}

/// The result of reading all rows.
pub struct Checked {
    /// How many emails are sent.
    pub count: u64,
    /// The first emails.
    pub first: Vec<Email>,
    /// The first reasons why rows are invalid.
    pub problems: Vec<(String, String)>,
}

impl Plan {
    pub fn rows(&self, folder: &Path) -> Result<Rows, Failure> {
        let name = self.file.as_deref().unwrap_or(Path::new("rows"));
        let mut rows = Rows::open(&folder.join(COPY), name, self.column.as_deref())?;
        rows.are_contacts = self.audience.is_some();
        Ok(rows)
    }

    /// A checksum of the rows and the attachments. The other parts of the emails are in the plan.
    pub async fn checksum(&self, folder: &Path, stop: &mut Stopper<'_>) -> Result<String, Failure> {
        let attachments = self.message.attachments.iter().map(|file| file.path.clone());
        let mut hash = Sha256::new();
        for path in std::iter::once(folder.join(COPY)).chain(attachments) {
            let failed =
                |error: std::io::Error| Failure::input(format!("{}: {error}", path.display()));
            let mut file = File::open(&path).map_err(failed)?;
            let mut buffer = vec![0; 64 * 1024];
            let mut length = 0_u64;
            loop {
                let read = file.read(&mut buffer).map_err(failed)?;
                if read == 0 {
                    break;
                }
                stop.check().await?;
                length += read as u64;
                hash.update(&buffer[..read]);
            }
            // So that bytes cannot move from one file to the next.
            hash.update(length.to_le_bytes());
        }
        let digits = hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        Ok(format!("sha256:{digits}"))
    }

    /// A fingerprint of the key, from which the key cannot be told.
    pub fn fingerprint(job: &str, key: &Key) -> String {
        let digest = Sha256::digest(format!("{job}\n{}", key.expose()));
        digest[..16].iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Reads and renders all rows, and stores those that are left out in the folder. `keep` is the
    /// number of emails to return.
    pub async fn check(
        &mut self,
        folder: &Path,
        keep: usize,
        out: &Printer,
        stop: &mut Stopper<'_>,
    ) -> Result<Checked, Failure> {
        let renderer = Renderer::new(&self.message)?;
        let mut rows = self.rows(folder)?;
        rows.refuse_same_names(|name| renderer.uses(name))?;
        let mut left_out = std::io::BufWriter::new(create_private(&folder.join(LEFT_OUT))?);
        let progress = out.progress("reading the rows");
        let mut checked = Checked { count: 0, first: Vec::new(), problems: Vec::new() };
        let (hasher, mut seen) = (RandomState::new(), HashSet::new());
        let opt_outs = self.opt_outs(folder, &hasher, stop).await?;
        let hash = |address: String| hasher.hash_one(address);
        let mut unused = self.message.unused_fields();
        unused.retain(|name| rows.may_have(name));
        let mut read = 0_u64;
        while self.limit.is_none_or(|limit| checked.count < limit) {
            let Some(row) = rows.next()? else { break };
            stop.check().await?;
            read += 1;
            if read.is_multiple_of(1000) {
                progress.set_text(format!("reading the rows: {read}"));
            }
            unused.retain(|name| {
                let is_in_row = row.has(name);
                if is_in_row {
                    out.warning(&format!(
                        "the column `{name}` is not used: only placeholders read columns"
                    ));
                }
                !is_in_row
            });
            let (code, message) = match self.judge(&row, &opt_outs, hash, &mut seen, &renderer) {
                Ok(email) => {
                    checked.count += 1;
                    if checked.first.len() < keep {
                        checked.first.push(email);
                    }
                    continue;
                }
                Err(reason) => reason,
            };
            match code {
                "duplicate" => self.left_out.duplicate += 1,
                "unsubscribed" => self.left_out.unsubscribed += 1,
                _ => {
                    self.left_out.invalid += 1;
                    if checked.problems.len() < 10 {
                        checked.problems.push((format!("row {}", row.number), message.clone()));
                    }
                }
            }
            let (row, address) = (row.number, row.address.clone());
            let line = LeftOutRow { row, address, code: code.to_owned(), message };
            writeln!(left_out, "{}", to_value(&line))?;
        }
        left_out.flush()?;
        // It must not be lost once the journal exists: its rows would be sent.
        left_out.get_ref().sync_all()?;
        Ok(checked)
    }

    /// Who has opted out, wherever it is in the file.
    async fn opt_outs(
        &self,
        folder: &Path,
        hasher: &RandomState,
        stop: &mut Stopper<'_>,
    ) -> Result<OptOuts, Failure> {
        let (mut rows, mut opt_outs) = (self.rows(folder)?, OptOuts::default());
        if !rows.may_have_opt_outs() {
            return Ok(opt_outs);
        }
        while let Some(row) = rows.next()? {
            stop.check().await?;
            opt_outs.are_told |= row.subscribed != Subscribed::Unsaid;
            if matches!(row.subscribed, Subscribed::No | Subscribed::Unclear)
                && let Ok(address) = address::check(&row.address)
            {
                let address = hasher.hash_one(address);
                if row.subscribed == Subscribed::Unclear {
                    opt_outs.unclear.entry(address).or_insert(row.number);
                } else {
                    opt_outs.addresses.insert(address);
                }
            }
        }
        Ok(opt_outs)
    }

    /// The email of a row, or why it is left out.
    fn judge(
        &self,
        row: &Row,
        opt_outs: &OptOuts,
        hash: impl FnOnce(String) -> u64,
        seen: &mut HashSet<u64>,
        renderer: &Renderer,
    ) -> Result<Email, (&'static str, String)> {
        let invalid = |problem: String| ("invalid", problem);
        if let Some(problem) = &row.problem {
            return Err(invalid(problem.clone()));
        }
        if let Some(problem) = row.same_names(|name| renderer.uses(name)) {
            return Err(invalid(problem));
        }
        let address =
            address::check(&row.address).map_err(|problem| invalid(problem.to_owned()))?;
        let address = hash(address);
        if let Some(refusal) = opt_outs.refusal(row, address) {
            return Err(refusal);
        }
        let email = renderer.render(row, self.recipient(row)).map_err(invalid)?;
        email.check().map_err(|problem| invalid(problem.to_string()))?;
        if !self.keep_duplicates && !seen.insert(address) {
            return Err(("duplicate", "an earlier row has the same address".to_owned()));
        }
        Ok(email)
    }

    /// The address that the email of a row goes to.
    pub fn recipient<'a>(&'a self, row: &'a Row) -> &'a str {
        self.only_to.as_deref().unwrap_or(&row.address)
    }
}

/// A line of the file [`LEFT_OUT`].
#[derive(Serialize, Deserialize)]
pub struct LeftOutRow {
    pub row: u64,
    pub address: String,
    pub code: String,
    pub message: String,
}

/// Lets a signal end work that does not wait for anything.
pub struct Stopper<'a> {
    context: &'a Context,
    stop: &'a mut StopSignal,
    checks: u32,
}

impl<'a> Stopper<'a> {
    pub fn new(context: &'a Context, stop: &'a mut StopSignal) -> Self {
        Self { context, stop, checks: 0 }
    }

    /// Fails after a signal. Looks for one every few calls.
    pub async fn check(&mut self) -> Result<(), Failure> {
        self.checks = self.checks.wrapping_add(1);
        if !self.checks.is_multiple_of(256) {
            return Ok(());
        }
        // The runtime receives signals, and ends the budget of a task that never waits.
        tokio::task::yield_now().await;
        match self.stop.recv().now_or_never() {
            Some(_) => Err(self.context.changes.interruption()),
            None => Ok(()),
        }
    }
}

/// The numbers of the rows that are left out. Fewer or more than `total` are refused: people who
/// must not get the email might be missing.
pub fn left_out_rows(folder: &Path, total: u64) -> Result<HashSet<u64>, Failure> {
    let path = folder.join(LEFT_OUT);
    let damaged = |problem: String| {
        Failure::other(format!("{}: {problem}", path.display()))
            .code("left_out_damaged")
            .hint("restore the file, or start a new job with the rows that `svc bulk report` does not list")
    };
    let file = File::open(&path).map_err(|error| damaged(error.to_string()))?;
    let mut rows = HashSet::new();
    for line in BufReader::new(file).lines() {
        let line: LeftOutRow =
            serde_json::from_str(&line?).map_err(|_| damaged("a line is damaged".to_owned()))?;
        rows.insert(line.row);
    }
    match rows.len() as u64 {
        count if count == total => Ok(rows),
        count => Err(damaged(format!("{count} rows, but the job left out {total}"))),
    }
}

/// Creates a file that only its owner can read.
pub fn create_private(path: &Path) -> Result<File, Failure> {
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path).map_err(|error| Failure::other(format!("{}: {error}", path.display())))
}
