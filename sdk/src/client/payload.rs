//! The request of a call, and its body: one `Bytes`, or, with attachments from files, pieces
//! of text with the files between them, which are read while they are sent.

use std::borrow::Cow;
use std::io::{self, Write};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method};
use serde::Serialize;

use super::body::{Piece, length};
use crate::dialect::Dialect;
use crate::error::{Error, InvalidInput};
use crate::operation::Operation;

/// The request to send.
pub(crate) struct Request {
    pub(super) operation: Option<Operation>,
    pub(super) method: Method,
    /// Path and query, relative to the base URL.
    pub(super) path: Cow<'static, str>,
    pub(super) payload: Payload,
    /// Whether performing the request twice has the same effect as performing it once.
    pub(super) idempotent: bool,
    /// The number of recipients, for the limit of a recipient guard.
    pub(super) recipients: u64,
    pub(super) confirmation: Option<Box<Confirmation>>,
}

/// How to find out, after a conflict, whether an earlier attempt of the same call, whose response
/// was lost, has done what was asked for.
pub(crate) struct Confirmation {
    pub(super) request: Request,
    /// Reads the body of the response.
    pub(super) is_done: fn(&[u8], &Dialect) -> bool,
}

/// The options of one call.
#[derive(Default)]
pub(crate) struct Options {
    pub(super) timeout: Option<Duration>,
    pub(super) attempt_timeout: Option<Duration>,
    pub(super) retries: Option<u32>,
    pub(super) idempotency_key: Option<HeaderValue>,
    pub(super) headers: HeaderMap,
}

#[derive(Clone)]
pub(crate) enum Payload {
    Empty,
    /// A body in memory with its content type.
    Bytes(Bytes, HeaderValue),
    /// JSON with attachments that are read while it is sent.
    Files(Arc<[Piece]>),
}

impl Payload {
    pub(crate) fn json<T: Serialize + ?Sized>(value: &T) -> Result<Self, Error> {
        let mut text = Vec::with_capacity(128);
        write_json(&mut text, value)?;
        Ok(Self::Bytes(text.into(), JSON))
    }

    /// JSON in pieces: `last` is the text after the last file.
    pub(crate) fn pieces(mut pieces: Vec<Piece>, last: Vec<u8>) -> Self {
        if pieces.is_empty() {
            return Self::Bytes(last.into(), JSON);
        }
        pieces.push(Piece::Text(last.into()));
        Self::Files(pieces.into())
    }

    /// Writes the body piece by piece, with attachments encoded.
    pub(super) fn write_to(&self, out: &mut dyn Write) -> io::Result<()> {
        match self {
            Self::Empty => Ok(()),
            Self::Bytes(bytes, _) => out.write_all(bytes),
            Self::Files(pieces) => pieces.iter().try_for_each(|piece| match piece {
                Piece::Text(text) => out.write_all(text),
                Piece::File { source, .. } => {
                    let mut chunks = source.open()?;
                    while let Some(chunk) = chunks.next_chunk()? {
                        out.write_all(&chunk)?;
                    }
                    Ok(())
                }
            }),
        }
    }

    /// The length of the body in bytes.
    pub(super) fn length(&self) -> u64 {
        match self {
            Self::Empty => 0,
            Self::Bytes(bytes, _) => bytes.len() as u64,
            Self::Files(pieces) => length(pieces),
        }
    }
}

pub(super) const JSON: HeaderValue = HeaderValue::from_static("application/json");

pub(crate) fn write_json<T: Serialize + ?Sized>(
    text: &mut Vec<u8>,
    value: &T,
) -> Result<(), Error> {
    serde_json::to_writer(text, value).map_err(|error| {
        Error::from(InvalidInput::new("body", "cannot be serialized as JSON")).with_source(error)
    })
}
