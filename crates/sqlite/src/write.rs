//! Changes of rows, and of what is remembered of them.

use std::sync::Arc;

use everloom_core::{
    Chore, ChoreId, ChoreKind, Defaults, Edge, Execution, Flow, FlowRow, Join, Key, Lane,
    Namespace, NamespaceId, NewEvent, NewRequest, PastLease, Payload, Request, RequestId, Result,
    RouteId, RowId, Timestamp, Tx, WorkerRow,
};

use crate::rows::{
    chores, edges, events, executions, flows, inbox, joins, keys, lanes, members, meta, namespaces,
    past_leases, payloads, routes, workers,
};
use crate::view::View;

impl Tx for View<'_> {
    fn put_namespace(&mut self, name: &str, defaults: &Defaults) -> Result<Arc<Namespace>> {
        self.change(|conn, caches| namespaces::put(conn, caches, name, defaults))
    }

    fn add_lane(&mut self, namespace: NamespaceId, name: &str) -> Result<Arc<Lane>> {
        self.change(|conn, caches| lanes::add(conn, caches, namespace, name))
    }

    fn save_lane(&mut self, lane: &Lane) -> Result<()> {
        self.change(|conn, caches| lanes::save(conn, caches, lane))
    }

    fn add_route(
        &mut self,
        namespace: NamespaceId,
        kind: &str,
        capabilities: &[String],
    ) -> Result<RouteId> {
        self.change(|conn, caches| routes::add(conn, caches, namespace, kind, capabilities))
    }

    fn new_row(&mut self) -> Result<RowId> {
        self.change(meta::new_row)
    }

    fn insert(
        &mut self,
        execution: &Execution,
        input: &Payload,
        fingerprint: Option<&[u8; 16]>,
    ) -> Result<()> {
        self.change(|conn, caches| {
            executions::insert(conn, &mut caches.ready, execution, input, fingerprint)
        })
    }

    fn save(&mut self, execution: &Execution) -> Result<()> {
        self.change(|conn, caches| executions::save(conn, &mut caches.ready, execution))
    }

    fn save_tags(&mut self, execution: &Execution) -> Result<()> {
        self.change(|conn, _| executions::save_tags(conn, execution))
    }

    fn save_member(&mut self, execution: &Execution) -> Result<()> {
        self.change(|conn, _| members::save(conn, execution))
    }

    fn remove(&mut self, execution: &Execution) -> Result<()> {
        self.change(|conn, caches| executions::remove(conn, &mut caches.ready, execution))
    }

    fn put_result(&mut self, row: RowId, result: &Payload) -> Result<()> {
        self.change(|conn, _| payloads::put_result(conn, row, result))
    }

    fn drop_result(&mut self, row: RowId) -> Result<()> {
        self.change(|conn, _| payloads::drop_result(conn, row))
    }

    fn new_flow_row(&mut self) -> Result<FlowRow> {
        self.change(meta::new_flow_row)
    }

    fn insert_flow(&mut self, flow: &Flow) -> Result<()> {
        self.change(|conn, caches| flows::insert(conn, caches, flow))
    }

    fn save_flow(&mut self, flow: &Flow) -> Result<()> {
        self.change(|conn, caches| flows::save(conn, caches, flow))
    }

    fn remove_flow(&mut self, flow: &Flow) -> Result<()> {
        self.change(|conn, caches| flows::remove(conn, caches, flow))
    }

    fn add_edge(&mut self, edge: &Edge) -> Result<()> {
        self.change(|conn, _| edges::add(conn, edge))
    }

    fn save_edge(&mut self, edge: &Edge) -> Result<()> {
        self.change(|conn, _| edges::save(conn, edge))
    }

    fn drop_edge(&mut self, edge: &Edge) -> Result<()> {
        self.change(|conn, _| edges::remove(conn, edge))
    }

    fn put_join(&mut self, join: &Join) -> Result<()> {
        self.change(|conn, _| joins::put(conn, join))
    }

    fn add_past_lease(&mut self, lease: &PastLease) -> Result<()> {
        self.change(|conn, _| past_leases::add(conn, lease))
    }

    fn add_event(&mut self, event: &NewEvent) -> Result<()> {
        self.change(|conn, caches| events::add(conn, caches, event))
    }

    fn put_key(&mut self, key: &Key) -> Result<()> {
        self.change(|conn, _| keys::put(conn, key))
    }

    fn drop_key(&mut self, namespace: NamespaceId, key: &str) -> Result<()> {
        self.change(|conn, _| keys::remove(conn, namespace, key))
    }

    fn put_worker(&mut self, worker: &WorkerRow) -> Result<()> {
        self.change(|conn, _| workers::put(conn, worker))
    }

    fn drop_worker(&mut self, namespace: NamespaceId, instance: &str) -> Result<()> {
        self.change(|conn, _| workers::remove(conn, namespace, instance))
    }

    fn add_chore(&mut self, kind: &ChoreKind, due_at: Timestamp) -> Result<ChoreId> {
        self.change(|conn, _| chores::add(conn, kind, due_at))
    }

    fn save_chore(&mut self, chore: &Chore) -> Result<()> {
        self.change(|conn, _| chores::save(conn, chore))
    }

    fn drop_chore(&mut self, id: ChoreId) -> Result<()> {
        self.change(|conn, _| chores::remove(conn, id))
    }

    fn add_request(&mut self, request: &NewRequest) -> Result<RequestId> {
        self.change(|conn, _| inbox::add(conn, request))
    }

    fn save_request(&mut self, request: &Request) -> Result<()> {
        self.change(|conn, _| inbox::save(conn, request))
    }

    fn drop_request(&mut self, id: RequestId) -> Result<()> {
        self.change(|conn, _| inbox::remove(conn, id))
    }

    fn trim_events(&mut self, before: Timestamp, limit: usize) -> Result<usize> {
        self.change(|conn, caches| events::trim(conn, caches, before, limit))
    }

    fn trim_keys(&mut self, by: Timestamp, limit: usize) -> Result<usize> {
        self.change(|conn, _| keys::trim(conn, by, limit))
    }
}
