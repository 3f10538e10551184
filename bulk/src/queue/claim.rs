//! The claims of a worker, and what Redis says about them.

use std::collections::{HashMap, HashSet};
use std::io;
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};

use super::keys::Keys;
use super::{RedisQueue, entries, lines, scripts, scripts_cmd, status};
use crate::{Entry, State, Totals};

/// The longest time that a worker without rows to send waits before it looks again.
pub(crate) const POLL: Duration = Duration::from_millis(300);

/// The shortest one: the other workers will probably have sent the last rows soon.
pub(crate) const FIRST_POLL: Duration = Duration::from_millis(10);

/// The bits of a request's number that count the entries of its chunk; the others are the number
/// of the chunk.
pub(crate) const ENTRY_BITS: u32 = 20;

/// Claims chunks of a job.
#[derive(Clone)]
pub(crate) struct Claims {
    pub(crate) queue: RedisQueue,
    pub(crate) keys: Keys,
    pub(crate) worker: String,
}

/// What a claim gives.
pub(crate) enum Claimed {
    /// A chunk, and its rows in JSON.
    Chunk(Box<Held>, Vec<u8>),
    /// Nothing now.
    Nothing,
    /// No row is left, or the job was cancelled.
    End,
}

/// A chunk that this worker has claimed.
pub(crate) struct Held {
    pub(crate) number: u64,
    /// Its id in the stream.
    pub(crate) id: String,
    pub(crate) token: u64,
    /// The length of its log.
    pub(crate) length: usize,
    /// The number of entries in its log.
    pub(crate) entries: u64,
    pub(crate) state: State,
    /// The rows that still have to be sent by this worker.
    pub(crate) open: HashSet<u64>,
    /// The rows of the requests that were started.
    pub(crate) requests: HashMap<u64, Vec<u64>>,
    /// Unknown rows that are sent again on the operator's word.
    pub(crate) again: HashSet<u64>,
    /// How often a request became unknown.
    pub(crate) unknown: usize,
    /// What the clock of this machine lacks.
    pub(crate) clock_offset: TimeDelta,
}

impl Claims {
    pub(crate) async fn claim(self) -> io::Result<Claimed> {
        let Keys { job, rows, chunks, log, fence, done, workers, .. } = &self.keys;
        let keys = [job, chunks, rows, log, fence, done, workers];
        let mut command = scripts_cmd(scripts::CLAIM, &keys);
        command.arg(&self.worker).arg(millis(self.queue.lease));
        let response: Vec<redis::Value> = self.queue.connection.query(&command).await?;
        let mut response = response.into_iter();
        match text(response.next())?.as_str() {
            "chunk" => {}
            "complete" | "cancelled" => return Ok(Claimed::End),
            "missing" | "preparing" => return Err(status::missing()),
            _ => return Ok(Claimed::Nothing),
        }
        let now: i64 = parse(response.next())?;
        let id = text(response.next())?;
        let (number, token) = (parse(response.next())?, parse(response.next())?);
        let again: usize = parse(response.next())?;
        let rows = bytes(response.next())?;
        let log = bytes(response.next())?;
        let now = DateTime::from_timestamp_millis(now).unwrap_or_default();
        let mut held = Held {
            number,
            id,
            token,
            length: log.len(),
            entries: 0,
            state: State::default(),
            open: HashSet::new(),
            requests: HashMap::new(),
            again: HashSet::new(),
            unknown: 0,
            clock_offset: now - Utc::now(),
        };
        held.state.set_clock_offset(held.clock_offset);
        let (before, since) = log.split_at_checked(again).unwrap_or((&log, &[]));
        for entry in entries(before)? {
            held.apply(&entry);
        }
        if again > 0 {
            let rows: Vec<(u64, serde::de::IgnoredAny)> = serde_json::from_slice(&rows)?;
            let unknown = rows.into_iter().map(|(row, _)| row);
            held.again = unknown.filter(|row| held.state.is_unknown(*row)).collect();
        }
        for entry in entries(since)? {
            if let Entry::Intent { rows, .. } = &entry {
                held.again.retain(|row| !rows.contains(row));
            }
            held.apply(&entry);
        }
        // The worker that sent them has not recorded an outcome and cannot do so any more.
        let (at, in_flight) = (held.state.now(), held.state.in_flight());
        let lost = in_flight.into_iter().map(|chunk| Entry::Unknown { chunk, at, code: None });
        let lost = lost.collect::<Vec<_>>();
        lost.iter().for_each(|entry| held.apply(entry));
        if !lost.is_empty() && self.append(&mut held, lost, false).await?.is_none() {
            return Ok(Claimed::Nothing);
        }
        Ok(Claimed::Chunk(Box::new(held), rows))
    }

    /// Appends entries to the log of a chunk, after they were applied. Returns the totals of the
    /// job, or `None` if another worker has claimed the chunk since.
    pub(crate) async fn append(
        &self,
        held: &mut Held,
        entries: Vec<Entry>,
        is_done: bool,
    ) -> io::Result<Option<Totals>> {
        let text = lines(entries)?;
        let Keys { job, chunks, log, fence, counts, done, workers, .. } = &self.keys;
        let keys = [job, chunks, log, fence, counts, done, workers];
        let Totals { accepted, refused, invalid, unknown } = held.state.totals();
        let mut command = scripts_cmd(scripts::RECORD, &keys);
        self.name(&mut command, held).arg(held.length).arg(&text).arg(u8::from(is_done));
        command.arg(accepted).arg(refused).arg(invalid).arg(unknown);
        held.length += text.len();
        let response: Vec<String> = self.queue.connection.query(&command).await?;
        let number = |at: usize| response.get(at).and_then(|text| text.parse().ok());
        let is_recorded = response.first().is_some_and(|text| text == "ok");
        Ok(is_recorded.then(|| Totals {
            accepted: number(1).unwrap_or_default(),
            refused: number(2).unwrap_or_default(),
            invalid: number(3).unwrap_or_default(),
            unknown: number(4).unwrap_or_default(),
        }))
    }

    /// Asks whether a request may be sent now, and appends its intent if it has one.
    pub(crate) async fn begin(
        &self,
        held: &Held,
        intent: &[u8],
        emails: usize,
    ) -> io::Result<Answer> {
        let Keys { job, chunks, log, fence, workers, .. } = &self.keys;
        let mut command = scripts_cmd(scripts::BEGIN, &[job, chunks, log, fence, workers]);
        self.name(&mut command, held).arg(held.length).arg(intent).arg(emails);
        let response: Vec<String> = self.queue.connection.query(&command).await?;
        Ok(match response.first().map(String::as_str) {
            Some("ok") => Answer::Send,
            Some("wait") => {
                let wait = response.get(1).and_then(|wait| wait.parse().ok()).unwrap_or_default();
                Answer::Wait(Duration::from_micros(wait).min(POLL))
            }
            Some("paused") => Answer::Wait(POLL),
            Some("cancelled") => Answer::Stop,
            _ => Answer::Lost,
        })
    }

    /// Whether no other worker has claimed a chunk since.
    pub(crate) async fn is_mine(&self, held: &Held) -> io::Result<bool> {
        let mut command = redis::cmd("HGET");
        command.arg(&self.keys.fence).arg(held.number);
        let token: Option<u64> = self.queue.connection.query(&command).await?;
        Ok(token == Some(held.token))
    }

    pub(crate) async fn release(&self, held: &Held) -> io::Result<()> {
        let Keys { chunks, fence, .. } = &self.keys;
        let mut command = scripts_cmd(scripts::RELEASE, &[chunks, fence]);
        self.queue.connection.query(self.name(&mut command, held)).await
    }

    fn name<'a>(&self, command: &'a mut redis::Cmd, held: &Held) -> &'a mut redis::Cmd {
        command.arg(&self.worker).arg(held.number).arg(&held.id).arg(held.token)
    }
}

/// Whether a request may be sent.
pub(crate) enum Answer {
    Send,
    Wait(Duration),
    Stop,
    Lost,
}

impl Held {
    pub(crate) fn apply(&mut self, entry: &Entry) {
        self.entries += 1;
        self.unknown += usize::from(matches!(entry, Entry::Unknown { .. }));
        self.state.apply(entry);
    }

    /// A number for the next request, unique in the job.
    pub(crate) fn next_number(&self) -> u64 {
        (self.number << ENTRY_BITS) + self.entries
    }
}

pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn bytes(value: Option<redis::Value>) -> io::Result<Vec<u8>> {
    match value {
        Some(redis::Value::BulkString(bytes)) => Ok(bytes),
        Some(redis::Value::SimpleString(text)) => Ok(text.into_bytes()),
        Some(redis::Value::Int(number)) => Ok(number.to_string().into_bytes()),
        _ => Err(io::Error::new(io::ErrorKind::InvalidData, "the job in Redis is damaged")),
    }
}

fn text(value: Option<redis::Value>) -> io::Result<String> {
    String::from_utf8(bytes(value)?).map_err(io::Error::other)
}

fn parse<T: std::str::FromStr>(value: Option<redis::Value>) -> io::Result<T> {
    text(value)?
        .parse()
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "the job in Redis is damaged"))
}
