use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use everloom_core::{
    Execution, Lane, LaneId, Limit, LimitRow, Namespace, NamespaceId, Route, RouteId, RouteTable,
    SigningKey, State, Timestamp,
};

use crate::exchange::{Changes, LimitName, StreamWants};

/// What is remembered from transaction to transaction.
///
/// Routes are only ever added, so the known ones stay true. Namespaces, lanes, limits and signing keys
/// are as they were when last seen; others may have changed them, so they only serve as guesses.
#[derive(Default)]
pub(crate) struct Caches {
    pub(super) last_now: Timestamp,
    namespaces: HashMap<NamespaceId, Arc<Namespace>>,
    namespace_names: HashMap<String, NamespaceId>,
    lanes: HashMap<LaneId, Arc<Lane>>,
    lane_names: HashMap<NamespaceId, HashMap<String, LaneId>>,
    routes: BTreeMap<NamespaceId, Arc<RouteTable>>,
    signing_keys: HashMap<NamespaceId, Vec<SigningKey>>,
    limits: HashMap<LimitRow, Arc<Limit>>,
    limit_names: HashMap<LimitName, LimitRow>,
    /// Lanes of the executions that were loaded last, the latest at the end.
    busy: Vec<LaneId>,
    /// Lanes in which a claim has found nothing the last time.
    idle: HashSet<LaneId>,
    /// For how many more loads executions are likely to be members of flows.
    members: u32,
    /// For how many more loads executions are likely to have mail.
    mail: u32,
    /// For how many more loads executions are likely to have streams.
    streams: u32,
    /// For how many more loads streams are likely to be trimmed, by sort, and by how many frames.
    spare: BTreeMap<bool, (u32, u64)>,
    /// For how many more loads summaries are likely to be changed.
    summaries: u32,
    /// For how many more loads executions are likely to be under limits.
    limited: u32,
    /// For how many more loads gates are likely to be asked who passed them.
    passages: u32,
}

/// How many namespaces or lanes are remembered before starting over.
const NAMES: usize = 10_000;

/// How many lanes are guessed when executions are asked for.
const BUSY: usize = 4;

/// For how many loads without members of flows, mail or streams these are still expected.
const EXPECTED: u32 = 100;

/// How many frames to trim are expected at most.
const SPARE: u64 = 64;

impl Caches {
    /// Starts over when too much is remembered. Not within a transaction, which builds on it.
    pub(super) fn limit(&mut self) {
        let known = self.namespaces.len() + self.lanes.len() + self.routes.len();
        if known.max(self.idle.len()).max(self.limit_names.len()) > NAMES {
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

    /// Where executions of a namespace are likely to be, without lanes that have a maximum: those
    /// are locked for good by whoever asks for them.
    pub(super) fn likely_lanes(&self, namespace: NamespaceId) -> Vec<LaneId> {
        let likely = |lane: &&LaneId| {
            let lane = self.lanes.get(lane);
            lane.is_some_and(|lane| lane.namespace == namespace && lane.max_active.is_none())
        };
        self.busy.iter().filter(likely).copied().collect()
    }

    pub(super) fn keep_busy(&mut self, executions: &[Execution]) {
        for execution in executions {
            if self.busy.last() != Some(&execution.lane) {
                self.busy.retain(|lane| *lane != execution.lane);
                self.busy.push(execution.lane);
            }
        }
        if !executions.is_empty() {
            let expect =
                |seen: bool, left: u32| if seen { EXPECTED } else { left.saturating_sub(1) };
            let has_member = executions.iter().any(|execution| execution.member.is_some());
            let has_mail = executions.iter().any(|execution| execution.beside.mail);
            let has_stream = executions.iter().any(|execution| execution.beside.stream);
            let has_limits = executions.iter().any(is_under_limits);
            self.limited = expect(has_limits, self.limited);
            self.passages = self.passages.saturating_sub(1);
            self.members = expect(has_member, self.members);
            self.mail = expect(has_mail, self.mail);
            self.streams = expect(has_stream, self.streams);
            self.summaries = self.summaries.saturating_sub(1);
            self.spare.retain(|_, (left, _)| {
                *left = left.saturating_sub(1);
                *left > 0
            });
        }
        let surplus = self.busy.len().saturating_sub(BUSY);
        self.busy.drain(..surplus);
    }

    /// Whether executions are likely to be members of flows.
    pub(super) fn expects_members(&self) -> bool {
        self.members > 0
    }

    /// Whether executions are likely to have mail.
    pub(super) fn expects_mail(&self) -> bool {
        self.mail > 0
    }

    /// What of streams is likely to be asked for next.
    pub(super) fn expect_streams(&self, wants: &mut StreamWants) {
        wants.along = self.streams > 0;
        wants.summaries_along = self.summaries > 0;
        wants.oldest_along = self.spare.iter().map(|(live, (_, most))| (*live, *most)).collect();
    }

    pub(super) fn keep_streams(&mut self, wants: &StreamWants) {
        for ((_, live), frames) in &wants.oldest {
            let (left, most) = self.spare.entry(*live).or_default();
            *left = EXPECTED;
            *most = (*most).max(*frames).min(SPARE);
        }
        if !wants.summaries.is_empty() {
            self.summaries = EXPECTED;
        }
    }

    /// Whether executions are likely to be under limits.
    pub(super) fn expects_limits(&self) -> bool {
        self.limited > 0
    }

    /// Whether gates are likely to be asked who passed them.
    pub(super) fn expects_passages(&self) -> bool {
        self.passages > 0
    }

    pub(super) fn keep_passages(&mut self, asked: bool) {
        if asked {
            self.passages = EXPECTED;
        }
    }

    pub(super) fn limit_named(&self, name: &LimitName) -> Option<&Arc<Limit>> {
        self.limit_by_row(*self.limit_names.get(name)?)
    }

    pub(super) fn limit_by_row(&self, row: LimitRow) -> Option<&Arc<Limit>> {
        self.limits.get(&row)
    }

    pub(super) fn keep_limit(&mut self, limit: &Arc<Limit>) {
        self.limit_names.insert((limit.namespace, limit.sort(), limit.name.clone()), limit.row);
        self.limits.insert(limit.row, Arc::clone(limit));
    }

    pub(super) fn drop_limit(&mut self, name: &LimitName) {
        let row = self.limit_names.remove(name);
        row.and_then(|row| self.limits.remove(&row));
    }

    /// Whether a claim is likely to find nothing in a lane.
    pub(super) fn is_idle(&self, lane: LaneId) -> bool {
        self.idle.contains(&lane)
    }

    pub(super) fn keep_idle(&mut self, lane: LaneId, idle: bool) {
        match idle {
            true => self.idle.insert(lane),
            false => self.idle.remove(&lane),
        };
    }

    pub(super) fn routes(&self, namespace: NamespaceId) -> Option<&Arc<RouteTable>> {
        self.routes.get(&namespace)
    }

    /// The highest route known of a namespace: all that were added since have higher ids.
    pub(super) fn last_route(&self, namespace: NamespaceId) -> RouteId {
        let table = self.routes.get(&namespace);
        table.and_then(|table| table.routes().last()).map_or(RouteId(0), |route| route.id)
    }

    pub(super) fn signing_keys(&self, namespace: NamespaceId) -> Option<&[SigningKey]> {
        self.signing_keys.get(&namespace).map(Vec::as_slice)
    }

    pub(super) fn keep_signing_keys(&mut self, namespace: NamespaceId, keys: &[SigningKey]) {
        self.signing_keys.insert(namespace, keys.to_vec());
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
        if !(changes.mail.new_waitpoints.is_empty() && changes.mail.new_signals.is_empty()) {
            self.mail = EXPECTED;
        }
        if !changes.streams.streams.is_empty() {
            self.streams = EXPECTED;
        }
        for limit in &changes.limits.dropped {
            self.drop_limit(&(limit.namespace, limit.sort(), limit.name.clone()));
        }
        for limit in &changes.limits.limits {
            self.keep_limit(limit);
        }
        for (namespace, limits) in &changes.limits.namespaces {
            if let Some(known) = self.namespaces.get_mut(namespace) {
                Arc::make_mut(known).limits.clone_from(limits);
            }
        }
        if !changes.limits.uses.is_empty() {
            self.limited = EXPECTED;
        }
        for key in &changes.mail.signing_keys {
            let keys = self.signing_keys.entry(key.namespace).or_default();
            keys.retain(|known| known.kid != key.kid);
            keys.push(key.clone());
        }
    }

    /// Forgets all rows: some of them have never been committed.
    pub(super) fn forget(&mut self) {
        *self = Self { last_now: self.last_now, ..Self::default() };
    }
}

fn is_under_limits(execution: &Execution) -> bool {
    execution.beside.limits
        || execution.policy.concurrency_key.is_some()
        || matches!(execution.state, State::Limited(_))
}
