//! Answers of the services, read with the tolerance of `docs/undocumented/README.md`:
//! more, fewer or differently wrapped fields are never an error.

mod extra;
mod field;
mod list;
mod mend;
mod record;
mod walk;

pub use extra::Extra;
pub(crate) use field::{Field, Lenient, text_enum};
pub use list::List;
#[cfg(feature = "client")]
pub(crate) use list::{find_array, read_list};
#[cfg(feature = "client")]
pub(crate) use record::{Found, Unreadable, read_object};
pub(crate) use record::{Record, deserialize, record};
pub(crate) use walk::read_value;
#[cfg(feature = "client")]
pub(crate) use walk::{Walk, read_text};
