//! How a connection is opened and set up.

use std::io::ErrorKind;
use std::time::{Duration, Instant};

use everloom_core::{Code, Error, Result};
use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags};

use crate::error::{is_busy, translate};
use crate::location::Location;
use crate::migrate;
use crate::options::{Durability, Options};

/// Older ones can lose commits when a checkpoint races a writer.
const OLDEST_SQLITE: i32 = 3_051_003;

/// One page of the smallest size.
const SMALLEST_DATABASE: u64 = 512;

/// More than there are statements, so that none is ever prepared twice.
const STATEMENTS: usize = 256;

/// Opens the connection that writes, and brings the file to the current schema.
pub(crate) fn writer(location: &Location, options: &Options) -> Result<Connection> {
    check_version(rusqlite::version_number(), rusqlite::version())?;
    check_path(location, options)?;
    let failed = |error| refusal(location, &error);
    let mut conn = connect(location, options).map_err(failed)?;
    // Before anything is changed: the file may belong to someone else.
    migrate::inspect(&conn, location, options)?;
    if conn.is_readonly("main").map_err(failed)? {
        return Err(read_only(location));
    }
    set_up_writer(&conn, options).map_err(failed)?;
    migrate::migrate(&mut conn, location, options)?;
    Ok(conn)
}

/// Opens a connection that reads.
pub(crate) fn reader(location: &Location, options: &Options) -> Result<Connection> {
    let open = || -> rusqlite::Result<Connection> {
        let conn = connect(location, options)?;
        conn.execute_batch(
            "PRAGMA cache_size = -8000;
             PRAGMA query_only = ON;",
        )?;
        Ok(conn)
    };
    open().map_err(|error| refusal(location, &error))
}

fn check_version(number: i32, version: &str) -> Result<()> {
    if number >= OLDEST_SQLITE {
        return Ok(());
    }
    Err(Error::new(
        Code::Unsupported,
        format!(
            "SQLite {version} is too old and may lose commits; build with SQLite 3.51.3 or later, \
             as the `bundled` feature of rusqlite does"
        ),
    ))
}

/// Says plainly what SQLite would only call "unable to open".
fn check_path(location: &Location, options: &Options) -> Result<()> {
    let Some(path) = location.path() else {
        return Ok(());
    };
    let shown = path.display();
    if path.is_dir() {
        return Err(Error::invalid(
            "location",
            format!("{shown} is a directory; name a file in it"),
        ));
    }
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    if let Some(parent) = parent
        && !parent.is_dir()
    {
        let problem = format!("there is no directory {}; create it first", parent.display());
        return Err(Error::invalid("location", problem));
    }
    // SQLite takes a file of one byte for an empty one, and would overwrite it.
    if path.metadata().is_ok_and(|metadata| (1..SMALLEST_DATABASE).contains(&metadata.len())) {
        let problem = format!("{shown} is not an SQLite database; choose another file");
        return Err(Error::new(Code::NotADatabase, problem));
    }
    if !options.migrate && !path.exists() {
        return Err(Error::new(
            Code::MigrationNeeded,
            format!(
                "there is no database at {shown} and migrating is off; open it once with it on"
            ),
        ));
    }
    Ok(())
}

fn connect(location: &Location, options: &Options) -> rusqlite::Result<Connection> {
    let (target, is_uri) = location.target();
    let mut flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_CREATE
        | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    if is_uri {
        flags |= OpenFlags::SQLITE_OPEN_URI;
    }
    let mut conn = Connection::open_with_flags(target, flags)?;
    conn.busy_handler(Some(patience(options.busy_timeout)))?;
    conn.set_prepared_statement_cache_capacity(STATEMENTS);
    // Without it a statement over a partial index is prepared again on every call.
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    conn.execute_batch(
        "PRAGMA foreign_keys = OFF;
         PRAGMA temp_store = MEMORY;",
    )?;
    Ok(conn)
}

/// Waits for a lock in short steps: SQLite's own waits grow to 100 ms, and a second process would
/// hardly ever find the gap between two commits of a busy one.
fn patience(timeout: Duration) -> impl FnMut(i32) -> bool + Send {
    let mut deadline = Instant::now();
    move |tries| {
        let now = Instant::now();
        if tries == 0 {
            deadline = now + timeout;
        }
        let wait = Duration::from_micros(if tries < 20 { 100 } else { 500 });
        let patient = now < deadline;
        if patient {
            std::thread::sleep(wait);
        }
        patient
    }
}

fn set_up_writer(conn: &Connection, options: &Options) -> rusqlite::Result<()> {
    let journal = match options.wal {
        true => "PRAGMA journal_mode = WAL",
        false => "PRAGMA journal_mode = DELETE",
    };
    // The change of the journal does not ask the busy handler in all cases.
    retry_while_busy(options.busy_timeout, || conn.query_row(journal, [], |_| Ok(())))?;
    let synchronous = match options.durability {
        Durability::Full => "FULL",
        Durability::Normal => "NORMAL",
    };
    conn.execute_batch(&format!(
        "PRAGMA synchronous = {synchronous};
         PRAGMA cache_size = -64000;
         PRAGMA wal_autocheckpoint = 4000;
         PRAGMA journal_size_limit = 67108864;"
    ))?;
    if let Some(pages) = options.max_pages {
        conn.execute_batch(&format!("PRAGMA max_page_count = {pages}"))?;
    }
    Ok(())
}

pub(crate) fn retry_while_busy<T>(
    timeout: Duration,
    mut attempt: impl FnMut() -> rusqlite::Result<T>,
) -> rusqlite::Result<T> {
    let mut may_wait = patience(timeout);
    for tries in 0.. {
        match attempt() {
            Err(error) if is_busy(&error) && may_wait(tries) => {}
            result => return result,
        }
    }
    unreachable!("a busy database is given up after the timeout")
}

/// Why a database could not be opened.
pub(crate) fn refusal(location: &Location, error: &rusqlite::Error) -> Error {
    if error.sqlite_error_code() == Some(ErrorCode::CannotOpen)
        && let Some(path) = location.path()
    {
        // If nothing is wrong with the file itself, its directory takes no side files or no file.
        match std::fs::File::open(path) {
            Ok(_) => return read_only(location),
            Err(error) if error.kind() == ErrorKind::NotFound => return read_only(location),
            Err(_) => {}
        }
    }
    translate(error, &location.name())
}

fn read_only(location: &Location) -> Error {
    Error::new(
        Code::ReadOnly,
        format!(
            "{} can not be written to; make the file and its directory writable for this process",
            location.name()
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_sqlite_that_loses_commits_is_refused() {
        let error = check_version(3_051_002, "3.51.2").unwrap_err();
        assert_eq!(error.code(), Code::Unsupported);
        assert!(error.message().contains("3.51.3"), "{error}");
        check_version(rusqlite::version_number(), rusqlite::version()).unwrap();
    }
}
