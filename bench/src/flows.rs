//! Whole flows through the engine, from submit to done, and what a member costs in flows of
//! different sizes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use clap::Args;
use everloom::{
    After, Claim, Durability, Engine, FlowStatus, NewExecution, NewFlow, NewNode, Payload,
};
use indicatif::ProgressBar;
use serde::Serialize;
use tokio::task::JoinSet;

use crate::Common;
use crate::report::{Report, bar, percentiles, rounded};
use crate::stores::Stores;

#[derive(Args)]
pub(crate) struct Flows {
    #[command(flatten)]
    common: Common,
    /// How many flows are under way at the same time
    #[arg(long, default_value_t = 256)]
    callers: usize,
    /// Chains of ten nodes to run; a tenth as many fans of a hundred
    #[arg(long, default_value_t = 5_000)]
    count: u64,
    /// Sizes of flows whose cost per member is measured
    #[arg(long, value_delimiter = ',', default_values_t = [100, 1_000, 10_000])]
    sizes: Vec<usize>,
    /// Members to submit and to cancel for each size
    #[arg(long, default_value_t = 20_000)]
    members: usize,
}

#[derive(Serialize)]
struct Throughput {
    scenario: &'static str,
    store: &'static str,
    shape: &'static str,
    nodes: usize,
    flows: u64,
    /// Flows per second, from submit to done.
    rate: f64,
    /// Members per second.
    members: f64,
    p50_us: u64,
    p99_us: u64,
}

#[derive(Serialize)]
struct Cost {
    scenario: &'static str,
    store: &'static str,
    nodes: usize,
    /// Microseconds per member.
    submit_us: f64,
    cancel_us: f64,
    /// Next to the smallest size.
    submit_ratio: f64,
    cancel_ratio: f64,
}

impl Flows {
    pub(crate) async fn run(self) -> Result<()> {
        let stores = self.common.stores()?;
        let mut report = Report::new(self.common.json);
        let shapes: [(&str, Make, u64); 2] =
            [("chain", chain, self.count), ("fan", fan, (self.count / 10).max(1))];
        for (shape, make, count) in shapes {
            let engine = stores.engine(shape, Durability::Full).await?;
            let (rate, latencies) = throughput(&engine, shape, make, self.callers, count).await?;
            engine.close(Duration::from_secs(5)).await;
            stores.remove(shape).await?;
            let nodes = make().nodes.len();
            let (p50_us, p99_us) = percentiles(latencies);
            report.add(Throughput {
                scenario: "flows",
                store: stores.name(),
                shape,
                nodes,
                flows: count,
                rate: rounded(rate),
                members: rounded(rate * nodes as f64),
                p50_us,
                p99_us,
            })?;
        }
        report.finish();
        self.costs(&stores).await
    }

    async fn costs(&self, stores: &Stores) -> Result<()> {
        let mut report = Report::new(self.common.json);
        let mut first = None;
        for &nodes in &self.sizes {
            let name = format!("cost_{nodes}");
            let engine = stores.engine(&name, Durability::Full).await?;
            let (submit, cancel) = cost(&engine, nodes, self.members.div_ceil(nodes)).await?;
            engine.close(Duration::from_secs(5)).await;
            stores.remove(&name).await?;
            let (smallest_submit, smallest_cancel) = *first.get_or_insert((submit, cancel));
            report.add(Cost {
                scenario: "flow_cost",
                store: stores.name(),
                nodes,
                submit_us: rounded(submit),
                cancel_us: rounded(cancel),
                submit_ratio: rounded(submit / smallest_submit),
                cancel_ratio: rounded(cancel / smallest_cancel),
            })?;
        }
        report.finish();
        Ok(())
    }
}

/// Makes a flow to submit.
type Make = fn() -> NewFlow;

fn node(name: String) -> NewNode {
    NewNode::new(name, NewExecution::new("work").input(Payload::bytes([7; 100])))
}

/// Ten nodes, one after the other.
fn chain() -> NewFlow {
    let nodes = (0..10).map(|n| match n {
        0 => node("n0".to_owned()),
        _ => node(format!("n{n}")).after(After::all([format!("n{}", n - 1)])),
    });
    NewFlow::new().nodes(nodes)
}

/// One node, a hundred that wait for it, and one that waits for them.
fn fan() -> NewFlow {
    wide(100)
}

fn wide(width: usize) -> NewFlow {
    let middle = (0..width).map(|n| node(format!("n{n}")).after(After::all(["first"])));
    // A node waits for at most a thousand others.
    let last = After::all((0..width.min(1_000)).map(|n| format!("n{n}")));
    NewFlow::new()
        .node(node("first".to_owned()))
        .nodes(middle)
        .node(node("last".to_owned()).after(last))
}

/// How many workers serve the flows, and how much each takes at once.
const WORKERS: usize = 32;
const CLAIM: usize = 16;

async fn throughput(
    engine: &Engine,
    shape: &str,
    make: Make,
    callers: usize,
    count: u64,
) -> Result<(f64, Vec<Duration>)> {
    let bar = bar(shape, count)?;
    let done = Arc::new(AtomicBool::new(false));
    let mut workers = JoinSet::new();
    for worker in 0..WORKERS {
        workers.spawn(work(engine.clone(), worker, Arc::clone(&done)));
    }
    let left = Arc::new(AtomicU64::new(count));
    let began = Instant::now();
    let mut submitters = JoinSet::new();
    for _ in 0..callers {
        submitters.spawn(submit(engine.clone(), make, Arc::clone(&left), bar.clone()));
    }
    let mut latencies = Vec::new();
    while let Some(submitted) = submitters.join_next().await {
        latencies.extend(submitted??);
    }
    let rate = count as f64 / began.elapsed().as_secs_f64();
    bar.finish_and_clear();
    done.store(true, Ordering::Relaxed);
    workers.abort_all();
    Ok((rate, latencies))
}

async fn submit(
    engine: Engine,
    make: Make,
    left: Arc<AtomicU64>,
    bar: ProgressBar,
) -> Result<Vec<Duration>> {
    let mut latencies = Vec::new();
    while left
        .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1))
        .is_ok()
    {
        let at = Instant::now();
        let flow = engine.submit_flow(make()).await?;
        let ended = engine.wait_flow(flow.id).await?;
        ensure!(ended.status == FlowStatus::Completed, "a flow ended {}", ended.status);
        latencies.push(at.elapsed());
        bar.inc(1);
    }
    Ok(latencies)
}

async fn work(engine: Engine, worker: usize, done: Arc<AtomicBool>) -> Result<()> {
    let wait = Duration::from_secs(10);
    let claim = Claim { max: CLAIM, wait, ..Claim::new(format!("worker-{worker}")) };
    while !done.load(Ordering::Relaxed) {
        let claimed = engine.claim(claim.clone()).await?;
        let mut completions = JoinSet::new();
        for leased in claimed.leases {
            let engine = engine.clone();
            completions.spawn(async move {
                engine.complete(&leased.lease, Payload::bytes([9; 50])).await
            });
        }
        while let Some(completed) = completions.join_next().await {
            completed??;
        }
    }
    Ok(())
}

/// Microseconds per member of submitting and of cancelling flows of that size, one after another.
async fn cost(engine: &Engine, nodes: usize, flows: usize) -> Result<(f64, f64)> {
    let (mut submitting, mut cancelling) = (Duration::ZERO, Duration::ZERO);
    let bar = bar(&format!("{nodes} nodes"), flows as u64)?;
    for _ in 0..flows {
        let flow = wide(nodes - 2);
        let at = Instant::now();
        let id = engine.submit_flow(flow).await?.id;
        submitting += at.elapsed();
        let at = Instant::now();
        let cancelled = engine.cancel_flow(id).await?;
        engine.wait_flow(id).await?;
        cancelling += at.elapsed();
        ensure!(cancelled.extent.stopped == nodes as u64, "{:?}", cancelled.extent);
        bar.inc(1);
    }
    bar.finish_and_clear();
    let members = (nodes * flows) as f64;
    let micros = |time: Duration| time.as_secs_f64() * 1e6 / members;
    Ok((micros(submitting), micros(cancelling)))
}
