use everloom_core::{Payload, RowId, Signal, SignalId, TakenSignal, WaitpointId};
use tokio_postgres::Row;
use uuid::Uuid;

use super::payloads::{self, stored};
use super::records::Records;
use super::{Columns, from_json, json};
use crate::error::Result;
use crate::link::{Step, params};
use crate::sql::signals as sql;

pub(crate) fn from_row(row: &Row) -> Result<Signal> {
    take(&mut Columns::of(row))
}

/// A signal, and its payload if that came along.
pub(crate) fn whole_from_row(row: &Row) -> Result<(Signal, Option<Payload>)> {
    let mut columns = Columns::of(row);
    Ok((take(&mut columns)?, payloads::optional(&mut columns)?))
}

fn take(columns: &mut Columns<'_>) -> Result<Signal> {
    Ok(Signal {
        execution: RowId(columns.take()?),
        seq: columns.count()?,
        id: SignalId(columns.take()?),
        waitpoint: columns.take::<Option<Uuid>>()?.map(WaitpointId),
        key: columns.take()?,
        run: columns.count()?,
        taken: taken(columns)?,
        facts: from_json(columns.take()?)?,
    })
}

fn taken(columns: &mut Columns<'_>) -> Result<Option<TakenSignal>> {
    let taken = columns.optional_count()?.zip(columns.take()?);
    Ok(taken.map(|(suspension, counted)| TakenSignal { suspension, counted }))
}

/// The columns of the table.
const COLUMNS: i32 = 11;

pub(crate) fn add(signals: &[(Signal, Payload)]) -> Result<Step> {
    let mut records = Records::new(COLUMNS);
    for (signal, payload) in signals {
        let facts = json(&signal.facts)?;
        records
            .row()
            .put(signal.execution.0)
            .put(i64::from(signal.seq))
            .put(signal.id.0)
            .put(signal.waitpoint.map(|id| id.0))
            .put(signal.key.as_deref())
            .put(i64::from(signal.run))
            .put(signal.taken.map(|taken| i64::from(taken.suspension)))
            .put(signal.taken.map(|taken| taken.counted))
            .put(&*facts)
            .put(stored(&payload.content_type))
            .put(&*payload.bytes);
    }
    Ok(Step::Prepared(sql::ADD, params![records]))
}

pub(crate) fn save(signals: &[Signal]) -> Step {
    let rows: Vec<i64> = signals.iter().map(|signal| signal.execution.0).collect();
    let seqs: Vec<i64> = signals.iter().map(|signal| i64::from(signal.seq)).collect();
    let suspensions: Vec<Option<i64>> =
        signals.iter().map(|signal| signal.taken.map(|by| i64::from(by.suspension))).collect();
    let counted: Vec<Option<bool>> =
        signals.iter().map(|signal| signal.taken.map(|by| by.counted)).collect();
    Step::Prepared(sql::SAVE, params![rows, seqs, suspensions, counted])
}
