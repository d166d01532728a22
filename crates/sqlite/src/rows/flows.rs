use std::sync::Arc;

use everloom_core::{
    Flow, FlowCounts, FlowId, FlowRow, FlowScan, FlowSlice, FlowState, NamespaceId, RowId,
};
use rusqlite::{Connection, Row, params};
use uuid::Uuid;

use super::executions::{no_tags, tags_column};
use super::{
    count, first, from_json, integer, json, json_or_default, json_unless_default, limit, millis,
    optional_time, run_on_one, time,
};
use crate::caches::Caches;
use crate::error::{Fault, Result};
use crate::sql::flows as sql;

const ID: usize = 0;

fn from_row(row: &Row<'_>) -> Result<Flow> {
    let closing = match row.get_ref(17)?.as_str_or_null()? {
        None => None,
        Some(text) => Some(from_json(text)?),
    };
    Ok(Flow {
        row: FlowRow(row.get(ID)?),
        id: FlowId(Uuid::from_bytes(row.get(1)?)),
        namespace: NamespaceId(row.get(2)?),
        state: FlowState::from_saved(row.get(3)?, closing)?,
        held: row.get(4)?,
        since: time(row, 5)?,
        run: row.get(6)?,
        deadline_at: optional_time(row, 7)?,
        counts: counts_from_row(row)?,
        kind: row.get(18)?,
        created_at: time(row, 19)?,
        parent: row.get::<_, Option<i64>>(20)?.map(RowId),
        fingerprint: row.get(21)?,
        terms: Arc::new(json_or_default(row, 22)?),
        tags: match row.get_ref(23)?.as_str_or_null()? {
            None => no_tags(),
            Some(text) => Arc::new(from_json(text)?),
        },
    })
}

fn counts_from_row(row: &Row<'_>) -> Result<FlowCounts> {
    Ok(FlowCounts {
        nodes: count(row, 8)?,
        edges: count(row, 9)?,
        completed: count(row, 10)?,
        failed: count(row, 11)?,
        cancelled: count(row, 12)?,
        expired: count(row, 13)?,
        skipped: count(row, 14)?,
        unhandled: count(row, 15)?,
        unsettled: count(row, 16)?,
    })
}

pub(crate) fn by_uuid(
    conn: &Connection,
    caches: &mut Caches,
    namespace: NamespaceId,
    id: FlowId,
) -> Result<Option<Flow>> {
    let found = first(conn, sql::BY_UUID, params![id.0.as_bytes(), namespace.0], from_row)?;
    if let Some(flow) = &found {
        caches.flows.keep(flow);
    }
    Ok(found)
}

pub(crate) fn by_row(conn: &Connection, caches: &mut Caches, row: FlowRow) -> Result<Flow> {
    if let Some(known) = caches.flows.get(row) {
        return Ok(known.clone());
    }
    let found = first(conn, sql::BY_ROW, [row.0], from_row)?.ok_or_else(|| missing(row))?;
    caches.flows.keep(&found);
    Ok(found)
}

fn missing(row: FlowRow) -> Fault {
    Fault::bug(format!("there is no flow in row {}", row.0))
}

pub(crate) fn is_gated(conn: &Connection, caches: &Caches, row: FlowRow) -> Result<bool> {
    if let Some(known) = caches.flows.get(row) {
        return Ok(known.is_gated());
    }
    let found = first(conn, sql::IS_GATED, [row.0], |row| Ok(row.get(0)?))?;
    found.ok_or_else(|| missing(row))
}

pub(crate) fn list(
    conn: &Connection,
    filter: &FlowScan,
    below: Option<FlowRow>,
    rows: usize,
    scan: usize,
) -> Result<FlowSlice> {
    let below = below.map_or(i64::MAX, |row| row.0);
    let mut statement = conn.prepare_cached(sql::LIST)?;
    // One more than is looked at, to know whether the end was reached.
    let scan_limit = limit(scan.saturating_add(1));
    let mut found = statement.query(params![filter.namespace.0, below, scan_limit])?;
    let mut slice = FlowSlice::default();
    let mut looked_at = 0;
    let mut last = None;
    while let Some(row) = found.next()? {
        if slice.flows.len() == rows || looked_at == scan {
            slice.next = last;
            return Ok(slice);
        }
        looked_at += 1;
        last = Some(FlowRow(row.get(ID)?));
        let flow = from_row(row)?;
        if filter.matches(&flow) {
            slice.flows.push(flow);
        }
    }
    Ok(slice)
}

pub(crate) fn insert(conn: &Connection, caches: &mut Caches, flow: &Flow) -> Result<()> {
    let counts = &flow.counts;
    run_on_one(
        conn,
        sql::ADD,
        params![
            flow.row.0,
            flow.status().code(),
            flow.held,
            flow.since.as_millis(),
            flow.run,
            millis(flow.deadline_at),
            integer(counts.nodes),
            integer(counts.edges),
            integer(counts.completed),
            integer(counts.failed),
            integer(counts.cancelled),
            integer(counts.expired),
            integer(counts.skipped),
            integer(counts.unhandled),
            integer(counts.unsettled),
            closing_column(flow)?,
            flow.id.0.as_bytes(),
            flow.namespace.0
        ],
    )?;
    run_on_one(
        conn,
        sql::ADD_TERMS,
        params![
            flow.row.0,
            flow.kind,
            flow.created_at.as_millis(),
            flow.parent.map(|parent| parent.0),
            flow.fingerprint,
            json_unless_default(&*flow.terms)?,
            tags_column(&flow.tags)?
        ],
    )?;
    caches.flows.keep(flow);
    Ok(())
}

pub(crate) fn save(conn: &Connection, caches: &mut Caches, flow: &Flow) -> Result<()> {
    let saved = by_row(conn, caches, flow.row)?;
    let counts = &flow.counts;
    run_on_one(
        conn,
        sql::SAVE,
        params![
            flow.row.0,
            flow.status().code(),
            flow.held,
            flow.since.as_millis(),
            flow.run,
            millis(flow.deadline_at),
            integer(counts.nodes),
            integer(counts.edges),
            integer(counts.completed),
            integer(counts.failed),
            integer(counts.cancelled),
            integer(counts.expired),
            integer(counts.skipped),
            integer(counts.unhandled),
            integer(counts.unsettled),
            closing_column(flow)?
        ],
    )?;
    if saved.tags != flow.tags {
        run_on_one(conn, sql::SAVE_TAGS, params![flow.row.0, tags_column(&flow.tags)?])?;
    }
    // What is fixed stays as it is, whatever it was given with.
    caches.flows.keep(&Flow {
        state: flow.state.clone(),
        since: flow.since,
        held: flow.held,
        run: flow.run,
        counts: flow.counts,
        deadline_at: flow.deadline_at,
        tags: Arc::clone(&flow.tags),
        ..saved
    });
    Ok(())
}

pub(crate) fn save_terms(conn: &Connection, caches: &mut Caches, flow: &Flow) -> Result<()> {
    let saved = by_row(conn, caches, flow.row)?;
    let terms = json_unless_default(&*flow.terms)?;
    run_on_one(conn, sql::SAVE_TERMS, params![flow.row.0, terms])?;
    caches.flows.keep(&Flow { terms: Arc::clone(&flow.terms), ..saved });
    Ok(())
}

fn closing_column(flow: &Flow) -> Result<Option<String>> {
    flow.state.saved_closing().map(json).transpose()
}

pub(crate) fn remove(conn: &Connection, caches: &mut Caches, flow: &Flow) -> Result<()> {
    run_on_one(conn, sql::REMOVE, [flow.row.0])?;
    run_on_one(conn, sql::REMOVE_TERMS, [flow.row.0])?;
    caches.flows.forget(flow.row);
    Ok(())
}
