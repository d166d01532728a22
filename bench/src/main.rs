//! What Everloom costs, next to what it can not do without.
//!
//! Every scenario prints one JSON object per line with `--json`, else a table. Machines are noisy:
//! look at the ratios of one run, not at the figures of two.

mod cpu;
mod depth;
mod floor;
mod flows;
mod lifecycle;
mod report;
mod stores;
mod streams;
mod suspend;
mod worker;

use std::path::PathBuf;

use anyhow::Result;
use clap::{Args, Parser, Subcommand};
use stores::{Kind, Stores};

/// Measures Everloom.
#[derive(Parser)]
#[command(name = "everloom-bench", version)]
struct Cli {
    #[command(subcommand)]
    scenario: Scenario,
}

#[derive(Subcommand)]
enum Scenario {
    /// Submit, claim and complete, by one and by many concurrent callers, next to a hand-written
    /// loop that writes the same rows
    Lifecycle(lifecycle::Lifecycle),
    /// What a claim costs with few and with many executions waiting, and how much memory that takes
    Depth(depth::Depth),
    /// Whole flows from submit to done, and what a member costs in flows of different sizes
    Flows(flows::Flows),
    /// Suspend, signal and claim again, and what others pay while many are suspended
    Suspend(suspend::Suspension),
    /// Append frames, alone and watched, and to a long stream
    Streams(streams::Streams),
    /// Handlers on a worker, next to the same work by hand, and handlers that take steps
    Worker(worker::Workers),
}

/// What every scenario takes.
#[derive(Args)]
struct Common {
    /// Which store
    #[arg(long, value_enum, default_value_t = Kind::Sqlite)]
    store: Kind,
    /// Print one JSON object per line
    #[arg(long)]
    json: bool,
    /// Where to put the databases; a temporary folder if absent
    #[arg(long)]
    folder: Option<PathBuf>,
}

impl Common {
    /// A new place for databases that goes away with the value.
    fn stores(&self) -> Result<Stores> {
        Stores::open(self.store, self.folder.as_deref())
    }
}

#[tokio::main(worker_threads = 2)]
async fn main() -> Result<()> {
    match Cli::parse().scenario {
        Scenario::Lifecycle(lifecycle) => lifecycle.run().await,
        Scenario::Depth(depth) => depth.run().await,
        Scenario::Flows(flows) => flows.run().await,
        Scenario::Suspend(suspension) => suspension.run().await,
        Scenario::Streams(streams) => streams.run().await,
        Scenario::Worker(workers) => workers.run().await,
    }
}
