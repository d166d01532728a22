//! On SQLite: transactions of 256 operations, prepared statements, one thread, no savepoints, no
//! `RETURNING`.

use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result};
use everloom_sqlite::{Location, Options, SqliteStore};
use rusqlite::{CachedStatement, Connection, params};

use super::{
    ACTIVE, CLAIMED, COMPLETED, DETAIL, DONE, SUBMITTED, TTL_MS, WAITING, WEEK_MS, WORKER, uuid_of,
};
use crate::lifecycle::{INPUT, RESULT};
use crate::report::bar;

const TRANSACTION: i64 = 256;
const ROUNDS: i64 = 160;

/// Lifecycles per second.
pub(crate) fn lifecycles(file: &Path) -> Result<f64> {
    let path = file.to_str().context("not UTF-8")?;
    // The store makes the schema, so that it is the same.
    drop(SqliteStore::open(&Location::parse(path)?, &Options::default())?);
    let conn = Connection::open(file)?;
    conn.pragma_update(None, "synchronous", "FULL")?;
    conn.pragma_update(None, "cache_size", -64_000)?;
    conn.pragma_update(None, "wal_autocheckpoint", 4000)?;
    conn.set_prepared_statement_cache_capacity(64);
    let bar = bar("floor", (ROUNDS * TRANSACTION).unsigned_abs())?;
    let mut floor =
        Floor { statements: Statements::prepare(&conn)?, cursor: 0, now: 1_700_000_000_000 };
    let began = Instant::now();
    for round in 0..ROUNDS {
        let first = round * TRANSACTION + 1;
        transaction(&conn, &mut floor, first, Floor::submit)?;
        transaction(&conn, &mut floor, first, Floor::claim)?;
        transaction(&conn, &mut floor, first, Floor::complete)?;
        bar.inc(TRANSACTION.unsigned_abs());
    }
    let rate = (ROUNDS * TRANSACTION) as f64 / began.elapsed().as_secs_f64();
    bar.finish_and_clear();
    Ok(rate)
}

fn transaction<'a>(
    conn: &Connection,
    floor: &mut Floor<'a>,
    first: i64,
    operation: fn(&mut Floor<'a>, i64) -> Result<()>,
) -> Result<()> {
    conn.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
    for row in first..first + TRANSACTION {
        operation(floor, row)?;
    }
    floor.now += 1;
    floor.statements.meta.execute(params![floor.now, first + TRANSACTION])?;
    conn.prepare_cached("COMMIT")?.execute([])?;
    Ok(())
}

struct Floor<'a> {
    statements: Statements<'a>,
    cursor: i64,
    now: i64,
}

struct Statements<'a> {
    meta: CachedStatement<'a>,
    insert: CachedStatement<'a>,
    input: CachedStatement<'a>,
    event: CachedStatement<'a>,
    ready: CachedStatement<'a>,
    read_input: CachedStatement<'a>,
    find: CachedStatement<'a>,
    save: CachedStatement<'a>,
    result: CachedStatement<'a>,
    past_lease: CachedStatement<'a>,
}

impl<'a> Statements<'a> {
    fn prepare(conn: &'a Connection) -> Result<Self> {
        Ok(Self {
            meta: conn.prepare_cached(
                "UPDATE meta SET last_now = ?1, last_row = ?2, commits = commits + 1 WHERE id = 1",
            )?,
            insert: conn.prepare_cached(
                "INSERT INTO executions (
                    id, uuid, namespace, lane, route, priority, rank, state, held, since,
                    created_at, epoch, attempt, retries, reclaims, run, beside
                ) VALUES (?1, ?2, 1, 1, 1, 1000, ?1, ?3, 0, ?4, ?4, 0, 0, 0, 0, 1, 0)",
            )?,
            input: conn.prepare_cached(
                "INSERT INTO inputs (execution, content_type, bytes, fingerprint)
                VALUES (?1, NULL, ?2, NULL)",
            )?,
            event: conn.prepare_cached(
                "INSERT INTO events (
                    cursor, kind, at, namespace, execution, uuid, lane, attempt, epoch, worker
                ) VALUES (?1, ?2, ?3, 1, ?4, ?5, 1, ?6, ?7, ?8)",
            )?,
            ready: conn.prepare_cached(
                "SELECT id, uuid, rank, since, created_at, epoch, attempt, policy, tags
                FROM executions INDEXED BY ready
                WHERE lane = 1 AND route = 1 AND state <= 1 AND held = 0
                ORDER BY priority DESC, rank LIMIT 1",
            )?,
            read_input: conn
                .prepare_cached("SELECT content_type, bytes FROM inputs WHERE execution = ?1")?,
            find: conn.prepare_cached(
                "SELECT id, epoch, attempt, secret, worker, until, since, policy
                FROM executions WHERE uuid = ?1 AND namespace = 1",
            )?,
            save: conn.prepare_cached(
                "UPDATE executions SET
                    state = ?2, since = ?3, until = ?4, started_at = ?3, epoch = ?5, attempt = 1,
                    worker = ?6, secret = ?7, ttl_ms = ?8, detail = ?9, due_at = ?10
                WHERE id = ?1",
            )?,
            result: conn.prepare_cached(
                "INSERT INTO results (execution, content_type, bytes) VALUES (?1, NULL, ?2)",
            )?,
            past_lease: conn.prepare_cached(
                "INSERT INTO past_leases (
                    execution, epoch, attempt, run, worker, secret, claimed_at, ended_at, how
                ) VALUES (?1, ?2, 1, 1, ?3, ?4, ?5, ?6, NULL)",
            )?,
        })
    }
}

impl Floor<'_> {
    fn log(&mut self, kind: i64, row: i64, uuid: &[u8], owner: Option<(i64, &str)>) -> Result<()> {
        self.cursor += 1;
        let (epoch, worker) = (owner.map_or(0, |owner| owner.0), owner.map(|owner| owner.1));
        let attempt = owner.map(|_| 1);
        self.statements.event.execute(params![
            self.cursor,
            kind,
            self.now,
            row,
            uuid,
            attempt,
            epoch,
            worker
        ])?;
        Ok(())
    }

    fn submit(&mut self, row: i64) -> Result<()> {
        let uuid = uuid_of(row, self.now);
        self.statements.insert.execute(params![row, uuid.as_bytes(), WAITING, self.now])?;
        self.statements.input.execute(params![row, INPUT])?;
        self.log(SUBMITTED, row, uuid.as_bytes(), None)
    }

    fn claim(&mut self, _: i64) -> Result<()> {
        let (row, uuid): (i64, [u8; 16]) =
            self.statements.ready.query_row([], |found| Ok((found.get(0)?, found.get(1)?)))?;
        let secret = uuid;
        self.save(row, ACTIVE, 1, Some((WORKER, &secret)))?;
        let _: Vec<u8> = self.statements.read_input.query_row([row], |found| found.get(1))?;
        self.log(CLAIMED, row, &uuid, Some((1, WORKER)))
    }

    fn complete(&mut self, row: i64) -> Result<()> {
        // Submitted two transactions ago, and the time moves on with each.
        let uuid = uuid_of(row, self.now - 2);
        let (found, secret): (i64, [u8; 16]) = self
            .statements
            .find
            .query_row([uuid.as_bytes()], |found| Ok((found.get(0)?, found.get(3)?)))?;
        self.statements.result.execute(params![found, RESULT])?;
        self.statements.past_lease.execute(params![
            found,
            1,
            WORKER,
            secret,
            self.now - 1,
            self.now
        ])?;
        self.save(found, COMPLETED, 2, None)?;
        self.log(DONE, found, uuid.as_bytes(), Some((2, WORKER)))
    }

    fn save(
        &mut self,
        row: i64,
        state: i64,
        epoch: i64,
        lease: Option<(&str, &[u8; 16])>,
    ) -> Result<()> {
        let until = lease.map(|_| self.now + TTL_MS);
        let due_at = until.unwrap_or(self.now + WEEK_MS);
        let detail = lease.is_none().then_some(DETAIL);
        self.statements.save.execute(params![
            row,
            state,
            self.now,
            until,
            epoch,
            lease.map(|lease| lease.0),
            lease.map(|lease| lease.1),
            lease.map(|_| TTL_MS),
            detail,
            due_at
        ])?;
        Ok(())
    }
}
