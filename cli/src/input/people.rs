//! A file of people, for bulk sending and imports: the address of each record, and whether it says that
//! the person is subscribed.

use std::sync::Arc;

use super::columns::{ColumnOptions, names};
use super::opt_outs::{OptOuts, Subscribed};
use super::records::{Record, Records};
use crate::failure::Failure;

/// The records of a file of people.
pub struct PeopleFile {
    pub records: Records,
    pub options: ColumnOptions,
    pub opt_outs: OptOuts,
    /// The columns of a CSV file.
    pub columns: Option<Vec<Arc<str>>>,
    /// The position of the column with the addresses in a CSV file.
    pub address: Option<usize>,
}

/// A record with what it says of a person.
pub struct Person {
    pub record: Record,
    /// The position of the value with the address.
    pub address: Option<usize>,
    pub subscribed: Subscribed,
}

impl PeopleFile {
    /// Starts to read. A CSV file needs the columns of the options, and one with addresses.
    pub fn new(records: Records, options: &ColumnOptions) -> Result<Self, Failure> {
        let columns = records.columns().map(<[_]>::to_vec);
        options.check(columns.as_deref())?;
        let mut opt_outs = options.opt_outs();
        let mut address = None;
        if let Some(columns) = &columns {
            opt_outs.see_columns(columns);
            let found = options.address(&columns.iter().map(AsRef::as_ref));
            let found = found.and_then(|at| {
                at.ok_or_else(|| {
                    let hint = "name the column with the address: --column 'E-Mail Address'";
                    Failure::input("no column is named `email`")
                        .hint(format!("{}; {hint}", names(columns)))
                })
            });
            address = Some(found.map_err(|failure| records.in_file(failure))?);
        }
        Ok(Self {
            records,
            options: options.clone(),
            opt_outs,
            columns,
            address,
        })
    }

    /// The next person; `None` at the end.
    pub fn next(&mut self) -> Result<Option<Person>, Failure> {
        let Some(mut record) = self.records.next()? else {
            return Ok(None);
        };
        let subscribed = self.opt_outs.judge(&record);
        // Each object of JSON has its own keys.
        let of_keys = || {
            self.options
                .address(&record.fields.iter().map(|(key, _)| key.as_ref()))
        };
        let address = self.address.map_or_else(of_keys, |at| Ok(Some(at)));
        let address = address.unwrap_or_else(|failure| {
            let problem = failure.details().message.replace("columns", "keys");
            record.problem.get_or_insert(problem);
            None
        });
        Ok(Some(Person {
            record,
            address,
            subscribed,
        }))
    }
}
