//! The schema: numbered migrations, and how one is recognised as ours.

use everloom_core::{Code, Error, Result};
use tokio_postgres::error::SqlState;

use crate::error::Fault;
use crate::link::Link;

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

/// Brings the schema to the current version, or refuses one that is too new, or old with
/// migrating off. Several processes may do so at the same moment.
pub(crate) fn migrate(link: &mut Link) -> Result<()> {
    let target = link.target().clone();
    loop {
        let version = version(link).map_err(|fault| refusal(link, fault))?;
        if version > SCHEMA_VERSION {
            return Err(Error::new(
                Code::SchemaTooNew,
                format!(
                    "the schema {} in {} has version {version} and this program only knows \
                     {SCHEMA_VERSION}; upgrade Everloom",
                    target.schema, target.place
                ),
            ));
        }
        if version == SCHEMA_VERSION {
            return Ok(());
        }
        if !target.options.migrate {
            return Err(Error::new(
                Code::MigrationNeeded,
                format!(
                    "the schema {} in {} has version {version} and this program needs \
                     {SCHEMA_VERSION}, but migrating is off; open it once with migrating on",
                    target.schema, target.place
                ),
            ));
        }
        step(link, version).map_err(|fault| refusal(link, fault))?;
    }
}

/// The migrations that a schema of this version lacks.
pub(crate) fn pending(version: u32) -> Vec<String> {
    let names = MIGRATIONS.iter().map(|(name, _)| (*name).to_owned());
    names.skip(version as usize).collect()
}

/// 0 when there is no schema yet.
pub(crate) fn version(link: &mut Link) -> Result<u32, Fault> {
    let schema = link.target().schema.clone();
    // Asked of the catalogue's tables: `to_regclass` may answer from what the session remembers
    // of a time before another process had made them.
    let exists = link.script(&format!(
        "SELECT c.relname::text
        FROM pg_catalog.pg_class AS c
        JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
        WHERE n.nspname = '{schema}' AND c.relname = 'migrations'"
    ))?;
    if exists.is_none() {
        return Ok(0);
    }
    let version = link.script(&format!("SELECT max(version) FROM \"{schema}\".migrations"))?;
    Ok(version.and_then(|text| text.parse().ok()).unwrap_or(0))
}

/// Applies the next migration, unless another process has done so meanwhile. All of it is one
/// script, hence one transaction.
fn step(link: &mut Link, from: u32) -> Result<(), Fault> {
    let schema = link.target().schema.clone();
    let (name, text) = MIGRATIONS[from as usize];
    let to = from + 1;
    link.script("BEGIN")?;
    // Whoever waits here finds the migration done and does nothing. The lock goes with the
    // transaction.
    link.script(&format!(
        "SELECT pg_advisory_xact_lock(hashtextextended('everloom/{schema}', 1))"
    ))?;
    let applied = match version(link)? == from {
        true => apply(link, &schema, to, name, text),
        false => Ok(()),
    };
    match applied {
        Ok(()) => {
            link.script("COMMIT")?;
            tracing::info!(version = to, name, "migrated the schema");
            Ok(())
        }
        Err(fault) => {
            if !fault.is_lost() {
                link.script("ROLLBACK")?;
            }
            Err(fault)
        }
    }
}

fn apply(link: &mut Link, schema: &str, to: u32, name: &str, text: &str) -> Result<(), Fault> {
    if to == 1 {
        // An existing schema is used as it is: its owner may have made it for us.
        let exists = link.script(&format!(
            "SELECT nspname::text FROM pg_catalog.pg_namespace WHERE nspname = '{schema}'"
        ))?;
        if exists.is_none() {
            link.script(&format!("CREATE SCHEMA \"{schema}\""))?;
        }
        link.script(
            "CREATE TABLE migrations (
                version    integer PRIMARY KEY,
                name       text        NOT NULL,
                applied_at timestamptz NOT NULL DEFAULT now()
            )",
        )?;
    }
    link.script(text)?;
    link.script(&format!("INSERT INTO migrations (version, name) VALUES ({to}, '{name}')"))?;
    Ok(())
}

pub(crate) fn refusal(link: &Link, fault: Fault) -> Error {
    let target = link.target();
    match &fault {
        Fault::Postgres(error) if error.code() == Some(&SqlState::INSUFFICIENT_PRIVILEGE) => {
            Error::new(
                Code::ReadOnly,
                format!(
                    "this user may not use or create the schema {} in {}; grant it ({})",
                    target.schema,
                    target.place,
                    crate::error::cause(error)
                ),
            )
        }
        _ => fault.into(),
    }
}
