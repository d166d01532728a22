//! The writes: into the overlay only.

use std::sync::Arc;

use everloom_core::{
    Chore, ChoreId, ChoreKind, Defaults, Edge, Error, Execution, Flow, FlowRow, Join, Key, Lane,
    LaneId, Namespace, NamespaceId, NamespaceLimits, NewEvent, NewRequest, PastLease, Payload,
    Read, Request, RequestId, Result, Route, RouteId, RouteTable, RowId, Timestamp, Tx, WorkerRow,
};

use super::read::missing;
use super::{Batch, is_placeholder};

impl Tx for Batch<'_> {
    fn put_namespace(&mut self, name: &str, defaults: &Defaults) -> Result<Arc<Namespace>> {
        let mut limits = NamespaceLimits::default();
        let id = match self.namespace(name)? {
            Some(known) => {
                limits.clone_from(&known.limits);
                known.id
            }
            None => {
                self.wants.new_namespaces.insert(name.to_owned());
                let id = NamespaceId(self.round.new_placeholder());
                self.round.namespace_names.insert(name.to_owned(), id);
                id
            }
        };
        let (name, defaults) = (name.to_owned(), defaults.clone());
        let namespace = Arc::new(Namespace { id, name, defaults, limits });
        self.overlay().namespaces.insert(id, Arc::clone(&namespace));
        Ok(namespace)
    }

    fn add_lane(&mut self, namespace: NamespaceId, name: &str) -> Result<Arc<Lane>> {
        // Someone else may have made it since the rule asked.
        if let Some(lane) = self.lane(namespace, name)? {
            return Ok(lane);
        }
        let key = (namespace, name.to_owned());
        if !is_placeholder(namespace.0) {
            self.wants.new_lanes.insert(key.clone());
        }
        let id = LaneId(self.round.new_placeholder());
        let lane = Arc::new(Lane::new(id, namespace, name));
        let round = self.overlay();
        round.lane_names.insert(key, id);
        round.lanes.insert(id, Arc::clone(&lane));
        Ok(lane)
    }

    fn save_lane(&mut self, lane: &Lane) -> Result<()> {
        let saved = self.lane_by_id(lane.id)?;
        self.attend_namespace(saved.namespace);
        let (name, namespace) = (saved.name.clone(), saved.namespace);
        let lane = Arc::new(Lane { name, namespace, ..lane.clone() });
        self.overlay().lanes.insert(lane.id, lane);
        Ok(())
    }

    fn add_route(
        &mut self,
        namespace: NamespaceId,
        kind: &str,
        capabilities: &[String],
    ) -> Result<RouteId> {
        let table = self.routes(namespace)?;
        if let Some(route) = table.find(kind, capabilities) {
            return Ok(route);
        }
        if !is_placeholder(namespace.0) {
            let route = (namespace, kind.to_owned(), capabilities.to_vec());
            self.wants.new_routes.insert(route);
            let last = self.caches.last_route(namespace);
            self.wants.routes.insert(namespace, last);
        }
        let id = RouteId(self.round.new_placeholder());
        let route = Route { id, kind: kind.to_owned(), capabilities: capabilities.to_vec() };
        // Placeholders fall, so the latest is the least.
        let routes = [Arc::new(route)].into_iter().chain(table.routes().iter().cloned());
        let table = Arc::new(RouteTable::new(routes.collect()));
        self.overlay().routes.insert(namespace, table);
        Ok(id)
    }

    fn new_row(&mut self) -> Result<RowId> {
        let round = self.overlay();
        let used = round.rows_used;
        round.rows_used += 1;
        if let Some(row) = self.known.new_rows.get(used) {
            return Ok(*row);
        }
        self.wants.new_rows += 1;
        Ok(RowId(self.round.new_placeholder()))
    }

    fn insert(
        &mut self,
        execution: &Execution,
        input: &Payload,
        fingerprint: Option<&[u8; 16]>,
    ) -> Result<()> {
        let Execution { row, id, namespace, .. } = *execution;
        let key = (namespace, id);
        let inserted = self.round.ids.get(&key).copied();
        let known = inserted.or_else(|| self.known.ids.get(&key).copied().flatten());
        if known.is_some_and(|row| self.current(row).is_some()) {
            return Err(Error::bug(format!("the execution {id} exists")));
        }
        if self.current(row).is_some() {
            return Err(Error::bug(format!("row {} has an execution", row.0)));
        }
        self.attend(execution);
        let round = self.overlay();
        round.ids.insert(key, row);
        round.inputs.insert(row, (input.clone(), fingerprint.copied()));
        round.ties.note_node(execution);
        round.executions.insert(row, Some(execution.clone()));
        Ok(())
    }

    fn save(&mut self, execution: &Execution) -> Result<()> {
        let saved = self.saved(execution)?;
        // What is fixed at submission stays as it is.
        let row = Execution {
            lane: saved.lane,
            route: saved.route,
            created_at: saved.created_at,
            created_by: saved.created_by.clone(),
            policy: Arc::clone(&saved.policy),
            tags: Arc::clone(&saved.tags),
            key: saved.key.clone(),
            member: saved.member.clone(),
            parent: saved.parent,
            ..execution.clone()
        };
        self.attend(&row);
        self.overlay().executions.insert(row.row, Some(row));
        Ok(())
    }

    fn save_tags(&mut self, execution: &Execution) -> Result<()> {
        let saved = self.saved(execution)?.clone();
        let row = Execution { tags: Arc::clone(&execution.tags), ..saved };
        self.overlay().executions.insert(row.row, Some(row));
        Ok(())
    }

    fn save_member(&mut self, execution: &Execution) -> Result<()> {
        let saved = self.saved(execution)?.clone();
        let row = Execution { member: execution.member.clone(), ..saved };
        let round = self.overlay();
        round.ties.note_node(&row);
        round.executions.insert(row.row, Some(row));
        Ok(())
    }

    fn new_flow_row(&mut self) -> Result<FlowRow> {
        let ties = &mut self.overlay().ties;
        let used = ties.flow_rows_used;
        ties.flow_rows_used += 1;
        if let Some(row) = self.known.ties.new_flow_rows.get(used) {
            return Ok(*row);
        }
        self.wants.new_flow_rows += 1;
        Ok(FlowRow(self.round.new_placeholder()))
    }

    fn insert_flow(&mut self, flow: &Flow) -> Result<()> {
        self.put_new_flow(flow)
    }

    fn save_flow(&mut self, flow: &Flow) -> Result<()> {
        self.put_flow(flow)
    }

    fn remove_flow(&mut self, flow: &Flow) -> Result<()> {
        self.drop_flow(flow)
    }

    fn add_edge(&mut self, edge: &Edge) -> Result<()> {
        self.expect_execution(edge.source)?;
        self.expect_execution(edge.target)?;
        self.put_new_edge(edge)
    }

    fn save_edge(&mut self, edge: &Edge) -> Result<()> {
        self.put_edge(edge)
    }

    fn drop_edge(&mut self, edge: &Edge) -> Result<()> {
        self.overlay().ties.put_edge((edge.source, edge.target, edge.ordinal), None);
        Ok(())
    }

    fn put_join(&mut self, join: &Join) -> Result<()> {
        self.expect_execution(join.target)?;
        self.overlay().ties.joins.insert(join.target, join.clone());
        Ok(())
    }

    fn remove(&mut self, execution: &Execution) -> Result<()> {
        let row = self.saved(execution)?.row;
        let round = self.overlay();
        round.executions.insert(row, None);
        round.ties.joins.remove(&row);
        round.results.remove(&row);
        round.past_leases.retain(|(of, _), _| *of != row);
        round.mail.forget(row);
        round.streams.forget(row);
        round.limits.forget(row);
        Ok(())
    }

    fn put_result(&mut self, row: RowId, result: &Payload) -> Result<()> {
        self.expect_execution(row)?;
        self.overlay().results.insert(row, Some(result.clone()));
        Ok(())
    }

    fn drop_result(&mut self, row: RowId) -> Result<()> {
        self.overlay().results.insert(row, None);
        Ok(())
    }

    fn add_past_lease(&mut self, lease: &PastLease) -> Result<()> {
        self.expect_execution(lease.execution)?;
        let id = (lease.execution, lease.epoch);
        if self.overlay().past_leases.insert(id, lease.clone()).is_some() {
            let (row, epoch) = (id.0.0, id.1);
            return Err(Error::bug(format!("row {row} has an ended lease of epoch {epoch}")));
        }
        Ok(())
    }

    fn add_event(&mut self, event: &NewEvent) -> Result<()> {
        self.overlay().events.push(event.clone());
        Ok(())
    }

    fn put_key(&mut self, key: &Key) -> Result<()> {
        let name = (key.namespace, key.key.clone());
        self.overlay().keys.insert(name, Some(key.clone()));
        Ok(())
    }

    fn drop_key(&mut self, namespace: NamespaceId, key: &str) -> Result<()> {
        self.overlay().keys.insert((namespace, key.to_owned()), None);
        Ok(())
    }

    fn put_worker(&mut self, worker: &WorkerRow) -> Result<()> {
        let name = (worker.namespace, worker.instance.clone());
        self.overlay().workers.insert(name, Some(worker.clone()));
        Ok(())
    }

    fn drop_worker(&mut self, namespace: NamespaceId, instance: &str) -> Result<()> {
        self.overlay().workers.insert((namespace, instance.to_owned()), None);
        Ok(())
    }

    fn add_chore(&mut self, kind: &ChoreKind, due_at: Timestamp) -> Result<ChoreId> {
        let id = ChoreId(self.round.new_placeholder());
        let chore = Chore { id, kind: kind.clone(), due_at };
        self.overlay().chores.insert(id, Some(chore));
        Ok(id)
    }

    fn save_chore(&mut self, chore: &Chore) -> Result<()> {
        let known = match self.round.chores.get(&chore.id) {
            Some(written) => written.is_some(),
            None => self.known.chores.contains_key(&chore.id),
        };
        if !known {
            return Err(missing("chore", chore.id.0));
        }
        self.overlay().chores.insert(chore.id, Some(chore.clone()));
        Ok(())
    }

    fn drop_chore(&mut self, id: ChoreId) -> Result<()> {
        self.overlay().chores.insert(id, None);
        Ok(())
    }

    fn add_request(&mut self, request: &NewRequest) -> Result<RequestId> {
        let id = RequestId(self.round.new_placeholder());
        let request = Request { id, new: request.clone(), refusal: None };
        self.overlay().requests.insert(id, Some(request));
        Ok(id)
    }

    fn save_request(&mut self, request: &Request) -> Result<()> {
        if self.request(request.id)?.is_none() {
            return Err(missing("request", request.id.0));
        }
        self.overlay().requests.insert(request.id, Some(request.clone()));
        Ok(())
    }

    fn drop_request(&mut self, id: RequestId) -> Result<()> {
        self.overlay().requests.insert(id, None);
        Ok(())
    }

    fn trim_events(&mut self, before: Timestamp, limit: usize) -> Result<usize> {
        let told = std::mem::replace(&mut self.overlay().told_trimmed_events, true);
        if self.known.trimmed_events.is_none() {
            self.wants.trim_events = Some((before, limit));
        }
        Ok(self.known.trimmed_events.filter(|_| !told).unwrap_or(0))
    }

    fn trim_keys(&mut self, by: Timestamp, limit: usize) -> Result<usize> {
        let told = std::mem::replace(&mut self.overlay().told_trimmed_keys, true);
        if self.known.trimmed_keys.is_none() {
            self.wants.trim_keys = Some((by, limit));
        }
        Ok(self.known.trimmed_keys.filter(|_| !told).unwrap_or(0))
    }
}

impl Batch<'_> {
    /// What is kept of an execution that a rule has read.
    pub(super) fn saved(&self, execution: &Execution) -> Result<&Execution> {
        let saved = self.current(execution.row);
        saved
            .filter(|saved| (saved.namespace, saved.id) == (execution.namespace, execution.id))
            .ok_or_else(|| missing(&format!("execution {}", execution.id), execution.row.0))
    }

    pub(super) fn expect_execution(&self, row: RowId) -> Result<()> {
        match self.current(row) {
            Some(_) => Ok(()),
            None => Err(missing("execution", row.0)),
        }
    }

    /// Makes sure that those who wait for claimable work can be told of it by name: they are after
    /// the last round, when nothing can be loaded any more.
    fn attend(&mut self, execution: &Execution) {
        if execution.claimable() {
            // A miss is noted, and the round runs again.
            let _ = self.lane_by_id(execution.lane);
            let _ = self.routes(execution.namespace);
            self.attend_namespace(execution.namespace);
        }
    }

    fn attend_namespace(&mut self, namespace: NamespaceId) {
        let _ = self.namespace_by_id(namespace);
    }
}
