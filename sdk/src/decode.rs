//! Decodes the services' responses leniently: additional, missing or differently wrapped
//! fields are never an error (`docs/undocumented/README.md`).

mod cursor;
mod extra;
mod field;
mod list;
mod record;
mod sanitize;

pub(crate) use cursor::parse_value;

pub(crate) use cursor::{JsonCursor, parse_lenient};
pub use extra::Extra;
pub(crate) use field::{Field, Lenient, text_enum};
pub use list::List;

pub(crate) use list::{find_array, read_list};

pub(crate) use record::{Candidate, DecodeError, read_object};
pub(crate) use record::{Change, Record, deserialize, record, reread};
