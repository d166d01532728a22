//! The questions: answered from what was loaded and what this round wrote.

use std::collections::BTreeMap;
use std::sync::Arc;

use everloom_core::{
    Chore, ChoreKind, Clock, Count, Cursor, Edge, EdgeId, Epoch, Error, EventScan, EventSlice,
    EventSpan, Execution, ExecutionId, Flow, FlowId, FlowRow, FlowScan, FlowSlice, Join, Key, Lane,
    LaneId, ListScan, ListSlice, MemberCount, Namespace, NamespaceId, PastLease, Payload, Read,
    ReadMail, Request, RequestCounts, RequestId, Result, RouteId, RouteTable, RowId, Timestamp,
    WorkerRow,
};

use super::known::{Input, Named};
use super::{Batch, is_placeholder};
use crate::text;

impl Read for Batch<'_> {
    fn last_now(&mut self) -> Result<Timestamp> {
        Ok(self.rows.direct().last_now()?.max(self.caches.last_now))
    }

    fn now(&mut self, clock: &dyn Clock) -> Result<Timestamp> {
        self.now = self.time(clock);
        Ok(self.now)
    }

    fn namespace(&mut self, name: &str) -> Result<Option<Arc<Namespace>>> {
        let made = self.round.namespace_names.get(name).copied().map(Some);
        match made.or_else(|| self.known.namespace_names.get(name).copied()) {
            Some(Some(id)) => self.namespace_by_id(id).map(Some),
            Some(None) => Ok(None),
            None if !text::can_be(name) => Ok(None),
            None => {
                self.ask().namespaces.insert(name.to_owned());
                self.caches.namespace(name).cloned().map(Some).ok_or_else(Error::miss)
            }
        }
    }

    fn namespace_by_id(&mut self, id: NamespaceId) -> Result<Arc<Namespace>> {
        if let Some(limits) = self.round.limits.namespaces.get(&id).cloned() {
            let saved = self.saved_namespace(id)?;
            return Ok(Arc::new(Namespace { limits, ..Namespace::clone(&saved) }));
        }
        self.saved_namespace(id)
    }

    fn namespaces(&mut self, after: Option<&str>, limit: usize) -> Result<Vec<Arc<Namespace>>> {
        self.rows.direct().namespaces(after, limit)
    }

    fn lane(&mut self, namespace: NamespaceId, name: &str) -> Result<Option<Arc<Lane>>> {
        let key = (namespace, name.to_owned());
        let made = self.round.lane_names.get(&key).copied().map(Some);
        match made.or_else(|| self.known.lane_names.get(&key).copied()) {
            Some(Some(id)) => self.lane_by_id(id).map(Some),
            Some(None) => Ok(None),
            None if is_placeholder(namespace.0) || !text::can_be(name) => Ok(None),
            None => {
                self.ask().lanes.insert(key);
                self.caches.lane(namespace, name).cloned().map(Some).ok_or_else(Error::miss)
            }
        }
    }

    fn lane_by_id(&mut self, id: LaneId) -> Result<Arc<Lane>> {
        if let Some(written) = self.round.lanes.get(&id) {
            return Ok(Arc::clone(written));
        }
        if let Some(known) = self.known.lanes.get(&id) {
            return known.clone().ok_or_else(|| missing("lane", id.0));
        }
        let guess = self.caches.lane_by_id(id).cloned();
        let name = guess.as_ref().map(|guess| (guess.namespace, guess.name.clone()));
        match name.filter(|name| !self.known.lane_names.contains_key(name)) {
            Some(name) => self.ask().lanes.insert(name),
            None => self.ask().lane_ids.insert(id),
        };
        guess.ok_or_else(Error::miss)
    }

    fn lanes(
        &mut self,
        namespace: NamespaceId,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<Arc<Lane>>> {
        self.rows.direct().lanes(namespace, after, limit)
    }

    fn routes(&mut self, namespace: NamespaceId) -> Result<Arc<RouteTable>> {
        let table = self.round.routes.get(&namespace);
        if let Some(table) = table.or_else(|| self.known.routes.get(&namespace)) {
            return Ok(Arc::clone(table));
        }
        if is_placeholder(namespace.0) {
            return Ok(Arc::default());
        }
        let last = self.caches.last_route(namespace);
        self.ask().routes.insert(namespace, last);
        self.caches.routes(namespace).cloned().ok_or_else(Error::miss)
    }

    fn find(
        &mut self,
        namespace: NamespaceId,
        ids: &[ExecutionId],
    ) -> Result<Vec<Option<Execution>>> {
        Ok(ids.iter().map(|id| self.find_one(namespace, *id)).collect())
    }

    fn claimable(
        &mut self,
        lane: LaneId,
        routes: &[RouteId],
        limit: usize,
    ) -> Result<Vec<Execution>> {
        self.list_claimable(lane, routes, limit)
    }

    fn due(&mut self, by: Timestamp, limit: usize) -> Result<Vec<Execution>> {
        if let Some(rows) = &self.known.due {
            let due = rows.iter().filter_map(|row| self.untouched(*row));
            return Ok(due.take(limit).cloned().collect());
        }
        if self.knows_time() {
            widen(&mut self.ask().due, by, limit);
        }
        Ok(vec![])
    }

    fn retired(&mut self, by: Timestamp, limit: usize) -> Result<Vec<Execution>> {
        if let Some(rows) = &self.known.retired {
            let retired = rows.iter().filter_map(|row| self.untouched(*row));
            return Ok(retired.take(limit).cloned().collect());
        }
        if self.knows_time() {
            widen(&mut self.ask().retired, by, limit);
        }
        Ok(vec![])
    }

    fn next_due(&mut self) -> Result<Option<Timestamp>> {
        Ok(self.earliest_due())
    }

    fn owned_by(
        &mut self,
        namespace: NamespaceId,
        worker: &str,
        by: Timestamp,
        limit: usize,
    ) -> Result<Vec<Execution>> {
        Ok(self.list_owned(namespace, worker, by, limit))
    }

    fn count_owned(&mut self, lane: LaneId) -> Result<u32> {
        Ok(self.number_owned(lane))
    }

    fn keys(&mut self, namespace: NamespaceId, keys: &[&str]) -> Result<Vec<Option<Key>>> {
        let find = |key: &&str| {
            let name = (namespace, (*key).to_owned());
            if let Some(seen) = seen(&self.round.keys, &self.known.keys, &name) {
                return seen.clone();
            }
            if !is_placeholder(namespace.0) && text::can_be(key) {
                self.round.guessed = true;
                self.wants.keys.insert(name);
            }
            None
        };
        Ok(keys.iter().map(find).collect())
    }

    fn inputs(&mut self, rows: &[RowId]) -> Result<Vec<Payload>> {
        let mut input = |row: &RowId| self.input(*row).map(|(payload, _)| payload.clone());
        Ok(rows.iter().map(|row| input(row).unwrap_or_default()).collect())
    }

    fn fingerprint(&mut self, row: RowId) -> Result<Option<[u8; 16]>> {
        Ok(self.input(row).and_then(|(_, fingerprint)| *fingerprint))
    }

    fn result(&mut self, row: RowId) -> Result<Option<Payload>> {
        if let Some(seen) = seen(&self.round.results, &self.known.results, &row) {
            return Ok(seen.clone());
        }
        if !self.round.inputs.contains_key(&row) {
            self.ask().results.insert(row);
        }
        Ok(None)
    }

    fn past_lease(&mut self, row: RowId, epoch: Epoch) -> Result<Option<PastLease>> {
        let id = (row, epoch);
        if let Some(written) = self.round.past_leases.get(&id) {
            return Ok(Some(written.clone()));
        }
        if let Some(known) = self.known.past_leases.get(&id) {
            return Ok(known.clone());
        }
        if !self.round.inputs.contains_key(&row) {
            self.ask().past_leases.insert(id);
        }
        Ok(None)
    }

    fn past_leases(&mut self, row: RowId, after: Epoch, limit: usize) -> Result<Vec<PastLease>> {
        let known = self.known.lease_histories.get(&row);
        if known.is_none() && !self.round.inputs.contains_key(&row) {
            self.ask().lease_histories.insert(row);
            return Ok(vec![]);
        }
        // What a round adds is later than what was there.
        let written = self.round.past_leases.values().filter(|lease| lease.execution == row);
        let leases = known.into_iter().flatten().chain(written);
        Ok(leases.filter(|lease| lease.epoch > after).take(limit).cloned().collect())
    }

    fn worker(&mut self, namespace: NamespaceId, instance: &str) -> Result<Option<WorkerRow>> {
        let name = (namespace, instance.to_owned());
        if let Some(seen) = seen(&self.round.workers, &self.known.workers, &name) {
            return Ok(seen.clone());
        }
        if !is_placeholder(namespace.0) && text::can_be(instance) {
            self.ask().workers.insert(name);
        }
        Ok(None)
    }

    fn workers(
        &mut self,
        namespace: NamespaceId,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<WorkerRow>> {
        self.rows.direct().workers(namespace, after, limit)
    }

    fn lapsed_workers(&mut self, by: Timestamp, limit: usize) -> Result<Vec<WorkerRow>> {
        if let Some(names) = &self.known.lapsed_workers {
            let untouched = |name: &&Named| !self.round.workers.contains_key(*name);
            let rows = names.iter().filter(untouched);
            let rows = rows.filter_map(|name| self.known.workers.get(name)?.clone());
            return Ok(rows.take(limit).collect());
        }
        if self.knows_time() {
            widen(&mut self.ask().lapsed_workers, by, limit);
        }
        Ok(vec![])
    }

    fn chores(&mut self, by: Timestamp, limit: usize) -> Result<Vec<Chore>> {
        if let Some(ids) = &self.known.due_chores {
            let untouched = ids.iter().filter(|id| !self.round.chores.contains_key(*id));
            let rows = untouched.filter_map(|id| self.known.chores.get(id).cloned());
            return Ok(rows.take(limit).collect());
        }
        if self.knows_time() {
            widen(&mut self.ask().due_chores, by, limit);
        }
        Ok(vec![])
    }

    fn find_chore(&mut self, kind: &ChoreKind) -> Result<Option<Chore>> {
        let written = self.round.chores.values().flatten().find(|chore| chore.kind == *kind);
        if let Some(written) = written {
            return Ok(Some(written.clone()));
        }
        if let Some((_, id)) = self.known.chore_kinds.iter().find(|known| known.0 == *kind) {
            let untouched = id.filter(|id| !self.round.chores.contains_key(id));
            return Ok(untouched.and_then(|id| self.known.chores.get(&id).cloned()));
        }
        let wanted = &mut self.ask().chores_of_kind;
        if !wanted.contains(kind) {
            wanted.push(kind.clone());
        }
        Ok(None)
    }

    fn requests(&mut self, limit: usize) -> Result<Vec<Request>> {
        Ok(self.list_requests(limit))
    }

    fn request(&mut self, id: RequestId) -> Result<Option<Request>> {
        if let Some(seen) = seen(&self.round.requests, &self.known.requests, &id) {
            return Ok(seen.clone());
        }
        self.ask().request_ids.insert(id);
        Ok(None)
    }

    fn refused_requests(&mut self, after: Option<RequestId>, limit: usize) -> Result<Vec<Request>> {
        self.rows.direct().refused_requests(after, limit)
    }

    fn count_requests(&mut self) -> Result<RequestCounts> {
        self.rows.direct().count_requests()
    }

    fn events(
        &mut self,
        after: Cursor,
        filter: &EventScan,
        limit: usize,
        scan: usize,
    ) -> Result<EventSlice> {
        self.rows.direct().events(after, filter, limit, scan)
    }

    fn event_span(&mut self) -> Result<EventSpan> {
        self.rows.direct().event_span()
    }

    fn list(
        &mut self,
        filter: &ListScan,
        below: Option<RowId>,
        limit: usize,
        scan: usize,
    ) -> Result<ListSlice> {
        self.rows.list(filter, below, limit, scan)
    }

    fn counts(&mut self, namespace: NamespaceId, lane: Option<LaneId>) -> Result<Vec<Count>> {
        self.rows.direct().counts(namespace, lane)
    }

    fn execution(&mut self, row: RowId) -> Result<Option<Execution>> {
        self.by_row(row)
    }

    fn flow(&mut self, namespace: NamespaceId, id: FlowId) -> Result<Option<Flow>> {
        Ok(self.find_flow(namespace, id))
    }

    fn flow_by_row(&mut self, row: FlowRow) -> Result<Flow> {
        self.flow_in(row)
    }

    fn is_gated(&mut self, flow: FlowRow) -> Result<bool> {
        Ok(self.is_flow_gated(flow))
    }

    fn member(&mut self, flow: FlowRow, node: &str) -> Result<Option<Execution>> {
        Ok(self.find_member(flow, node))
    }

    fn members(
        &mut self,
        flow: FlowRow,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<Execution>> {
        Ok(self.list_members(flow, after, limit))
    }

    fn count_members(&mut self, flow: FlowRow) -> Result<Vec<MemberCount>> {
        Ok(self.number_members(flow))
    }

    fn children(
        &mut self,
        parent: RowId,
        after: Option<RowId>,
        limit: usize,
    ) -> Result<Vec<Execution>> {
        Ok(self.list_children(parent, after, limit))
    }

    fn join(&mut self, target: RowId) -> Result<Option<Join>> {
        self.join_of(target)
    }

    fn edges_from(
        &mut self,
        source: RowId,
        after: Option<RowId>,
        limit: usize,
    ) -> Result<Vec<Edge>> {
        self.list_edges_from(source, after, limit)
    }

    fn edges_into(&mut self, target: RowId, bound: bool) -> Result<Vec<Edge>> {
        Ok(self.list_edges_into(target, bound))
    }

    fn edge(&mut self, flow: FlowRow, id: EdgeId) -> Result<Option<Edge>> {
        Ok(self.find_edge(flow, id))
    }

    fn reach(&mut self, from: &[RowId]) -> Result<Vec<(RowId, RowId)>> {
        Ok(self.walk(from))
    }

    fn list_flows(
        &mut self,
        filter: &FlowScan,
        below: Option<FlowRow>,
        limit: usize,
        scan: usize,
    ) -> Result<FlowSlice> {
        self.rows.direct().list_flows(filter, below, limit, scan)
    }

    fn oldest_ready(&mut self, lane: LaneId) -> Result<Option<Timestamp>> {
        self.rows.direct().oldest_ready(lane)
    }

    fn expired_leases(
        &mut self,
        namespace: NamespaceId,
        as_of: Timestamp,
        after: Option<(Timestamp, ExecutionId)>,
        limit: usize,
    ) -> Result<Vec<Execution>> {
        self.rows.direct().expired_leases(namespace, as_of, after, limit)
    }
}

impl Batch<'_> {
    /// An execution as this round sees it.
    pub(super) fn current(&self, row: RowId) -> Option<&Execution> {
        match self.round.executions.get(&row) {
            Some(written) => written.as_ref(),
            None => self.known.executions.get(&row),
        }
    }

    fn find_one(&mut self, namespace: NamespaceId, id: ExecutionId) -> Option<Execution> {
        let key = (namespace, id);
        let inserted = self.round.ids.get(&key).copied().map(Some);
        match inserted.or_else(|| self.known.ids.get(&key).copied()) {
            Some(row) => row.and_then(|row| self.current(row)).cloned(),
            None => {
                if !is_placeholder(namespace.0) {
                    self.ask_execution(key);
                }
                None
            }
        }
    }

    /// Asks for an execution, for the lane it is likely to be in, for what its flow knows and for
    /// its mail, its stream and its limits if it is likely to have any: most of those who ask want to know that next.
    fn ask_execution(&mut self, key: (NamespaceId, ExecutionId)) {
        let wants = self.ask();
        let first = wants.executions.is_empty();
        wants.executions.insert(key);
        if first {
            self.wants.with_flows = self.caches.expects_members();
            self.wants.mail.along = self.caches.expects_mail();
            self.caches.expect_streams(&mut self.wants.streams);
            self.wants.limits.along = self.caches.expects_limits();
            if self.wants.with_flows || self.wants.mail.along {
                // The end of a member and a signal may let work go, and who waits for it is told.
                let _ = self.routes(key.0);
            }
            if self.wants.mail.along {
                // Whoever suspends signs.
                let _ = self.signing_keys(key.0);
            }
            for lane in self.caches.likely_lanes(key.0) {
                let _ = self.lane_by_id(lane);
            }
        }
    }

    /// A namespace without what this round wrote of its limits.
    fn saved_namespace(&mut self, id: NamespaceId) -> Result<Arc<Namespace>> {
        if let Some(written) = self.round.namespaces.get(&id) {
            return Ok(Arc::clone(written));
        }
        if let Some(known) = self.known.namespaces.get(&id) {
            return known.clone().ok_or_else(|| missing("namespace", id.0));
        }
        let guess = self.caches.namespace_by_id(id).cloned();
        match &guess {
            Some(guess) if !self.known.namespace_names.contains_key(&guess.name) => {
                self.ask().namespaces.insert(guess.name.clone());
            }
            _ => {
                self.ask().namespace_ids.insert(id);
            }
        }
        guess.ok_or_else(Error::miss)
    }

    /// An execution's input, once it is known.
    fn input(&mut self, row: RowId) -> Option<&Input> {
        let is_known = self.round.inputs.contains_key(&row) || self.known.inputs.contains_key(&row);
        if !is_known {
            self.ask().inputs.insert(row);
        }
        self.round.inputs.get(&row).or_else(|| self.known.inputs.get(&row))
    }

    /// Whether the time is more than a guess. If not, a load will tell it.
    fn knows_time(&mut self) -> bool {
        let knows = self.known.now.is_some();
        self.round.guessed |= !knows;
        knows
    }
}

pub(super) fn seen<'a, K: Ord, V>(
    written: &'a BTreeMap<K, Option<V>>,
    known: &'a BTreeMap<K, Option<V>>,
    key: &K,
) -> Option<&'a Option<V>> {
    written.get(key).or_else(|| known.get(key))
}

/// Asks for as much as any of several.
fn widen(wanted: &mut Option<(Timestamp, usize)>, by: Timestamp, limit: usize) {
    let (earlier, fewer) = wanted.unwrap_or((by, limit));
    *wanted = Some((by.max(earlier), limit.max(fewer)));
}

pub(super) fn missing(noun: &str, row: i64) -> Error {
    Error::bug(format!("there is no {noun} with row {row}"))
}
