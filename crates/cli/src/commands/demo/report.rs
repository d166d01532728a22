//! What became of everything, and whether it adds up.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::{Result, bail};
use comfy_table::{Cell, CellAlignment, Table, presets::UTF8_FULL_CONDENSED};
use everloom::{
    Engine, Event, EventFilter, EventKind, ExecutionId, ExecutionView, From, Limits,
    ListExecutions, ReadEvents, Status, Timestamp,
};
use serde::Serialize;

use super::workers::Tally;
use super::workload::Plan;

#[derive(Serialize)]
pub(super) struct Report {
    file: String,
    took_ms: u128,
    states: Vec<StateRow>,
    kinds: Vec<KindRow>,
    leases_left_behind: u64,
    leases_expired: u64,
    attempts_failed: u64,
    handled: u64,
    late_calls_refused: u64,
    problems: Vec<String>,
}

#[derive(Serialize)]
struct StateRow {
    status: Status,
    expected: u64,
    found: u64,
}

#[derive(Serialize)]
struct KindRow {
    kind: String,
    lane: String,
    executions: usize,
    attempts: u64,
    most_attempts: u32,
    waited: Spread,
    lived: Spread,
}

/// Milliseconds: the median and the 99th percentile.
#[derive(Serialize)]
struct Spread {
    p50_ms: u64,
    p99_ms: u64,
}

impl Spread {
    fn of(mut durations: Vec<Duration>) -> Self {
        durations.sort_unstable();
        let at = |percent: usize| {
            let index = (durations.len() * percent / 100).min(durations.len().saturating_sub(1));
            durations.get(index).map_or(0, |found| u64::try_from(found.as_millis()).unwrap_or(0))
        };
        Self { p50_ms: at(50), p99_ms: at(99) }
    }
}

impl Report {
    pub(super) async fn gather(
        engine: &Engine,
        plan: &Plan,
        tally: &Tally,
        took: Duration,
        file: &Path,
    ) -> Result<Self> {
        let counts = engine.counts().await?;
        let executions = all_executions(engine).await?;
        let events = all_events(engine).await?;
        let states: Vec<_> = Status::ALL
            .into_iter()
            .map(|status| StateRow {
                status,
                expected: plan.expected.get(&status).copied().unwrap_or(0),
                found: counts.of(status),
            })
            .filter(|row| row.expected > 0 || row.found > 0)
            .collect();
        let of_kind = |kind| events.iter().filter(|event| event.kind == kind).count() as u64;
        Ok(Self {
            file: file.display().to_string(),
            took_ms: took.as_millis(),
            problems: problems(&states, &executions, &events),
            states,
            kinds: kinds(&executions),
            leases_left_behind: tally.left_behind.load(Ordering::Relaxed),
            leases_expired: of_kind(EventKind::LeaseExpired),
            attempts_failed: of_kind(EventKind::Retrying) + of_kind(EventKind::Failed),
            handled: tally.handled.load(Ordering::Relaxed),
            late_calls_refused: tally.refused.load(Ordering::Relaxed),
        })
    }

    pub(super) fn print(&self) {
        let mut states = table(&["state", "expected", "found"]);
        for row in &self.states {
            states.add_row(row_of(&[&row.status, &row.expected, &row.found]));
        }
        let mut kinds = table(&[
            "kind",
            "lane",
            "executions",
            "attempts",
            "most",
            "wait p50",
            "wait p99",
            "life p50",
            "life p99",
        ]);
        for row in &self.kinds {
            kinds.add_row(row_of(&[
                &row.kind,
                &row.lane,
                &row.executions,
                &row.attempts,
                &row.most_attempts,
                &format!("{} ms", row.waited.p50_ms),
                &format!("{} ms", row.waited.p99_ms),
                &format!("{} ms", row.lived.p50_ms),
                &format!("{} ms", row.lived.p99_ms),
            ]));
        }
        println!("{states}\n{kinds}");
        println!(
            "A worker died with {} leases in hand; {} leases ran out and the work was taken up again.",
            self.leases_left_behind, self.leases_expired
        );
        println!(
            "{} attempts failed, {} handlers ran to their end, {} late calls were refused, in {:.2} s.",
            self.attempts_failed,
            self.handled,
            self.late_calls_refused,
            self.took_ms as f64 / 1000.0
        );
        println!("The database is {}", self.file);
    }

    pub(super) fn verdict(&self) -> Result<()> {
        match self.problems.is_empty() {
            true => Ok(()),
            false => bail!("the counts do not add up: {}", self.problems.join("; ")),
        }
    }
}

fn table(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_preset(UTF8_FULL_CONDENSED).set_header(header.to_vec());
    table
}

fn row_of(cells: &[&dyn std::fmt::Display]) -> Vec<Cell> {
    let align = |text: &str| match text.starts_with(|first: char| first.is_ascii_digit()) {
        true => CellAlignment::Right,
        false => CellAlignment::Left,
    };
    let texts = cells.iter().map(ToString::to_string);
    texts.map(|text| Cell::new(&text).set_alignment(align(&text))).collect()
}

/// Everything that is not as it should be.
fn problems(states: &[StateRow], executions: &[ExecutionView], events: &[Event]) -> Vec<String> {
    let mut problems = Vec::new();
    for row in states.iter().filter(|row| row.expected != row.found) {
        problems.push(format!("{} {} instead of {}", row.found, row.status, row.expected));
    }
    let mut ends: BTreeMap<ExecutionId, u32> = BTreeMap::new();
    for event in events.iter().filter(|event| event.kind.is_terminal()) {
        if let Some(execution) = event.execution {
            *ends.entry(execution).or_default() += 1;
        }
    }
    for execution in executions {
        if !execution.status.is_terminal() {
            problems.push(format!("{} is {}", execution.id, execution.status));
        }
        let ended = ends.get(&execution.id).copied().unwrap_or(0);
        if ended != 1 {
            problems.push(format!("{} has {ended} terminal events", execution.id));
        }
    }
    problems
}

fn kinds(executions: &[ExecutionView]) -> Vec<KindRow> {
    let mut by_kind: BTreeMap<(&str, &str), Vec<&ExecutionView>> = BTreeMap::new();
    for execution in executions {
        by_kind.entry((&execution.kind, &execution.lane)).or_default().push(execution);
    }
    let since = |execution: &ExecutionView, at: Timestamp| at.since(execution.created_at);
    by_kind
        .into_iter()
        .map(|((kind, lane), of_kind)| KindRow {
            kind: kind.to_owned(),
            lane: lane.to_owned(),
            executions: of_kind.len(),
            attempts: of_kind.iter().map(|one| u64::from(one.attempt)).sum(),
            most_attempts: of_kind.iter().map(|one| one.attempt).max().unwrap_or(0),
            waited: Spread::of(
                of_kind.iter().filter_map(|one| Some(since(one, one.started_at?))).collect(),
            ),
            lived: Spread::of(of_kind.iter().map(|one| since(one, one.since)).collect()),
        })
        .collect()
}

async fn all_executions(engine: &Engine) -> Result<Vec<ExecutionView>> {
    let mut all = Vec::new();
    let mut list = ListExecutions { limit: Limits::PAGE, ..ListExecutions::default() };
    loop {
        let page = engine.list(list.clone()).await?;
        all.extend(page.executions);
        match page.next {
            Some(next) => list.after = Some(next),
            None => return Ok(all),
        }
    }
}

async fn all_events(engine: &Engine) -> Result<Vec<Event>> {
    let mut all = Vec::new();
    let mut from = From::Oldest;
    loop {
        let read = ReadEvents { filter: EventFilter::default(), from, limit: Limits::PAGE };
        let page = engine.events(read).await?;
        all.extend(page.events);
        from = From::After(page.next);
        if page.at_end {
            return Ok(all);
        }
    }
}
