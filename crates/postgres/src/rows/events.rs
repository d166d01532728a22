use everloom_core::{
    Cursor, Epoch, Event, EventKind, EventScan, EventSlice, EventSpan, ExecutionId, FlowId, LaneId,
    NamespaceId, NewEvent, Tags,
};
use tokio_postgres::Row;
use uuid::Uuid;

use super::executions::tags_column;
use super::records::Records;
use super::{Columns, code, from_json, integer, json, limit, only};
use crate::error::{Fault, Result};
use crate::link::{Link, Step, params};
use crate::sql::{events as sql, meta};

/// The columns of the table.
const COLUMNS: i32 = 14;

/// Adds events as one batch of a process.
pub(crate) fn add(events: &[NewEvent], source: i64) -> Result<Step> {
    let size = i32::try_from(events.len()).unwrap_or(i32::MAX);
    let newest = events.iter().map(|event| event.at.as_millis()).max();
    let mut records = Records::new(COLUMNS);
    for (event, place) in events.iter().zip(1_i32..) {
        let tags = tags_column(&event.tags)?;
        let data = event.data.as_ref().map(json).transpose()?;
        // The server knows the batch.
        let batch = 0_i64;
        let mut row = records.row();
        row.put(batch)
            .put(place)
            .put(code(event.kind.code()))
            .put(event.at.as_millis())
            .put(event.namespace.0)
            .put(event.execution.map(|(row, _)| row.0))
            .put(event.execution.map(|(_, id)| id.0))
            .put(event.lane.map(|lane| lane.0))
            .put(event.attempt.map(i64::from))
            .put(event.epoch.map(|epoch| integer(epoch.0)))
            .put(event.worker.as_deref())
            .put(tags.as_deref())
            .put(data.as_deref())
            .put(event.flow.map(|flow| flow.0));
    }
    Ok(Step::Prepared(sql::ADD, params![size, newest, source, records]))
}

/// The cursor of the newest event that is numbered.
fn last_cursor(link: &mut Link) -> Result<Cursor> {
    let rows = link.query(meta::READ, params![])?;
    let row = rows.first().ok_or_else(|| Fault::bug("the schema has lost its meta row"))?;
    Ok(Cursor(row.try_get(1)?))
}

pub(crate) fn span(link: &mut Link) -> Result<EventSpan> {
    let last = last_cursor(link)?;
    let first: Option<i64> = only(&link.query(sql::FIRST, params![])?)?;
    Ok(EventSpan { first: Cursor(first.unwrap_or(last.0 + 1)), last })
}

/// How many events one question brings at most.
const CHUNK: usize = 1024;

pub(crate) fn read(
    link: &mut Link,
    after: Cursor,
    filter: &EventScan,
    rows: usize,
    scan: usize,
) -> Result<EventSlice> {
    // What is numbered in the meantime is left for the next slice.
    let end = last_cursor(link)?;
    let mut slice = EventSlice { events: Vec::new(), scanned_to: after };
    let mut left = scan;
    let mut chunk = rows.clamp(1, CHUNK);
    while slice.events.len() < rows && left > 0 {
        let wanted = chunk.min(left);
        let params = params![slice.scanned_to.0, end.0, limit(wanted)];
        let found = match filter.row {
            Some(row) => {
                let mut params = params;
                params.extend(params![row.0]);
                link.query(sql::OF_EXECUTION, params)?
            }
            None => link.query(sql::AFTER, params)?,
        };
        for row in &found {
            slice.scanned_to = Cursor(row.try_get(0)?);
            if let Some(event) = matching(filter, row)? {
                slice.events.push(event);
                if slice.events.len() == rows {
                    return Ok(slice);
                }
            }
        }
        if found.len() < wanted {
            slice.scanned_to = end.max(after);
            break;
        }
        left -= wanted;
        chunk = CHUNK;
    }
    Ok(slice)
}

fn matching(filter: &EventScan, row: &Row) -> Result<Option<Event>> {
    let mut columns = Columns::of(row);
    let cursor = Cursor(columns.take()?);
    let kind = EventKind::from_code(i64::from(columns.take::<i32>()?))?;
    let at = columns.time()?;
    let namespace = NamespaceId(columns.take()?);
    let execution = columns.take::<Option<Uuid>>()?.map(ExecutionId);
    let lane = columns.take::<Option<i64>>()?.map(LaneId);
    let attempt = columns.optional_count()?;
    let epoch = columns.optional_count()?.map(Epoch);
    let worker = columns.take()?;
    let tags: Tags = columns.json_or_default()?;
    let flow = columns.take::<Option<Uuid>>()?.map(FlowId);
    if !filter.matches(namespace, kind, execution, lane, flow, &tags) {
        return Ok(None);
    }
    Ok(Some(Event {
        cursor,
        kind,
        at,
        execution,
        flow,
        attempt,
        epoch,
        worker,
        tags,
        data: columns.take::<Option<&str>>()?.map(from_json).transpose()?,
        namespace: columns.take()?,
        lane: columns.take()?,
    }))
}
