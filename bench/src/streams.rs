//! Appending frames, one by one and in batches, alone and watched; and what the last append of a
//! long stream costs next to the first.

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
    #[arg(long, default_value_t = 32)]
    writers: usize,
    /// Appends to measure for each, by all of them together
    #[arg(long, default_value_t = 10_000)]
    count: usize,
    /// Frames of the long stream
    #[arg(long, default_value_t = 50_000)]
    length: usize,
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
    p50_us: u64,
    p99_us: u64,
    /// Processor time of everyone per frame, in nanoseconds.
    cpu_ns: u64,
}

#[derive(Serialize)]
struct Length {
    scenario: &'static str,
    store: &'static str,
    /// The number of the frame.
    at: usize,
    append_us: u64,
    /// Next to the beginning.
    ratio: f64,
}

/// About the size of a token with what belongs to it.
const TOKEN: &[u8] = br#"{"token":"everlasting"}"#;

impl Streams {
    pub(crate) async fn run(self) -> Result<()> {
        let stores = self.common.stores()?;
        let mut report = Report::new(self.common.json);
        for &batch in &self.batches {
            for &tails in &self.tails {
                let name = format!("streams_{batch}_{tails}");
                let engine = stores.engine(&name, Durability::Full).await?;
                report.add(self.throughput(&stores, &engine, batch, tails).await?)?;
                engine.close(Duration::from_secs(10)).await;
                stores.remove(&name).await?;
            }
        }
        report.finish();
        self.lengths(&stores).await
    }

    async fn throughput(
        &self,
        stores: &Stores,
        engine: &Engine,
        batch: usize,
        tails: usize,
    ) -> Result<Throughput> {
        let leases = leases(engine, self.writers).await?;
        let watched = leases[0].execution;
        let appends = self.count.div_ceil(self.writers);
        let mut watching = JoinSet::new();
        for _ in 0..tails {
            watching.spawn(watch(engine.clone(), watched));
        }
        let bar = bar(&format!("{batch} a time, {tails} watch"), (appends * self.writers) as u64)?;
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
        bar.finish_and_clear();
        while let Some(seen) = watching.join_next().await {
            ensure!(seen?? == appends * batch, "a tail has missed frames");
        }
        let count = (appends * self.writers * batch) as u64;
        let spent = stores.cpu_us().since(before);
        let (p50_us, p99_us) = percentiles(latencies);
        Ok(Throughput {
            scenario: "streams",
            store: stores.name(),
            batch,
            tails,
            writers: self.writers,
            appends: appends * self.writers,
            rate: rounded(count as f64 / elapsed.as_secs_f64()),
            p50_us,
            p99_us,
            cpu_ns: spent * 1000 / count.max(1),
        })
    }

    /// What an append costs at the beginning and at the end of a long stream, without waiting for
    /// the disk.
    async fn lengths(&self, stores: &Stores) -> Result<()> {
        let mut report = Report::new(self.common.json);
        let engine = stores.engine("streams_long", Durability::Normal).await?;
        let lease = leases(&engine, 1).await?.remove(0);
        let bar = bar("one long stream", self.length as u64)?;
        let sample = (self.length / 20).clamp(1, 500);
        let mut latencies = Vec::with_capacity(self.length);
        for _ in 0..self.length {
            let at = Instant::now();
            engine.append(&lease, frames(1)).await?;
            latencies.push(at.elapsed());
            bar.inc(1);
        }
        bar.finish_and_clear();
        engine.close(Duration::from_secs(10)).await;
        stores.remove("streams_long").await?;
        // Not the very first: the database is still warming up.
        let begin = percentiles(latencies.iter().skip(100).take(sample).copied().collect()).0;
        let end = percentiles(latencies.iter().rev().take(sample).copied().collect()).0;
        for (at, append_us) in [(100, begin), (self.length, end)] {
            report.add(Length {
                scenario: "stream_length",
                store: stores.name(),
                at,
                append_us,
                ratio: rounded(append_us as f64 / begin.max(1) as f64),
            })?;
        }
        report.finish();
        Ok(())
    }
}

fn frames(batch: usize) -> Vec<NewFrame> {
    vec![
        NewFrame::new(Payload { content_type: Payload::JSON.into(), bytes: TOKEN.to_vec() });
        batch
    ]
}

/// Leases on new executions that keep all their frames.
async fn leases(engine: &Engine, count: usize) -> Result<Vec<LeaseToken>> {
    let policy = Policy { stream_retention: Some(1_000_000), ..Policy::default() };
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
