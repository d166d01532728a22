//! What a claim costs with few and with many executions waiting.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use clap::Args;
use everloom::{Claim, Durability, NewExecution, Payload};
use serde::Serialize;

use crate::Common;
use crate::lifecycle::INPUT;
use crate::report::{Report, bar, percentiles, resident_mib, rounded};
use crate::stores::Stores;

#[derive(Args)]
pub(crate) struct Depth {
    #[command(flatten)]
    common: Common,
    /// How many executions wait
    #[arg(long, value_delimiter = ',', default_values_t = [1_000, 100_000, 1_000_000])]
    waiting: Vec<u64>,
    /// How many claims to measure; fewer than wait
    #[arg(long, default_value_t = 900)]
    claims: u64,
}

#[derive(Serialize)]
struct Row {
    scenario: &'static str,
    store: &'static str,
    waiting: u64,
    /// Claims per second and their cost without waiting for the disk, so that it hides nothing.
    rate: f64,
    claim_us: u64,
    p50_us: u64,
    p99_us: u64,
    /// As a program meets it by default: durable.
    claim_full_us: u64,
    ratio: f64,
    /// At its highest, since the program began.
    rss_mib: u64,
    /// How large the database is.
    file_mib: u64,
}

impl Depth {
    pub(crate) async fn run(self) -> Result<()> {
        let mut report = Report::new(self.common.json);
        let stores = self.common.stores()?;
        let mut first = None;
        for &waiting in &self.waiting {
            ensure!(self.claims < waiting, "measure fewer claims than executions wait");
            let name = format!("depth_{waiting}");
            fill(&stores, &name, waiting).await?;
            let (claim_us, p99_us) = self.claim(&stores, &name, Durability::Normal).await?;
            let (claim_full_us, _) = self.claim(&stores, &name, Durability::Full).await?;
            let base = *first.get_or_insert(claim_us);
            report.add(Row {
                scenario: "depth",
                store: stores.name(),
                waiting,
                rate: rounded(1e6 / claim_us.max(1) as f64),
                claim_us,
                p50_us: claim_us,
                p99_us,
                claim_full_us,
                ratio: rounded(claim_us as f64 / base as f64),
                rss_mib: resident_mib(),
                file_mib: stores.mib(&name).await?,
            })?;
            stores.remove(&name).await?;
        }
        report.finish();
        Ok(())
    }

    async fn claim(
        &self,
        stores: &Stores,
        name: &str,
        durability: Durability,
    ) -> Result<(u64, u64)> {
        let engine = stores.engine(name, durability).await?;
        let claims = self.claims / 2;
        let mut latencies = Vec::new();
        for _ in 0..claims {
            let at = Instant::now();
            let claimed = engine.claim(Claim::new("worker")).await?;
            latencies.push(at.elapsed());
            ensure!(claimed.leases.len() == 1, "nothing to claim");
        }
        engine.close(Duration::from_secs(5)).await;
        Ok(percentiles(latencies))
    }
}

async fn fill(stores: &Stores, name: &str, waiting: u64) -> Result<()> {
    let engine = stores.engine(name, Durability::Full).await?;
    let bar = bar(&format!("{waiting} waiting"), waiting)?;
    let mut left = waiting;
    while left > 0 {
        let size = left.min(1000);
        let one = NewExecution::new("work").input(Payload::bytes(INPUT));
        engine.submit_batch(vec![one; usize::try_from(size)?]).await?;
        left -= size;
        bar.inc(size);
    }
    bar.finish_and_clear();
    engine.close(Duration::from_secs(30)).await;
    Ok(())
}
