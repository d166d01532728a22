use everloom_core::{Edge, EdgeId, FlowRow, RowId, When};
use tokio_postgres::Row;
use uuid::Uuid;

use super::records::Records;
use super::{Columns, code, from_json};
use crate::error::Result;
use crate::exchange::EdgePlace;
use crate::link::{Step, params};
use crate::sql::edges as sql;

pub(crate) fn from_row(row: &Row) -> Result<Edge> {
    take(&mut Columns::of(row))
}

fn take(columns: &mut Columns<'_>) -> Result<Edge> {
    Ok(Edge {
        source: RowId(columns.take()?),
        target: RowId(columns.take()?),
        ordinal: columns.count()?,
        flow: FlowRow(columns.take()?),
        when: When::from_code(i64::from(columns.take::<i32>()?))?,
        applied: columns.take()?,
        bind: columns.take()?,
        id: columns.take::<Option<Uuid>>()?.map(EdgeId),
    })
}

/// An edge, and after which target it was looked for.
pub(crate) fn paged_from_row(row: &Row) -> Result<(Edge, i64)> {
    let mut columns = Columns::of(row);
    Ok((take(&mut columns)?, columns.take()?))
}

/// An edge, and whether only those that bind a result were looked for.
pub(crate) fn into_from_row(row: &Row) -> Result<(Edge, bool)> {
    let mut columns = Columns::of(row);
    Ok((take(&mut columns)?, columns.take()?))
}

pub(crate) fn place_from_row(row: &Row) -> Result<EdgePlace> {
    let mut columns = Columns::of(row);
    Ok((RowId(columns.take()?), RowId(columns.take()?), columns.count()?))
}

/// The edges into an execution as a claim brings them.
pub(crate) fn bound_from_json(target: RowId, text: &str) -> Result<Vec<Edge>> {
    type Bound = (i64, u32, i64, i64, bool, Option<String>, Option<Uuid>);
    let edge = |(source, ordinal, flow, when, applied, bind, id): Bound| -> Result<Edge> {
        Ok(Edge {
            source: RowId(source),
            target,
            ordinal,
            flow: FlowRow(flow),
            when: When::from_code(when)?,
            applied,
            bind,
            id: id.map(EdgeId),
        })
    };
    from_json::<Vec<Bound>>(text)?.into_iter().map(edge).collect()
}

/// The columns of the table.
const COLUMNS: i32 = 8;

pub(crate) fn put(edges: &[Edge]) -> Step {
    let mut records = Records::new(COLUMNS);
    for edge in edges {
        records
            .row()
            .put(edge.source.0)
            .put(edge.target.0)
            .put(i64::from(edge.ordinal))
            .put(edge.flow.0)
            .put(code(edge.when.code()))
            .put(edge.applied)
            .put(edge.bind.as_deref())
            .put(edge.id.map(|id| id.0));
    }
    Step::Prepared(sql::PUT, params![records])
}

pub(crate) fn remove(places: &[EdgePlace]) -> Step {
    let sources: Vec<i64> = places.iter().map(|place| place.0.0).collect();
    let targets: Vec<i64> = places.iter().map(|place| place.1.0).collect();
    let ordinals: Vec<i64> = places.iter().map(|place| i64::from(place.2)).collect();
    Step::Prepared(sql::DROP, params![sources, targets, ordinals])
}
