//! Looking at what surrounds executions: lanes, namespaces, attempts, the store itself.

use serde::{Deserialize, Serialize};

use crate::claim::free_slots;
use crate::command::{Context, Query};
use crate::event::default_page;
use crate::lease::load;
use crate::model::{
    Check, Cursor, Defaults, Epoch, ExecutionId, FairTerms, LaneMode, LeaseEnd, LimitUses,
    NamespaceLimits, PastLease, Result, Settings, State, Status, Timestamp, default_name,
};
use crate::registry;
use crate::store::{Count, Read, StoreInfo};

/// Cuts a page off rows of which one more was read than the page holds, and says where the next
/// page begins, if there is one.
pub(crate) fn cut<T, K>(
    mut rows: Vec<T>,
    limit: usize,
    key: impl FnOnce(&T) -> K,
) -> (Vec<T>, Option<K>) {
    let more = rows.len() > limit;
    rows.truncate(limit);
    let next = rows.last().filter(|_| more).map(key);
    (rows, next)
}

/// Lists the lanes of a namespace by name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ListLanes {
    /// Which namespace.
    #[serde(default = "default_name")]
    pub namespace: String,
    /// From the first one after this name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
    /// How many at most.
    #[serde(default = "default_page")]
    pub limit: usize,
}

/// A lane as a reader sees it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LaneView {
    /// Its name.
    pub lane: String,
    /// What it lets pass.
    pub mode: LaneMode,
    /// How many of its executions may be owned at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_active: Option<u32>,
    /// How many more may be, when there is a maximum.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub free: Option<u64>,
    /// What submissions inherit.
    pub defaults: Defaults,
    /// The budgets and quotas its work is under.
    #[serde(default, skip_serializing_if = "LimitUses::is_empty")]
    pub limits: LimitUses,
    /// How work of different keys takes turns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fairness: Option<FairTerms>,
    /// How many executions may be claimed.
    pub depth: u64,
    /// When the longest waiting of these became claimable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oldest: Option<Timestamp>,
    /// Its executions by state.
    pub counts: Vec<Count>,
}

/// A page of lanes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LanePage {
    /// The lanes.
    pub lanes: Vec<LaneView>,
    /// Read on after this name; absent at the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

impl Query for ListLanes {
    const NAME: &'static str = "list_lanes";
    type Output = LanePage;

    fn run(&self, read: &mut dyn Read, _: &Context) -> Result<LanePage> {
        let mut check = Check::default();
        check.page("limit", self.limit);
        check.finish()?;
        let Some(namespace) = read.namespace(&self.namespace)? else {
            return Ok(LanePage { lanes: vec![], next: None });
        };
        let rows = read.lanes(namespace.id, self.after.as_deref(), self.limit + 1)?;
        let (rows, next) = cut(rows, self.limit, |row| row.name.clone());
        let mut lanes = Vec::with_capacity(rows.len());
        for row in rows {
            let counts = read.counts(namespace.id, Some(row.id))?;
            let claimable = |one: &&Count| {
                !one.held && matches!(one.status, Status::Waiting | Status::Resumable)
            };
            lanes.push(LaneView {
                lane: row.name.clone(),
                mode: row.mode,
                max_active: row.max_active,
                free: row.max_active.map(|_| free_slots(&row) as u64),
                defaults: row.defaults.clone(),
                limits: row.limits.clone(),
                fairness: row.fairness.clone(),
                depth: counts.iter().filter(claimable).map(|one| one.count).sum(),
                oldest: read.oldest_ready(row.id)?,
                counts,
            });
        }
        Ok(LanePage { lanes, next })
    }
}

/// Lists namespaces by name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ListNamespaces {
    /// From the first one after this name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
    /// How many at most.
    #[serde(default = "default_page")]
    pub limit: usize,
}

/// A namespace as a reader sees it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NamespaceView {
    /// Its name.
    pub namespace: String,
    /// What submissions inherit.
    pub defaults: Defaults,
    /// The budgets and quotas its work is under.
    #[serde(default, skip_serializing_if = "NamespaceLimits::is_empty")]
    pub limits: NamespaceLimits,
}

/// A page of namespaces.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NamespacePage {
    /// The namespaces.
    pub namespaces: Vec<NamespaceView>,
    /// Read on after this name; absent at the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

impl Query for ListNamespaces {
    const NAME: &'static str = "list_namespaces";
    type Output = NamespacePage;

    fn run(&self, read: &mut dyn Read, _: &Context) -> Result<NamespacePage> {
        let mut check = Check::default();
        check.page("limit", self.limit);
        check.finish()?;
        let rows = read.namespaces(self.after.as_deref(), self.limit + 1)?;
        let (rows, next) = cut(rows, self.limit, |row| row.name.clone());
        let view = |row: &std::sync::Arc<crate::Namespace>| NamespaceView {
            namespace: row.name.clone(),
            defaults: row.defaults.clone(),
            limits: row.limits.clone(),
        };
        Ok(NamespacePage { namespaces: rows.iter().map(view).collect(), next })
    }
}

/// Lists an execution's attempts, the first first, one item for each lease an attempt was worked
/// on under.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ListAttempts {
    /// Where the execution belongs.
    #[serde(default = "default_name")]
    pub namespace: String,
    /// Which execution.
    pub execution: ExecutionId,
    /// From the first one with a higher fence.
    #[serde(default)]
    pub after: Epoch,
    /// How many at most.
    #[serde(default = "default_page")]
    pub limit: usize,
}

/// An attempt under one lease. An attempt that slept has several.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AttemptView {
    /// 1, 2, 3 …
    pub attempt: u32,
    /// The run it belongs to.
    pub run: u32,
    /// The fence of the lease.
    pub epoch: Epoch,
    /// Who held it.
    pub worker: String,
    /// When the lease began.
    pub claimed_at: Timestamp,
    /// When it ended; absent while it is held.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Timestamp>,
    /// How it ended; absent while it is held.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<LeaseEnd>,
}

impl From<PastLease> for AttemptView {
    fn from(past: PastLease) -> Self {
        Self {
            attempt: past.attempt,
            run: past.run,
            epoch: past.epoch,
            worker: past.worker,
            claimed_at: past.claimed_at,
            ended_at: Some(past.ended_at),
            end: Some(past.end),
        }
    }
}

/// A page of attempts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AttemptPage {
    /// The attempts.
    pub attempts: Vec<AttemptView>,
    /// Read on after this fence; absent at the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<Epoch>,
}

impl Query for ListAttempts {
    const NAME: &'static str = "list_attempts";
    type Output = AttemptPage;

    fn run(&self, read: &mut dyn Read, _: &Context) -> Result<AttemptPage> {
        let mut check = Check::default();
        check.page("limit", self.limit);
        check.finish()?;
        let execution = load(read, &self.namespace, self.execution)?;
        let past = read.past_leases(execution.row, self.after, self.limit + 1)?;
        let mut attempts: Vec<AttemptView> = past.into_iter().map(Into::into).collect();
        if let State::Active(lease) = &execution.state
            && execution.epoch > self.after
        {
            attempts.push(AttemptView {
                attempt: execution.attempt,
                run: execution.run,
                epoch: execution.epoch,
                worker: lease.worker.clone(),
                claimed_at: execution.since,
                ended_at: None,
                end: None,
            });
        }
        let (attempts, next) = cut(attempts, self.limit, |attempt| attempt.epoch);
        Ok(AttemptPage { attempts, next })
    }
}

/// Asks what the engine is and can.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GetAbout {}

/// What the rules can say about an engine; the engine adds its store.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct About {
    /// The version of Everloom.
    pub version: String,
    /// The store, as far as the asker could tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub store: Option<StoreInfo>,
    /// The store's time.
    pub now: Timestamp,
    /// The limits and other settings in force.
    pub settings: Settings,
    /// The oldest and newest event.
    pub events: (Cursor, Cursor),
    /// Every command there is.
    pub commands: Vec<String>,
    /// Every query there is.
    pub queries: Vec<String>,
}

impl Query for GetAbout {
    const NAME: &'static str = "about";
    type Output = About;

    fn run(&self, read: &mut dyn Read, cx: &Context) -> Result<About> {
        let span = read.event_span()?;
        let owned = |names: &[&str]| names.iter().map(ToString::to_string).collect();
        Ok(About {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            store: None,
            now: cx.now,
            settings: cx.settings.clone(),
            events: (span.first, span.last),
            commands: owned(registry::COMMANDS),
            queries: owned(registry::QUERIES),
        })
    }
}
