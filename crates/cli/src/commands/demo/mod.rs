//! `everloom demo`: the engine at work, with everything going wrong that it is there for.

mod report;
mod workers;
mod workload;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use clap::Args;
use everloom::{Engine, EventFilter, EventKind, From};
use indicatif::{ProgressBar, ProgressStyle};

use report::Report;
use workers::Crew;

/// Run a few hundred executions on a fresh file, losing a worker on the way
///
/// Submits executions of several kinds on several lanes to a new SQLite file in a temporary
/// folder and works them off in this process. One worker dies with leases in hand, one handler
/// fails and is retried, some work is cancelled and some expires. Ends with a table of what
/// became of everything, and with an error unless every execution is terminal and the counts add
/// up.
///
/// Example: everloom demo --executions 1000 --json
#[derive(Args)]
pub(crate) struct Demo {
    /// How many executions to submit
    #[arg(long, default_value_t = 400, value_parser = clap::value_parser!(u32).range(50..=100_000))]
    executions: u32,
    /// Print the report as JSON
    #[arg(long)]
    json: bool,
    /// Where to put the file; a new temporary folder if absent
    #[arg(long)]
    folder: Option<PathBuf>,
}

impl Demo {
    pub(crate) async fn run(self) -> Result<()> {
        let folder = match self.folder {
            Some(folder) => folder,
            None => tempfile::Builder::new().prefix("everloom-demo-").tempdir()?.keep(),
        };
        let file = folder.join("demo.db");
        if file.exists() {
            bail!("{} exists already; choose another folder", file.display());
        }
        let url = file.to_str().context("the folder's name is not UTF-8")?;
        let engine = Engine::open(url).await.with_context(|| format!("opening {url}"))?;

        let began = Instant::now();
        let plan = workload::submit(&engine, self.executions).await?;
        let crew = Crew::start(&engine).await?;
        tokio::select! {
            watched = watch(&engine, u64::from(self.executions)) => watched?,
            _ = tokio::signal::ctrl_c() => {
                crew.stop().await;
                engine.close(Duration::from_secs(2)).await;
                bail!("interrupted; what was done so far is in {url}");
            }
        }
        let took = began.elapsed();
        let tally = crew.stop().await;

        let report = Report::gather(&engine, &plan, &tally, took, &file).await?;
        engine.close(Duration::from_secs(5)).await;
        match self.json {
            true => println!("{}", serde_json::to_string_pretty(&report)?),
            false => report.print(),
        }
        report.verdict()
    }
}

/// Follows the event log until every execution has ended, with a progress bar.
async fn watch(engine: &Engine, executions: u64) -> Result<()> {
    let style = "{bar:40.green} {pos}/{len} ended in {elapsed}, {msg}";
    let bar = ProgressBar::new(executions).with_style(ProgressStyle::with_template(style)?);
    let kinds = EventKind::ALL
        .iter()
        .copied()
        .filter(|kind| {
            kind.is_terminal() || matches!(kind, EventKind::Retrying | EventKind::LeaseExpired)
        })
        .collect();
    let filter = EventFilter { kinds, ..EventFilter::default() };
    let mut events = engine.subscribe(filter, From::Oldest).await?;
    let (mut retries, mut lost) = (0, 0);
    while bar.position() < executions {
        let event = events.next().await.context("the event log ended")??;
        match event.kind {
            EventKind::Retrying => retries += 1,
            EventKind::LeaseExpired => lost += 1,
            _ => bar.inc(1),
        }
        bar.set_message(format!("{retries} retries, {lost} leases lost"));
    }
    bar.finish();
    Ok(())
}
