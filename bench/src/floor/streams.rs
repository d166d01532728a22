//! Appending to streams that an engine has begun: the rows of the frames and of their streams, as
//! many appends per commit as there are writers.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Result;
use rusqlite::{Connection, params};
use serde_json::json;
use tokio_postgres::{Client, NoTls};

/// What is appended.
#[derive(Clone, Copy)]
pub(crate) struct Load {
    /// How many executions append at the same time.
    pub(crate) writers: usize,
    /// Frames of one append.
    pub(crate) batch: usize,
    pub(crate) frame: &'static [u8],
}

/// How long it goes on.
const TIME: Duration = Duration::from_millis(500);

impl Load {
    fn facts(self) -> String {
        let frames = vec![json!({ "size": self.frame.len() }); self.batch];
        json!({ "at": 1_700_000_000_000_i64, "attempt": 1, "frames": frames }).to_string()
    }

    fn bytes(self) -> Vec<u8> {
        self.frame.repeat(self.batch)
    }

    /// The first and the last frame of an append; round 0 is what the engine has begun with.
    fn place(self, round: usize) -> (i64, i64) {
        ((round * self.batch + 1) as i64, ((round + 1) * self.batch) as i64)
    }
}

/// The stream after that frame.
fn state(last: i64) -> String {
    format!(r#"{{"last":{last},"durable":{{"frames":{last},"gone":0}}}}"#)
}

/// Frames per second on SQLite.
pub(crate) fn sqlite(file: &Path, load: Load) -> Result<f64> {
    let conn = Connection::open(file)?;
    conn.pragma_update(None, "synchronous", "FULL")?;
    conn.pragma_update(None, "cache_size", -64_000)?;
    conn.pragma_update(None, "wal_autocheckpoint", 4000)?;
    let mut meta = conn.prepare("UPDATE meta SET commits = commits + 1 WHERE id = 1")?;
    let mut chunk = conn.prepare(
        "INSERT INTO chunks (execution, live, first, last, facts, bytes)
        VALUES (?1, 0, ?2, ?3, ?4, ?5)",
    )?;
    let mut stream = conn.prepare("UPDATE streams SET state = ?2 WHERE execution = ?1")?;
    let streams: Vec<i64> = conn
        .prepare("SELECT execution FROM streams")?
        .query_map([], |row| row.get(0))?
        .collect::<std::result::Result<_, _>>()?;
    let (facts, bytes) = (load.facts(), load.bytes());
    let began = Instant::now();
    let mut rounds = 1;
    while began.elapsed() < TIME {
        let (first, last) = load.place(rounds);
        conn.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
        for writer in &streams {
            chunk.execute(params![writer, first, last, facts, bytes])?;
            stream.execute(params![writer, state(last)])?;
        }
        meta.execute([])?;
        conn.prepare_cached("COMMIT")?.execute([])?;
        rounds += 1;
    }
    Ok(((rounds - 1) * streams.len() * load.batch) as f64 / began.elapsed().as_secs_f64())
}

const APPEND: &str = "
    WITH chunks AS (
        INSERT INTO chunks (execution, live, first, last, facts, bytes)
        SELECT execution, false, first, last, facts, bytes
        FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::text[], $5::bytea[])
            AS new (execution, first, last, facts, bytes)
    )
    UPDATE streams SET
        state = new.state
    FROM unnest($1::bigint[], $6::text[]) AS new (execution, state)
    WHERE streams.execution = new.execution";

/// Frames per second on PostgreSQL, by two connections that share the writers.
pub(crate) async fn postgres(server: &str, schema: &str, load: Load) -> Result<f64> {
    let client = connect(server, schema).await?;
    let rows = client.query("SELECT execution FROM streams", &[]).await?;
    let streams: Vec<i64> = rows.iter().map(|row| row.get(0)).collect();
    let began = Instant::now();
    let (one, two) = streams.split_at(streams.len() / 2);
    let (one, two) = tokio::try_join!(
        append(server, schema, load, one.to_vec()),
        append(server, schema, load, two.to_vec()),
    )?;
    Ok((one + two) as f64 / began.elapsed().as_secs_f64())
}

/// Appends for a while; says how many frames.
async fn append(server: &str, schema: &str, load: Load, writers: Vec<i64>) -> Result<usize> {
    if writers.is_empty() {
        return Ok(0);
    }
    let client = connect(server, schema).await?;
    let append = client.prepare(APPEND).await?;
    let (facts, bytes) = (vec![load.facts(); writers.len()], vec![load.bytes(); writers.len()]);
    let began = Instant::now();
    let mut rounds = 1;
    while began.elapsed() < TIME {
        let (first, last) = load.place(rounds);
        let (firsts, lasts) = (vec![first; writers.len()], vec![last; writers.len()]);
        let states = vec![state(last); writers.len()];
        client.execute(&append, &[&writers, &firsts, &lasts, &facts, &bytes, &states]).await?;
        rounds += 1;
    }
    Ok((rounds - 1) * writers.len() * load.batch)
}

async fn connect(server: &str, schema: &str) -> Result<Client> {
    let (client, connection) = tokio_postgres::connect(server, NoTls).await?;
    tokio::spawn(connection);
    client.batch_execute(&format!("SET search_path TO \"{schema}\"")).await?;
    Ok(client)
}
