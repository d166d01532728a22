//! `everloom doctor`: looks at a database and says what to fix.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use clap::Args;
use comfy_table::{Table, presets::UTF8_FULL_CONDENSED};
use everloom::{Engine, LaneMode, LaneView, ListExpiredLeases, StoreInfo, Timestamp};
use serde::Serialize;

/// Look at a database and say what to fix
///
/// Changes nothing. Shows versions, the schema, the clock, and for every lane what waits and for
/// how long; ends with advice where something looks wrong.
///
/// Example: everloom doctor --store app.db
#[derive(Args)]
pub(crate) struct Doctor {
    /// The database: a path, sqlite://…, a file: URI or postgres://…
    #[arg(long)]
    store: String,
    /// Print the findings as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Findings {
    version: String,
    store: StoreInfo,
    now: Timestamp,
    clock_skew_ms: i64,
    lanes: Vec<Lane>,
    advice: Vec<String>,
}

#[derive(Serialize)]
struct Lane {
    namespace: String,
    #[serde(flatten)]
    lane: LaneView,
}

/// What is worth a word: clocks further apart than this, and work that waits longer than this.
const SKEW_MS: i64 = 1_000;
const LONG_WAIT: Duration = Duration::from_secs(15 * 60);

impl Doctor {
    pub(crate) async fn run(self) -> Result<()> {
        let engine = Engine::options().ticks(false).migrate(false).open(&self.store).await?;
        let findings = examine(&engine).await?;
        engine.close(Duration::from_secs(5)).await;
        match self.json {
            true => println!("{}", serde_json::to_string_pretty(&findings)?),
            false => findings.print(),
        }
        Ok(())
    }
}

async fn examine(engine: &Engine) -> Result<Findings> {
    let about = engine.about().await?;
    let here = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let clock_skew_ms = about.now.as_millis() - i64::try_from(here.as_millis())?;
    let mut advice = Vec::new();
    if clock_skew_ms.abs() > SKEW_MS {
        advice.push(format!(
            "The store's time is {clock_skew_ms} ms away from this machine's: set the clocks by NTP."
        ));
    }
    let mut lanes = Vec::new();
    for namespace in engine.namespaces().await?.namespaces {
        let engine = engine.namespace(&namespace.namespace);
        for lane in engine.lanes().await?.lanes {
            advice.extend(lane_advice(&namespace.namespace, &lane, about.now));
            lanes.push(Lane { namespace: namespace.namespace.clone(), lane });
        }
        let list = ListExpiredLeases {
            namespace: String::new(),
            as_of: Some(about.now.before(Duration::from_secs(10))),
            after: None,
            limit: 1,
        };
        if !engine.expired_leases(list).await?.leases.is_empty() {
            advice.push(format!(
                "Leases in namespace `{}` have run out and nobody took them back: \
                 run an engine on this database whose clock ticks.",
                namespace.namespace
            ));
        }
    }
    let store = about.store.context("an engine has a store")?;
    Ok(Findings { version: about.version, store, now: about.now, clock_skew_ms, lanes, advice })
}

fn lane_advice(namespace: &str, lane: &LaneView, now: Timestamp) -> Option<String> {
    let name = format!("Lane `{}` of namespace `{namespace}`", lane.lane);
    let waited = now.since(lane.oldest?);
    if lane.depth > 0 && lane.mode == LaneMode::Paused {
        return Some(format!(
            "{name} is paused with {} executions waiting: resume it.",
            lane.depth
        ));
    }
    (waited > LONG_WAIT).then(|| {
        let minutes = waited.as_secs() / 60;
        format!("{name} has work that waits for {minutes} min: add workers, or ask `explain`.")
    })
}

impl Findings {
    fn print(&self) {
        println!(
            "everloom {}, {} {}, schema {}, time {} ({:+} ms from here)",
            self.version,
            self.store.store,
            self.store.version,
            self.store.schema,
            self.now,
            self.clock_skew_ms
        );
        if !self.lanes.is_empty() {
            let mut table = Table::new();
            table.load_preset(UTF8_FULL_CONDENSED).set_header([
                "namespace",
                "lane",
                "mode",
                "waiting",
                "oldest",
                "in all",
            ]);
            for Lane { namespace, lane } in &self.lanes {
                let oldest = lane.oldest.map(|at| format!("{} s", self.now.since(at).as_secs()));
                let all: u64 = lane.counts.iter().map(|one| one.count).sum();
                table.add_row([
                    namespace.clone(),
                    lane.lane.clone(),
                    format!("{:?}", lane.mode).to_lowercase(),
                    lane.depth.to_string(),
                    oldest.unwrap_or_else(|| "-".to_owned()),
                    all.to_string(),
                ]);
            }
            println!("{table}");
        }
        match self.advice.is_empty() {
            true => println!("Nothing to fix."),
            false => self.advice.iter().for_each(|advice| println!("- {advice}")),
        }
    }
}
