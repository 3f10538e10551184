//! Checks every row of a job and writes what will be sent into its folder.

use std::collections::HashSet;
use std::fs::File;
use std::io::{BufRead as _, BufReader, BufWriter, Read as _, Write as _};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use sha2::{Digest as _, Sha256};
use svc_sdk::EmailClient;
use svc_sdk::email::Email;

use super::address;
use super::jobs::create_private;
use super::message::Renderer;
use super::people::{PEOPLE, People, Person};
use super::plan::{ADDRESSES, LEFT_OUT, LeftOutRow, Plan, PreparedRow, ROWS, hash};
use crate::context::Context;
use crate::failure::{Failure, Kind};
use crate::input::opt_outs::NOT_SAID;
use crate::stop::StopSignal;

/// An email with its row and the hash of its address, or the code and the reason why there is none.
type EmailOrReason = Result<(PreparedRow, Email, u64), (String, String)>;

/// How many emails and problems are kept to be shown.
pub const SHOWN: usize = 3;

/// Which rows are sent, beside what the file says.
#[derive(Default)]
pub struct Selection {
    /// The most emails.
    pub limit: Option<u64>,
    pub keep_duplicates: bool,
    /// Those who get no email.
    pub suppressed: HashSet<u64>,
    /// Those who have got it from earlier jobs.
    pub sent_before: HashSet<u64>,
    /// The client, if its recipient guard has to allow every email.
    pub guard: Option<EmailClient>,
}

/// What will be sent.
#[derive(Default)]
pub struct Checked {
    pub count: u64,
    /// The first emails.
    pub first: Vec<Email>,
    /// The first reasons why rows are invalid.
    pub problems: Vec<(String, String)>,
    /// The hash of each address.
    pub addresses: HashSet<u64>,
    /// The checksum of everything that is sent.
    pub source: String,
}

impl Plan {
    /// Checks and renders all rows, and writes those that are sent and those that are left out. It
    /// blocks, until `stop` is set.
    pub fn check(
        &mut self,
        folder: &Path,
        people: &People,
        selection: &Selection,
        renderer: &Renderer,
        stop: &AtomicBool,
    ) -> Result<Checked, Failure> {
        let create = |name: &str| create_private(&folder.join(name)).map(BufWriter::new);
        let (mut rows, mut left_out) = (create(ROWS)?, create(LEFT_OUT)?);
        let (mut checked, mut hashes) = (Checked::default(), Vec::new());
        for line in BufReader::new(File::open(folder.join(PEOPLE))?).lines() {
            if selection.limit.is_some_and(|limit| checked.count >= limit) {
                break;
            }
            if stop.load(Ordering::Relaxed) {
                return Err(Failure::new(Kind::Interrupted, "interrupted"));
            }
            let person = serde_json::from_str::<Person>(&line?).map_err(std::io::Error::from)?;
            let (row, address) = (person.row, person.address.clone());
            match self.judge(person, people, selection, renderer, &mut checked.addresses)? {
                Ok((prepared, email, hash)) => {
                    serde_json::to_writer(&mut rows, &(row, prepared))
                        .map_err(std::io::Error::from)?;
                    rows.write_all(b"\n")?;
                    hashes.extend_from_slice(&hash.to_be_bytes());
                    checked.count += 1;
                    if checked.first.len() < SHOWN {
                        checked.first.push(email);
                    }
                }
                Err((code, message)) => {
                    self.left_out.count(&code);
                    if code == "invalid" && checked.problems.len() < 10 {
                        checked.problems.push((format!("row {row}"), message.clone()));
                    }
                    let line = LeftOutRow { row, address, code, message };
                    serde_json::to_writer(&mut left_out, &line).map_err(std::io::Error::from)?;
                    left_out.write_all(b"\n")?;
                }
            }
        }
        // Nothing of it may be lost once the journal exists.
        for mut file in [rows, left_out] {
            file.flush()?;
            file.get_ref().sync_all()?;
        }
        let mut addresses = create_private(&folder.join(ADDRESSES))?;
        addresses.write_all(&hashes)?;
        addresses.sync_all()?;
        std::fs::remove_file(folder.join(PEOPLE))?;
        checked.source = self.checksum(folder)?;
        Ok(checked)
    }

    /// The email of a person, or why there is none. A failure concerns the whole job.
    fn judge(
        &self,
        person: Person,
        people: &People,
        selection: &Selection,
        renderer: &Renderer,
        seen: &mut HashSet<u64>,
    ) -> Result<EmailOrReason, Failure> {
        let Person { row, address, values, left_out, is_subscribed } = person;
        let because = |code: &str, why: &str| Ok(Err((code.to_owned(), why.to_owned())));
        if let Some(reason) = left_out {
            return Ok(Err(reason));
        }
        let hash = match address::check(&address) {
            Ok(address) => hash(&address),
            Err(problem) => return because("invalid", problem),
        };
        if people.opted_out.contains(&hash) {
            return because("unsubscribed", "another row with the same address is not subscribed");
        }
        if let Some(unclear) = people.unclear.get(&hash) {
            let why = format!("row {unclear} has the same address, and may opt out");
            return because("invalid", &why);
        }
        if people.opt_outs.is_told && !is_subscribed {
            return because("invalid", NOT_SAID);
        }
        if selection.suppressed.contains(&hash) {
            return because("suppressed", "the address is in the file of --suppress");
        }
        if selection.sent_before.contains(&hash) {
            return because("sent_before", "an earlier job has sent the email to this address");
        }
        let prepared = PreparedRow(address, values);
        let email = match self.email(renderer, &prepared) {
            Ok(email) => email,
            Err(problem) => return because("invalid", &problem),
        };
        if let Err(problem) = email.check() {
            return because("invalid", &problem.to_string());
        }
        if !seen.insert(hash) && !selection.keep_duplicates {
            return because("duplicate", "an earlier row has the same address");
        }
        if let Some(client) = &selection.guard {
            client.emails().send(&email).to_request().map_err(|error| {
                let mut failure = Failure::from(error);
                let details = failure.details_mut();
                details.message = format!("row {row}: {}", details.message);
                failure
            })?;
        }
        Ok(Ok((prepared, email, hash)))
    }

    /// A checksum of the rows and the attachments. The other parts of the emails are in the plan.
    pub fn checksum(&self, folder: &Path) -> Result<String, Failure> {
        let mut hash = Sha256::new();
        for path in std::iter::once(folder.join(ROWS)).chain(self.attachments(folder)) {
            let failed =
                |error: std::io::Error| Failure::input(format!("{}: {error}", path.display()));
            let mut file = File::open(&path).map_err(failed)?;
            let (mut buffer, mut length) = (vec![0; 64 * 1024], 0_u64);
            loop {
                let read = file.read(&mut buffer).map_err(failed)?;
                if read == 0 {
                    break;
                }
                length += read as u64;
                hash.update(&buffer[..read]);
            }
            // So that bytes cannot move from one file to the next.
            hash.update(length.to_le_bytes());
        }
        let digits = hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        Ok(format!("sha256:{digits}"))
    }
}

/// The rows of the job in this folder, in their order.
pub fn rows(
    folder: &Path,
) -> Result<impl Iterator<Item = Result<(u64, PreparedRow), Failure>> + use<>, Failure> {
    let path = folder.join(ROWS);
    let file = File::open(&path)
        .map_err(|error| Failure::other(format!("{}: {error}", path.display())))?;
    Ok(BufReader::new(file).lines().map(move |line| {
        serde_json::from_str(&line?)
            .map_err(|_| Failure::other(format!("{}: a line is damaged", path.display())))
    }))
}

/// Runs work that blocks, until a signal arrives. The work looks at its flag now and then.
pub async fn in_background<T: Send + 'static>(
    context: &Context,
    stop: &mut StopSignal,
    work: impl FnOnce(&AtomicBool) -> Result<T, Failure> + Send + 'static,
) -> Result<T, Failure> {
    let stopped = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&stopped);
    let mut running = tokio::task::spawn_blocking(move || work(&flag));
    tokio::select! {
        done = &mut running => done.map_err(|error| Failure::other(error.to_string()))?,
        _ = stop.recv() => {
            stopped.store(true, Ordering::Relaxed);
            Err(context.changes.interruption())
        }
    }
}
