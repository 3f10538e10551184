//! Answers of the services, read with the tolerance of `open-points.md`:
//! more, fewer or differently wrapped fields are never an error.

mod extra;
mod field;
mod list;
mod record;

pub use extra::Extra;
pub(crate) use field::{Field, Lenient, text_enum};
pub use list::List;
#[cfg(feature = "client")]
pub(crate) use list::{find_array, read_list};
pub(crate) use record::{Record, deserialize, record};
#[cfg(feature = "client")]
pub(crate) use record::{Unreadable, read_bare, read_object};
