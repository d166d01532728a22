//! How results are shown.

use std::time::Duration;

use anyhow::Result;
use comfy_table::{Table, presets::UTF8_FULL_CONDENSED};
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;
use serde_json::{Map, Value};

/// Rows of one scenario: printed as they come with `--json`, else as a table at the end.
pub(crate) struct Report {
    json: bool,
    rows: Vec<Map<String, Value>>,
}

impl Report {
    pub(crate) fn new(json: bool) -> Self {
        Self { json, rows: vec![] }
    }

    pub(crate) fn add(&mut self, row: impl Serialize) -> Result<()> {
        let row = serde_json::to_value(row)?;
        if self.json {
            println!("{row}");
        }
        if let Value::Object(row) = row {
            self.rows.push(row);
        }
        Ok(())
    }

    pub(crate) fn finish(self) {
        let Some(first) = self.rows.first().filter(|_| !self.json) else { return };
        let mut table = Table::new();
        table.load_preset(UTF8_FULL_CONDENSED).set_header(first.keys());
        for row in &self.rows {
            table.add_row(first.keys().map(|key| row.get(key).map_or_else(String::new, text)));
        }
        println!("{table}");
    }
}

fn text(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// A progress bar on stderr.
pub(crate) fn bar(what: &str, length: u64) -> Result<ProgressBar> {
    let style = "{msg:32} {bar:40} {pos}/{len} in {elapsed}";
    let bar = ProgressBar::new(length).with_style(ProgressStyle::with_template(style)?);
    bar.set_message(what.to_owned());
    Ok(bar)
}

/// Two digits after the point.
pub(crate) fn rounded(value: f64) -> f64 {
    (value * 100.0).round() / 100.0
}

/// The median and the 99th percentile, in microseconds.
pub(crate) fn percentiles(mut latencies: Vec<Duration>) -> (u64, u64) {
    latencies.sort_unstable();
    let at = |percent: usize| {
        let index = (latencies.len() * percent / 100).min(latencies.len().saturating_sub(1));
        let found = latencies.get(index).copied().unwrap_or_default();
        u64::try_from(found.as_micros()).unwrap_or(u64::MAX)
    };
    (at(50), at(99))
}

/// The most memory this process ever had in use, as Linux tells it.
pub(crate) fn resident_mib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kib.unwrap_or(0) >> 10
}
