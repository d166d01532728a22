//! What executions have put out. Their rows are locked before any of it is read, and so nobody
//! changes it meanwhile.

use everloom_core::RowId;
use uuid::Uuid;

use crate::exchange::{Loaded, Wants};
use crate::link::params;
use crate::round::Round;
use crate::rows::{all, chunks, integer, streams, summaries};
use crate::sql;

/// Adds all questions.
pub(super) fn ask(round: &mut Round<'_, Loaded>, wants: &Wants) {
    ask_streams(round, wants);
    let wants = &wants.streams;
    if !wants.oldest.is_empty() {
        let rows: Vec<i64> = wants.oldest.keys().map(|(row, _)| row.0).collect();
        let live: Vec<bool> = wants.oldest.keys().map(|(_, live)| *live).collect();
        let frames: Vec<i64> = wants.oldest.values().map(|frames| integer(*frames)).collect();
        round.ask(sql::chunks::OLDEST, params![rows, live, frames], |rows, loaded| {
            for (sort, span) in all(rows, chunks::span_from_row)? {
                loaded.streams.oldest.entry(sort).or_default().push(span);
            }
            Ok(())
        });
    }
    if !wants.summaries.is_empty() {
        let rows: Vec<i64> = wants.summaries.iter().map(|row: &RowId| row.0).collect();
        round.ask(sql::summaries::OF, params![rows], |rows, loaded| {
            loaded.streams.summaries = all(rows, summaries::from_row)?;
            Ok(())
        });
    }
}

fn ask_streams(round: &mut Round<'_, Loaded>, wants: &Wants) {
    let along = wants.executions.iter().filter(|_| wants.streams.along);
    let (namespaces, ids): (Vec<i64>, Vec<Uuid>) =
        along.map(|(namespace, id)| (namespace.0, id.0)).unzip();
    let rows: Vec<i64> = wants.streams.streams.iter().map(|row| row.0).collect();
    if !(ids.is_empty() && rows.is_empty()) {
        round.ask(sql::streams::OF, params![namespaces, ids, rows], |rows, loaded| {
            loaded.streams.streams = all(rows, streams::from_row)?;
            Ok(())
        });
    }
}
