//! Every error of PostgreSQL becomes one of the engine's, here.

use everloom_core::{Code, Error};
use tokio_postgres::error::SqlState;

use crate::tls;

/// What can go wrong between the contract and PostgreSQL. Functions that bind statements return
/// it, so that `?` serves both; it becomes an [`Error`] where the contract begins.
#[derive(Debug)]
pub(crate) enum Fault {
    Postgres(tokio_postgres::Error),
    Core(Error),
}

/// The result of functions that bind statements.
pub(crate) type Result<T, E = Fault> = std::result::Result<T, E>;

impl From<tokio_postgres::Error> for Fault {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Postgres(error)
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
            Fault::Postgres(error) => translate(&error),
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

    /// Whether the connection is gone, so that nobody answers any more.
    pub(crate) fn is_lost(&self) -> bool {
        match self {
            Self::Postgres(error) => is_lost(error),
            Self::Core(_) => false,
        }
    }

    /// Whether a lock was not to be had.
    pub(crate) fn is_locked(&self) -> bool {
        matches!(self, Self::Postgres(error)
            if error.code() == Some(&SqlState::LOCK_NOT_AVAILABLE))
    }
}

fn is_lost(error: &tokio_postgres::Error) -> bool {
    match error.code() {
        // Connections that are no more, sessions the server has ended, transactions it has ended
        // together with their session.
        Some(code) => {
            let code = code.code();
            code.starts_with("08") || code.starts_with("57P") || ["25P03", "25P04"].contains(&code)
        }
        // Everything a server does not say itself is about the connection, unless it is about a
        // value, which then never left this process.
        None => !error.to_string().starts_with("error serializing parameter"),
    }
}

/// Why a connection could not be made.
pub(crate) fn refusal(error: &tokio_postgres::Error, place: &str) -> Error {
    let because = cause(error);
    if let Some(complaint) = tls::complaint(error) {
        return Error::invalid("url", format!("{place} {complaint}"));
    }
    match error.code() {
        Some(code) if *code == SqlState::INVALID_PASSWORD => {
            Error::invalid("url", format!("{place} refuses the password; correct it ({because})"))
        }
        Some(code) if *code == SqlState::INVALID_AUTHORIZATION_SPECIFICATION => Error::invalid(
            "url",
            format!(
                "{place} does not let this user in; correct the user or the server's rules ({because})"
            ),
        ),
        Some(code) if *code == SqlState::INVALID_CATALOG_NAME => Error::invalid(
            "url",
            format!("{place} has no such database; create it or correct the name ({because})"),
        ),
        Some(code) if *code == SqlState::INSUFFICIENT_PRIVILEGE => Error::new(
            Code::ReadOnly,
            format!("{place} does not allow this user to use the database; grant it ({because})"),
        ),
        Some(code) if *code == SqlState::TOO_MANY_CONNECTIONS => Error::new(
            Code::Unavailable,
            format!("{place} has no connection left; raise its limit or try again ({because})"),
        ),
        Some(_) => {
            Error::new(Code::Unavailable, format!("{place} refuses a connection ({because})"))
        }
        None if because.contains("password missing") => {
            Error::invalid("url", format!("{place} asks for a password; add it"))
        }
        None => Error::new(
            Code::Unavailable,
            format!(
                "{place} can not be reached; start the server or correct the address ({because})"
            ),
        ),
    }
}

/// The engine's error for an error of a statement.
pub(crate) fn translate(error: &tokio_postgres::Error) -> Error {
    let because = cause(error);
    let Some(code) = error.code().cloned() else {
        return match is_lost(error) {
            true => lost(&because),
            false => Error::bug(format!("a value does not fit its column ({because})")),
        };
    };
    let again = [
        SqlState::T_R_SERIALIZATION_FAILURE,
        SqlState::T_R_DEADLOCK_DETECTED,
        SqlState::UNIQUE_VIOLATION,
    ];
    if again.contains(&code) {
        return Error::conflict(format!(
            "other transactions got in the way again and again; try again ({because})"
        ));
    }
    if is_lost(error) {
        return lost(&because);
    }
    if code == SqlState::LOCK_NOT_AVAILABLE {
        return Error::locked(format!(
            "the database kept rows locked by someone else; end the transaction that holds them, \
             or try again ({because})"
        ));
    }
    let (kind, advice) = if code == SqlState::DISK_FULL {
        (Code::StorageFull, "has no room left; free some space on its disk and try again")
    } else if code == SqlState::READ_ONLY_SQL_TRANSACTION {
        (Code::ReadOnly, "is a standby or read-only; connect to the primary")
    } else if code == SqlState::INSUFFICIENT_PRIVILEGE {
        (Code::ReadOnly, "does not give this user the rights it needs; grant them")
    } else if code == SqlState::QUERY_CANCELED || code.code().starts_with("53") {
        (Code::Unavailable, "did not answer in time or has no resources left; try again")
    } else {
        tracing::error!(%error, because, "PostgreSQL reported an error");
        (Code::Internal, "refused a statement; this is a bug, the log has the details")
    };
    Error::new(kind, format!("the database {advice} ({because})"))
}

/// The connection went away before the commit: nothing was written, so the commands may run again.
fn lost(because: &str) -> Error {
    Error::conflict(format!(
        "the connection to the database was lost and nothing was written; try again ({because})"
    ))
}

/// What the error says with everything behind it.
pub(crate) fn cause(error: &tokio_postgres::Error) -> String {
    if let Some(said) = error.as_db_error() {
        return said.message().to_owned();
    }
    let mut text = error.to_string();
    let mut behind = std::error::Error::source(error);
    while let Some(inner) = behind {
        text.push_str(": ");
        text.push_str(&inner.to_string());
        behind = inner.source();
    }
    text
}
