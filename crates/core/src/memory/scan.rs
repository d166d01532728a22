//! The questions that walk along the log or a namespace and look at each row.

use std::ops::Bound::{Excluded, Included, Unbounded};

use super::read::{FIRST_ROW, LAST_ROW};
use super::tables::Tables;
use crate::event::{Event, NewEvent};
use crate::model::{Cursor, Execution, FlowRow, Result, RowId};
use crate::store::{EventScan, EventSlice, FlowScan, FlowSlice, ListScan, ListSlice};

impl Tables {
    pub(super) fn scan_log(
        &self,
        after: Cursor,
        filter: &EventScan,
        limit: usize,
        scan: usize,
    ) -> Result<EventSlice> {
        let mut events = Vec::new();
        let mut scanned_to = after;
        for (looked, (cursor, event)) in self.log(after, filter.row).enumerate() {
            if looked == scan || events.len() == limit {
                return Ok(EventSlice { events, scanned_to });
            }
            scanned_to = cursor;
            if is_meant(event, filter) {
                events.push(self.event(cursor, event)?);
            }
        }
        if events.len() < limit {
            scanned_to = self.last_cursor();
        }
        Ok(EventSlice { events, scanned_to })
    }

    /// The events after a cursor, oldest first; only those about one execution, if given.
    fn log(
        &self,
        after: Cursor,
        row: Option<RowId>,
    ) -> Box<dyn Iterator<Item = (Cursor, &NewEvent)> + '_> {
        match row {
            Some(row) => {
                let later = (Excluded((row, after)), Included((row, Cursor(i64::MAX))));
                let cursors = self.index.events.range(later).map(|(_, cursor)| *cursor);
                Box::new(cursors.map(|cursor| (cursor, &*self.events[&cursor])))
            }
            None => {
                let later = self.events.range((Excluded(after), Unbounded));
                Box::new(later.map(|(cursor, event)| (*cursor, &**event)))
            }
        }
    }

    fn event(&self, cursor: Cursor, event: &NewEvent) -> Result<Event> {
        let lane = event.lane.map(|lane| self.lane(lane)).transpose()?;
        Ok(Event {
            cursor,
            kind: event.kind,
            at: event.at,
            namespace: self.namespace(event.namespace)?.name.clone(),
            execution: event.execution.map(|(_, id)| id),
            lane: lane.map(|lane| lane.name.clone()),
            flow: event.flow,
            attempt: event.attempt,
            epoch: event.epoch,
            worker: event.worker.clone(),
            tags: (*event.tags).clone(),
            data: event.data.clone(),
        })
    }

    pub(super) fn scan_executions(
        &self,
        filter: &ListScan,
        below: Option<RowId>,
        limit: usize,
        scan: usize,
    ) -> ListSlice {
        let text = filter.text.as_ref().map(|text| text.to_ascii_lowercase());
        let from = (filter.namespace, FIRST_ROW);
        let to = (filter.namespace, below.unwrap_or(LAST_ROW));
        let mut executions = Vec::new();
        let mut next = below;
        for (looked, (_, row)) in self.index.members.range(from..to).rev().enumerate() {
            if looked == scan || executions.len() == limit {
                return ListSlice { executions, next };
            }
            next = Some(*row);
            let execution = self.execution(*row);
            if is_listed(execution, filter) && is_about(execution, text.as_deref()) {
                executions.push(execution.clone());
            }
        }
        let next = None;
        ListSlice { executions, next }
    }

    pub(super) fn scan_flows(
        &self,
        filter: &FlowScan,
        below: Option<FlowRow>,
        limit: usize,
        scan: usize,
    ) -> FlowSlice {
        let from = (filter.namespace, FlowRow(i64::MIN));
        let to = (filter.namespace, below.unwrap_or(FlowRow(i64::MAX)));
        let mut flows = Vec::new();
        let mut next = below;
        for (looked, (_, row)) in self.index.flows_in.range(from..to).rev().enumerate() {
            if looked == scan || flows.len() == limit {
                return FlowSlice { flows, next };
            }
            next = Some(*row);
            let flow = &*self.flows[row];
            if filter.matches(flow) {
                flows.push(flow.clone());
            }
        }
        FlowSlice { flows, next: None }
    }
}

fn is_meant(event: &NewEvent, filter: &EventScan) -> bool {
    let execution = event.execution.map(|(_, id)| id);
    filter.matches(event.namespace, event.kind, execution, event.lane, event.flow, &event.tags)
}

/// Whether a filter means an execution, its text aside.
fn is_listed(execution: &Execution, filter: &ListScan) -> bool {
    let Execution { route, lane, created_at, .. } = execution;
    let status = execution.status();
    let creator = execution.created_by.as_deref();
    let owner = execution.state.worker();
    let has = |(name, value)| execution.tags.get(name) == Some(value);
    (filter.statuses.is_empty() || filter.statuses.contains(&status))
        && filter.held.is_none_or(|held| held == execution.is_held())
        && filter.routes.as_ref().is_none_or(|routes| routes.contains(route))
        && filter.lane.is_none_or(|wanted| wanted == *lane)
        && filter.tags.iter().all(has)
        && filter.worker.as_ref().is_none_or(|wanted| owner == Some(wanted))
        && filter.created_by.as_ref().is_none_or(|wanted| creator == Some(wanted))
        && filter.created_from.is_none_or(|from| from <= *created_at)
        && filter.created_before.is_none_or(|before| *created_at < before)
}

/// Whether an execution's end has that lower-case text in its message.
fn is_about(execution: &Execution, text: Option<&str>) -> bool {
    let message = execution.state.end().and_then(|end| end.message.as_ref());
    text.is_none_or(|text| {
        message.is_some_and(|message| message.to_ascii_lowercase().contains(text))
    })
}
