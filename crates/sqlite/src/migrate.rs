//! The schema: numbered migrations, and how a file is recognised as ours.

use everloom_core::{Code, Error, Result};
use rusqlite::{Connection, Transaction, TransactionBehavior};

use crate::connect::{refusal, retry_while_busy};
use crate::error::translate;
use crate::location::Location;
use crate::options::Options;

/// The version of the schema this crate reads and writes.
pub const SCHEMA_VERSION: u32 = MIGRATIONS.len() as u32;

/// Each brings the schema from the version of its index to the next.
const MIGRATIONS: &[(&str, &str)] = &[
    ("executions", include_str!("../migrations/0001_executions.sql")),
    ("inbox", include_str!("../migrations/0002_inbox.sql")),
    ("flows", include_str!("../migrations/0003_flows.sql")),
    ("suspension", include_str!("../migrations/0004_suspension.sql")),
    ("streams", include_str!("../migrations/0005_streams.sql")),
    ("limits", include_str!("../migrations/0006_limits.sql")),
];

/// The migrations that a schema of this version lacks.
pub(crate) fn pending(version: u32) -> Vec<String> {
    let names = MIGRATIONS.iter().map(|(name, _)| (*name).to_owned());
    names.skip(version as usize).collect()
}

/// "EVLM" in the file's header.
const APPLICATION_ID: i64 = 0x4556_4c4d;

/// What the header and the schema say about a file.
struct Header {
    application: i64,
    version: i64,
    tables: i64,
}

impl Header {
    fn read(conn: &Connection) -> rusqlite::Result<Self> {
        let number = |sql: &str| conn.query_row(sql, [], |row| row.get(0));
        Ok(Self {
            application: number("PRAGMA application_id")?,
            version: number("PRAGMA user_version")?,
            tables: number("SELECT count(*) FROM sqlite_schema")?,
        })
    }

    fn is_blank(&self) -> bool {
        self.application == 0 && self.version == 0 && self.tables == 0
    }
}

/// The version of a file's schema; refuses a file of another program.
pub(crate) fn version_of(conn: &Connection, location: &Location) -> Result<u32> {
    let header = Header::read(conn).map_err(|error| refusal(location, &error))?;
    check_owner(&header, &location.name())?;
    Ok(u32::try_from(header.version).unwrap_or(u32::MAX))
}

/// Refuses a file that is not ours, too new, or old with migrating off. Changes nothing.
pub(crate) fn inspect(conn: &Connection, location: &Location, options: &Options) -> Result<()> {
    // In one snapshot, because another process may be creating the file.
    let header = retry_while_busy(options.busy_timeout, || {
        let snapshot = conn.unchecked_transaction()?;
        let header = Header::read(&snapshot)?;
        snapshot.finish()?;
        Ok(header)
    })
    .map_err(|error| refusal(location, &error))?;
    check(&header, &location.name())?;
    if header.version < i64::from(SCHEMA_VERSION) && !options.migrate {
        return Err(Error::new(
            Code::MigrationNeeded,
            format!(
                "{} has schema {} and this version needs {SCHEMA_VERSION}, but migrating is off; \
                 open it once with migrating on",
                location.name(),
                header.version
            ),
        ));
    }
    Ok(())
}

fn check_owner(header: &Header, name: &str) -> Result<()> {
    if header.application != APPLICATION_ID && !header.is_blank() {
        return Err(Error::new(
            Code::NotADatabase,
            format!("{name} is an SQLite database of another program; choose another file"),
        ));
    }
    Ok(())
}

fn check(header: &Header, name: &str) -> Result<()> {
    check_owner(header, name)?;
    if header.version > i64::from(SCHEMA_VERSION) {
        return Err(Error::new(
            Code::SchemaTooNew,
            format!(
                "{name} has schema {} and this version only knows {SCHEMA_VERSION}; upgrade Everloom",
                header.version
            ),
        ));
    }
    Ok(())
}

/// Refuses a connection to anything but a database with the current schema. Changes nothing.
pub(crate) fn check_current(conn: &Connection) -> Result<()> {
    let name = conn.path().filter(|path| !path.is_empty()).unwrap_or("the database");
    let header = Header::read(conn).map_err(|error| translate(&error, name))?;
    check(&header, name)?;
    if header.version == i64::from(SCHEMA_VERSION) {
        return Ok(());
    }
    Err(Error::new(
        Code::MigrationNeeded,
        format!(
            "{name} has schema {} and this version needs {SCHEMA_VERSION}; open an engine on it first",
            header.version
        ),
    ))
}

/// Brings the file to the current schema. Several processes may do so at the same moment.
pub(crate) fn migrate(conn: &mut Connection, location: &Location, options: &Options) -> Result<()> {
    loop {
        let step = retry_while_busy(options.busy_timeout, || step(conn))
            .map_err(|error| refusal(location, &error))?;
        match step {
            Step::Done => return Ok(()),
            Step::Applied { version } => tracing::info!(version, "migrated the schema"),
            Step::Unexpected(header) => check(&header, &location.name())?,
        }
    }
}

enum Step {
    Done,
    Applied {
        version: i64,
    },
    /// Another process has made something else of the file meanwhile.
    Unexpected(Header),
}

fn step(conn: &mut Connection) -> rusqlite::Result<Step> {
    if version(conn)? == i64::from(SCHEMA_VERSION) {
        return Ok(Step::Done);
    }
    let tx = Transaction::new(conn, TransactionBehavior::Immediate)?;
    // Only now nobody else can change it.
    let from = version(&tx)?;
    let Some((_, migration)) = usize::try_from(from).ok().and_then(|from| MIGRATIONS.get(from))
    else {
        return match from == i64::from(SCHEMA_VERSION) {
            true => Ok(Step::Done),
            false => Ok(Step::Unexpected(Header::read(&tx)?)),
        };
    };
    tx.execute_batch(migration)?;
    tx.execute_batch(&format!(
        "PRAGMA application_id = {APPLICATION_ID};
         PRAGMA user_version = {};",
        from + 1
    ))?;
    tx.commit()?;
    Ok(Step::Applied { version: from + 1 })
}

fn version(conn: &Connection) -> rusqlite::Result<i64> {
    conn.query_row("PRAGMA user_version", [], |row| row.get(0))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::connect;

    fn dump(conn: &Connection) -> String {
        let mut statement = conn
            .prepare(
                "SELECT sql FROM sqlite_schema
                 WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite_%'
                 ORDER BY type DESC, name",
            )
            .unwrap();
        let texts = statement.query_map([], |row| row.get::<_, String>(0)).unwrap();
        texts.map(|text| format!("{};\n", text.unwrap())).collect::<Vec<_>>().join("\n")
    }

    /// `UPDATE_SCHEMA=1 cargo test` rewrites the dump.
    #[test]
    fn the_checked_in_schema_is_what_the_migrations_make() {
        let location = Location::parse(":memory:").unwrap();
        let conn = connect::writer(&location, &Options::default()).unwrap();
        let made = dump(&conn);
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("schema.sql");
        if std::env::var_os("UPDATE_SCHEMA").is_some() {
            std::fs::write(&path, &made).unwrap();
        }
        assert_eq!(std::fs::read_to_string(path).unwrap_or_default(), made);
    }
}
