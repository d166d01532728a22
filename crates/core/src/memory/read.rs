//! The questions.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::ops::Bound::{self, Excluded, Included, Unbounded};
use std::sync::Arc;

use super::Session;
use super::tables::{Named, Place, Tables, kind_text};
use crate::chore::{Chore, ChoreKind};
use crate::inbox::{Request, RequestCounts};
use crate::model::{
    ChoreId, Cursor, Edge, EdgeId, Epoch, Error, Execution, ExecutionId, Flow, FlowId, FlowRow,
    Join, Key, Lane, LaneId, Namespace, NamespaceId, PastLease, Payload, RequestId, Result,
    RouteId, RouteTable, RowId, State, Timestamp, WorkerRow,
};
use crate::store::{
    Count, EventScan, EventSlice, EventSpan, FlowScan, FlowSlice, ListScan, ListSlice, MemberCount,
    Read,
};

pub(super) const FIRST_ROW: RowId = RowId(i64::MIN);
pub(super) const LAST_ROW: RowId = RowId(i64::MAX);

impl Read for Session<'_> {
    fn last_now(&mut self) -> Result<Timestamp> {
        Ok(self.tables.last_now)
    }

    fn namespace(&mut self, name: &str) -> Result<Option<Arc<Namespace>>> {
        match self.tables.index.namespace_names.get(name) {
            Some(id) => self.tables.namespace(*id).map(Some),
            None => Ok(None),
        }
    }

    fn namespace_by_id(&mut self, id: NamespaceId) -> Result<Arc<Namespace>> {
        self.tables.namespace(id)
    }

    fn namespaces(&mut self, after: Option<&str>, limit: usize) -> Result<Vec<Arc<Namespace>>> {
        let from = after.map_or(Unbounded, Excluded);
        let names = self.tables.index.namespace_names.range::<str, _>((from, Unbounded));
        names.take(limit).map(|(_, id)| self.tables.namespace(*id)).collect()
    }

    fn lane(&mut self, namespace: NamespaceId, name: &str) -> Result<Option<Arc<Lane>>> {
        match self.tables.index.lane_names.get(&(namespace, name.to_owned())) {
            Some(id) => self.tables.lane(*id).map(Some),
            None => Ok(None),
        }
    }

    fn lane_by_id(&mut self, id: LaneId) -> Result<Arc<Lane>> {
        self.tables.lane(id)
    }

    fn lanes(
        &mut self,
        namespace: NamespaceId,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<Arc<Lane>>> {
        let names = named_after(&self.tables.index.lane_names, namespace, after);
        names.take(limit).map(|id| self.tables.lane(*id)).collect()
    }

    fn routes(&mut self, namespace: NamespaceId) -> Result<Arc<RouteTable>> {
        Ok(self.tables.route_table(namespace))
    }

    fn find(
        &mut self,
        namespace: NamespaceId,
        ids: &[ExecutionId],
    ) -> Result<Vec<Option<Execution>>> {
        let row = |id| self.tables.index.ids.get(&(namespace, id));
        let found = |id: &ExecutionId| row(*id).map(|row| self.tables.execution(*row).clone());
        Ok(ids.iter().map(found).collect())
    }

    fn claimable(
        &mut self,
        lane: LaneId,
        routes: &[RouteId],
        limit: usize,
    ) -> Result<Vec<Execution>> {
        // The heads of the queues, least place first.
        let mut heads: BinaryHeap<_> = self.tables.queues(lane, routes).map(Reverse).collect();
        let mut claimable = Vec::new();
        while claimable.len() < limit
            && let Some(Reverse((place, route))) = heads.pop()
        {
            claimable.push(self.tables.execution(place.2).clone());
            let behind = (Excluded((lane, route, place)), Unbounded);
            let next = self.tables.index.ready.range(behind).next();
            if let Some((.., place)) = next.filter(|next| (next.0, next.1) == (lane, route)) {
                heads.push(Reverse((*place, route)));
            }
        }
        Ok(claimable)
    }

    fn due(&mut self, by: Timestamp, limit: usize) -> Result<Vec<Execution>> {
        let due = self.tables.index.due.range(..=(by, LAST_ROW));
        Ok(self.tables.load(due.take(limit).map(|(_, row)| *row)))
    }

    fn retired(&mut self, by: Timestamp, limit: usize) -> Result<Vec<Execution>> {
        let due = self.tables.index.retired.range(..=(by, LAST_ROW));
        Ok(self.tables.load(due.take(limit).map(|(_, row)| *row)))
    }

    fn next_due(&mut self) -> Result<Option<Timestamp>> {
        let index = &self.tables.index;
        let execution = index.due.first().map(|(at, _)| *at);
        let worker = index.worker_due.first().map(|(at, _)| *at);
        let chore = index.chore_due.first().map(|(at, _)| *at);
        Ok([execution, worker, chore].into_iter().flatten().min())
    }

    fn owned_by(
        &mut self,
        namespace: NamespaceId,
        worker: &str,
        by: Timestamp,
        limit: usize,
    ) -> Result<Vec<Execution>> {
        let entry = |row| (namespace, worker.to_owned(), row);
        let owned = self.tables.index.owned_by.range(entry(FIRST_ROW)..=entry(LAST_ROW));
        let old = owned
            .map(|(.., row)| self.tables.execution(*row))
            .filter(|execution| execution.since <= by);
        Ok(old.take(limit).cloned().collect())
    }

    fn count_owned(&mut self, lane: LaneId) -> Result<u32> {
        let owned = self.tables.index.owned_in.range((lane, FIRST_ROW)..=(lane, LAST_ROW));
        Ok(u32::try_from(owned.count()).unwrap_or(u32::MAX))
    }

    fn keys(&mut self, namespace: NamespaceId, keys: &[&str]) -> Result<Vec<Option<Key>>> {
        let key = |key: &&str| self.tables.keys.get(&(namespace, (*key).to_owned()));
        Ok(keys.iter().map(|name| key(name).map(|key| Key::clone(key))).collect())
    }

    fn inputs(&mut self, rows: &[RowId]) -> Result<Vec<Payload>> {
        let input = |row: &RowId| match self.tables.inputs.get(row) {
            Some(input) => Ok(input.payload.clone()),
            None => Err(missing("execution", row.0)),
        };
        rows.iter().map(input).collect()
    }

    fn fingerprint(&mut self, row: RowId) -> Result<Option<[u8; 16]>> {
        Ok(self.tables.inputs.get(&row).and_then(|input| input.fingerprint))
    }

    fn result(&mut self, row: RowId) -> Result<Option<Payload>> {
        Ok(self.tables.results.get(&row).cloned())
    }

    fn past_lease(&mut self, row: RowId, epoch: Epoch) -> Result<Option<PastLease>> {
        Ok(self.tables.past_leases.get(&(row, epoch)).map(|lease| PastLease::clone(lease)))
    }

    fn past_leases(&mut self, row: RowId, after: Epoch, limit: usize) -> Result<Vec<PastLease>> {
        let later = (Excluded((row, after)), Included((row, Epoch(u64::MAX))));
        let leases = self.tables.past_leases.range(later).take(limit);
        Ok(leases.map(|(_, lease)| PastLease::clone(lease)).collect())
    }

    fn worker(&mut self, namespace: NamespaceId, instance: &str) -> Result<Option<WorkerRow>> {
        let worker = self.tables.workers.get(&(namespace, instance.to_owned()));
        Ok(worker.map(|worker| WorkerRow::clone(worker)))
    }

    fn workers(
        &mut self,
        namespace: NamespaceId,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<WorkerRow>> {
        let workers = named_after(&self.tables.workers, namespace, after);
        Ok(workers.take(limit).map(|worker| WorkerRow::clone(worker)).collect())
    }

    fn lapsed_workers(&mut self, by: Timestamp, limit: usize) -> Result<Vec<WorkerRow>> {
        let due = self.tables.index.worker_due.iter().take_while(|(at, _)| *at <= by);
        Ok(due.take(limit).map(|(_, name)| WorkerRow::clone(&self.tables.workers[name])).collect())
    }

    fn chores(&mut self, by: Timestamp, limit: usize) -> Result<Vec<Chore>> {
        let due = self.tables.index.chore_due.iter().take_while(|(at, _)| *at <= by);
        Ok(due.take(limit).map(|(_, id)| Chore::clone(&self.tables.chores[id])).collect())
    }

    fn find_chore(&mut self, kind: &ChoreKind) -> Result<Option<Chore>> {
        let from = (kind_text(kind), ChoreId(i64::MIN));
        let next = self.tables.index.chore_kinds.range(&from..).next();
        let found = next.filter(|(text, _)| *text == from.0);
        Ok(found.map(|(_, id)| Chore::clone(&self.tables.chores[id])))
    }

    fn requests(&mut self, limit: usize) -> Result<Vec<Request>> {
        let waiting = self.tables.index.waiting_requests.iter().take(limit);
        Ok(waiting.map(|id| Request::clone(&self.tables.inbox[id])).collect())
    }

    fn request(&mut self, id: RequestId) -> Result<Option<Request>> {
        Ok(self.tables.inbox.get(&id).map(|request| Request::clone(request)))
    }

    fn refused_requests(&mut self, after: Option<RequestId>, limit: usize) -> Result<Vec<Request>> {
        let from = after.map_or(Unbounded, Excluded);
        let refused = self.tables.index.refused_requests.range((from, Unbounded)).take(limit);
        Ok(refused.map(|id| Request::clone(&self.tables.inbox[id])).collect())
    }

    fn count_requests(&mut self) -> Result<RequestCounts> {
        let index = &self.tables.index;
        Ok(RequestCounts {
            waiting: index.waiting_requests.len() as u64,
            refused: index.refused_requests.len() as u64,
        })
    }

    fn events(
        &mut self,
        after: Cursor,
        filter: &EventScan,
        limit: usize,
        scan: usize,
    ) -> Result<EventSlice> {
        self.tables.scan_log(after, filter, limit, scan)
    }

    fn event_span(&mut self) -> Result<EventSpan> {
        // Rolled back cursors leave gaps. A gap before the oldest event is not a loss, so what is
        // kept begins right after what was removed.
        let first = Cursor(self.tables.trimmed.0 + 1);
        Ok(EventSpan { first, last: self.tables.last_cursor() })
    }

    fn list(
        &mut self,
        filter: &ListScan,
        below: Option<RowId>,
        limit: usize,
        scan: usize,
    ) -> Result<ListSlice> {
        Ok(self.tables.scan_executions(filter, below, limit, scan))
    }

    fn counts(&mut self, namespace: NamespaceId, lane: Option<LaneId>) -> Result<Vec<Count>> {
        let mut counts = BTreeMap::new();
        let members = (namespace, FIRST_ROW)..=(namespace, LAST_ROW);
        for (_, row) in self.tables.index.members.range(members) {
            let execution = self.tables.execution(*row);
            if lane.is_none_or(|lane| lane == execution.lane) {
                *counts.entry((execution.status(), execution.is_held())).or_default() += 1;
            }
        }
        let count = |((status, held), count)| Count { status, held, count };
        Ok(counts.into_iter().map(count).collect())
    }

    fn execution(&mut self, row: RowId) -> Result<Option<Execution>> {
        Ok(self.tables.executions.get(&row).map(|execution| Execution::clone(execution)))
    }

    fn flow(&mut self, namespace: NamespaceId, id: FlowId) -> Result<Option<Flow>> {
        let row = self.tables.index.flow_ids.get(&(namespace, id)).copied();
        row.map(|row| self.flow_by_row(row)).transpose()
    }

    fn flow_by_row(&mut self, row: FlowRow) -> Result<Flow> {
        let flow = self.tables.flows.get(&row);
        flow.map(|flow| Flow::clone(flow)).ok_or_else(|| missing("flow", row.0))
    }

    fn is_gated(&mut self, flow: FlowRow) -> Result<bool> {
        self.flow_by_row(flow).map(|flow| flow.is_gated())
    }

    fn member(&mut self, flow: FlowRow, node: &str) -> Result<Option<Execution>> {
        let row = self.tables.index.nodes.get(&(flow, node.to_owned()));
        Ok(row.map(|row| self.tables.execution(*row).clone()))
    }

    fn members(
        &mut self,
        flow: FlowRow,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<Execution>> {
        Ok(self.tables.load(self.tables.nodes_after(flow, after).take(limit)))
    }

    fn count_members(&mut self, flow: FlowRow) -> Result<Vec<MemberCount>> {
        let mut counts = BTreeMap::new();
        for row in self.tables.nodes_after(flow, None) {
            let execution = self.tables.execution(row);
            let started = execution.started_at.is_some();
            *counts.entry((execution.status(), started)).or_default() += 1;
        }
        let count = |((status, started), count)| MemberCount { status, started, count };
        Ok(counts.into_iter().map(count).collect())
    }

    fn children(
        &mut self,
        parent: RowId,
        after: Option<RowId>,
        limit: usize,
    ) -> Result<Vec<Execution>> {
        let from = Excluded((parent, after.unwrap_or(FIRST_ROW)));
        let children = self.tables.index.children.range((from, Included((parent, LAST_ROW))));
        Ok(self.tables.load(children.take(limit).map(|(_, row)| *row)))
    }

    fn join(&mut self, target: RowId) -> Result<Option<Join>> {
        Ok(self.tables.joins.get(&target).map(|join| Join::clone(join)))
    }

    fn edges_from(
        &mut self,
        source: RowId,
        after: Option<RowId>,
        limit: usize,
    ) -> Result<Vec<Edge>> {
        let edges = self.tables.edges_after(source, after);
        Ok(edges.take(limit).cloned().collect())
    }

    fn edges_into(&mut self, target: RowId, bound: bool) -> Result<Vec<Edge>> {
        let all = (target, FIRST_ROW, 0)..=(target, LAST_ROW, u32::MAX);
        let places = self.tables.index.edges_into.range(all);
        let edges = places.map(|(target, source, n)| &*self.tables.edges[&(*source, *target, *n)]);
        Ok(edges.filter(|edge| !bound || edge.bind.is_some()).cloned().collect())
    }

    fn edge(&mut self, flow: FlowRow, id: EdgeId) -> Result<Option<Edge>> {
        let place = self.tables.index.edge_ids.get(&(flow, id));
        Ok(place.map(|place| Edge::clone(&self.tables.edges[place])))
    }

    fn reach(&mut self, from: &[RowId]) -> Result<Vec<(RowId, RowId)>> {
        let mut pairs = BTreeSet::new();
        let mut seen: BTreeSet<RowId> = from.iter().copied().collect();
        let mut next: Vec<RowId> = from.to_vec();
        while let Some(source) = next.pop() {
            for edge in self.tables.edges_after(source, None) {
                pairs.insert((source, edge.target));
                if seen.insert(edge.target) {
                    next.push(edge.target);
                }
            }
        }
        Ok(pairs.into_iter().collect())
    }

    fn list_flows(
        &mut self,
        filter: &FlowScan,
        below: Option<FlowRow>,
        limit: usize,
        scan: usize,
    ) -> Result<FlowSlice> {
        Ok(self.tables.scan_flows(filter, below, limit, scan))
    }

    fn oldest_ready(&mut self, lane: LaneId) -> Result<Option<Timestamp>> {
        let ready = self.tables.index.ready.range((lane, RouteId(i64::MIN), FIRST_PLACE)..);
        let waiting = ready.take_while(|entry| entry.0 == lane);
        Ok(waiting.map(|(.., place)| self.tables.execution(place.2).since).min())
    }

    fn expired_leases(
        &mut self,
        namespace: NamespaceId,
        as_of: Timestamp,
        after: Option<(Timestamp, ExecutionId)>,
        limit: usize,
    ) -> Result<Vec<Execution>> {
        // A lease is due at its end at the latest, so all that had ended by then are among these.
        let due = self.tables.index.due.range(..=(as_of, LAST_ROW));
        let mut expired: Vec<_> = due
            .map(|(_, row)| self.tables.execution(*row))
            .filter(|execution| execution.namespace == namespace)
            .filter_map(|execution| Some((lease_end(execution)?, execution)))
            .filter(|(end, _)| end.0 <= as_of && after.is_none_or(|after| *end > after))
            .collect();
        expired.sort_unstable_by_key(|(end, _)| *end);
        Ok(expired.into_iter().take(limit).map(|(_, execution)| execution.clone()).collect())
    }
}

const FIRST_PLACE: Place = (Reverse(i32::MAX), i64::MIN, FIRST_ROW);

impl Tables {
    pub(super) fn namespace(&self, id: NamespaceId) -> Result<Arc<Namespace>> {
        self.namespaces.get(&id).cloned().ok_or_else(|| missing("namespace", id.0))
    }

    pub(super) fn lane(&self, id: LaneId) -> Result<Arc<Lane>> {
        self.lanes.get(&id).cloned().ok_or_else(|| missing("lane", id.0))
    }

    /// The members of a flow by name, from the first one after `after`.
    fn nodes_after(&self, flow: FlowRow, after: Option<&str>) -> impl Iterator<Item = RowId> {
        let from = match after {
            Some(after) => Excluded((flow, after.to_owned())),
            None => Included((flow, String::new())),
        };
        let nodes = self.index.nodes.range((from, Unbounded));
        nodes.take_while(move |((of, _), _)| *of == flow).map(|(_, row)| *row)
    }

    /// Edges out of an execution to targets after one.
    fn edges_after(&self, source: RowId, after: Option<RowId>) -> impl Iterator<Item = &Edge> {
        let from = Excluded((source, after.unwrap_or(FIRST_ROW), u32::MAX));
        let edges = self.edges.range((from, Included((source, LAST_ROW, u32::MAX))));
        edges.map(|(_, edge)| &**edge)
    }

    fn load(&self, rows: impl Iterator<Item = RowId>) -> Vec<Execution> {
        rows.map(|row| self.execution(row).clone()).collect()
    }

    /// The first place in each of those routes' queues that is not empty. Leaps over wanted routes
    /// without work and over work on other routes alike, so neither is walked.
    fn queues(
        &self,
        lane: LaneId,
        mut routes: &[RouteId],
    ) -> impl Iterator<Item = (Place, RouteId)> {
        std::iter::from_fn(move || {
            while let Some((wanted, rest)) = routes.split_first() {
                let next = self.index.ready.range((lane, *wanted, FIRST_PLACE)..).next();
                let (_, found, place) = next.filter(|next| next.0 == lane)?;
                if found == wanted {
                    routes = rest;
                    return Some((*place, *wanted));
                }
                routes = &rest[rest.partition_point(|route| route < found)..];
            }
            None
        })
    }
}

pub(super) fn missing(noun: &str, id: i64) -> Error {
    Error::bug(format!("the store has no {noun} in row {id}"))
}

/// What is named in a namespace, by name, from the first one after `after`.
pub(super) fn named_after<'a, V>(
    map: &'a BTreeMap<Named, V>,
    namespace: NamespaceId,
    after: Option<&str>,
) -> impl Iterator<Item = &'a V> {
    let from: Bound<Named> = match after {
        Some(after) => Excluded((namespace, after.to_owned())),
        None => Included((namespace, String::new())),
    };
    let named = map.range((from, Unbounded));
    named.take_while(move |(name, _)| name.0 == namespace).map(|(_, value)| value)
}

/// When an active execution's lease ends, with its id.
fn lease_end(execution: &Execution) -> Option<(Timestamp, ExecutionId)> {
    match &execution.state {
        State::Active(lease) => Some((lease.until, execution.id)),
        _ => None,
    }
}
