//! What executions have put out. Their rows are locked before any of it is read, and so nobody
//! changes it meanwhile.

use tokio_postgres::Row;
use uuid::Uuid;

use crate::error::Result;
use crate::exchange::{Loaded, Wants};
use crate::link::params;
use crate::round::Round;
use crate::rows::{all, chunks, integer, limit, streams, summaries};
use crate::sql;

/// Adds all questions.
pub(super) fn ask(round: &mut Round<'_, Loaded>, wants: &Wants) {
    ask_streams(round, wants);
    let wants = &wants.streams;
    if !wants.oldest.is_empty() {
        let rows: Vec<i64> = wants.oldest.keys().map(|(row, _)| row.0).collect();
        let live: Vec<bool> = wants.oldest.keys().map(|(_, live)| *live).collect();
        let frames: Vec<i64> = wants.oldest.values().map(|frames| integer(*frames)).collect();
        round.ask(sql::chunks::OLDEST, params![rows, live, frames], keep_oldest);
    }
    if !wants.summaries.is_empty() {
        let rows: Vec<i64> = wants.summaries.iter().map(|row| row.0).collect();
        round.ask(sql::summaries::OF, params![rows], keep_summaries);
    }
}

/// Streams, and what comes along with them.
fn ask_streams(round: &mut Round<'_, Loaded>, wants: &Wants) {
    let along = wants.executions.iter().filter(|_| wants.streams.along);
    let (namespaces, ids): (Vec<i64>, Vec<Uuid>) =
        along.map(|(namespace, id)| (namespace.0, id.0)).unzip();
    let wants = &wants.streams;
    let rows: Vec<i64> = wants.streams.iter().map(|row| row.0).collect();
    if ids.is_empty() && rows.is_empty() {
        return;
    }
    let params = || params![namespaces.clone(), ids.clone(), rows.clone()];
    round.ask(sql::streams::OF, params(), |rows, loaded| {
        loaded.streams.streams = all(rows, streams::from_row)?;
        Ok(())
    });
    if !wants.oldest_along.is_empty() {
        let live: Vec<bool> = wants.oldest_along.keys().copied().collect();
        let frames: Vec<i64> = wants.oldest_along.values().map(|most| integer(*most)).collect();
        let mut params = params();
        params.extend(params![live, frames]);
        round.ask(sql::chunks::OLDEST_ALONG, params, keep_oldest);
    }
    if wants.summaries_along {
        round.ask(sql::summaries::ALONG, params(), keep_summaries);
    }
}

/// What removes chunks of executions that are gone.
pub(super) fn ask_trims(round: &mut Round<'_, Loaded>, wants: &Wants) {
    for (gone, most) in wants.streams.trim.clone() {
        let rows: Vec<i64> = gone.iter().map(|row| row.0).collect();
        round.ask(sql::chunks::TRIM, params![rows, limit(most)], |rows, loaded| {
            loaded.streams.trimmed.insert(gone, rows.len());
            Ok(())
        });
    }
}

fn keep_oldest(rows: &[Row], loaded: &mut Loaded) -> Result<()> {
    for (sort, span) in all(rows, chunks::span_from_row)? {
        loaded.streams.oldest.entry(sort).or_default().push(span);
    }
    Ok(())
}

fn keep_summaries(rows: &[Row], loaded: &mut Loaded) -> Result<()> {
    loaded.streams.summaries.extend(all(rows, summaries::from_row)?);
    Ok(())
}
