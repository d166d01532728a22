use everloom_core::{Beginning, Join, Need, Otherwise, Rest, RowId, Verdict};
use tokio_postgres::Row;

use super::records::Records;
use super::{Columns, code};
use crate::error::Result;
use crate::link::{Step, params};
use crate::sql::joins as sql;

pub(crate) fn from_row(row: &Row) -> Result<Join> {
    let mut columns = Columns::of(row);
    let target = RowId(columns.take()?);
    let need = Need::from_code(columns.take()?)?;
    let rest = rest(columns.take()?)?;
    let otherwise: i32 = columns.take()?;
    let (sources, met, unmet) = (columns.count()?, columns.count()?, columns.count()?);
    let verdict = columns.take::<Option<i32>>()?.map(i64::from);
    let began = began(&mut columns)?;
    Ok(Join {
        target,
        need,
        rest,
        otherwise: Otherwise::from_saved(i64::from(otherwise), began)?,
        sources,
        met,
        unmet,
        verdict: verdict.map(Verdict::from_code).transpose()?,
    })
}

fn rest(code: i32) -> Result<Rest> {
    Ok(Rest::from_code(i64::from(code))?)
}

fn began(columns: &mut Columns<'_>) -> Result<Option<Beginning>> {
    let saved = columns.take::<Option<i64>>()?.zip(columns.take::<Option<i32>>()?);
    let Some((need, code)) = saved else { return Ok(None) };
    Ok(Some(Beginning { need: Need::from_code(need)?, rest: rest(code)? }))
}

/// The columns of the table.
const COLUMNS: i32 = 10;

pub(crate) fn put(joins: &[Join]) -> Step {
    let mut records = Records::new(COLUMNS);
    for join in joins {
        let began = join.otherwise.began();
        records
            .row()
            .put(join.target.0)
            .put(join.need.code())
            .put(code(join.rest.code()))
            .put(code(join.otherwise.code()))
            .put(i64::from(join.sources))
            .put(i64::from(join.met))
            .put(i64::from(join.unmet))
            .put(join.verdict.map(|verdict| code(verdict.code())))
            .put(began.map(|began| began.need.code()))
            .put(began.map(|began| code(began.rest.code())));
    }
    Step::Prepared(sql::PUT, params![records])
}
