use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use everloom_core::{Lane, LaneId, Namespace, NamespaceId, Route, RouteId, RouteTable, Timestamp};

use crate::exchange::Changes;

/// What is remembered from transaction to transaction.
///
/// Routes are only ever added, so the known ones stay true. Namespaces and lanes are as they were
/// when last seen; others may have changed them, so they only serve as guesses.
#[derive(Default)]
pub(crate) struct Caches {
    pub(super) last_now: Timestamp,
    namespaces: HashMap<NamespaceId, Arc<Namespace>>,
    namespace_names: HashMap<String, NamespaceId>,
    lanes: HashMap<LaneId, Arc<Lane>>,
    lane_names: HashMap<NamespaceId, HashMap<String, LaneId>>,
    routes: BTreeMap<NamespaceId, Arc<RouteTable>>,
}

/// How many namespaces or lanes are remembered before starting over.
const NAMES: usize = 10_000;

impl Caches {
    /// Starts over when too much is remembered. Not within a transaction, which builds on it.
    pub(super) fn limit(&mut self) {
        if self.namespaces.len() + self.lanes.len() + self.routes.len() > NAMES {
            self.forget();
        }
    }

    pub(super) fn namespace(&self, name: &str) -> Option<&Arc<Namespace>> {
        self.namespace_by_id(*self.namespace_names.get(name)?)
    }

    pub(super) fn namespace_by_id(&self, id: NamespaceId) -> Option<&Arc<Namespace>> {
        self.namespaces.get(&id)
    }

    pub(super) fn lane(&self, namespace: NamespaceId, name: &str) -> Option<&Arc<Lane>> {
        self.lane_by_id(*self.lane_names.get(&namespace)?.get(name)?)
    }

    pub(super) fn lane_by_id(&self, id: LaneId) -> Option<&Arc<Lane>> {
        self.lanes.get(&id)
    }

    pub(super) fn routes(&self, namespace: NamespaceId) -> Option<&Arc<RouteTable>> {
        self.routes.get(&namespace)
    }

    /// The highest route known of a namespace: all that were added since have higher ids.
    pub(super) fn last_route(&self, namespace: NamespaceId) -> RouteId {
        let table = self.routes.get(&namespace);
        table.and_then(|table| table.routes().last()).map_or(RouteId(0), |route| route.id)
    }

    pub(super) fn keep_namespace(&mut self, namespace: &Arc<Namespace>) {
        self.namespace_names.insert(namespace.name.clone(), namespace.id);
        self.namespaces.insert(namespace.id, Arc::clone(namespace));
    }

    pub(super) fn keep_lane(&mut self, lane: &Arc<Lane>) {
        let names = self.lane_names.entry(lane.namespace).or_default();
        names.insert(lane.name.clone(), lane.id);
        self.lanes.insert(lane.id, Arc::clone(lane));
    }

    /// Adds routes with higher ids than the known ones, and gives the whole table.
    pub(super) fn keep_routes(
        &mut self,
        namespace: NamespaceId,
        added: Vec<Arc<Route>>,
    ) -> Arc<RouteTable> {
        let table = self.routes.entry(namespace).or_default();
        if !added.is_empty() {
            let known = table.routes().iter().cloned();
            *table = Arc::new(RouteTable::new(known.chain(added).collect()));
        }
        Arc::clone(table)
    }

    pub(super) fn committed(&mut self, changes: &Changes, now: Timestamp) {
        self.last_now = self.last_now.max(now);
        for namespace in &changes.namespaces {
            self.keep_namespace(&Arc::new(namespace.clone()));
        }
        for lane in &changes.lanes {
            self.keep_lane(&Arc::new(lane.clone()));
        }
    }

    /// Forgets all rows: some of them have never been committed.
    pub(super) fn forget(&mut self) {
        *self = Self { last_now: self.last_now, ..Self::default() };
    }
}
