//! What a connection remembers of the rows. None of it is truth: it is dropped when a transaction
//! is rolled back and when another connection has committed.

use std::collections::HashMap;
use std::sync::Arc;

use everloom_core::{
    Flow, FlowRow, Lane, LaneId, Limit, LimitRow, LimitSort, Namespace, NamespaceId, RouteTable,
};
use rusqlite::Connection;

use crate::error::Result;
use crate::ready::ReadyHeads;
use crate::rows::meta::Meta;
use crate::sql;

#[derive(Default)]
pub(crate) struct Caches {
    /// The `data_version` all of it was read at.
    data_version: Option<i64>,
    changed_elsewhere: bool,
    pub(crate) meta: Option<Meta>,
    pub(crate) last_cursor: Option<i64>,
    pub(crate) namespaces: Namespaces,
    pub(crate) lanes: Lanes,
    pub(crate) routes: Routes,
    pub(crate) ready: ReadyHeads,
    pub(crate) flows: Flows,
    pub(crate) limits: Limits,
}

impl Caches {
    /// Forgets everything: what was written has not happened.
    pub(crate) fn clear(&mut self) {
        self.forget_rows();
        self.routes.0.clear();
    }

    /// Forgets what another connection may have changed. Routes are only ever added, so the known
    /// ones stay.
    pub(crate) fn forget_if_changed_elsewhere(&mut self, conn: &Connection) -> Result<()> {
        let version = conn.prepare_cached(sql::DATA_VERSION)?.query_row([], |row| row.get(0))?;
        match self.data_version.replace(version) {
            Some(known) if known == version => return Ok(()),
            Some(_) => self.changed_elsewhere = true,
            None => {}
        }
        self.forget_rows();
        for known in self.routes.0.values_mut() {
            known.fresh = false;
        }
        Ok(())
    }

    /// Whether another connection has committed since the last time this was asked.
    pub(crate) fn take_changed_elsewhere(&mut self) -> bool {
        std::mem::take(&mut self.changed_elsewhere)
    }

    fn forget_rows(&mut self) {
        self.meta = None;
        self.last_cursor = None;
        self.namespaces = Namespaces::default();
        self.lanes = Lanes::default();
        self.ready = ReadyHeads::default();
        self.flows = Flows::default();
        self.limits = Limits::default();
    }
}

/// How many namespaces, lanes or limits are remembered before starting over.
const NAMES: usize = 10_000;

#[derive(Default)]
pub(crate) struct Namespaces {
    by_name: HashMap<String, Arc<Namespace>>,
    by_id: HashMap<NamespaceId, Arc<Namespace>>,
}

impl Namespaces {
    pub(crate) fn by_name(&self, name: &str) -> Option<Arc<Namespace>> {
        self.by_name.get(name).cloned()
    }

    pub(crate) fn by_id(&self, id: NamespaceId) -> Option<Arc<Namespace>> {
        self.by_id.get(&id).cloned()
    }

    pub(crate) fn keep(&mut self, namespace: &Arc<Namespace>) {
        if self.by_id.len() >= NAMES {
            *self = Self::default();
        }
        self.by_name.insert(namespace.name.clone(), Arc::clone(namespace));
        self.by_id.insert(namespace.id, Arc::clone(namespace));
    }
}

#[derive(Default)]
pub(crate) struct Lanes {
    by_name: HashMap<NamespaceId, HashMap<String, Arc<Lane>>>,
    by_id: HashMap<LaneId, Arc<Lane>>,
}

impl Lanes {
    pub(crate) fn by_name(&self, namespace: NamespaceId, name: &str) -> Option<Arc<Lane>> {
        self.by_name.get(&namespace)?.get(name).cloned()
    }

    pub(crate) fn by_id(&self, id: LaneId) -> Option<Arc<Lane>> {
        self.by_id.get(&id).cloned()
    }

    pub(crate) fn keep(&mut self, lane: &Arc<Lane>) {
        if self.by_id.len() >= NAMES {
            *self = Self::default();
        }
        let names = self.by_name.entry(lane.namespace).or_default();
        names.insert(lane.name.clone(), Arc::clone(lane));
        self.by_id.insert(lane.id, Arc::clone(lane));
    }
}

/// Budgets and quotas: all work under them asks what they allow.
#[derive(Default)]
pub(crate) struct Limits {
    by_name: HashMap<(NamespaceId, LimitSort), HashMap<String, Arc<Limit>>>,
    by_row: HashMap<LimitRow, Arc<Limit>>,
}

impl Limits {
    pub(crate) fn by_name(
        &self,
        namespace: NamespaceId,
        sort: LimitSort,
        name: &str,
    ) -> Option<Arc<Limit>> {
        self.by_name.get(&(namespace, sort))?.get(name).cloned()
    }

    pub(crate) fn by_row(&self, row: LimitRow) -> Option<Arc<Limit>> {
        self.by_row.get(&row).cloned()
    }

    pub(crate) fn keep(&mut self, limit: &Arc<Limit>) {
        if self.by_row.len() >= NAMES {
            *self = Self::default();
        }
        let names = self.by_name.entry((limit.namespace, limit.sort())).or_default();
        names.insert(limit.name.clone(), Arc::clone(limit));
        self.by_row.insert(limit.row, Arc::clone(limit));
    }

    pub(crate) fn forget(&mut self, row: LimitRow) {
        let Some(limit) = self.by_row.remove(&row) else { return };
        if let Some(names) = self.by_name.get_mut(&(limit.namespace, limit.sort())) {
            names.remove(&limit.name);
        }
    }
}

/// How many flows are remembered before starting over.
const FLOWS: usize = 4096;

/// Flows whose members come and go: each end of a member reads and changes its flow.
#[derive(Default)]
pub(crate) struct Flows(HashMap<FlowRow, Flow>);

impl Flows {
    pub(crate) fn get(&self, row: FlowRow) -> Option<&Flow> {
        self.0.get(&row)
    }

    pub(crate) fn keep(&mut self, flow: &Flow) {
        if self.0.len() >= FLOWS && !self.0.contains_key(&flow.row) {
            self.0.clear();
        }
        self.0.insert(flow.row, flow.clone());
    }

    pub(crate) fn forget(&mut self, row: FlowRow) {
        self.0.remove(&row);
    }
}

#[derive(Default)]
pub(crate) struct Routes(HashMap<NamespaceId, KnownRoutes>);

/// The routes of a namespace as far as they are known.
#[derive(Clone, Default)]
pub(crate) struct KnownRoutes {
    pub(crate) table: Arc<RouteTable>,
    /// Whether there can be no others.
    pub(crate) fresh: bool,
}

impl Routes {
    pub(crate) fn of(&self, namespace: NamespaceId) -> KnownRoutes {
        self.0.get(&namespace).cloned().unwrap_or_default()
    }

    pub(crate) fn keep(&mut self, namespace: NamespaceId, table: &Arc<RouteTable>) {
        self.0.insert(namespace, KnownRoutes { table: Arc::clone(table), fresh: true });
    }
}
