//! Questions, answered from the rows and what is remembered of them.

use std::sync::Arc;

use everloom_core::{
    Chore, ChoreKind, Count, Cursor, Edge, EdgeId, Epoch, EventScan, EventSlice, EventSpan,
    Execution, ExecutionId, Flow, FlowId, FlowRow, FlowScan, FlowSlice, Join, Key, Lane, LaneId,
    ListScan, ListSlice, MemberCount, Namespace, NamespaceId, PastLease, Payload, Read, Request,
    RequestCounts, RequestId, Result, RouteId, RouteTable, RowId, Timestamp, WorkerRow,
};

use crate::ready;
use crate::rows::{
    chores, edges, events, executions, flows, inbox, joins, keys, lanes, list, members, meta,
    namespaces, past_leases, payloads, routes, workers,
};
use crate::view::View;

impl Read for View<'_> {
    fn last_now(&mut self) -> Result<Timestamp> {
        Ok(meta::cached(self.conn, self.caches)?.last_now)
    }

    fn namespace(&mut self, name: &str) -> Result<Option<Arc<Namespace>>> {
        Ok(namespaces::by_name(self.conn, self.caches, name)?)
    }

    fn namespace_by_id(&mut self, id: NamespaceId) -> Result<Arc<Namespace>> {
        Ok(namespaces::by_id(self.conn, self.caches, id)?)
    }

    fn namespaces(&mut self, after: Option<&str>, limit: usize) -> Result<Vec<Arc<Namespace>>> {
        Ok(namespaces::after(self.conn, after, limit)?)
    }

    fn lane(&mut self, namespace: NamespaceId, name: &str) -> Result<Option<Arc<Lane>>> {
        Ok(lanes::by_name(self.conn, self.caches, namespace, name)?)
    }

    fn lane_by_id(&mut self, id: LaneId) -> Result<Arc<Lane>> {
        Ok(lanes::by_id(self.conn, self.caches, id)?)
    }

    fn lanes(
        &mut self,
        namespace: NamespaceId,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<Arc<Lane>>> {
        Ok(lanes::after(self.conn, namespace, after, limit)?)
    }

    fn routes(&mut self, namespace: NamespaceId) -> Result<Arc<RouteTable>> {
        Ok(routes::of(self.conn, self.caches, namespace)?)
    }

    fn find(
        &mut self,
        namespace: NamespaceId,
        ids: &[ExecutionId],
    ) -> Result<Vec<Option<Execution>>> {
        Ok(executions::find(self.conn, namespace, ids)?)
    }

    fn claimable(
        &mut self,
        lane: LaneId,
        routes: &[RouteId],
        limit: usize,
    ) -> Result<Vec<Execution>> {
        Ok(ready::claimable(self.conn, &mut self.caches.ready, lane, routes, limit)?)
    }

    fn due(&mut self, by: Timestamp, limit: usize) -> Result<Vec<Execution>> {
        Ok(executions::due(self.conn, by, limit)?)
    }

    fn retired(&mut self, by: Timestamp, limit: usize) -> Result<Vec<Execution>> {
        Ok(executions::retired(self.conn, by, limit)?)
    }

    fn next_due(&mut self) -> Result<Option<Timestamp>> {
        Ok(meta::next_due(self.conn)?)
    }

    fn owned_by(
        &mut self,
        namespace: NamespaceId,
        worker: &str,
        by: Timestamp,
        limit: usize,
    ) -> Result<Vec<Execution>> {
        Ok(executions::owned_by(self.conn, namespace, worker, by, limit)?)
    }

    fn count_owned(&mut self, lane: LaneId) -> Result<u32> {
        Ok(executions::count_owned(self.conn, lane)?)
    }

    fn keys(&mut self, namespace: NamespaceId, keys: &[&str]) -> Result<Vec<Option<Key>>> {
        Ok(keys::find(self.conn, namespace, keys)?)
    }

    fn inputs(&mut self, rows: &[RowId]) -> Result<Vec<Payload>> {
        Ok(payloads::inputs(self.conn, rows)?)
    }

    fn fingerprint(&mut self, row: RowId) -> Result<Option<[u8; 16]>> {
        Ok(payloads::fingerprint(self.conn, row)?)
    }

    fn result(&mut self, row: RowId) -> Result<Option<Payload>> {
        Ok(payloads::result(self.conn, row)?)
    }

    fn past_lease(&mut self, row: RowId, epoch: Epoch) -> Result<Option<PastLease>> {
        Ok(past_leases::find(self.conn, row, epoch)?)
    }

    fn past_leases(&mut self, row: RowId, after: Epoch, limit: usize) -> Result<Vec<PastLease>> {
        Ok(past_leases::after(self.conn, row, after, limit)?)
    }

    fn worker(&mut self, namespace: NamespaceId, instance: &str) -> Result<Option<WorkerRow>> {
        Ok(workers::find(self.conn, namespace, instance)?)
    }

    fn workers(
        &mut self,
        namespace: NamespaceId,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<WorkerRow>> {
        Ok(workers::after(self.conn, namespace, after, limit)?)
    }

    fn lapsed_workers(&mut self, by: Timestamp, limit: usize) -> Result<Vec<WorkerRow>> {
        Ok(workers::lapsed(self.conn, by, limit)?)
    }

    fn chores(&mut self, by: Timestamp, limit: usize) -> Result<Vec<Chore>> {
        Ok(chores::due(self.conn, by, limit)?)
    }

    fn find_chore(&mut self, kind: &ChoreKind) -> Result<Option<Chore>> {
        Ok(chores::find(self.conn, kind)?)
    }

    fn requests(&mut self, limit: usize) -> Result<Vec<Request>> {
        Ok(inbox::waiting(self.conn, limit)?)
    }

    fn request(&mut self, id: RequestId) -> Result<Option<Request>> {
        Ok(inbox::find(self.conn, id)?)
    }

    fn refused_requests(&mut self, after: Option<RequestId>, limit: usize) -> Result<Vec<Request>> {
        Ok(inbox::refused(self.conn, after, limit)?)
    }

    fn count_requests(&mut self) -> Result<RequestCounts> {
        Ok(inbox::counts(self.conn)?)
    }

    fn events(
        &mut self,
        after: Cursor,
        filter: &EventScan,
        limit: usize,
        scan: usize,
    ) -> Result<EventSlice> {
        Ok(events::read(self.conn, self.caches, after, filter, limit, scan)?)
    }

    fn event_span(&mut self) -> Result<EventSpan> {
        Ok(events::span(self.conn, self.caches)?)
    }

    fn list(
        &mut self,
        filter: &ListScan,
        below: Option<RowId>,
        limit: usize,
        scan: usize,
    ) -> Result<ListSlice> {
        Ok(list::list(self.conn, filter, below, limit, scan)?)
    }

    fn counts(&mut self, namespace: NamespaceId, lane: Option<LaneId>) -> Result<Vec<Count>> {
        Ok(executions::counts(self.conn, namespace, lane)?)
    }

    fn execution(&mut self, row: RowId) -> Result<Option<Execution>> {
        Ok(executions::by_row(self.conn, row)?)
    }

    fn flow(&mut self, namespace: NamespaceId, id: FlowId) -> Result<Option<Flow>> {
        Ok(flows::by_uuid(self.conn, self.caches, namespace, id)?)
    }

    fn flow_by_row(&mut self, row: FlowRow) -> Result<Flow> {
        Ok(flows::by_row(self.conn, self.caches, row)?)
    }

    fn is_gated(&mut self, flow: FlowRow) -> Result<bool> {
        Ok(flows::is_gated(self.conn, self.caches, flow)?)
    }

    fn member(&mut self, flow: FlowRow, node: &str) -> Result<Option<Execution>> {
        Ok(members::find(self.conn, flow, node)?)
    }

    fn members(
        &mut self,
        flow: FlowRow,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<Execution>> {
        Ok(members::after(self.conn, flow, after, limit)?)
    }

    fn count_members(&mut self, flow: FlowRow) -> Result<Vec<MemberCount>> {
        Ok(members::counts(self.conn, flow)?)
    }

    fn children(
        &mut self,
        parent: RowId,
        after: Option<RowId>,
        limit: usize,
    ) -> Result<Vec<Execution>> {
        Ok(members::children(self.conn, parent, after, limit)?)
    }

    fn join(&mut self, target: RowId) -> Result<Option<Join>> {
        Ok(joins::find(self.conn, target)?)
    }

    fn edges_from(
        &mut self,
        source: RowId,
        after: Option<RowId>,
        limit: usize,
    ) -> Result<Vec<Edge>> {
        Ok(edges::from(self.conn, source, after, limit)?)
    }

    fn edges_into(&mut self, target: RowId, bound: bool) -> Result<Vec<Edge>> {
        Ok(edges::into(self.conn, target, bound)?)
    }

    fn edge(&mut self, flow: FlowRow, id: EdgeId) -> Result<Option<Edge>> {
        Ok(edges::find(self.conn, flow, id)?)
    }

    fn reach(&mut self, from: &[RowId]) -> Result<Vec<(RowId, RowId)>> {
        Ok(edges::reach(self.conn, from)?)
    }

    fn list_flows(
        &mut self,
        filter: &FlowScan,
        below: Option<FlowRow>,
        limit: usize,
        scan: usize,
    ) -> Result<FlowSlice> {
        Ok(flows::list(self.conn, filter, below, limit, scan)?)
    }

    fn oldest_ready(&mut self, lane: LaneId) -> Result<Option<Timestamp>> {
        Ok(executions::oldest_ready(self.conn, lane)?)
    }

    fn expired_leases(
        &mut self,
        namespace: NamespaceId,
        as_of: Timestamp,
        after: Option<(Timestamp, ExecutionId)>,
        limit: usize,
    ) -> Result<Vec<Execution>> {
        Ok(executions::expired_leases(self.conn, namespace, as_of, after, limit)?)
    }
}
