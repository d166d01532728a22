use std::sync::Arc;

use everloom_core::{
    Flow, FlowCounts, FlowId, FlowRow, FlowScan, FlowSlice, FlowState, NamespaceId, RowId,
};
use tokio_postgres::Row;

use super::executions::{no_tags, tags_column};
use super::records::Records;
use super::{Columns, code, from_json, integer, json, json_unless_default, limit, millis};
use crate::error::{Fault, Result};
use crate::link::{Link, Step, params};
use crate::sql::flows as sql;

pub(crate) fn from_row(row: &Row) -> Result<Flow> {
    let mut columns = Columns::of(row);
    let row = FlowRow(columns.take()?);
    let id = FlowId(columns.take()?);
    let namespace = NamespaceId(columns.take()?);
    let state: i32 = columns.take()?;
    let held = columns.take()?;
    let since = columns.time()?;
    let run = columns.count()?;
    let deadline_at = columns.optional_time()?;
    let counts = FlowCounts {
        nodes: columns.count()?,
        edges: columns.count()?,
        completed: columns.count()?,
        failed: columns.count()?,
        cancelled: columns.count()?,
        expired: columns.count()?,
        skipped: columns.count()?,
        unhandled: columns.count()?,
        unsettled: columns.count()?,
    };
    let closing = columns.take::<Option<&str>>()?.map(from_json).transpose()?;
    Ok(Flow {
        row,
        id,
        namespace,
        state: FlowState::from_saved(i64::from(state), closing)?,
        held,
        since,
        run,
        deadline_at,
        counts,
        kind: columns.take()?,
        created_at: columns.time()?,
        parent: columns.take::<Option<i64>>()?.map(RowId),
        fingerprint: columns.bytes()?.ok_or_else(|| Fault::bug("a flow has no fingerprint"))?,
        terms: Arc::new(columns.json_or_default()?),
        tags: match columns.take::<Option<&str>>()? {
            None => no_tags(),
            Some(text) => Arc::new(from_json(text)?),
        },
    })
}

/// The columns of the table.
const COLUMNS: i32 = 24;

fn records(flows: &[Flow]) -> Result<Records> {
    let mut records = Records::new(COLUMNS);
    for flow in flows {
        let counts = &flow.counts;
        let closing = flow.state.saved_closing().map(json).transpose()?;
        let terms = json_unless_default(&*flow.terms)?;
        let tags = tags_column(&flow.tags)?;
        records
            .row()
            .put(flow.row.0)
            .put(flow.id.0)
            .put(flow.namespace.0)
            .put(code(flow.status().code()))
            .put(flow.held)
            .put(flow.since.as_millis())
            .put(i64::from(flow.run))
            .put(millis(flow.deadline_at))
            .put(integer(counts.nodes))
            .put(integer(counts.edges))
            .put(integer(counts.completed))
            .put(integer(counts.failed))
            .put(integer(counts.cancelled))
            .put(integer(counts.expired))
            .put(integer(counts.skipped))
            .put(integer(counts.unhandled))
            .put(integer(counts.unsettled))
            .put(closing.as_deref())
            .put(flow.kind.as_deref())
            .put(flow.created_at.as_millis())
            .put(flow.parent.map(|parent| parent.0))
            .put(&flow.fingerprint[..])
            .put(terms.as_deref())
            .put(tags.as_deref());
    }
    Ok(records)
}

pub(crate) fn insert(flows: &[Flow]) -> Result<Step> {
    Ok(Step::Prepared(sql::INSERT, params![records(flows)?]))
}

pub(crate) fn save(flows: &[Flow]) -> Result<Step> {
    Ok(Step::Prepared(sql::SAVE, params![records(flows)?]))
}

pub(crate) fn save_terms(flows: &[Flow]) -> Result<Step> {
    let rows: Vec<i64> = flows.iter().map(|flow| flow.row.0).collect();
    let terms: Vec<Option<String>> =
        flows.iter().map(|flow| json_unless_default(&*flow.terms)).collect::<Result<_>>()?;
    Ok(Step::Prepared(sql::SAVE_TERMS, params![rows, terms]))
}

pub(crate) fn remove(rows: &[FlowRow]) -> Step {
    let rows: Vec<i64> = rows.iter().map(|row| row.0).collect();
    Step::Prepared(sql::REMOVE, params![rows])
}

/// How many flows one question brings at most.
const CHUNK: usize = 1024;

/// Flows that match, newest first.
pub(crate) fn list(
    link: &mut Link,
    filter: &FlowScan,
    below: Option<FlowRow>,
    rows: usize,
    scan: usize,
) -> Result<FlowSlice> {
    let mut slice = FlowSlice { flows: Vec::new(), next: below };
    let mut left = scan;
    // One more than a page, to know whether the end was reached.
    let mut chunk = rows.saturating_add(1).min(CHUNK);
    loop {
        let asked = chunk.min(left.saturating_add(1));
        let below = slice.next.map_or(i64::MAX, |row| row.0);
        let found = link.query(sql::LIST, params![filter.namespace.0, below, limit(asked)])?;
        for row in &found {
            if slice.flows.len() == rows || left == 0 {
                return Ok(slice);
            }
            left -= 1;
            let flow = from_row(row)?;
            slice.next = Some(flow.row);
            if filter.matches(&flow) {
                slice.flows.push(flow);
            }
        }
        if found.len() < asked {
            slice.next = None;
            return Ok(slice);
        }
        chunk = CHUNK;
    }
}
