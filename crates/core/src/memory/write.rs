//! The writes.

use std::sync::Arc;

use super::Session;
use super::read::missing;
use super::tables::{Change, Input};
use crate::chore::{Chore, ChoreKind};
use crate::event::NewEvent;
use crate::inbox::{NewRequest, Request};
use crate::model::{
    ChoreId, Cursor, Defaults, Edge, Epoch, Error, Execution, Flow, FlowRow, Join, Key, Lane,
    LaneId, Namespace, NamespaceId, NamespaceLimits, PastLease, Payload, RequestId, Result, Route,
    RouteId, RowId, Timestamp, WorkerRow,
};
use crate::store::{Read, Tx, WriteMail};

impl Tx for Session<'_> {
    fn put_namespace(&mut self, name: &str, defaults: &Defaults) -> Result<Arc<Namespace>> {
        let (id, limits) = match self.namespace(name)? {
            Some(known) => (known.id, known.limits.clone()),
            None => {
                let id = NamespaceId(next(&mut self.tables.sequences.namespace));
                (id, NamespaceLimits::default())
            }
        };
        let (name, defaults) = (name.to_owned(), defaults.clone());
        let namespace = Arc::new(Namespace { id, name, defaults, limits });
        self.write(Change::Namespace(id, Some(Arc::clone(&namespace))));
        Ok(namespace)
    }

    fn add_lane(&mut self, namespace: NamespaceId, name: &str) -> Result<Arc<Lane>> {
        self.namespace_by_id(namespace)?;
        if self.lane(namespace, name)?.is_some() {
            return Err(Error::bug(format!("the lane `{name}` exists")));
        }
        let id = LaneId(next(&mut self.tables.sequences.lane));
        let lane = Arc::new(Lane::new(id, namespace, name));
        self.write(Change::Lane(id, Some(Arc::clone(&lane))));
        Ok(lane)
    }

    fn save_lane(&mut self, lane: &Lane) -> Result<()> {
        let saved = self.lane_by_id(lane.id)?;
        let name = saved.name.clone();
        let lane = Lane { name, namespace: saved.namespace, ..lane.clone() };
        self.write(Change::Lane(lane.id, Some(Arc::new(lane))));
        Ok(())
    }

    fn add_route(
        &mut self,
        namespace: NamespaceId,
        kind: &str,
        capabilities: &[String],
    ) -> Result<RouteId> {
        self.namespace_by_id(namespace)?;
        if self.routes(namespace)?.find(kind, capabilities).is_some() {
            return Err(Error::bug(format!("the route of `{kind}` and {capabilities:?} exists")));
        }
        let id = RouteId(next(&mut self.tables.sequences.route));
        let route = Route { id, kind: kind.to_owned(), capabilities: capabilities.to_vec() };
        self.write(Change::Route((namespace, id), Some(Arc::new(route))));
        Ok(id)
    }

    fn new_row(&mut self) -> Result<RowId> {
        Ok(RowId(next(&mut self.tables.sequences.row)))
    }

    fn insert(
        &mut self,
        execution: &Execution,
        input: &Payload,
        fingerprint: Option<&[u8; 16]>,
    ) -> Result<()> {
        let Execution { row, id, namespace, .. } = *execution;
        if self.tables.executions.contains_key(&row) {
            return Err(Error::bug(format!("row {} has an execution", row.0)));
        }
        if self.tables.index.ids.contains_key(&(namespace, id)) {
            return Err(Error::bug(format!("the execution {id} exists")));
        }
        let input = Input { payload: input.clone(), fingerprint: fingerprint.copied() };
        self.write(Change::Execution(row, Some(Box::new(execution.clone()))));
        self.write(Change::Input(row, Some(input)));
        Ok(())
    }

    fn save(&mut self, execution: &Execution) -> Result<()> {
        let saved = self.saved(execution)?;
        // What is fixed at submission stays as it is, as in a store that updates some columns.
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
        self.write(Change::Execution(row.row, Some(Box::new(row))));
        Ok(())
    }

    fn save_tags(&mut self, execution: &Execution) -> Result<()> {
        let saved = self.saved(execution)?.clone();
        let row = Execution { tags: Arc::clone(&execution.tags), ..saved };
        self.write(Change::Execution(row.row, Some(Box::new(row))));
        Ok(())
    }

    fn save_member(&mut self, execution: &Execution) -> Result<()> {
        let saved = self.saved(execution)?.clone();
        let row = Execution { member: execution.member.clone(), ..saved };
        self.write(Change::Execution(row.row, Some(Box::new(row))));
        Ok(())
    }

    fn new_flow_row(&mut self) -> Result<FlowRow> {
        Ok(FlowRow(next(&mut self.tables.sequences.flow)))
    }

    fn insert_flow(&mut self, flow: &Flow) -> Result<()> {
        if self.tables.index.flow_ids.contains_key(&(flow.namespace, flow.id)) {
            return Err(Error::bug(format!("the flow {} exists", flow.id)));
        }
        self.write(Change::Flow(flow.row, Some(Box::new(flow.clone()))));
        Ok(())
    }

    fn save_flow(&mut self, flow: &Flow) -> Result<()> {
        let saved = self.flow_by_row(flow.row)?;
        let row = Flow {
            state: flow.state.clone(),
            since: flow.since,
            held: flow.held,
            run: flow.run,
            counts: flow.counts,
            deadline_at: flow.deadline_at,
            tags: Arc::clone(&flow.tags),
            ..saved
        };
        self.write(Change::Flow(row.row, Some(Box::new(row))));
        Ok(())
    }

    fn remove_flow(&mut self, flow: &Flow) -> Result<()> {
        self.flow_by_row(flow.row)?;
        self.write(Change::Flow(flow.row, None));
        Ok(())
    }

    fn add_edge(&mut self, edge: &Edge) -> Result<()> {
        self.expect_execution(edge.source)?;
        self.expect_execution(edge.target)?;
        let place = (edge.source, edge.target, edge.ordinal);
        if self.tables.edges.contains_key(&place) {
            return Err(Error::bug(format!("the edge {place:?} exists")));
        }
        self.write(Change::Edge(place, Some(Box::new(edge.clone()))));
        Ok(())
    }

    fn save_edge(&mut self, edge: &Edge) -> Result<()> {
        let place = (edge.source, edge.target, edge.ordinal);
        let Some(saved) = self.tables.edges.get(&place) else {
            return Err(Error::bug(format!("there is no edge {place:?}")));
        };
        let row = Edge { applied: edge.applied, ..Edge::clone(saved) };
        self.write(Change::Edge(place, Some(Box::new(row))));
        Ok(())
    }

    fn drop_edge(&mut self, edge: &Edge) -> Result<()> {
        self.write(Change::Edge((edge.source, edge.target, edge.ordinal), None));
        Ok(())
    }

    fn put_join(&mut self, join: &Join) -> Result<()> {
        self.expect_execution(join.target)?;
        self.write(Change::Join(join.target, Some(Box::new(join.clone()))));
        Ok(())
    }

    fn remove(&mut self, execution: &Execution) -> Result<()> {
        let row = self.saved(execution)?.row;
        let mut edges = self.edges_from(row, None, usize::MAX)?;
        edges.extend(self.edges_into(row, false)?);
        for edge in edges {
            self.drop_edge(&edge)?;
        }
        self.write(Change::Join(row, None));
        let leases = (row, Epoch(u64::MIN))..=(row, Epoch(u64::MAX));
        let leases: Vec<_> = self.tables.past_leases.range(leases).map(|(id, _)| *id).collect();
        for lease in leases {
            self.write(Change::PastLease(lease, None));
        }
        self.remove_mail(row);
        self.remove_stream(row);
        self.remove_uses(row);
        self.drop_steps(row, 0)?;
        self.drop_result(row)?;
        self.write(Change::Input(row, None));
        self.write(Change::Execution(row, None));
        Ok(())
    }

    fn put_result(&mut self, row: RowId, result: &Payload) -> Result<()> {
        self.expect_execution(row)?;
        self.write(Change::Result(row, Some(result.clone())));
        Ok(())
    }

    fn drop_result(&mut self, row: RowId) -> Result<()> {
        self.write(Change::Result(row, None));
        Ok(())
    }

    fn add_past_lease(&mut self, lease: &PastLease) -> Result<()> {
        self.expect_execution(lease.execution)?;
        let id = (lease.execution, lease.epoch);
        if self.tables.past_leases.contains_key(&id) {
            let (row, epoch) = (id.0.0, id.1);
            return Err(Error::bug(format!("row {row} has an ended lease of epoch {epoch}")));
        }
        self.write(Change::PastLease(id, Some(Box::new(lease.clone()))));
        Ok(())
    }

    fn add_event(&mut self, event: &NewEvent) -> Result<()> {
        let cursor = Cursor(next(&mut self.tables.sequences.cursor));
        self.write(Change::Event(cursor, Some(Box::new(event.clone()))));
        Ok(())
    }

    fn put_key(&mut self, key: &Key) -> Result<()> {
        let name = (key.namespace, key.key.clone());
        self.write(Change::Key(name, Some(Box::new(key.clone()))));
        Ok(())
    }

    fn drop_key(&mut self, namespace: NamespaceId, key: &str) -> Result<()> {
        self.write(Change::Key((namespace, key.to_owned()), None));
        Ok(())
    }

    fn put_worker(&mut self, worker: &WorkerRow) -> Result<()> {
        let name = (worker.namespace, worker.instance.clone());
        self.write(Change::Worker(name, Some(Box::new(worker.clone()))));
        Ok(())
    }

    fn drop_worker(&mut self, namespace: NamespaceId, instance: &str) -> Result<()> {
        self.write(Change::Worker((namespace, instance.to_owned()), None));
        Ok(())
    }

    fn add_chore(&mut self, kind: &ChoreKind, due_at: Timestamp) -> Result<ChoreId> {
        let id = ChoreId(next(&mut self.tables.sequences.chore));
        let chore = Chore { id, kind: kind.clone(), due_at };
        self.write(Change::Chore(id, Some(Box::new(chore))));
        Ok(id)
    }

    fn save_chore(&mut self, chore: &Chore) -> Result<()> {
        if !self.tables.chores.contains_key(&chore.id) {
            return Err(missing("chore", chore.id.0));
        }
        self.write(Change::Chore(chore.id, Some(Box::new(chore.clone()))));
        Ok(())
    }

    fn drop_chore(&mut self, id: ChoreId) -> Result<()> {
        self.write(Change::Chore(id, None));
        Ok(())
    }

    fn add_request(&mut self, request: &NewRequest) -> Result<RequestId> {
        let id = RequestId(next(&mut self.tables.sequences.request));
        let request = Request { id, new: request.clone(), refusal: None };
        self.write(Change::Request(id, Some(Box::new(request))));
        Ok(id)
    }

    fn save_request(&mut self, request: &Request) -> Result<()> {
        let id = request.id;
        let Some(saved) = self.tables.inbox.get(&id) else {
            return Err(missing("request", id.0));
        };
        let request = Request { new: saved.new.clone(), ..request.clone() };
        self.write(Change::Request(id, Some(Box::new(request))));
        Ok(())
    }

    fn drop_request(&mut self, id: RequestId) -> Result<()> {
        self.write(Change::Request(id, None));
        Ok(())
    }

    fn trim_events(&mut self, before: Timestamp, limit: usize) -> Result<usize> {
        let newest = self.tables.last_cursor();
        let events = self.tables.events.range(..newest);
        let old = events.take_while(|(_, event)| event.at < before).take(limit);
        let old: Vec<_> = old.map(|(cursor, _)| *cursor).collect();
        for cursor in &old {
            self.write(Change::Event(*cursor, None));
        }
        if let Some(last) = old.last() {
            self.write(Change::Trimmed(*last));
        }
        Ok(old.len())
    }

    fn trim_keys(&mut self, by: Timestamp, limit: usize) -> Result<usize> {
        let keys = self.tables.index.key_expiry.iter();
        let expired = keys.take_while(|(at, _)| *at <= by).take(limit);
        let expired: Vec<_> = expired.map(|(_, name)| name.clone()).collect();
        let count = expired.len();
        for name in expired {
            self.write(Change::Key(name, None));
        }
        Ok(count)
    }
}

impl Session<'_> {
    /// What is kept of an execution that a rule has read.
    pub(super) fn saved(&self, execution: &Execution) -> Result<&Execution> {
        match self.tables.executions.get(&execution.row) {
            Some(saved) if (saved.namespace, saved.id) == (execution.namespace, execution.id) => {
                Ok(saved)
            }
            _ => Err(missing(&format!("execution {}", execution.id), execution.row.0)),
        }
    }

    pub(super) fn expect_execution(&self, row: RowId) -> Result<()> {
        match self.tables.executions.contains_key(&row) {
            true => Ok(()),
            false => Err(missing("execution", row.0)),
        }
    }
}

pub(super) fn next(last: &mut i64) -> i64 {
    *last += 1;
    *last
}
