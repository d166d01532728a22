//! Appending frames, one by one and in batches, alone and watched, next to the floor; and what the
//! last append of a long stream costs next to the first.

use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use clap::Args;
use everloom::{
    Claim, Durability, Engine, ExecutionId, LeaseToken, NewExecution, NewFrame, Payload, Policy,
    TailStream,
};
use serde::Serialize;
use tokio::task::JoinSet;

use crate::Common;
use crate::floor::streams::Load;
use crate::report::{Report, bar, percentiles, rounded};
use crate::stores::Stores;

#[derive(Args)]
pub(crate) struct Streams {
    #[command(flatten)]
    common: Common,
    /// Frames per append
    #[arg(long, value_delimiter = ',', default_values_t = [1, 50])]
    batches: Vec<usize>,
    /// How many watch
    #[arg(long, value_delimiter = ',', default_values_t = [0, 50])]
    tails: Vec<usize>,
    /// How many executions append at the same time
    #[arg(long, value_delimiter = ',', default_values_t = [1, 32])]
    writers: Vec<usize>,
    /// Appends to measure for each, by all of them together
    #[arg(long, default_value_t = 10_000)]
    count: usize,
    /// Frames of the long streams
    #[arg(long, default_value_t = 50_000)]
    length: usize,
    /// How many of these are kept
    #[arg(long, value_delimiter = ',', default_values_t = [1_000_000, 10_000])]
    kept: Vec<u64>,
}

#[derive(Serialize)]
struct Throughput {
    scenario: &'static str,
    store: &'static str,
    batch: usize,
    tails: usize,
    writers: usize,
    appends: usize,
    /// Frames per second.
    rate: f64,
    /// Frames per second of the floor.
    floor: f64,
    ratio: f64,
    p50_us: u64,
    p99_us: u64,
    /// When everyone had seen everything, after the last append was answered.
    behind_ms: u64,
    /// Processor time of everyone per frame, in nanoseconds.
    cpu_ns: u64,
}

impl Throughput {
    fn next_to(self, floor: f64) -> Self {
        Self { floor: rounded(floor), ratio: rounded(self.rate / floor), ..self }
    }
}

#[derive(Serialize)]
struct Length {
    scenario: &'static str,
    store: &'static str,
    /// How many frames of the stream are kept.
    kept: u64,
    /// The number of the frame.
    at: usize,
    append_us: u64,
    /// Next to the beginning.
    ratio: f64,
}

/// About the size of a token with what belongs to it.
const TOKEN: &[u8] = br#"{"token":"everlasting"}"#;

/// Frames of a stream that has just begun.
const BEGINNING: usize = 100;

/// More than are written.
const KEEP_ALL: u64 = 10_000_000;

impl Streams {
    pub(crate) async fn run(self) -> Result<()> {
        let stores = self.common.stores()?;
        let mut report = Report::new(self.common.json);
        for &writers in &self.writers {
            for &batch in &self.batches {
                let load = Load { writers, batch, frame: TOKEN };
                for &tails in &self.tails {
                    let run = format!("{writers}_{batch}_{tails}");
                    let before = floor(&stores, &format!("before_{run}"), load).await?;
                    let measured = self.throughput(&stores, load, tails).await?;
                    let after = floor(&stores, &format!("after_{run}"), load).await?;
                    report.add(measured.next_to(f64::midpoint(before, after)))?;
                }
            }
        }
        report.finish();
        let mut report = Report::new(self.common.json);
        for &kept in &self.kept {
            self.length(&stores, kept, &mut report).await?;
        }
        report.finish();
        Ok(())
    }

    async fn throughput(&self, stores: &Stores, load: Load, tails: usize) -> Result<Throughput> {
        let Load { writers, batch, .. } = load;
        let name = format!("streams_{writers}_{batch}_{tails}");
        let engine = stores.engine(&name, Durability::Full).await?;
        let leases = leases(&engine, writers, KEEP_ALL).await?;
        let watched = leases[0].execution;
        let appends = self.count.div_ceil(writers);
        let mut watching = JoinSet::new();
        for _ in 0..tails {
            watching.spawn(watch(engine.clone(), watched));
        }
        let bar = bar(&format!("{batch} a time, {tails} watch"), (appends * writers) as u64)?;
        let before = stores.cpu_us();
        let began = Instant::now();
        let mut writing = JoinSet::new();
        for lease in leases {
            let (engine, bar) = (engine.clone(), bar.clone());
            writing.spawn(async move {
                let mut latencies = Vec::with_capacity(appends);
                for _ in 0..appends {
                    let at = Instant::now();
                    engine.append(&lease, frames(batch)).await?;
                    latencies.push(at.elapsed());
                    bar.inc(1);
                }
                engine.complete(&lease, Payload::default()).await?;
                anyhow::Ok(latencies)
            });
        }
        let mut latencies = Vec::new();
        while let Some(written) = writing.join_next().await {
            latencies.extend(written??);
        }
        let elapsed = began.elapsed();
        let written = Instant::now();
        bar.finish_and_clear();
        while let Some(seen) = watching.join_next().await {
            ensure!(seen?? == appends * batch, "a tail has missed frames");
        }
        let count = (appends * writers * batch) as u64;
        let behind = written.elapsed();
        let spent = stores.cpu_us().since(before);
        engine.close(Duration::from_secs(10)).await;
        stores.remove(&name).await?;
        let rate = count as f64 / elapsed.as_secs_f64();
        let (p50_us, p99_us) = percentiles(latencies);
        Ok(Throughput {
            scenario: "streams",
            store: stores.name(),
            batch,
            tails,
            writers,
            appends: appends * writers,
            rate: rounded(rate),
            floor: 0.0,
            ratio: 0.0,
            p50_us,
            p99_us,
            behind_ms: u64::try_from(behind.as_millis())?,
            cpu_ns: spent * 1000 / count.max(1),
        })
    }

    /// What an append costs at the end of a long stream and at the beginning of another, in turns,
    /// so that what else the machine does concerns both; without waiting for the disk.
    async fn length(&self, stores: &Stores, kept: u64, report: &mut Report) -> Result<()> {
        let name = format!("streams_long_{kept}");
        let engine = stores.engine(&name, Durability::Normal).await?;
        let leases = leases(&engine, 2, kept).await?;
        let (long, short) = (&leases[0], &leases[1]);
        let bar = bar("one long stream", self.length as u64)?;
        for _ in 0..self.length {
            engine.append(long, frames(1)).await?;
            bar.inc(1);
        }
        for _ in 0..BEGINNING {
            engine.append(short, frames(1)).await?;
        }
        let (mut ends, mut beginnings) = (Vec::new(), Vec::new());
        for _ in 0..500 {
            ends.push(append_timed(&engine, long).await?);
            beginnings.push(append_timed(&engine, short).await?);
        }
        bar.finish_and_clear();
        engine.close(Duration::from_secs(10)).await;
        stores.remove(&name).await?;
        let (begin, end) = (percentiles(beginnings).0, percentiles(ends).0);
        for (at, append_us) in [(BEGINNING, begin), (self.length, end)] {
            report.add(Length {
                scenario: "stream_length",
                store: stores.name(),
                kept,
                at,
                append_us,
                ratio: rounded(append_us as f64 / begin.max(1) as f64),
            })?;
        }
        Ok(())
    }
}

async fn append_timed(engine: &Engine, lease: &LeaseToken) -> Result<Duration> {
    let at = Instant::now();
    engine.append(lease, frames(1)).await?;
    Ok(at.elapsed())
}

fn frames(batch: usize) -> Vec<NewFrame> {
    vec![
        NewFrame::new(Payload { content_type: Payload::JSON.into(), bytes: TOKEN.to_vec() });
        batch
    ]
}

/// Leases on new executions that keep so many frames.
async fn leases(engine: &Engine, count: usize, kept: u64) -> Result<Vec<LeaseToken>> {
    let policy = Policy { stream_retention: Some(kept), ..Policy::default() };
    let work = NewExecution::new("work").policy(policy);
    engine.submit_batch(vec![work; count]).await?;
    let claim = Claim { max: count, lease_ttl: Duration::from_secs(3600), ..Claim::new("worker") };
    let leases: Vec<_> =
        engine.claim(claim).await?.leases.into_iter().map(|one| one.lease).collect();
    if leases.len() < count {
        bail!("claimed {} of {count}", leases.len());
    }
    Ok(leases)
}

/// Frames per second of the floor.
async fn floor(stores: &Stores, name: &str, load: Load) -> Result<f64> {
    let engine = stores.engine(name, Durability::Full).await?;
    for lease in leases(&engine, load.writers, KEEP_ALL).await? {
        engine.append(&lease, frames(load.batch)).await?;
    }
    engine.close(Duration::from_secs(10)).await;
    let rate = stores.stream_floor(name, load).await?;
    stores.remove(name).await?;
    Ok(rate)
}

/// Counts the frames of a stream until it closes.
async fn watch(engine: Engine, execution: ExecutionId) -> Result<usize> {
    let mut tail = engine.tail_stream(TailStream::new(execution)).await?;
    let mut seen = 0;
    while let Some(frame) = tail.next().await {
        frame?;
        seen += 1;
    }
    Ok(seen)
}
