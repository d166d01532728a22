//! The report as a person reads it.

use comfy_table::{Table, presets::UTF8_FULL_CONDENSED};
use everloom::Level;

use super::{Lane, Report};

impl Report {
    pub(super) fn print(&self) {
        let store = &self.store;
        print!(
            "everloom {}, {} {}, schema {}",
            self.version, store.store, store.version, store.schema
        );
        match self.now {
            Some(now) => println!(", {now}"),
            None => println!(),
        }
        println!("{}", self.findings_table());
        if !self.lanes.is_empty() {
            println!("{}", self.lanes_table());
        }
        self.print_advice();
    }

    fn findings_table(&self) -> Table {
        let mut table = Table::new();
        table.load_preset(UTF8_FULL_CONDENSED).set_header(["", "looked at", "found"]);
        for finding in &self.findings {
            table.add_row([mark(finding.level), &finding.about, &finding.value]);
        }
        table
    }

    fn lanes_table(&self) -> Table {
        let mut table = Table::new();
        let header = ["namespace", "lane", "mode", "waiting", "oldest", "in all"];
        table.load_preset(UTF8_FULL_CONDENSED).set_header(header);
        for Lane { namespace, lane } in &self.lanes {
            let age = lane.oldest.zip(self.now).map(|(at, now)| now.since(at).as_secs());
            let all: u64 = lane.counts.iter().map(|one| one.count).sum();
            table.add_row([
                namespace.clone(),
                lane.lane.clone(),
                format!("{:?}", lane.mode).to_lowercase(),
                lane.depth.to_string(),
                age.map_or_else(|| "-".to_owned(), |seconds| format!("{seconds} s")),
                all.to_string(),
            ]);
        }
        table
    }

    /// The gravest first.
    fn print_advice(&self) {
        let mut to_do: Vec<_> = self.findings.iter().filter(|one| one.advice.is_some()).collect();
        to_do.sort_by_key(|finding| std::cmp::Reverse(finding.level));
        if to_do.is_empty() {
            println!("Nothing to fix.");
        }
        for finding in to_do {
            let advice = finding.advice.as_deref().unwrap_or_default();
            println!("{} {}: {advice}", mark(finding.level), finding.about);
        }
    }
}

fn mark(level: Level) -> &'static str {
    match level {
        Level::Fine => "✓",
        Level::Warning => "!",
        Level::Problem => "✗",
    }
}
