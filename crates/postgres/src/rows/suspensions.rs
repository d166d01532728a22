use everloom_core::{RowId, Suspension};
use tokio_postgres::Row;

use super::records::Records;
use super::{Columns, from_json, json};
use crate::error::Result;
use crate::link::{Step, params};
use crate::sql::suspensions as sql;

pub(crate) fn from_row(row: &Row) -> Result<Suspension> {
    let mut columns = Columns::of(row);
    Ok(Suspension {
        execution: RowId(columns.take()?),
        number: columns.count()?,
        run: columns.count()?,
        key: columns.take()?,
        terms: from_json(columns.take()?)?,
        course: from_json(columns.take()?)?,
    })
}

/// The columns of the table.
pub(super) const COLUMNS: u8 = 6;

pub(crate) fn add(suspensions: &[Suspension]) -> Result<Step> {
    let mut records = Records::new(COLUMNS.into());
    for suspension in suspensions {
        let (terms, course) = (json(&suspension.terms)?, json(&suspension.course)?);
        records
            .row()
            .put(suspension.execution.0)
            .put(i64::from(suspension.number))
            .put(i64::from(suspension.run))
            .put(suspension.key.as_deref())
            .put(&*terms)
            .put(&*course);
    }
    Ok(Step::Prepared(sql::ADD, params![records]))
}

pub(crate) fn save(suspensions: &[Suspension]) -> Result<Step> {
    let rows: Vec<i64> = suspensions.iter().map(|suspension| suspension.execution.0).collect();
    let numbers: Vec<i64> =
        suspensions.iter().map(|suspension| i64::from(suspension.number)).collect();
    let courses: Vec<String> =
        suspensions.iter().map(|suspension| json(&suspension.course)).collect::<Result<_>>()?;
    Ok(Step::Prepared(sql::SAVE, params![rows, numbers, courses]))
}
