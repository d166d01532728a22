//! What the work of a connection has cost so far.

use rusqlite::{Connection, ffi};

/// Work done by a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Steps of SQLite's virtual machine.
    pub vm_steps: u64,
    /// How often a statement had to be prepared anew.
    pub reprepares: u64,
    /// Pages looked at, whether they were in memory or not.
    pub pages: u64,
}

/// Sums over all statements the connection holds, each since it was prepared.
#[allow(unsafe_code, reason = "rusqlite has no way to walk the statements it keeps")]
pub(crate) fn of(conn: &Connection) -> Counters {
    let status = |statement, counter| {
        // SAFETY: the statement comes from `sqlite3_next_stmt` below and nothing finalises it
        // meanwhile; the counter is read and not reset.
        let count = unsafe { ffi::sqlite3_stmt_status(statement, counter, 0) };
        u64::from(count.cast_unsigned())
    };
    let pages = [ffi::SQLITE_DBSTATUS_CACHE_HIT, ffi::SQLITE_DBSTATUS_CACHE_MISS];
    let pages = pages.into_iter().map(|counter| connection_status(conn, counter)).sum();
    let mut counters = Counters { pages, ..Counters::default() };
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

#[allow(unsafe_code, reason = "rusqlite does not ask for it")]
fn connection_status(conn: &Connection, counter: i32) -> u64 {
    let (mut count, mut most) = (0, 0);
    // SAFETY: the handle is that of an open connection, which this thread alone uses; both places
    // outlive the call.
    unsafe { ffi::sqlite3_db_status(conn.handle(), counter, &mut count, &mut most, 0) };
    u64::from(count.cast_unsigned())
}
