//! The demo's workers: claim, work, complete or fail, until told to stop. One of them dies.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use anyhow::Result;
use everloom::{Claim, Code, Engine, Failure, Leased, Payload, RegisterWorker};
use serde_json::json;
use tokio::task::JoinHandle;

use super::workload::Task;

const LANES: [&str; 3] = ["billing", "mail", "media"];
const WORKERS: usize = 4;

/// What the workers saw, as far as they lived.
#[derive(Default)]
pub(super) struct Tally {
    pub(super) handled: AtomicU64,
    pub(super) left_behind: AtomicU64,
    pub(super) refused: AtomicU64,
}

pub(super) struct Crew {
    stopping: Arc<AtomicBool>,
    tally: Arc<Tally>,
    workers: Vec<JoinHandle<Result<()>>>,
}

impl Crew {
    /// Starts one worker that dies with leases in hand, and several that do not.
    pub(super) async fn start(engine: &Engine) -> Result<Self> {
        let tally = Arc::new(Tally::default());
        let stopping = Arc::new(AtomicBool::new(false));
        die_with_leases(engine, &tally).await?;
        let mut workers = Vec::new();
        for number in 1..=WORKERS {
            let instance = format!("worker-{number}");
            engine.register_worker(registration(&instance)).await?;
            workers.push(tokio::spawn(work(
                engine.clone(),
                instance,
                Arc::clone(&stopping),
                Arc::clone(&tally),
            )));
        }
        Ok(Self { stopping, tally, workers })
    }

    pub(super) async fn stop(self) -> Arc<Tally> {
        self.stopping.store(true, Ordering::Release);
        for worker in self.workers {
            match worker.await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => eprintln!("a worker stopped: {error:#}"),
                Err(error) => eprintln!("a worker panicked: {error}"),
            }
        }
        self.tally
    }
}

fn registration(instance: &str) -> RegisterWorker {
    RegisterWorker {
        lanes: LANES.map(str::to_owned).to_vec(),
        ..RegisterWorker::new("demo", instance)
    }
}

fn claim(instance: &str, max: usize) -> Claim {
    Claim {
        lanes: LANES.map(str::to_owned).to_vec(),
        max,
        wait: Duration::from_millis(500),
        ..Claim::new(instance)
    }
}

/// Claims work and is never heard of again: the short leases run out, and others take over.
async fn die_with_leases(engine: &Engine, tally: &Tally) -> Result<()> {
    engine.register_worker(registration("doomed")).await?;
    let lease_ttl = Duration::from_secs(1);
    let claimed = engine.claim(Claim { lease_ttl, ..claim("doomed", 10) }).await?;
    tally.left_behind.fetch_add(claimed.leases.len() as u64, Ordering::Relaxed);
    Ok(())
}

async fn work(
    engine: Engine,
    instance: String,
    stopping: Arc<AtomicBool>,
    tally: Arc<Tally>,
) -> Result<()> {
    while !stopping.load(Ordering::Acquire) {
        let claimed = engine.claim(claim(&instance, 4)).await?;
        for leased in &claimed.leases {
            match handle(&engine, leased).await {
                Ok(()) => tally.handled.fetch_add(1, Ordering::Relaxed),
                Err(error) if error.code() == Code::LeaseLost => {
                    tally.refused.fetch_add(1, Ordering::Relaxed)
                }
                Err(error) => return Err(error.into()),
            };
        }
    }
    Ok(())
}

async fn handle(engine: &Engine, leased: &Leased) -> everloom::Result<()> {
    let task = leased.input.as_ref().map(Payload::to::<Task>);
    let Some(Ok(task)) = task else {
        let failure = Failure::permanent("the input is not a task");
        return engine.fail(&leased.lease, failure).await.map(drop);
    };
    // Stands for real work.
    tokio::time::sleep(Duration::from_millis(task.work_ms)).await;
    if leased.retries < task.failures {
        let failure = Failure::transient(format!("task {}: the bank is busy", task.number));
        return engine.fail(&leased.lease, failure).await.map(drop);
    }
    let result = json!({ "task": task.number, "attempt": leased.attempt });
    let result = Payload::json(&result).unwrap_or_default();
    engine.complete(&leased.lease, result).await.map(drop)
}
