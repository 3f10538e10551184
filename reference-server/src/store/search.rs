//! The SQL with which a list looks for texts.

use std::borrow::Cow;

use rusqlite::Connection;
use rusqlite::functions::{Context, FunctionFlags};

use crate::model::{Mailbox, Terms};

/// Defines the functions in a connection.
pub(super) fn define(connection: &Connection) -> rusqlite::Result<()> {
    let flags = FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_DETERMINISTIC;
    // Whether each word of the first text is in one of the others.
    connection.create_scalar_function("has_terms", -1, flags, |call| {
        let texts: Vec<_> = (1..call.len()).map(|at| text(call, at)).collect();
        Ok(Terms::new(&text(call, 0)).are_in(texts.iter().map(AsRef::as_ref)))
    })?;
    // Whether the second text is part of the first.
    connection.create_scalar_function("has_part", 2, flags, |call| {
        let [whole, part] = [0, 1].map(|at| text(call, at).to_lowercase());
        Ok(whole.contains(&part))
    })?;
    // Whether a mailbox has an address. What was received may have a mailbox that is not valid.
    connection.create_scalar_function("is_address", 2, flags, |call| {
        let mailbox = text(call, 0);
        let wanted = text(call, 1);
        let bare = mailbox.rsplit('<').next().unwrap_or_default();
        Ok(match Mailbox::parse(&mailbox) {
            Ok(mailbox) => mailbox.address.as_str().eq_ignore_ascii_case(&wanted),
            Err(_) => bare.trim_end_matches('>').eq_ignore_ascii_case(&wanted),
        })
    })
}

fn text<'c>(call: &'c Context<'_>, at: usize) -> Cow<'c, str> {
    let bytes = call.get_raw(at).as_bytes_or_null();
    String::from_utf8_lossy(bytes.ok().flatten().unwrap_or_default())
}
