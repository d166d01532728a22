//! Submit, claim and complete through the engine, next to the floor.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use clap::Args;
use everloom::{Claim, Durability, Engine, NewExecution, Payload, Status};
use indicatif::ProgressBar;
use serde::Serialize;

use crate::Common;
use crate::cpu::Spent;
use crate::report::{Report, bar, percentiles, rounded};
use crate::stores::Stores;

/// What an execution gets and what its worker delivers.
pub(crate) const INPUT: [u8; 100] = [7; 100];
pub(crate) const RESULT: [u8; 50] = [9; 50];

#[derive(Args)]
pub(crate) struct Lifecycle {
    #[command(flatten)]
    common: Common,
    /// How many callers run at the same time
    #[arg(long, value_delimiter = ',', default_values_t = [1, 16, 256])]
    callers: Vec<usize>,
    /// Lifecycles per caller count; by default as many as take a few seconds
    #[arg(long)]
    count: Option<u64>,
}

#[derive(Serialize)]
struct Row {
    scenario: &'static str,
    store: &'static str,
    callers: usize,
    lifecycles: u64,
    rate: f64,
    floor: f64,
    ratio: f64,
    p50_us: u64,
    p99_us: u64,
    /// Processor time per lifecycle, of everyone and of the server alone.
    cpu_us: u64,
    server_cpu_us: u64,
}

impl Lifecycle {
    pub(crate) async fn run(self) -> Result<()> {
        let mut report = Report::new(self.common.json);
        let stores = self.common.stores()?;
        for (run, &callers) in self.callers.iter().enumerate() {
            let count = self.count.unwrap_or(if callers == 1 { 3_000 } else { 60_000 });
            // Before and after, because the machine may be quieter at one of the two.
            let before = stores.floor(&format!("before_{run}")).await?;
            let measured = measure(&stores, &format!("engine_{run}"), callers, count).await?;
            let after = stores.floor(&format!("after_{run}")).await?;
            let floor = f64::midpoint(before, after);
            let (p50_us, p99_us) = percentiles(measured.latencies);
            report.add(Row {
                scenario: "lifecycle",
                store: stores.name(),
                callers,
                lifecycles: count,
                rate: rounded(measured.rate),
                floor: rounded(floor),
                ratio: rounded(measured.rate / floor),
                p50_us,
                p99_us,
                cpu_us: measured.spent.total(),
                server_cpu_us: measured.spent.server,
            })?;
        }
        report.finish();
        Ok(())
    }
}

pub(crate) struct Measured {
    /// Lifecycles per second.
    pub(crate) rate: f64,
    /// How long each call took.
    latencies: Vec<Duration>,
    /// For each lifecycle.
    spent: Spent,
}

pub(crate) async fn measure(
    stores: &Stores,
    name: &str,
    callers: usize,
    count: u64,
) -> Result<Measured> {
    let engine = stores.engine(name, Durability::Full).await?;
    let bar = bar(&format!("engine, {callers} callers"), count)?;
    let left = Arc::new(AtomicU64::new(count));
    let (began, spent) = (Instant::now(), stores.cpu_us());
    let tasks: Vec<_> = (0..callers)
        .map(|caller| tokio::spawn(call(engine.clone(), caller, Arc::clone(&left), bar.clone())))
        .collect();
    let mut latencies = Vec::new();
    for task in tasks {
        latencies.extend(task.await??);
    }
    let rate = count as f64 / began.elapsed().as_secs_f64();
    let spent = stores.cpu_us().per(spent, count);
    bar.finish_and_clear();
    let counts = engine.counts().await?;
    ensure!(counts.of(Status::Completed) == count, "not every execution completed: {counts:?}");
    engine.close(Duration::from_secs(5)).await;
    stores.remove(name).await?;
    Ok(Measured { rate, latencies, spent })
}

async fn call(
    engine: Engine,
    caller: usize,
    left: Arc<AtomicU64>,
    bar: ProgressBar,
) -> Result<Vec<Duration>> {
    let worker = format!("worker-{caller}");
    // What a caller submitted may be claimed by another, whose own is about to become visible.
    let claim = Claim { wait: Duration::from_secs(10), ..Claim::new(worker) };
    let mut latencies = Vec::new();
    let mut done = 0;
    while left
        .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1))
        .is_ok()
    {
        let at = Instant::now();
        engine.submit_one(NewExecution::new("work").input(Payload::bytes(INPUT))).await?;
        latencies.push(at.elapsed());

        let at = Instant::now();
        let claimed = engine.claim(claim.clone()).await?;
        latencies.push(at.elapsed());

        let lease = &claimed.leases.first().context("nothing to claim")?.lease;
        let at = Instant::now();
        engine.complete(lease, Payload::bytes(RESULT)).await?;
        latencies.push(at.elapsed());
        done += 1;
        if done % 64 == 0 {
            bar.inc(64);
        }
    }
    Ok(latencies)
}
