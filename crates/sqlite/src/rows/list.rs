use std::collections::HashSet;

use everloom_core::{Execution, ListScan, ListSlice, RouteId, RowId, Status};
use rusqlite::{Connection, Row, Rows, params};

use super::executions::{column, from_row};
use super::limit;
use crate::error::Result;
use crate::sql::executions as sql;

/// Executions that match, newest first, through the index that leaves the fewest to look at.
pub(crate) fn list(
    conn: &Connection,
    filter: &ListScan,
    below: Option<RowId>,
    rows: usize,
    scan: usize,
) -> Result<ListSlice> {
    let wanted = Wanted::new(filter);
    let below = below.map_or(i64::MAX, |row| row.0);
    // One more than is looked at, to know whether the end was reached.
    let scan_limit = limit(scan.saturating_add(1));
    let namespace = filter.namespace.0;
    if let Some((key, value)) = filter.tags.first_key_value() {
        let mut statement = conn.prepare_cached(sql::LIST_TAGGED)?;
        let params = params![below, scan_limit, namespace, key, value];
        return collect(statement.query(params)?, &wanted, rows, scan);
    }
    if let Some(worker) = &filter.worker {
        let mut statement = conn.prepare_cached(sql::LIST_OWNED)?;
        return collect(
            statement.query(params![below, scan_limit, namespace, worker])?,
            &wanted,
            rows,
            scan,
        );
    }
    if let Some([first, second, third, fourth]) = troubled(&filter.statuses) {
        let mut statement = conn.prepare_cached(sql::LIST_TROUBLED)?;
        let params = params![below, scan_limit, namespace, first, second, third, fourth];
        return collect(statement.query(params)?, &wanted, rows, scan);
    }
    let mut statement = conn.prepare_cached(sql::LIST)?;
    collect(statement.query(params![below, scan_limit])?, &wanted, rows, scan)
}

/// The states to look for if the index over executions that ended without a result has them all.
fn troubled(statuses: &[Status]) -> Option<[Option<i64>; 4]> {
    const INDEXED: [Status; 4] =
        [Status::Failed, Status::Cancelled, Status::Expired, Status::Skipped];
    let covered = !statuses.is_empty() && statuses.iter().all(|status| INDEXED.contains(status));
    covered.then(|| INDEXED.map(|status| statuses.contains(&status).then(|| status.code())))
}

fn collect(
    mut rows: Rows<'_>,
    wanted: &Wanted<'_>,
    limit: usize,
    scan: usize,
) -> Result<ListSlice> {
    let mut slice = ListSlice::default();
    let mut looked_at = 0;
    let mut last = None;
    while let Some(row) = rows.next()? {
        if slice.executions.len() == limit || looked_at == scan {
            slice.next = last;
            return Ok(slice);
        }
        looked_at += 1;
        last = Some(RowId(row.get(column::ID)?));
        if wanted.by_columns(row)? {
            let execution = from_row(row)?;
            if wanted.by_content(&execution) {
                slice.executions.push(execution);
            }
        }
    }
    Ok(slice)
}

/// A filter, prepared to be asked often.
struct Wanted<'a> {
    filter: &'a ListScan,
    states: Vec<i64>,
    routes: Option<HashSet<RouteId>>,
    text: Option<String>,
}

impl<'a> Wanted<'a> {
    fn new(filter: &'a ListScan) -> Self {
        Self {
            filter,
            states: filter.statuses.iter().map(|status| status.code()).collect(),
            routes: filter.routes.as_ref().map(|routes| routes.iter().copied().collect()),
            text: filter.text.as_ref().map(|text| text.to_ascii_lowercase()),
        }
    }

    /// As far as can be told before the row is read as a whole.
    fn by_columns(&self, row: &Row<'_>) -> Result<bool> {
        let filter = self.filter;
        let number = |column| row.get::<_, i64>(column);
        let text = |column| row.get_ref(column).map(|value| value.as_str_or_null());
        if number(column::NAMESPACE)? != filter.namespace.0 {
            return Ok(false);
        }
        let state = number(column::STATE)?;
        let created_at = number(column::CREATED_AT)?;
        let worker = text(column::WORKER)??;
        let created_by = text(column::CREATED_BY)??;
        let lane = number(column::LANE)?;
        let held = number(column::HELD)? != 0;
        let route = RouteId(number(column::ROUTE)?);
        Ok((self.states.is_empty() || self.states.contains(&state))
            && filter.held.is_none_or(|wanted| wanted == held)
            && self.routes.as_ref().is_none_or(|routes| routes.contains(&route))
            && filter.lane.is_none_or(|wanted| wanted.0 == lane)
            && (filter.worker.is_none() || filter.worker.as_deref() == worker)
            && (filter.created_by.is_none() || filter.created_by.as_deref() == created_by)
            && filter.created_from.is_none_or(|from| created_at >= from.as_millis())
            && filter.created_before.is_none_or(|before| created_at < before.as_millis()))
    }

    fn by_content(&self, execution: &Execution) -> bool {
        let message = || execution.state.end().and_then(|end| end.message.as_deref());
        self.filter.tags.iter().all(|(key, value)| execution.tags.get(key) == Some(value))
            && self.text.as_ref().is_none_or(|text| {
                message().is_some_and(|message| message.to_ascii_lowercase().contains(text))
            })
    }
}
