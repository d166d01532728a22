//! Suspend, signal, claim the resumed execution; and what others pay while many are suspended.

use std::fs::File;
use std::io::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use clap::Args;
use everloom::{
    Claim, Condition, DeliverSignal, Durability, Effect, Engine, LeaseToken, NewExecution, Payload,
    SignalTo, Suspend, SuspendOutcome,
};
use indicatif::ProgressBar;
use serde::Serialize;
use tokio::task::JoinSet;

use crate::Common;
use crate::lifecycle::INPUT;
use crate::report::{Report, bar, percentiles, resident_mib, rounded};
use crate::stores::Stores;

#[derive(Args)]
pub(crate) struct Suspension {
    #[command(flatten)]
    common: Common,
    /// How many executions go round at the same time
    #[arg(long, value_delimiter = ',', default_values_t = [1, 64])]
    callers: Vec<usize>,
    /// Round trips to measure for each
    #[arg(long, default_value_t = 5_000)]
    count: u64,
    /// How many others are suspended while claims are measured
    #[arg(long, value_delimiter = ',', default_values_t = [0, 100_000])]
    suspended: Vec<u64>,
    /// Claims to measure for each
    #[arg(long, default_value_t = 1_000)]
    claims: u64,
}

#[derive(Serialize)]
struct RoundTrips {
    scenario: &'static str,
    store: &'static str,
    callers: usize,
    count: u64,
    /// Round trips per second: suspend, signal with a token, claim.
    rate: f64,
    p50_us: u64,
    p99_us: u64,
    /// What the disk takes to make as much durable as a commit writes.
    fsync_us: u64,
    /// The median next to that.
    ratio: f64,
    /// Processor time of everyone per round trip.
    cpu_us: u64,
}

#[derive(Serialize)]
struct Crowd {
    scenario: &'static str,
    store: &'static str,
    suspended: u64,
    /// A claim with something to claim, durable.
    claim_us: u64,
    p99_us: u64,
    ratio: f64,
    /// At its highest, since the program began.
    rss_mib: u64,
    /// How large the database is.
    file_mib: u64,
}

impl Suspension {
    pub(crate) async fn run(self) -> Result<()> {
        let stores = self.common.stores()?;
        let mut report = Report::new(self.common.json);
        for &callers in &self.callers {
            let name = format!("suspend_{callers}");
            let engine = stores.engine(&name, Durability::Full).await?;
            let mut fsyncs = fsync(&stores)?;
            let before = stores.cpu_us();
            let (rate, latencies) = self.round_trips(&engine, callers).await?;
            let spent = stores.cpu_us().per(before, self.count);
            engine.close(Duration::from_secs(5)).await;
            stores.remove(&name).await?;
            let (p50_us, p99_us) = percentiles(latencies);
            fsyncs.extend(fsync(&stores)?);
            let (fsync_us, _) = percentiles(fsyncs);
            report.add(RoundTrips {
                scenario: "suspend",
                store: stores.name(),
                callers,
                count: self.count,
                rate: rounded(rate),
                p50_us,
                p99_us,
                fsync_us,
                ratio: rounded(p50_us as f64 / fsync_us.max(1) as f64),
                cpu_us: spent.total(),
            })?;
        }
        report.finish();
        self.crowds(&stores).await
    }

    async fn round_trips(&self, engine: &Engine, callers: usize) -> Result<(f64, Vec<Duration>)> {
        let work = NewExecution::new("work").input(Payload::bytes(INPUT));
        engine.submit_batch(vec![work; callers]).await?;
        let mut leases = Vec::new();
        while leases.len() < callers {
            let claim = Claim { max: 1000.min(callers - leases.len()), ..Claim::new("worker") };
            let claimed = engine.claim(claim).await?.leases;
            leases.extend(claimed.into_iter().map(|leased| leased.lease));
        }
        let bar = bar(&format!("{callers} going round"), self.count)?;
        let left = Arc::new(AtomicU64::new(self.count));
        let began = Instant::now();
        let mut going = JoinSet::new();
        for lease in leases {
            going.spawn(go_round(engine.clone(), lease, Arc::clone(&left), bar.clone()));
        }
        let mut latencies = Vec::new();
        while let Some(measured) = going.join_next().await {
            latencies.extend(measured??);
        }
        let rate = self.count as f64 / began.elapsed().as_secs_f64();
        bar.finish_and_clear();
        Ok((rate, latencies))
    }

    async fn crowds(&self, stores: &Stores) -> Result<()> {
        let mut report = Report::new(self.common.json);
        let mut first = None;
        for &suspended in &self.suspended {
            let name = format!("crowd_{suspended}");
            let engine = stores.engine(&name, Durability::Full).await?;
            fill(&engine, suspended).await?;
            let work = NewExecution::new("work").input(Payload::bytes(INPUT));
            let mut latencies = Vec::new();
            for _ in 0..self.claims {
                engine.submit_one(work.clone()).await?;
                let at = Instant::now();
                let claimed = engine.claim(Claim::new("worker")).await?;
                latencies.push(at.elapsed());
                let Some(leased) = claimed.leases.first() else { bail!("nothing to claim") };
                engine.complete(&leased.lease, Payload::default()).await?;
            }
            engine.close(Duration::from_secs(30)).await;
            let (claim_us, p99_us) = percentiles(latencies);
            let base = *first.get_or_insert(claim_us);
            report.add(Crowd {
                scenario: "suspend_crowd",
                store: stores.name(),
                suspended,
                claim_us,
                p99_us,
                ratio: rounded(claim_us as f64 / base.max(1) as f64),
                rss_mib: resident_mib(),
                file_mib: stores.mib(&name).await?,
            })?;
            stores.remove(&name).await?;
        }
        report.finish();
        Ok(())
    }
}

/// Suspends, signals and claims again and again. Who claims may get what another signalled: there
/// are as many to claim as there are who claim.
async fn go_round(
    engine: Engine,
    mut lease: LeaseToken,
    left: Arc<AtomicU64>,
    bar: ProgressBar,
) -> Result<Vec<Duration>> {
    let mut latencies = Vec::new();
    while left
        .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1))
        .is_ok()
    {
        let at = Instant::now();
        let execution = lease.execution;
        let suspend = Suspend::new(lease, Condition::at("go").named("on"));
        let SuspendOutcome::Suspended { waitpoints, .. } = engine.suspend(suspend).await? else {
            bail!("not suspended");
        };
        let signal = DeliverSignal {
            to: SignalTo::Token(waitpoints[0].token.clone()),
            payload: Payload::bytes([3; 50]),
            ..DeliverSignal::new(execution, "on")
        };
        let delivered = engine.deliver_signal(signal).await?;
        ensure!(matches!(delivered.effect, Effect::Resumed { .. }), "{:?}", delivered.effect);
        let claimed = engine.claim(Claim::new("worker")).await?;
        let Some(leased) = claimed.leases.into_iter().next() else { bail!("nothing to claim") };
        lease = leased.lease;
        latencies.push(at.elapsed());
        bar.inc(1);
    }
    Ok(latencies)
}

async fn fill(engine: &Engine, count: u64) -> Result<()> {
    let bar = bar(&format!("{count} suspended"), count)?;
    let mut left = count;
    while left > 0 {
        let size = left.min(1000);
        let work = NewExecution::new("work").input(Payload::bytes(INPUT));
        engine.submit_batch(vec![work; usize::try_from(size)?]).await?;
        let claim = Claim { max: usize::try_from(size)?, ..Claim::new("worker") };
        let mut suspending = JoinSet::new();
        for leased in engine.claim(claim).await?.leases {
            let engine = engine.clone();
            let suspend = Suspend {
                timeout: Some(Duration::from_secs(86_400)),
                ..Suspend::new(leased.lease, Condition::at("go"))
            };
            suspending.spawn(async move { engine.suspend(suspend).await });
        }
        ensure!(suspending.len() as u64 == size, "claimed {} of {size}", suspending.len());
        while let Some(suspended) = suspending.join_next().await {
            suspended??;
        }
        left -= size;
        bar.inc(size);
    }
    bar.finish_and_clear();
    Ok(())
}

/// About ten pages.
const COMMIT: usize = 10 * 4096;

/// How long it takes to make as much durable as a commit writes, where the databases lie.
fn fsync(stores: &Stores) -> Result<Vec<Duration>> {
    let mut file: File = tempfile::tempfile_in(stores.folder())?;
    let mut latencies = Vec::new();
    for _ in 0..200 {
        let at = Instant::now();
        file.write_all(&[7; COMMIT])?;
        file.sync_data()?;
        latencies.push(at.elapsed());
    }
    Ok(latencies)
}
