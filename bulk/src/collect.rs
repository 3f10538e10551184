//! Collects rows into requests.

use std::collections::HashMap;
use std::fmt::Display;
use std::pin::Pin;

use chrono::TimeDelta;
use futures_core::Stream;
use futures_util::StreamExt as _;

use crate::error::Cause;
use crate::{Row, State};
use svc_sdk::email::Email;

/// The most bytes of content in one request, so that it fits in memory and the service takes
/// it. A single larger email is sent alone.
const MAX_BYTES: u64 = 16 << 20;

/// The emails of a request.
#[derive(Default)]
pub(crate) struct Chunk {
    pub(crate) rows: Vec<u64>,
    pub(crate) emails: Vec<Email>,
    /// The number and the key of the request that this one repeats.
    pub(crate) repeats: Option<(u64, String)>,
    bytes: u64,
}

impl Chunk {
    /// A request that was not processed, or a half of it.
    pub(crate) fn again(rows: Vec<u64>, emails: Vec<Email>) -> Self {
        Self { rows, emails, ..Self::default() }
    }

    fn push(&mut self, row: u64, email: Email) {
        self.bytes += size(&email);
        self.rows.push(row);
        self.emails.push(email);
    }

    /// About how many bytes its emails take.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }
}

/// What the rows give next.
pub(crate) enum Next {
    Chunk(Chunk),
    /// No valid email can be made of this row.
    Invalid(u64, String),
}

pub(crate) struct Collector<'a, S, T, R> {
    pub(crate) rows: Pin<&'a mut S>,
    pub(crate) render: R,
    pub(crate) size: usize,
    pub(crate) resend_unknown: bool,
    /// How long keys are honored; `None` if they are not.
    pub(crate) key_life: Option<TimeDelta>,
    pub(crate) check: bool,
    partial: Chunk,
    /// Chunks that are ready, the first last.
    ready: Vec<Chunk>,
    /// Requests to repeat, while their rows are collected.
    repeats: HashMap<u64, Chunk>,
    last: Option<u64>,
    ended: bool,
    row: std::marker::PhantomData<fn(T)>,
}

impl<'a, S, T, E, R, M> Collector<'a, S, T, R>
where
    S: Stream<Item = Result<Row<T>, E>>,
    E: Into<Cause>,
    R: FnMut(&T) -> Result<Email, M>,
    M: Display,
{
    pub(crate) fn new(rows: Pin<&'a mut S>, render: R, size: usize) -> Self {
        Self {
            rows,
            render,
            size,
            resend_unknown: false,
            key_life: None,
            check: true,
            partial: Chunk::default(),
            ready: Vec::new(),
            repeats: HashMap::new(),
            last: None,
            ended: false,
            row: std::marker::PhantomData,
        }
    }

    /// The next request, or `None` at the end. Cancel safe: rows that were read are kept.
    pub(crate) async fn next(&mut self, state: &State) -> Result<Option<Next>, Cause> {
        loop {
            if let Some(chunk) = self.ready.pop() {
                return Ok(Some(Next::Chunk(chunk)));
            }
            if self.ended {
                let chunk = std::mem::take(&mut self.partial);
                return Ok((!chunk.rows.is_empty()).then_some(Next::Chunk(chunk)));
            }
            let Some(row) = self.rows.next().await else {
                self.ended = true;
                continue;
            };
            let Row { number, data } = row.map_err(Into::into)?;
            if self.last.is_some_and(|last| number <= last) {
                return Err(format!("row {number} comes after a row with a number as high").into());
            }
            self.last = Some(number);
            if let Some(invalid) = self.take(number, &data, state) {
                return Ok(Some(invalid));
            }
        }
    }

    /// Takes in a row of a part of the job that has a state of its own.
    #[cfg(feature = "redis")]
    pub(crate) fn add(&mut self, number: u64, data: &T, state: &State) -> Option<Next> {
        self.take(number, data, state)
    }

    /// Ends a part of the job: its rows share no request with those of the next part. Returns
    /// the rows to send.
    #[cfg(feature = "redis")]
    pub(crate) fn end_part(&mut self) -> Vec<u64> {
        // Unknown rows of a request that cannot be repeated as it was.
        self.repeats.clear();
        let rest = std::mem::take(&mut self.partial);
        if !rest.rows.is_empty() {
            self.ready.insert(0, rest);
        }
        self.ready.iter().flat_map(|chunk| chunk.rows.iter().copied()).collect()
    }

    /// The next request that is ready.
    #[cfg(feature = "redis")]
    pub(crate) fn pop(&mut self) -> Option<Chunk> {
        self.ready.pop()
    }

    fn take(&mut self, number: u64, data: &T, state: &State) -> Option<Next> {
        if state.is_settled(number) {
            return None;
        }
        let repeat = self.key_life.and_then(|life| state.repeatable(number, life));
        if repeat.is_none() && state.is_unknown(number) && !self.resend_unknown {
            return None;
        }
        let email = (self.render)(data).map_err(|error| error.to_string()).and_then(|email| {
            match self.check.then(|| email.check()) {
                Some(Err(invalid)) => Err(invalid.to_string()),
                _ => Ok(email),
            }
        });
        let email = match email {
            Ok(email) => email,
            // It was sent, whatever it renders to now.
            Err(_) if state.is_unknown(number) => return None,
            Err(problem) => return Some(Next::Invalid(number, problem)),
        };
        if let Some((chunk, open)) = repeat {
            let collected = self.repeats.entry(chunk).or_default();
            collected.push(number, email);
            if collected.rows == open.rows {
                let mut chunk_again = self.repeats.remove(&chunk)?;
                chunk_again.repeats = open.key.clone().map(|key| (chunk, key));
                self.ready.push(chunk_again);
            }
            return None;
        }
        if !self.partial.rows.is_empty() && self.partial.bytes + size(&email) > MAX_BYTES {
            self.ready.push(std::mem::take(&mut self.partial));
        }
        self.partial.push(number, email);
        if self.partial.rows.len() >= self.size {
            self.ready.insert(0, std::mem::take(&mut self.partial));
        }
        None
    }
}

/// About how many bytes an email takes in a request.
fn size(email: &Email) -> u64 {
    let texts = [&email.html, &email.text].into_iter().flatten().map(|text| text.len() as u64);
    let attachments = email.attachments.iter().map(|each| each.content_length() / 3 * 4);
    1024 + texts.sum::<u64>() + attachments.sum::<u64>()
}
