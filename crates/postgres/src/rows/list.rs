use std::collections::HashSet;

use everloom_core::{Execution, ListScan, ListSlice, RouteId, RowId, Status};
use tokio_postgres::Row;

use super::executions::from_row;
use super::{code, limit};
use crate::error::Result;
use crate::link::{Link, params};
use crate::sql::executions as sql;
use crate::text;

/// How many executions one question brings at most.
const CHUNK: usize = 1024;

/// Executions that match, newest first, through the index that leaves the fewest to look at.
pub(crate) fn list(
    link: &mut Link,
    filter: &ListScan,
    below: Option<RowId>,
    rows: usize,
    scan: usize,
) -> Result<ListSlice> {
    let tags = filter.tags.iter().flat_map(|(key, value)| [key, value]);
    if !tags.chain(&filter.worker).all(|name| text::can_be(name)) {
        return Ok(ListSlice::default());
    }
    let wanted = Wanted::new(filter);
    let mut slice = ListSlice { executions: Vec::new(), next: below };
    let mut left = scan;
    // One more than a page, to know whether the end was reached.
    let mut chunk = rows.saturating_add(1).min(CHUNK);
    loop {
        let asked = chunk.min(left.saturating_add(1));
        let found = newest(link, filter, slice.next, asked)?;
        for row in &found {
            if slice.executions.len() == rows || left == 0 {
                return Ok(slice);
            }
            left -= 1;
            let execution = from_row(row)?;
            slice.next = Some(execution.row);
            if wanted.matches(&execution) {
                slice.executions.push(execution);
            }
        }
        if found.len() < asked {
            slice.next = None;
            return Ok(slice);
        }
        chunk = CHUNK;
    }
}

fn newest(
    link: &mut Link,
    filter: &ListScan,
    below: Option<RowId>,
    rows: usize,
) -> Result<Vec<Row>> {
    let below = below.map_or(i64::MAX, |row| row.0);
    let mut params = params![below, limit(rows)];
    let namespace = filter.namespace.0;
    let sql = if let Some((key, value)) = filter.tags.first_key_value() {
        params.extend(params![namespace, key.clone(), value.clone()]);
        sql::LIST_TAGGED
    } else if let Some(worker) = &filter.worker {
        params.extend(params![namespace, worker.clone()]);
        sql::LIST_OWNED
    } else if let Some(states) = troubled(&filter.statuses) {
        params.extend(params![namespace, states]);
        sql::LIST_TROUBLED
    } else {
        sql::LIST
    };
    link.query(sql, params)
}

/// The states to look for if the index over executions that ended badly has them all.
fn troubled(statuses: &[Status]) -> Option<Vec<i32>> {
    const INDEXED: [Status; 4] =
        [Status::Failed, Status::Cancelled, Status::Expired, Status::Skipped];
    let covered = !statuses.is_empty() && statuses.iter().all(|status| INDEXED.contains(status));
    let wanted = INDEXED.into_iter().filter(|status| statuses.contains(status));
    covered.then(|| wanted.map(|status| code(status.code())).collect())
}

/// A filter, prepared to be asked often.
struct Wanted<'a> {
    filter: &'a ListScan,
    routes: Option<HashSet<RouteId>>,
    text: Option<String>,
}

impl<'a> Wanted<'a> {
    fn new(filter: &'a ListScan) -> Self {
        Self {
            filter,
            routes: filter.routes.as_ref().map(|routes| routes.iter().copied().collect()),
            text: filter.text.as_ref().map(|text| text.to_ascii_lowercase()),
        }
    }

    fn matches(&self, execution: &Execution) -> bool {
        let filter = self.filter;
        let created_at = execution.created_at;
        let created_by = execution.created_by.as_deref();
        let message = || execution.state.end().and_then(|end| end.message.as_deref());
        filter.namespace == execution.namespace
            && (filter.statuses.is_empty() || filter.statuses.contains(&execution.status()))
            && filter.held.is_none_or(|wanted| wanted == execution.is_held())
            && self.routes.as_ref().is_none_or(|routes| routes.contains(&execution.route))
            && filter.lane.is_none_or(|wanted| wanted == execution.lane)
            && (filter.worker.is_none() || filter.worker.as_deref() == execution.state.worker())
            && (filter.created_by.is_none() || filter.created_by.as_deref() == created_by)
            && filter.created_from.is_none_or(|from| created_at >= from)
            && filter.created_before.is_none_or(|before| created_at < before)
            && filter.tags.iter().all(|(key, value)| execution.tags.get(key) == Some(value))
            && self.text.as_ref().is_none_or(|text| {
                message().is_some_and(|message| message.to_ascii_lowercase().contains(text))
            })
    }
}
