//! A look at a server, its settings and a schema in it, which changes nothing.

use std::collections::HashMap;
use std::sync::Arc;

use everloom_core::{Examination, Finding, StoreInfo};

use crate::error::Result;
use crate::link::{Link, params};
use crate::migrate::{self, SCHEMA_VERSION};
use crate::options::Options;
use crate::rows::{Columns, all, only};
use crate::sql::health;
use crate::target::Target;

/// Connections of one engine with default options: two write, four read, one listens.
const CONNECTIONS: i64 = 7;

/// A transaction that is open for longer is worth a word.
const LONG_TRANSACTION_SECONDS: i64 = 600;

/// Events that have no number for longer are not about to get one.
const NUMBERING_LATE_MS: i64 = 10_000;

/// Fewer dead rows than this cost nothing worth mentioning.
const MANY_DEAD_ROWS: i64 = 50_000;

/// Looks at a server and a schema in it. Works also where no store could be opened, as long as
/// the server lets the user in and shows it the schema's version.
pub fn examine(url: &str, options: &Options) -> everloom_core::Result<Examination> {
    let target = Arc::new(Target::parse(url, options)?);
    let mut link = Link::open(&target)?;
    let schema = migrate::version(&mut link).map_err(|fault| migrate::refusal(&link, fault))?;
    let mut findings = vec![Finding::about_schema(schema, SCHEMA_VERSION)];
    findings.extend(server(&mut link)?);
    findings.push(connections(&mut link)?);
    findings.extend(held_back(&mut link)?);
    if schema > 0 {
        findings.extend(tables(&mut link)?);
    }
    if schema == SCHEMA_VERSION {
        findings.push(numbering(&mut link)?);
    }
    Ok(Examination {
        store: StoreInfo {
            store: "postgres".into(),
            version: link.server_version().into(),
            schema,
        },
        wanted_schema: SCHEMA_VERSION,
        pending: migrate::pending(schema),
        findings,
    })
}

/// What the server must do so that an acknowledged command is never lost, and what keeps it fast.
fn server(link: &mut Link) -> Result<Vec<Finding>> {
    let rows = link.query(health::SERVER, params![])?;
    let (in_recovery, standbys): (bool, i64) = match rows.first() {
        Some(row) => (row.try_get(0)?, row.try_get(1)?),
        None => (false, 0),
    };
    let role = if in_recovery { "standby" } else { "primary" };
    let mut findings = vec![Finding::new("role", role).problem_if(
        in_recovery,
        "This server only follows another and takes no writes: connect to the primary.",
    )];
    let settings = Settings::read(link)?;
    findings.extend([
        settings.judge(
            "server_encoding",
            |value| value != "UTF8",
            "Texts of other alphabets do \
            not fit: create the database anew with ENCODING 'UTF8'.",
        ),
        settings.judge(
            "fsync",
            off,
            "A crash of the machine can destroy the whole database: set \
            fsync = on.",
        ),
        settings.judge(
            "full_page_writes",
            off,
            "A crash of the machine can leave torn pages: set \
            full_page_writes = on.",
        ),
        settings.judge(
            "synchronous_commit",
            off,
            "Acknowledged commands of the last moment can \
            be lost in a crash: set synchronous_commit = on, for this database or user.",
        ),
        settings.judge(
            "autovacuum",
            off,
            "Tables will grow and slow down without end: set \
            autovacuum = on.",
        ),
    ]);
    let awaited = settings.get("synchronous_standby_names");
    if !awaited.is_empty() {
        findings.push(Finding::new("synchronous_standby_names", awaited).problem_if(
            standbys == 0,
            "Commits wait for a standby and none is connected: start it, or empty the setting.",
        ));
    }
    Ok(findings)
}

fn off(value: &str) -> bool {
    value == "off"
}

/// Settings as they are for this user in this database.
struct Settings(HashMap<String, String>);

impl Settings {
    fn read(link: &mut Link) -> Result<Self> {
        let names: Vec<String> = [
            "autovacuum",
            "fsync",
            "full_page_writes",
            "server_encoding",
            "synchronous_commit",
            "synchronous_standby_names",
        ]
        .map(str::to_owned)
        .into();
        let rows = link.query(health::SETTINGS, params![names])?;
        let settings = all(&rows, |row| Ok((row.try_get(0)?, row.try_get(1)?)))?;
        Ok(Self(settings.into_iter().collect()))
    }

    fn get(&self, name: &str) -> &str {
        self.0.get(name).map_or("", String::as_str)
    }

    fn judge(&self, name: &str, is_wrong: impl FnOnce(&str) -> bool, advice: &str) -> Finding {
        let value = self.get(name);
        Finding::new(name, value).problem_if(is_wrong(value), advice)
    }
}

fn connections(link: &mut Link) -> Result<Finding> {
    let left: i64 = only(&link.query(health::CONNECTIONS_LEFT, params![])?)?;
    Ok(Finding::new("connections left", left.to_string())
        .problem_if(
            left < 1,
            "Nobody else can connect: raise max_connections or the limit of the \
            user or database, or end some.",
        )
        .warn_if(
            left < CONNECTIONS,
            format!(
                "An engine needs up to {CONNECTIONS}: raise \
            max_connections or the limit of the user or database, or run fewer programs."
            ),
        ))
}

/// What keeps the server from removing what is dead.
fn held_back(link: &mut Link) -> Result<Vec<Finding>> {
    let rows = link.query(health::HOLDERS, params![LONG_TRANSACTION_SECONDS])?;
    let mut findings = all(&rows, |row| {
        let (who, seconds): (String, i64) = (row.try_get(0)?, row.try_get(1)?);
        let value = format!("{who}, open for {} min", seconds / 60);
        Ok(Finding::new("long transaction", value).warn_if(
            true,
            "It keeps dead rows from being removed, and perhaps rows locked: end it with COMMIT, \
             ROLLBACK or pg_terminate_backend, or set idle_in_transaction_session_timeout.",
        ))
    })?;
    if findings.is_empty() {
        findings.push(Finding::new("long transactions", "none"));
    }
    let slots: Vec<String> =
        all(&link.query(health::ABANDONED_SLOTS, params![])?, |row| Ok(row.try_get(0)?))?;
    if !slots.is_empty() {
        findings.push(Finding::new("unused replication slots", slots.join(", ")).warn_if(
            true,
            "They keep the log, and perhaps dead rows, until the disk is full: connect who reads \
             them, or drop them with pg_drop_replication_slot.",
        ));
    }
    Ok(findings)
}

/// What is known about a table.
struct Table {
    name: String,
    bytes: i64,
    live: i64,
    dead: i64,
    neglected: bool,
    permitted: bool,
}

fn tables(link: &mut Link) -> Result<Vec<Finding>> {
    let schema = link.target().schema.clone();
    let rows = link.query(health::TABLES, params![schema.clone()])?;
    let tables = all(&rows, |row| {
        let mut columns = Columns::of(row);
        Ok(Table {
            name: columns.take()?,
            bytes: columns.take()?,
            live: columns.take()?,
            dead: columns.take()?,
            neglected: columns.take()?,
            permitted: columns.take()?,
        })
    })?;
    let names = |which: fn(&Table) -> bool| {
        let names: Vec<&str> =
            tables.iter().filter(|table| which(table)).map(|table| table.name.as_str()).collect();
        names.join(", ")
    };
    let forbidden = names(|table| !table.permitted);
    let neglected = names(|table| table.neglected);
    let bloated = names(|table| table.dead > MANY_DEAD_ROWS.max(table.live / 2));
    let bytes: i64 = tables.iter().map(|table| table.bytes).sum();
    let dead: i64 = tables.iter().map(|table| table.dead).sum();
    Ok(vec![
        Finding::new("rights", if forbidden.is_empty() { "complete" } else { "incomplete" })
            .problem_if(
                !forbidden.is_empty(),
                format!(
                    "GRANT SELECT, INSERT, UPDATE, DELETE ON \
                ALL TABLES IN SCHEMA {schema} to this user; it lacks them on {forbidden}."
                ),
            ),
        Finding::new("size", format!("{} MiB", bytes / (1 << 20))),
        Finding::new("dead rows", dead.to_string())
            .warn_if(
                !bloated.is_empty(),
                format!(
                    "Autovacuum does not keep up on {bloated}: lower \
                autovacuum_vacuum_scale_factor for it, and look for long transactions."
                ),
            )
            .warn_if(
                !neglected.is_empty(),
                format!(
                    "Autovacuum is off for {neglected}: reset its \
                storage parameter autovacuum_enabled."
                ),
            ),
    ])
}

fn numbering(link: &mut Link) -> Result<Finding> {
    let rows = link.query(health::UNNUMBERED, params![])?;
    let (events, late_ms): (i64, i64) = match rows.first() {
        Some(row) => (row.try_get(0)?, row.try_get(1)?),
        None => (0, 0),
    };
    Ok(Finding::new("events without a number", events.to_string()).problem_if(
        events > 0 && late_ms > NUMBERING_LATE_MS,
        format!(
            "Followers do not see them since {} s: run an engine on this database, or look into \
             the logs of those that run.",
            late_ms / 1000
        ),
    ))
}
