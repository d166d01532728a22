//! Every error of SQLite becomes one of the engine's, here.

use everloom_core::{Code, Error};
use rusqlite::ErrorCode;

/// What can go wrong between the contract and SQLite. Functions that bind statements return it,
/// so that `?` serves both; it becomes an [`Error`] where the contract begins.
#[derive(Debug)]
pub(crate) enum Fault {
    Sqlite(rusqlite::Error),
    Core(Error),
}

/// The result of functions that bind statements.
pub(crate) type Result<T, E = Fault> = std::result::Result<T, E>;

impl From<rusqlite::Error> for Fault {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error)
    }
}

impl From<rusqlite::types::FromSqlError> for Fault {
    fn from(error: rusqlite::types::FromSqlError) -> Self {
        Self::Sqlite(error.into())
    }
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        Self::Core(error)
    }
}

impl From<Fault> for Error {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Core(error) => error,
            Fault::Sqlite(error) => translate(&error, "the database"),
        }
    }
}

impl Fault {
    /// What should be impossible has happened.
    pub(crate) fn bug(message: impl Into<String>) -> Self {
        let message = message.into();
        tracing::error!(message, "the store contradicts itself");
        Self::Core(Error::bug(message))
    }
}

/// The engine's error for an error of SQLite about the thing named.
pub(crate) fn translate(error: &rusqlite::Error, name: &str) -> Error {
    let (code, advice) = match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => (
            Code::Unavailable,
            "stayed locked by another process for the whole busy timeout; try again",
        ),
        Some(ErrorCode::DiskFull) => {
            (Code::StorageFull, "has no room left; free some space on its disk and try again")
        }
        Some(ErrorCode::ReadOnly) => (
            Code::ReadOnly,
            "can not be written to; make the file and its directory writable for this process",
        ),
        Some(ErrorCode::NotADatabase) => {
            (Code::NotADatabase, "is not an SQLite database; choose another file")
        }
        Some(ErrorCode::CannotOpen | ErrorCode::PermissionDenied) => (
            Code::Unavailable,
            "can not be opened; check the permissions of the file and its directory",
        ),
        Some(ErrorCode::SystemIoFailure) => (
            Code::Unavailable,
            "could not be read or written because its disk failed; check the disk and try again",
        ),
        Some(ErrorCode::OutOfMemory) => {
            (Code::Unavailable, "could not be used for lack of memory; try again")
        }
        Some(ErrorCode::DatabaseCorrupt) => {
            (Code::Internal, "is damaged; stop, keep a copy of the file, and restore a backup")
        }
        _ => (Code::Internal, "refused a statement; this is a bug, the log has the details"),
    };
    let expected = is_busy(error) || !matches!(code, Code::Internal | Code::Unavailable);
    if !expected {
        tracing::error!(%error, name, "SQLite reported an error");
    }
    Error::new(code, format!("{name} {advice} ({error})"))
}

/// The engine's error for a transaction that SQLite ended by itself after an earlier error.
pub(crate) fn ended_early() -> Error {
    Error::new(
        Code::Unavailable,
        "the transaction ended with an earlier error and nothing was written; try again",
    )
}

/// Whether waiting may help.
pub(crate) fn is_busy(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked))
}
