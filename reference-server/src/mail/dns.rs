//! DNS: the records that a sending domain must publish, the built-in zone that can hold
//! them, the name server for that zone, and the checks that look the records up.

mod check;
mod resolver;
mod server;
mod spf;
mod zone;

pub(crate) use check::{check, tag};
pub(crate) use resolver::Resolver;
pub(crate) use server::start;
pub(crate) use spf::evaluate as evaluate_spf;
pub(crate) use zone::{Zone, is_reserved};

#[cfg(test)]
pub(crate) mod testing {
    use std::sync::Arc;

    use super::Zone;
    use crate::model::dns::{Record, RecordKind};

    /// A zone with these records, each with its name and its value.
    pub(crate) fn zone(records: &[(RecordKind, &str, &str)]) -> Arc<Zone> {
        let record = |(kind, name, value): &(RecordKind, &str, &str)| {
            Record::new(*kind, (*name).to_owned(), (*value).to_owned(), Some(10))
        };
        let zone = Zone::new();
        zone.set_records(&records.iter().map(record).collect::<Vec<_>>());
        Arc::new(zone)
    }
}
