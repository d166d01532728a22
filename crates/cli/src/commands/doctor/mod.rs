//! `everloom doctor`: looks at a database and says what to fix.

mod report;

use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::Result;
use clap::Args;
use everloom::{
    Engine, Examination, Finding, LaneMode, LaneView, Level, ListExpiredLeases, RequestCounts,
    StoreInfo, Timestamp, examine,
};
use serde::Serialize;

/// Look at a database and say what to fix
///
/// Changes nothing you put in. Shows versions, the schema, the settings that matter, the clock, and
/// for every lane what waits and for how long; ends with what to do where something is wrong.
///
/// The exit code is 0 when nothing must be fixed, 3 when something must, and 1 when the database
/// could not be looked at. A warning is no reason for another code than 0.
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

/// The exit code when something must be fixed; 2 is for wrong arguments.
const MUST_FIX: u8 = 3;

/// What is worth a word: clocks further apart than this, and work that waits longer than this.
const SKEW_MS: i64 = 1_000;
const LONG_WAIT: Duration = Duration::from_secs(15 * 60);

#[derive(Serialize)]
struct Report {
    version: &'static str,
    store: StoreInfo,
    /// Migrations that are still to be applied.
    pending: Vec<String>,
    /// The store's time; absent, as the lanes are, when no engine could be opened.
    now: Option<Timestamp>,
    clock_skew_ms: Option<i64>,
    must_fix: bool,
    findings: Vec<Finding>,
    lanes: Vec<Lane>,
    inbox: RequestCounts,
}

#[derive(Serialize)]
struct Lane {
    namespace: String,
    #[serde(flatten)]
    lane: LaneView,
}

impl Doctor {
    pub(crate) async fn run(self) -> Result<ExitCode> {
        let mut report = Report::new(examine(&self.store).await?);
        if report.has_our_schema() {
            report.look_inside(&self.store).await?;
        }
        report.must_fix = report.findings.iter().any(|one| one.level == Level::Problem);
        match self.json {
            true => println!("{}", serde_json::to_string_pretty(&report)?),
            false => report.print(),
        }
        Ok(match report.must_fix {
            true => ExitCode::from(MUST_FIX),
            false => ExitCode::SUCCESS,
        })
    }
}

impl Report {
    fn new(examination: Examination) -> Self {
        Self {
            version: env!("CARGO_PKG_VERSION"),
            store: examination.store,
            pending: examination.pending,
            now: None,
            clock_skew_ms: None,
            must_fix: false,
            findings: examination.findings,
            lanes: Vec::new(),
            inbox: RequestCounts::default(),
        }
    }

    fn has_our_schema(&self) -> bool {
        self.findings.iter().all(|one| one.about != "schema" || one.level == Level::Fine)
    }

    async fn look_inside(&mut self, store: &str) -> Result<()> {
        let engine = match Engine::options().ticks(false).migrate(false).open(store).await {
            Ok(engine) => engine,
            Err(error) => {
                let advice = format!("An engine can not work with it: {}.", error.message());
                self.findings.push(Finding::new("opening", "refused").problem_if(true, advice));
                return Ok(());
            }
        };
        let now = self.look_at_clock(&engine).await?;
        self.look_at_inbox(&engine).await?;
        for namespace in engine.namespaces().await?.namespaces {
            let engine = engine.namespace(&namespace.namespace);
            for lane in engine.lanes().await?.lanes {
                self.findings.extend(lane_finding(&namespace.namespace, &lane, now));
                self.lanes.push(Lane { namespace: namespace.namespace.clone(), lane });
            }
            self.findings.extend(expired_leases(&engine, &namespace.namespace, now).await?);
        }
        engine.close(Duration::from_secs(5)).await;
        Ok(())
    }

    async fn look_at_clock(&mut self, engine: &Engine) -> Result<Timestamp> {
        let asked = here()?;
        let now = engine.about().await?.now;
        // The answer was on its way for a while.
        let skew_ms = now.as_millis() - asked.midpoint(here()?);
        self.now = Some(now);
        self.clock_skew_ms = Some(skew_ms);
        self.findings.push(Finding::new("clock", format!("{skew_ms:+} ms from here")).warn_if(
            skew_ms.abs() > SKEW_MS,
            "The store's time and this machine's are apart: set the clocks by NTP.",
        ));
        Ok(now)
    }

    async fn look_at_inbox(&mut self, engine: &Engine) -> Result<()> {
        self.inbox = engine.request_counts().await?;
        let RequestCounts { waiting, refused } = self.inbox;
        self.findings.push(
            Finding::new("inbox", format!("{waiting} waiting, {refused} refused")).warn_if(
                refused > 0,
                "Requests were refused: read `code` and `message` in the table `inbox`, then retry \
                 or delete them.",
            ),
        );
        Ok(())
    }
}

fn here() -> Result<i64> {
    let here = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Ok(i64::try_from(here.as_millis())?)
}

fn lane_finding(namespace: &str, lane: &LaneView, now: Timestamp) -> Option<Finding> {
    let waited = now.since(lane.oldest?);
    let about = format!("lane {}", lane.lane);
    let value = format!("{} waiting in namespace {namespace}", lane.depth);
    let finding = Finding::new(about, value)
        .warn_if(lane.depth > 0 && lane.mode == LaneMode::Paused, "The lane is paused: resume it.")
        .warn_if(
            waited > LONG_WAIT,
            format!(
                "The oldest waits for {} min: add workers, or ask `explain`.",
                waited.as_secs() / 60
            ),
        );
    (finding.level > Level::Fine).then_some(finding)
}

async fn expired_leases(
    engine: &Engine,
    namespace: &str,
    now: Timestamp,
) -> Result<Option<Finding>> {
    let list = ListExpiredLeases {
        namespace: String::new(),
        as_of: Some(now.before(Duration::from_secs(10))),
        after: None,
        limit: 1,
    };
    let found = !engine.expired_leases(list).await?.leases.is_empty();
    Ok(found.then(|| {
        Finding::new("expired leases", format!("in namespace {namespace}")).problem_if(
            true,
            "Leases have run out and nobody took them back: run an engine on this database whose \
             clock ticks.",
        )
    }))
}
