use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    Defaults, EndReason, Epoch, Error, ExecutionId, FairTerms, FlowId, LaneId, LeaseLost,
    LimitUses, NamespaceId, NamespaceLimits, Result, RouteId, RowId, Secret, Timestamp,
};
use crate::retry::{Failure, FailureClass};

/// A namespace: the boundary no rule reads across.
#[derive(Clone, Debug, PartialEq)]
pub struct Namespace {
    /// Its row.
    pub id: NamespaceId,
    /// Its name.
    pub name: String,
    /// What submissions inherit.
    pub defaults: Defaults,
    /// The budgets and quotas its work is under.
    pub limits: NamespaceLimits,
}

/// A lane: a queue within a namespace.
#[derive(Clone, Debug, PartialEq)]
pub struct Lane {
    /// Its row.
    pub id: LaneId,
    /// Where it belongs.
    pub namespace: NamespaceId,
    /// Its name.
    pub name: String,
    /// What it lets pass.
    pub mode: LaneMode,
    /// How many of its executions may be active at once.
    pub max_active: Option<u32>,
    /// How many are. Kept only while there is a maximum, else 0: a counter that every command
    /// updates would serialise all processes.
    pub active: u32,
    /// What submissions inherit.
    pub defaults: Defaults,
    /// The budgets and quotas its work is under.
    pub limits: LimitUses,
    /// How keys take turns; when absent, what was submitted first goes first.
    pub fairness: Option<FairTerms>,
    /// The rank at which keys began to take turns, if they do or ever did.
    pub course: Option<i64>,
}

impl Lane {
    /// A new lane.
    pub fn new(id: LaneId, namespace: NamespaceId, name: &str) -> Self {
        Self {
            id,
            namespace,
            name: name.to_owned(),
            mode: LaneMode::default(),
            max_active: None,
            active: 0,
            defaults: Defaults::default(),
            limits: LimitUses::default(),
            fairness: None,
            course: None,
        }
    }
}

/// What a lane lets pass.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LaneMode {
    /// Submissions and claims.
    #[default]
    Open,
    /// Submissions only.
    Paused,
    /// Claims only.
    Draining,
}

/// An interned pair of kind and required capabilities.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// Its row.
    pub id: RouteId,
    /// The handler's name.
    pub kind: String,
    /// What a worker must have, sorted.
    pub capabilities: Vec<String>,
}

impl Route {
    /// Whether a worker with these handlers and capabilities gets such work. No kinds means all.
    pub fn served_by(&self, kinds: &[String], capabilities: &[String]) -> bool {
        (kinds.is_empty() || kinds.contains(&self.kind))
            && self.capabilities.iter().all(|needed| capabilities.contains(needed))
    }
}

/// All routes of a namespace, and for each kind of worker seen the ones it serves.
///
/// A store makes a new table whenever a route is added or taken back, so the memory of what is
/// served never outlives the routes it was computed from.
#[derive(Debug, Default)]
pub struct RouteTable {
    routes: Vec<Arc<Route>>,
    by_kind: HashMap<String, Vec<usize>>,
    served: Mutex<HashMap<Profile, Arc<[RouteId]>>>,
}

/// Kinds and capabilities of a worker.
type Profile = (Vec<String>, Vec<String>);

impl RouteTable {
    /// How many kinds of worker are remembered before starting over.
    const PROFILES: usize = 1024;

    /// A table of these routes, which are in the order of their ids.
    pub fn new(routes: Vec<Arc<Route>>) -> Self {
        let mut by_kind = HashMap::<String, Vec<usize>>::new();
        for (index, route) in routes.iter().enumerate() {
            by_kind.entry(route.kind.clone()).or_default().push(index);
        }
        Self { routes, by_kind, served: Mutex::default() }
    }

    /// The routes, in the order they were interned.
    pub fn routes(&self) -> &[Arc<Route>] {
        &self.routes
    }

    /// The route with this row.
    pub fn get(&self, id: RouteId) -> Option<&Arc<Route>> {
        let index = self.routes.binary_search_by_key(&id, |route| route.id).ok()?;
        self.routes.get(index)
    }

    /// The route of this kind and these sorted capabilities.
    pub fn find(&self, kind: &str, capabilities: &[String]) -> Option<RouteId> {
        let of_kind = self.by_kind.get(kind)?.iter().map(|index| &self.routes[*index]);
        of_kind.into_iter().find(|route| route.capabilities == capabilities).map(|route| route.id)
    }

    /// The routes of a kind.
    pub fn of_kind(&self, kind: &str) -> Vec<RouteId> {
        let indexes = self.by_kind.get(kind).map_or(&[][..], Vec::as_slice);
        indexes.iter().map(|index| self.routes[*index].id).collect()
    }

    /// The routes a worker serves, in ascending order.
    pub fn served(&self, kinds: &[String], capabilities: &[String]) -> Arc<[RouteId]> {
        let profile = (kinds.to_vec(), capabilities.to_vec());
        let mut memory = self.served.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = memory.get(&profile) {
            return Arc::clone(known);
        }
        let served: Arc<[RouteId]> = self
            .routes
            .iter()
            .filter(|route| route.served_by(kinds, capabilities))
            .map(|route| route.id)
            .collect();
        if memory.len() >= Self::PROFILES {
            memory.clear();
        }
        memory.insert(profile, Arc::clone(&served));
        served
    }
}

/// An idempotency key and the submission it stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key {
    /// Where it belongs.
    pub namespace: NamespaceId,
    /// The key.
    pub key: String,
    /// What was submitted under it.
    pub of: KeyOf,
    /// What was asked for.
    pub fingerprint: [u8; 16],
    /// Set when the execution is removed before its window is over: from then on the key stands
    /// alone. Until then the execution's own end decides.
    pub expires_at: Option<Timestamp>,
}

/// What an idempotency key stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyOf {
    /// An execution.
    Execution(ExecutionId),
    /// A flow.
    Flow(FlowId),
    /// What was spent of a budget.
    Spend,
}

/// A lease that has ended; what a late call of its holder is judged by.
#[derive(Clone, Debug, PartialEq)]
pub struct PastLease {
    /// The execution's row.
    pub execution: RowId,
    /// The fence it was given.
    pub epoch: Epoch,
    /// The attempt it belonged to.
    pub attempt: u32,
    /// The run it belonged to.
    pub run: u32,
    /// Who held it.
    pub worker: String,
    /// What its holder knew.
    pub secret: Secret,
    /// When it began.
    pub claimed_at: Timestamp,
    /// When it ended.
    pub ended_at: Timestamp,
    /// How it ended.
    pub end: LeaseEnd,
}

/// How a lease ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "end", rename_all = "snake_case")]
pub enum LeaseEnd {
    /// Its holder delivered the result.
    Completed,
    /// Its holder reported a failure.
    Failed {
        /// What it reported.
        failure: Failure,
        /// When the work is tried again; never if absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        retry_at: Option<Timestamp>,
        /// Why it is not tried again.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<EndReason>,
    },
    /// The attempt took too long.
    TimedOut {
        /// When the work is tried again; never if absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        retry_at: Option<Timestamp>,
    },
    /// Its holder gave the work back.
    Released {
        /// Why.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// Its holder asked to continue later.
    Delayed {
        /// When.
        until: Timestamp,
    },
    /// Its holder waits for its children.
    WaitedForChildren,
    /// Its holder waits for signals.
    Suspended {
        /// In which of the execution's suspensions.
        suspension: u32,
    },
    /// It was not renewed in time.
    Expired,
    /// An operator took it away.
    Revoked {
        /// Why.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
        /// Who.
        by: String,
    },
    /// A budget was used up, and its holder did not stop in time.
    Paused {
        /// Which budget.
        budget: String,
    },
    /// The execution was cancelled.
    Cancelled {
        /// Whether its holder stopped the work itself.
        acknowledged: bool,
    },
    /// The execution's deadline passed.
    DeadlinePassed,
    /// Its holder registered again or was marked dead.
    WorkerGone,
}

impl LeaseEnd {
    /// Reads the JSON text a store saved. A class of failure that a later version wrote counts as
    /// transient.
    pub fn from_stored(text: &str) -> Result<Self> {
        let lenient = || {
            let mut value: Value = serde_json::from_str(text)?;
            if let Some(class) = value.pointer_mut("/failure/class") {
                *class = serde_json::to_value(FailureClass::Transient)?;
            }
            serde_json::from_value(value)
        };
        serde_json::from_str(text).or_else(|_| lenient()).map_err(|error: serde_json::Error| {
            Error::bug(format!("a stored end of a lease can not be read: {error}"))
        })
    }

    /// What a holder that calls after the end is told.
    pub fn why_lost(&self) -> LeaseLost {
        match self {
            Self::Completed
            | Self::Failed { .. }
            | Self::Released { .. }
            | Self::Delayed { .. }
            | Self::WaitedForChildren
            | Self::Suspended { .. } => LeaseLost::Finished,
            Self::TimedOut { .. } | Self::Expired | Self::DeadlinePassed => LeaseLost::Expired,
            Self::Revoked { .. } | Self::Paused { .. } => LeaseLost::Revoked,
            Self::Cancelled { .. } => LeaseLost::Cancelled,
            Self::WorkerGone => LeaseLost::Superseded,
        }
    }
}

/// A registered worker process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerRow {
    /// Where it belongs.
    pub namespace: NamespaceId,
    /// The process: what claims name as their worker.
    pub instance: String,
    /// The pool it belongs to.
    pub name: String,
    /// The lanes it claims from.
    pub lanes: Vec<String>,
    /// The kinds it handles; none means all.
    pub kinds: Vec<String>,
    /// What it has.
    pub capabilities: Vec<String>,
    /// How long a sign of life lasts.
    pub ttl: Duration,
    /// When it first registered.
    pub registered_at: Timestamp,
    /// Its last sign of life.
    pub seen_at: Timestamp,
}

impl WorkerRow {
    /// When it counts as dead unless it is heard of again.
    pub fn due_at(&self) -> Timestamp {
        self.seen_at + self.ttl
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn route(id: i64, kind: &str, capabilities: &[&str]) -> Arc<Route> {
        let capabilities = capabilities.iter().map(ToString::to_string).collect();
        Arc::new(Route { id: RouteId(id), kind: kind.into(), capabilities })
    }

    #[test]
    fn a_class_of_failure_from_a_later_version_reads_as_transient() {
        let stored = r#"{"end":"failed","failure":{"class":"cosmic_ray","message":"zap"}}"#;
        let end = LeaseEnd::from_stored(stored).unwrap();
        let failure = Failure::transient("zap");
        assert_eq!(end, LeaseEnd::Failed { failure, retry_at: None, reason: None });
        assert!(LeaseEnd::from_stored("{}").is_err());
    }

    #[test]
    fn a_worker_serves_its_kinds_as_far_as_its_capabilities_reach() {
        let table = RouteTable::new(vec![
            route(1, "mail", &[]),
            route(2, "render", &["gpu"]),
            route(3, "render", &["gpu", "eu"]),
        ]);
        let has = |names: &[&str]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
        let served = |kinds: &[&str], capabilities: &[&str]| {
            table.served(&has(kinds), &has(capabilities)).iter().map(|id| id.0).collect::<Vec<_>>()
        };
        assert_eq!(served(&[], &[]), [1]);
        assert_eq!(served(&["render"], &["gpu"]), [2]);
        assert_eq!(served(&["render"], &["eu", "gpu"]), [2, 3]);
        assert_eq!(served(&["other"], &["gpu"]), [0; 0]);
    }
}
