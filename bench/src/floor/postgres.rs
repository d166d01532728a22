//! On PostgreSQL: two connections, each with as many operations per commit as 256 callers leave for
//! it, and one statement per kind of operation that does all of it.

use std::time::Instant;

use anyhow::{Context, Result, ensure};
use everloom_postgres::{Options, PgStore};
use tokio_postgres::{Client, NoTls, Statement};
use uuid::Uuid;

use super::{
    ACTIVE, CLAIMED, COMPLETED, DETAIL, DONE, SUBMITTED, TTL_MS, WAITING, WEEK_MS, WORKER, uuid_of,
};
use crate::lifecycle::{INPUT, RESULT};
use crate::report::bar;

const CONNECTIONS: usize = 2;
const TRANSACTION: usize = 256 / CONNECTIONS;
const ROUNDS: usize = 240;
const LIFECYCLES: usize = ROUNDS * CONNECTIONS * TRANSACTION;

/// Lifecycles per second.
pub(crate) async fn lifecycles(server: &str, url: &str, schema: &str) -> Result<f64> {
    // The store makes the schema, so that it is the same.
    let url = url.to_owned();
    tokio::task::spawn_blocking(move || PgStore::open(&url, &Options::default()).map(drop))
        .await??;
    let bar = bar("floor", LIFECYCLES as u64)?;
    let mut floors = Vec::new();
    for _ in 0..CONNECTIONS {
        floors.push(Floor::open(server, schema).await?);
    }
    let began = Instant::now();
    let tasks: Vec<_> = floors
        .into_iter()
        .enumerate()
        .map(|(connection, mut floor)| {
            let bar = bar.clone();
            tokio::spawn(async move {
                for round in 0..ROUNDS {
                    floor.submit((round * CONNECTIONS + connection) * TRANSACTION).await?;
                    let claimed = floor.claim().await?;
                    floor.complete(claimed).await?;
                    bar.inc(TRANSACTION as u64);
                }
                // What was locked by the other connection when it was looked for.
                loop {
                    let claimed = floor.claim().await?;
                    if claimed.uuids.is_empty() {
                        break;
                    }
                    floor.complete(claimed).await?;
                }
                anyhow::Ok(floor)
            })
        })
        .collect();
    let mut floors = Vec::new();
    for task in tasks {
        floors.push(task.await??);
    }
    let rate = LIFECYCLES as f64 / began.elapsed().as_secs_f64();
    bar.finish_and_clear();
    floors.first().context("no connection")?.check_and_drop(schema).await?;
    Ok(rate)
}

struct Floor {
    client: Client,
    submit: Statement,
    claim: Statement,
    complete: Statement,
    now: i64,
}

/// What was claimed, column by column.
#[derive(Default)]
struct Claimed {
    uuids: Vec<Uuid>,
    secrets: Vec<Vec<u8>>,
    results: Vec<&'static [u8]>,
}

const SUBMIT: &str = "
    WITH new AS MATERIALIZED (
        SELECT *
        FROM unnest($1::bigint[], $2::uuid[], $3::bytea[]) WITH ORDINALITY
            AS new (id, uuid, input, place)
    ),
    batch AS (
        INSERT INTO batches (size, at, source, base)
        SELECT count(*), $5, 0, nextval('bases')
        FROM new
        RETURNING id
    ),
    executions AS (
        INSERT INTO executions (
            id, uuid, namespace, lane, route, priority, rank, state, held, gated, since,
            created_at, epoch, attempt, retries, reclaims, run, beside
        )
        SELECT id, uuid, 1, 1, 1, 1000, id, $4, false, false, $5, $5, 0, 0, 0, 0, 1, 0
        FROM new
    ),
    inputs AS (
        INSERT INTO inputs (execution, bytes)
        SELECT id, input
        FROM new
    )
    INSERT INTO events (batch, place, kind, at, namespace, execution, uuid, lane, epoch)
    SELECT (SELECT id FROM batch), place, $6, $5, 1, id, uuid, 1, 0
    FROM new";

const CLAIM: &str = "
    WITH next AS MATERIALIZED (
        SELECT id
        FROM executions
        WHERE lane = 1 AND route = 1 AND state <= 1 AND NOT held
        ORDER BY priority DESC, rank, id
        LIMIT $1
        FOR UPDATE SKIP LOCKED
    ),
    claimed AS (
        UPDATE executions SET
            state = $2, since = $3, until = $3::bigint + $4::bigint, started_at = $3, epoch = 1, attempt = 1,
            worker = $5, secret = uuid_send(gen_random_uuid()), ttl_ms = $4::bigint, due_at = $3::bigint + $4::bigint
        FROM next
        WHERE executions.id = next.id
        RETURNING executions.*
    ),
    batch AS (
        INSERT INTO batches (size, at, source, base)
        SELECT count(*), $3, 0, nextval('bases')
        FROM claimed
        HAVING count(*) > 0
        RETURNING id
    ),
    logged AS (
        INSERT INTO events (
            batch, place, kind, at, namespace, execution, uuid, lane, attempt, epoch, worker
        )
        SELECT (SELECT id FROM batch), row_number() OVER (), $6, $3, 1, id, uuid, 1, 1, 1, $5
        FROM claimed
    )
    SELECT claimed.uuid, claimed.secret, claimed.policy, claimed.tags, inputs.bytes
    FROM claimed
    LEFT JOIN inputs ON inputs.execution = claimed.id";

const COMPLETE: &str = "
    WITH held AS MATERIALIZED (
        SELECT executions.id, executions.uuid, executions.secret, executions.since, held.result
        FROM unnest($1::bigint[], $2::uuid[], $3::bytea[], $4::bytea[])
            AS held (namespace, uuid, secret, result)
        JOIN executions ON executions.uuid = held.uuid AND executions.namespace = held.namespace
            AND executions.secret = held.secret
        FOR UPDATE OF executions
    ),
    done AS (
        UPDATE executions SET
            state = $5, since = $6, until = NULL, epoch = 2, worker = NULL, secret = NULL,
            ttl_ms = NULL, detail = $7, due_at = $6::bigint + $8::bigint
        FROM held
        WHERE executions.id = held.id
    ),
    results AS (
        INSERT INTO results (execution, bytes)
        SELECT id, result
        FROM held
    ),
    past_leases AS (
        INSERT INTO past_leases (
            execution, epoch, attempt, run, worker, secret, claimed_at, ended_at
        )
        SELECT id, 1, 1, 1, $9, secret, since, $6
        FROM held
    ),
    batch AS (
        INSERT INTO batches (size, at, source, base)
        SELECT count(*), $6, 0, nextval('bases')
        FROM held
        HAVING count(*) > 0
        RETURNING id
    )
    INSERT INTO events (
        batch, place, kind, at, namespace, execution, uuid, lane, attempt, epoch, worker
    )
    SELECT (SELECT id FROM batch), row_number() OVER (), $10, $6, 1, id, uuid, 1, 1, 2, $9
    FROM held";

impl Floor {
    async fn open(server: &str, schema: &str) -> Result<Self> {
        let (client, connection) = tokio_postgres::connect(server, NoTls).await?;
        tokio::spawn(connection);
        // As the store's sessions.
        client
            .batch_execute(&format!(
                "SET search_path TO \"{schema}\";
                 SET plan_cache_mode TO force_generic_plan;
                 SET enable_seqscan TO off;
                 SET enable_hashjoin TO off;
                 SET enable_mergejoin TO off;
                 SET enable_bitmapscan TO off;
                 SET jit TO off;
                 SET client_min_messages TO warning;
                 CREATE SEQUENCE IF NOT EXISTS bases;"
            ))
            .await?;
        Ok(Self {
            submit: client.prepare(SUBMIT).await?,
            claim: client.prepare(CLAIM).await?,
            complete: client.prepare(COMPLETE).await?,
            client,
            now: 1_700_000_000_000,
        })
    }

    async fn submit(&mut self, first: usize) -> Result<()> {
        self.now += 1;
        let rows = (first + 1..=first + TRANSACTION).map(|row| row as i64);
        let rows: Vec<i64> = rows.collect();
        let uuids: Vec<Uuid> = rows.iter().map(|row| uuid_of(*row, self.now)).collect();
        let inputs = vec![&INPUT[..]; TRANSACTION];
        let (state, kind) = (WAITING as i32, SUBMITTED as i32);
        self.client
            .execute(&self.submit, &[&rows, &uuids, &inputs, &state, &self.now, &kind])
            .await?;
        Ok(())
    }

    async fn claim(&mut self) -> Result<Claimed> {
        self.now += 1;
        let (state, kind, most) = (ACTIVE as i32, CLAIMED as i32, TRANSACTION as i64);
        let rows = self
            .client
            .query(&self.claim, &[&most, &state, &self.now, &TTL_MS, &WORKER, &kind])
            .await?;
        let mut claimed = Claimed::default();
        for row in rows {
            claimed.uuids.push(row.try_get(0)?);
            claimed.secrets.push(row.try_get(1)?);
            claimed.results.push(&RESULT);
        }
        Ok(claimed)
    }

    async fn complete(&mut self, claimed: Claimed) -> Result<()> {
        self.now += 1;
        let Claimed { uuids, secrets, results } = claimed;
        let (state, kind) = (COMPLETED as i32, DONE as i32);
        let namespaces = vec![1_i64; uuids.len()];
        let done = self
            .client
            .execute(
                &self.complete,
                &[
                    &namespaces,
                    &uuids,
                    &secrets,
                    &results,
                    &state,
                    &self.now,
                    &DETAIL,
                    &WEEK_MS,
                    &WORKER,
                    &kind,
                ],
            )
            .await?;
        ensure!(done == uuids.len() as u64, "{done} of {} completed", uuids.len());
        Ok(())
    }

    async fn check_and_drop(&self, schema: &str) -> Result<()> {
        let count = "SELECT count(*) FROM executions WHERE state = 10";
        let completed: i64 = self.client.query_one(count, &[]).await?.get(0);
        ensure!(completed == LIFECYCLES as i64, "{completed} of {LIFECYCLES} completed");
        self.client.batch_execute(&format!("DROP SCHEMA \"{schema}\" CASCADE; CHECKPOINT")).await?;
        Ok(())
    }
}
