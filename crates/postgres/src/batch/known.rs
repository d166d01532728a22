use std::collections::{BTreeMap, BTreeSet};
use std::mem::take;
use std::sync::Arc;

use everloom_core::{
    Chore, ChoreId, ChoreKind, Epoch, Execution, ExecutionId, Key, Lane, LaneId, Namespace,
    NamespaceId, PastLease, Payload, Request, RequestId, RouteId, RouteTable, RowId, Timestamp,
    WorkerRow,
};

use super::caches::Caches;
use super::limits::KnownLimits;
use super::mail::Mail;
use super::streams::Streams;
use super::ties::Ties;
use crate::exchange::{Loaded, Wants};

/// A name within a namespace.
pub(super) type Named = (NamespaceId, String);

/// What an execution was inserted with, and its fingerprint.
pub(super) type Input = (Payload, Option<[u8; 16]>);

/// What was loaded: rows of this transaction's own, until it ends. A key without a value is one
/// that was looked for and does not exist.
#[derive(Default)]
pub(super) struct Known {
    /// What the last load said of the time.
    pub(super) now: Option<Timestamp>,
    pub(super) namespace_names: BTreeMap<String, Option<NamespaceId>>,
    pub(super) namespaces: BTreeMap<NamespaceId, Option<Arc<Namespace>>>,
    pub(super) lane_names: BTreeMap<Named, Option<LaneId>>,
    pub(super) lanes: BTreeMap<LaneId, Option<Arc<Lane>>>,
    pub(super) routes: BTreeMap<NamespaceId, Arc<RouteTable>>,
    pub(super) new_rows: Vec<RowId>,
    pub(super) ids: BTreeMap<(NamespaceId, ExecutionId), Option<RowId>>,
    pub(super) executions: BTreeMap<RowId, Execution>,
    pub(super) ties: Ties,
    pub(super) inputs: BTreeMap<RowId, Input>,
    pub(super) results: BTreeMap<RowId, Option<Payload>>,
    pub(super) past_leases: BTreeMap<(RowId, Epoch), Option<PastLease>>,
    pub(super) lease_histories: BTreeMap<RowId, Vec<PastLease>>,
    pub(super) mail: Mail,
    pub(super) streams: Streams,
    pub(super) limits: KnownLimits,
    pub(super) keys: BTreeMap<Named, Option<Key>>,
    pub(super) workers: BTreeMap<Named, Option<WorkerRow>>,
    pub(super) chores: BTreeMap<ChoreId, Chore>,
    pub(super) chore_kinds: Vec<(ChoreKind, Option<ChoreId>)>,
    pub(super) owned_counts: BTreeMap<LaneId, u32>,
    pools: Vec<(LaneId, Arc<[RouteId]>, Found)>,
    pub(super) owned: BTreeMap<Named, Found>,
    pub(super) due: Option<Vec<RowId>>,
    pub(super) retired: Option<Vec<RowId>>,
    pub(super) lapsed_workers: Option<Vec<Named>>,
    pub(super) due_chores: Option<Vec<ChoreId>>,
    pub(super) requests: BTreeMap<RequestId, Option<Request>>,
    /// What waits in the inbox, and how much of it was asked for.
    pub(super) waiting_requests: Option<(Vec<RequestId>, usize)>,
    pub(super) due_moments: Option<DueMoments>,
    pub(super) trimmed_events: Option<usize>,
    pub(super) trimmed_keys: Option<usize>,
}

/// The first rows of an index, as many as were asked for or as there are.
#[derive(Default)]
pub(super) struct Found {
    pub(super) rows: Vec<RowId>,
    pub(super) limit: usize,
}

impl Found {
    /// Whether there are no others.
    pub(super) fn is_all(&self) -> bool {
        self.rows.len() < self.limit
    }
}

/// The earliest moments at which something is due.
pub(super) struct DueMoments {
    pub(super) limit: usize,
    pub(super) executions: Vec<(Timestamp, RowId)>,
    pub(super) workers: Vec<(Timestamp, Named)>,
    pub(super) chores: Vec<(Timestamp, ChoreId)>,
}

impl DueMoments {
    pub(super) fn first(&self) -> Option<Timestamp> {
        let executions = self.executions.first().map(|(at, _)| *at);
        let workers = self.workers.first().map(|(at, _)| *at);
        let chores = self.chores.first().map(|(at, _)| *at);
        executions.into_iter().chain(workers).chain(chores).min()
    }
}

impl Known {
    /// The claimable executions that were found in a lane on these routes, and their place here.
    pub(super) fn pool(&self, lane: LaneId, routes: &[RouteId]) -> Option<(usize, &Found)> {
        let mut pools = self.pools.iter().enumerate();
        let pool = pools.find(|(_, pool)| pool.0 == lane && *pool.1 == *routes);
        pool.map(|(index, (.., found))| (index, found))
    }

    /// Adds what was loaded, and what is now known to be absent.
    pub(super) fn merge(&mut self, mut wants: Wants, mut loaded: Loaded, caches: &mut Caches) {
        self.now = Some(loaded.now);
        self.merge_names(&mut wants, &mut loaded, caches);
        let named = match wants.limits.along {
            true => wants.executions.clone(),
            false => BTreeSet::new(),
        };
        self.merge_points(&mut wants, &mut loaded);
        self.mail.merge(&mut wants.mail, &mut loaded, &self.executions, caches);
        self.streams.merge(&mut wants.streams, &mut loaded, &self.executions, caches);
        let named = named.iter().filter_map(|id| self.ids.get(id).copied().flatten());
        let named: Vec<RowId> = named.collect();
        let (limits, executions) = (&mut self.limits, &self.executions);
        limits.merge(&mut wants.limits, &mut loaded, executions, &named, caches);
        self.merge_lists(wants, loaded, caches);
    }

    fn merge_names(&mut self, wants: &mut Wants, loaded: &mut Loaded, caches: &mut Caches) {
        self.namespace_names.extend(take(&mut wants.namespaces).into_iter().map(absent));
        self.namespaces.extend(take(&mut wants.namespace_ids).into_iter().map(absent));
        for namespace in take(&mut loaded.namespaces) {
            caches.keep_namespace(&namespace);
            self.namespace_names.insert(namespace.name.clone(), Some(namespace.id));
            self.namespaces.insert(namespace.id, Some(namespace));
        }
        self.lane_names.extend(take(&mut wants.lanes).into_iter().map(absent));
        self.lanes.extend(take(&mut wants.lane_ids).into_iter().map(absent));
        for lane in take(&mut loaded.lanes) {
            caches.keep_lane(&lane);
            self.lane_names.insert((lane.namespace, lane.name.clone()), Some(lane.id));
            self.lanes.insert(lane.id, Some(lane));
        }
        for namespace in wants.routes.keys() {
            let added = loaded.routes.remove(namespace).unwrap_or_default();
            self.routes.insert(*namespace, caches.keep_routes(*namespace, added));
        }
        self.drop_outdated_routes(&loaded.executions);
        caches.keep_busy(&loaded.executions);
    }

    fn merge_points(&mut self, wants: &mut Wants, loaded: &mut Loaded) {
        self.new_rows.append(&mut loaded.new_rows);
        self.owned_counts.extend(take(&mut wants.owned_counts).into_iter().map(|lane| (lane, 0)));
        self.owned_counts.append(&mut loaded.owned_counts);
        self.ties.merge(wants, loaded, &self.executions);
        self.ids.extend(take(&mut wants.executions).into_iter().map(absent));
        for execution in take(&mut loaded.executions) {
            self.ids.insert((execution.namespace, execution.id), Some(execution.row));
            self.executions.insert(execution.row, execution);
        }
        let keys = take(&mut loaded.keys).into_iter();
        let keys = keys.map(|key| ((key.namespace, key.key.clone()), key));
        merge(&mut self.keys, take(&mut wants.keys), keys);
        let workers = take(&mut loaded.workers).into_iter();
        let workers = workers.map(|row| ((row.namespace, row.instance.clone()), row));
        merge(&mut self.workers, take(&mut wants.workers), workers);
        // An empty input needs no row.
        let empty = |row| (row, Input::default());
        self.inputs.extend(take(&mut wants.inputs).into_iter().map(empty));
        self.inputs.append(&mut loaded.inputs);
        merge(&mut self.results, take(&mut wants.results), take(&mut loaded.results));
        merge(&mut self.past_leases, take(&mut wants.past_leases), take(&mut loaded.past_leases));
        let requests = take(&mut loaded.requests).into_iter().map(|row| (row.id, row));
        merge(&mut self.requests, take(&mut wants.request_ids), requests);
        for kind in take(&mut wants.chores_of_kind) {
            let found = loaded.chores.iter().find(|chore| chore.kind == kind);
            self.chore_kinds.push((kind, found.map(|chore| chore.id)));
        }
        self.chores.extend(take(&mut loaded.chores).into_iter().map(|chore| (chore.id, chore)));
    }

    fn merge_lists(&mut self, wants: Wants, mut loaded: Loaded, caches: &mut Caches) {
        self.lease_histories.extend(wants.lease_histories.into_iter().map(|row| (row, vec![])));
        self.lease_histories.append(&mut loaded.lease_histories);
        for (claim, rows) in wants.claims.into_iter().zip(loaded.claims) {
            caches.keep_idle(claim.lane, rows.is_empty());
            let found = Found { rows, limit: claim.limit };
            self.pools.retain(|pool| pool.0 != claim.lane || *pool.1 != *claim.routes);
            self.pools.push((claim.lane, claim.routes, found));
        }
        for (worker, limit) in wants.owned {
            let rows = loaded.owned.remove(&worker).unwrap_or_default();
            self.owned.insert(worker, Found { rows, limit });
        }
        if wants.due.is_some() {
            self.due = Some(loaded.due);
        }
        if wants.retired.is_some() {
            self.retired = Some(loaded.retired);
        }
        if wants.lapsed_workers.is_some() {
            self.lapsed_workers = Some(loaded.lapsed_workers);
        }
        if wants.due_chores.is_some() {
            self.due_chores = Some(loaded.due_chores);
        }
        if wants.requests > 0 {
            self.waiting_requests = Some((loaded.waiting_requests, wants.requests));
        }
        if wants.trim_events.is_some() {
            self.trimmed_events = Some(loaded.trimmed_events);
        }
        if wants.trim_keys.is_some() {
            self.trimmed_keys = Some(loaded.trimmed_keys);
        }
        if wants.next_due > 0 {
            let workers = loaded.due_workers.into_iter();
            self.due_moments = Some(DueMoments {
                limit: wants.next_due,
                executions: loaded.due_rows,
                workers: workers.map(|(at, namespace, name)| (at, (namespace, name))).collect(),
                chores: loaded.due_moments_of_chores,
            });
        }
    }

    /// An execution may stand on a route that was added after its namespace's routes were loaded.
    fn drop_outdated_routes(&mut self, executions: &[Execution]) {
        for execution in executions {
            let table = self.routes.get(&execution.namespace);
            if table.is_some_and(|table| table.get(execution.route).is_none()) {
                self.routes.remove(&execution.namespace);
            }
        }
    }
}

pub(super) fn absent<K, V>(key: K) -> (K, Option<V>) {
    (key, None)
}

pub(super) fn merge<K: Ord, V>(
    known: &mut BTreeMap<K, Option<V>>,
    wanted: impl IntoIterator<Item = K>,
    loaded: impl IntoIterator<Item = (K, V)>,
) {
    known.extend(wanted.into_iter().map(absent));
    known.extend(loaded.into_iter().map(|(key, value)| (key, Some(value))));
}
