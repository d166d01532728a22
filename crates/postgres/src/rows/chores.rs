use everloom_core::{Chore, ChoreId, ChoreKind, Timestamp};
use tokio_postgres::Row;

use super::{Columns, from_json, json};
use crate::error::Result;
use crate::link::{Step, params};
use crate::sql::chores as sql;

pub(crate) fn from_row(row: &Row) -> Result<Chore> {
    let mut columns = Columns::of(row);
    Ok(Chore {
        id: ChoreId(columns.take()?),
        kind: from_json(columns.take()?)?,
        due_at: columns.time()?,
    })
}

pub(crate) fn add(new: &[(ChoreKind, Timestamp)]) -> Result<Step> {
    let kinds: Vec<String> = new.iter().map(|(kind, _)| json(kind)).collect::<Result<_>>()?;
    let due: Vec<i64> = new.iter().map(|(_, at)| at.as_millis()).collect();
    Ok(Step::Prepared(sql::ADD, params![kinds, due]))
}

pub(crate) fn save(chores: &[Chore]) -> Result<Step> {
    let ids: Vec<i64> = chores.iter().map(|chore| chore.id.0).collect();
    let kinds: Vec<String> = chores.iter().map(|chore| json(&chore.kind)).collect::<Result<_>>()?;
    let due: Vec<i64> = chores.iter().map(|chore| chore.due_at.as_millis()).collect();
    Ok(Step::Prepared(sql::SAVE, params![ids, kinds, due]))
}

pub(crate) fn remove(ids: &[ChoreId]) -> Step {
    let ids: Vec<i64> = ids.iter().map(|id| id.0).collect();
    Step::Prepared(sql::DROP, params![ids])
}
