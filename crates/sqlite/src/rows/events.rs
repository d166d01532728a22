use everloom_core::{
    Cursor, Epoch, Event, EventKind, EventScan, EventSlice, EventSpan, ExecutionId, FlowId, LaneId,
    NamespaceId, NewEvent, Tags, Timestamp,
};
use rusqlite::{Connection, Row, params};
use uuid::Uuid;

use super::executions::tags_column;
use super::{
    count, first, from_json, integer, json, json_or_default, lanes, limit, namespaces, run,
    run_on_one, time,
};
use crate::caches::Caches;
use crate::error::Result;
use crate::sql::events as sql;

pub(crate) fn add(conn: &Connection, caches: &mut Caches, event: &NewEvent) -> Result<()> {
    let cursor = last_cursor(conn, caches)? + 1;
    let (row, id) = event.execution.unzip();
    run_on_one(
        conn,
        sql::ADD,
        params![
            cursor,
            event.kind.code(),
            event.at.as_millis(),
            event.namespace.0,
            id.as_ref().map(|id| id.0.as_bytes()),
            event.lane.map(|lane| lane.0),
            event.attempt,
            event.epoch.map(|epoch| integer(epoch.0)),
            event.worker,
            tags_column(&event.tags)?,
            event.data.as_ref().map(json).transpose()?,
            event.flow.as_ref().map(|flow| flow.0.as_bytes()),
            row.map(|row| row.0)
        ],
    )?;
    caches.last_cursor = Some(cursor);
    Ok(())
}

/// The cursor of the newest event ever written, which is never removed.
fn last_cursor(conn: &Connection, caches: &mut Caches) -> Result<i64> {
    if let Some(known) = caches.last_cursor {
        return Ok(known);
    }
    let last = first(conn, sql::LAST, [], |row| Ok(row.get::<_, Option<i64>>(0)?))?;
    Ok(*caches.last_cursor.insert(last.flatten().unwrap_or(0)))
}

pub(crate) fn span(conn: &Connection, caches: &mut Caches) -> Result<EventSpan> {
    let last = last_cursor(conn, caches)?;
    let first = first(conn, sql::FIRST, [], |row| Ok(row.get::<_, Option<i64>>(0)?))?;
    Ok(EventSpan { first: Cursor(first.flatten().unwrap_or(last + 1)), last: Cursor(last) })
}

pub(crate) fn read(
    conn: &Connection,
    caches: &mut Caches,
    after: Cursor,
    filter: &EventScan,
    rows: usize,
    scan: usize,
) -> Result<EventSlice> {
    let end = Cursor(last_cursor(conn, caches)?);
    let mut statement = match filter.row {
        Some(_) => conn.prepare_cached(sql::OF_EXECUTION)?,
        None => conn.prepare_cached(sql::AFTER)?,
    };
    // One more than is looked at, to know whether the end was reached.
    let scan_limit = limit(scan.saturating_add(1));
    let mut found = match filter.row {
        Some(row) => statement.query(params![after.0, scan_limit, row.0])?,
        None => statement.query(params![after.0, scan_limit])?,
    };
    let mut slice = EventSlice { events: Vec::new(), scanned_to: after };
    let mut looked_at = 0;
    while slice.events.len() < rows {
        let Some(row) = found.next()? else {
            slice.scanned_to = end;
            break;
        };
        if looked_at == scan {
            break;
        }
        looked_at += 1;
        slice.scanned_to = Cursor(row.get(0)?);
        if let Some(event) = matching(conn, caches, filter, row)? {
            slice.events.push(event);
        }
    }
    Ok(slice)
}

fn matching(
    conn: &Connection,
    caches: &mut Caches,
    filter: &EventScan,
    row: &Row<'_>,
) -> Result<Option<Event>> {
    let kind = EventKind::from_code(row.get(1)?)?;
    let namespace = NamespaceId(row.get(3)?);
    let execution =
        row.get::<_, Option<[u8; 16]>>(4)?.map(|bytes| ExecutionId(Uuid::from_bytes(bytes)));
    let lane = row.get::<_, Option<i64>>(5)?.map(LaneId);
    let tags: Tags = json_or_default(row, 9)?;
    let flow = row.get::<_, Option<[u8; 16]>>(11)?.map(|bytes| FlowId(Uuid::from_bytes(bytes)));
    if !filter.matches(namespace, kind, execution, lane, flow, &tags) {
        return Ok(None);
    }
    Ok(Some(Event {
        cursor: Cursor(row.get(0)?),
        kind,
        at: time(row, 2)?,
        namespace: namespaces::by_id(conn, caches, namespace)?.name.clone(),
        execution,
        lane: match lane {
            Some(lane) => Some(lanes::by_id(conn, caches, lane)?.name.clone()),
            None => None,
        },
        flow,
        attempt: row.get(6)?,
        epoch: match row.get_ref(7)? {
            rusqlite::types::ValueRef::Null => None,
            _ => Some(Epoch(count(row, 7)?)),
        },
        worker: row.get(8)?,
        tags,
        data: match row.get_ref(10)?.as_str_or_null()? {
            Some(text) => Some(from_json(text)?),
            None => None,
        },
    }))
}

/// Events stand in the order of their times, so the old ones are those before the first that is
/// not.
pub(crate) fn trim(
    conn: &Connection,
    caches: &mut Caches,
    before: Timestamp,
    rows: usize,
) -> Result<usize> {
    let newest = last_cursor(conn, caches)?;
    let mut statement = conn.prepare_cached(sql::OLDEST)?;
    let mut oldest = statement.query(params![newest, limit(rows)])?;
    let mut last = None;
    while let Some(row) = oldest.next()? {
        if time(row, 1)? >= before {
            break;
        }
        last = Some(row.get::<_, i64>(0)?);
    }
    drop(oldest);
    match last {
        Some(last) => run(conn, sql::DROP_UP_TO, [last]),
        None => Ok(0),
    }
}
