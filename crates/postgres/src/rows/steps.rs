use everloom_core::{Payload, RowId, Step};
use tokio_postgres::Row;

use super::payloads::{self, stored};
use super::records::Records;
use super::{Columns, from_json, json};
use crate::error::Result;
use crate::exchange::Place;
use crate::link::{self, params};
use crate::sql::steps as sql;

pub(crate) fn from_row(row: &Row) -> Result<Step> {
    take(&mut Columns::of(row))
}

/// A step, and its result if that came along.
pub(crate) fn whole_from_row(row: &Row) -> Result<(Step, Option<Payload>)> {
    let mut columns = Columns::of(row);
    Ok((take(&mut columns)?, payloads::optional(&mut columns)?))
}

fn take(columns: &mut Columns<'_>) -> Result<Step> {
    Ok(Step {
        execution: RowId(columns.take()?),
        seq: columns.count()?,
        name: columns.take()?,
        occurrence: columns.count()?,
        facts: from_json(columns.take()?)?,
    })
}

pub(crate) fn last_from_row(row: &Row) -> Result<Place> {
    let mut columns = Columns::of(row);
    Ok((RowId(columns.take()?), columns.count()?))
}

/// The columns of the table.
const COLUMNS: i32 = 7;

pub(crate) fn add(steps: &[(Step, Payload)]) -> Result<link::Step> {
    let mut records = Records::new(COLUMNS);
    for (step, result) in steps {
        let facts = json(&step.facts)?;
        records
            .row()
            .put(step.execution.0)
            .put(i64::from(step.seq))
            .put(&*step.name)
            .put(i64::from(step.occurrence))
            .put(&*facts)
            .put(stored(&result.content_type))
            .put(&*result.bytes);
    }
    Ok(link::Step::Prepared(sql::ADD, params![records]))
}

/// Removes those from some numbers on.
pub(crate) fn remove(from: &[Place]) -> link::Step {
    let (rows, seqs): (Vec<i64>, Vec<i64>) =
        from.iter().map(|(row, seq)| (row.0, i64::from(*seq))).unzip();
    link::Step::Prepared(sql::DROP, params![rows, seqs])
}
