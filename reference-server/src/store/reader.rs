//! [`Reader`]: read access to the database.

use rusqlite::{CachedStatement, Connection, InterruptHandle, OptionalExtension as _, Params, Row};

/// Read access to the database, within a transaction or outside of one. Only the modules of
/// the store can run statements with it, so every statement is in one of them.
#[derive(Clone, Copy)]
pub(crate) struct Reader<'a>(&'a Connection);

impl<'a> Reader<'a> {
    pub(super) fn new(connection: &'a Connection) -> Self {
        Self(connection)
    }

    /// Interrupts the statements of this connection.
    pub(super) fn interrupt_handle(self) -> InterruptHandle {
        self.0.get_interrupt_handle()
    }

    pub(super) fn statement(self, sql: &str) -> rusqlite::Result<CachedStatement<'a>> {
        #[cfg(debug_assertions)]
        super::plans::assert_good(self.0, sql);
        self.0.prepare_cached(sql)
    }

    /// Returns the first row of a query, if any.
    pub(super) fn find<T>(
        self,
        sql: &str,
        params: impl Params,
        read: impl FnOnce(&Row<'_>) -> rusqlite::Result<T>,
    ) -> rusqlite::Result<Option<T>> {
        self.statement(sql)?.query_row(params, read).optional()
    }
}
