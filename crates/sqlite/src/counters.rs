//! What the prepared statements of a connection have cost so far.

use rusqlite::{Connection, ffi};

/// Work done by the statements of a connection since each was prepared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Steps of SQLite's virtual machine.
    pub vm_steps: u64,
    /// How often a statement had to be prepared anew.
    pub reprepares: u64,
}

/// Sums over all statements the connection holds.
#[allow(unsafe_code, reason = "rusqlite has no way to walk the statements it keeps")]
pub(crate) fn of(conn: &Connection) -> Counters {
    let status = |statement, counter| {
        // SAFETY: the statement comes from `sqlite3_next_stmt` below and nothing finalises it
        // meanwhile; the counter is read and not reset.
        let count = unsafe { ffi::sqlite3_stmt_status(statement, counter, 0) };
        u64::from(count.cast_unsigned())
    };
    let mut counters = Counters::default();
    // SAFETY: the handle is that of an open connection, which this thread alone uses.
    let mut statement = unsafe { ffi::sqlite3_next_stmt(conn.handle(), std::ptr::null_mut()) };
    while !statement.is_null() {
        counters.vm_steps += status(statement, ffi::SQLITE_STMTSTATUS_VM_STEP);
        counters.reprepares += status(statement, ffi::SQLITE_STMTSTATUS_REPREPARE);
        // SAFETY: as above, and the statement is one of this connection.
        statement = unsafe { ffi::sqlite3_next_stmt(conn.handle(), statement) };
    }
    counters
}
