//! Handlers on a worker, next to the same work by hand, and what a step costs.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use clap::Args;
use everloom::handler::Error;
use everloom::{Ctx, Durability, NewExecution, Payload, Status, Worker};
use serde::Serialize;

use crate::Common;
use crate::lifecycle::{INPUT, measure};
use crate::report::{Report, rounded};
use crate::stores::Stores;

#[derive(Args)]
pub(crate) struct Workers {
    #[command(flatten)]
    common: Common,
    /// How many handlers run
    #[arg(long, default_value_t = 10_000)]
    count: u64,
    /// How many run at the same time
    #[arg(long, default_value_t = 256)]
    concurrency: usize,
}

#[derive(Serialize)]
struct Row {
    scenario: &'static str,
    store: &'static str,
    /// What runs: handlers that do nothing, or that take ten steps.
    handlers: &'static str,
    count: u64,
    concurrency: usize,
    /// Handlers per second, from the first submission to the last end.
    rate: f64,
    /// Submit, claim and complete by as many callers, by hand.
    lifecycle: f64,
    ratio: f64,
    steps_per_second: f64,
}

const STEPS: u32 = 10;

impl Workers {
    pub(crate) async fn run(self) -> Result<()> {
        let mut report = Report::new(self.common.json);
        let stores = self.common.stores()?;
        for (handlers, steps) in [("no-op", 0), ("ten steps", STEPS)] {
            let count = if steps == 0 { self.count } else { self.count / 5 };
            let name = format!("worker_{steps}");
            // Before and after, because the machine may be quieter at one of the two.
            let callers = self.concurrency;
            let before = measure(&stores, &format!("before_{steps}"), callers, count).await?.rate;
            let rate = self.handle(&stores, &name, count, steps).await?;
            let after = measure(&stores, &format!("after_{steps}"), callers, count).await?.rate;
            let lifecycle = f64::midpoint(before, after);
            report.add(Row {
                scenario: "worker",
                store: stores.name(),
                handlers,
                count,
                concurrency: self.concurrency,
                rate: rounded(rate),
                lifecycle: rounded(lifecycle),
                ratio: rounded(rate / lifecycle),
                steps_per_second: rounded(rate * f64::from(steps)),
            })?;
        }
        report.finish();
        Ok(())
    }

    /// Handlers per second. As many callers submit as in the comparison.
    async fn handle(&self, stores: &Stores, name: &str, count: u64, steps: u32) -> Result<f64> {
        let engine = stores.engine(name, Durability::Full).await?;
        let handler = move |ctx: Ctx| async move {
            for _ in 0..steps {
                ctx.step("step", || async { Ok::<_, Error>(7) }).await?;
            }
            Ok::<_, Error>(())
        };
        let worker = Worker::new(engine.clone())
            .concurrency(self.concurrency)
            .handle("work", handler)
            .start();
        let began = Instant::now();
        let callers = self.concurrency as u64;
        let submitting: Vec<_> = (0..callers)
            .map(|caller| {
                let engine = engine.clone();
                let share = count / callers + u64::from(caller < count % callers);
                tokio::spawn(async move {
                    for _ in 0..share {
                        let work = NewExecution::new("work").input(Payload::bytes(INPUT));
                        let id = engine.submit_one(work).await?.id();
                        engine.wait(id).await?;
                    }
                    Ok::<_, everloom::Error>(())
                })
            })
            .collect();
        for submitting in submitting {
            submitting.await??;
        }
        let rate = count as f64 / began.elapsed().as_secs_f64();
        worker.shutdown(Duration::from_secs(5)).await;
        let counts = engine.counts().await?;
        ensure!(counts.of(Status::Completed) == count, "not every handler ended well: {counts:?}");
        engine.close(Duration::from_secs(5)).await;
        stores.remove(name).await?;
        Ok(rate)
    }
}
