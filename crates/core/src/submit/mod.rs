//! Submitting work: all of a batch or nothing, landing directly in its state.

mod new_execution;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::command::{Command, Context};
use crate::event::{EventKind, log};
use crate::lane;
use crate::limit::{check_named, named, rank};
use crate::misses::Misses;
use crate::model::{
    Beside, Blocked, Check, Code, Epoch, Error, Execution, ExecutionId, FlowTerms, Key, KeyOf,
    Lane, LaneMode, Limits, Member, Namespace, NamespaceId, Policy, Ready, Result, RouteId, RowId,
    State, Status, Timestamp, default_name,
};
use crate::namespace;
use crate::store::{Read, Tx};
use new_execution::sorted;

pub use new_execution::NewExecution;

/// Submits executions, all of them or none.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Submit {
    /// Where they belong; created by use.
    #[serde(default = "default_name")]
    pub namespace: String,
    /// What to submit, 1 to 1000.
    pub executions: Vec<NewExecution>,
}

/// What became of a batch, in its order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Submitted {
    /// One answer for each execution submitted.
    pub executions: Vec<Submission>,
}

/// What became of one submission.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum Submission {
    /// It is there now.
    Created {
        /// Its id.
        id: ExecutionId,
        /// The state it landed in.
        status: Status,
    },
    /// The same was submitted before.
    Duplicate {
        /// The id of the first.
        id: ExecutionId,
        /// What that one is doing; absent when it was removed already.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        status: Option<Status>,
    },
}

impl Submission {
    /// The execution that stands for the submission.
    pub fn id(&self) -> ExecutionId {
        match self {
            Self::Created { id, .. } | Self::Duplicate { id, .. } => *id,
        }
    }

    /// Whether it was submitted before.
    pub fn is_duplicate(&self) -> bool {
        matches!(self, Self::Duplicate { .. })
    }
}

impl Command for Submit {
    const NAME: &'static str = "submit";
    type Output = Submitted;

    fn apply(&self, tx: &mut dyn Tx, cx: &Context) -> Result<Submitted> {
        self.enter(tx, cx, None)
    }
}

/// What is to be done about one item, decided before anything is written.
enum Plan {
    Create { fingerprint: Option<[u8; 16]> },
    Duplicate { id: ExecutionId, status: Option<Status> },
    SameAs(usize),
}

impl Submit {
    /// The rule. An id that was `promised` is the one the execution gets if it is created and asks
    /// for none itself.
    pub(crate) fn enter(
        &self,
        tx: &mut dyn Tx,
        cx: &Context,
        promised: Option<ExecutionId>,
    ) -> Result<Submitted> {
        self.check(cx.limits())?;
        let plans = self.plan(tx, cx)?;
        if let (Some(id), [Plan::Create { .. }]) = (promised, &plans[..]) {
            self.check_promised(tx, id)?;
        }
        let namespace = namespace::used(tx, &self.namespace)?;
        let mut executions: Vec<Submission> = Vec::with_capacity(plans.len());
        for (item, plan) in self.executions.iter().zip(plans) {
            executions.push(match plan {
                Plan::Create { fingerprint } => {
                    create(tx, cx, &namespace, item, fingerprint, promised)?
                }
                Plan::Duplicate { id, status } => Submission::Duplicate { id, status },
                Plan::SameAs(earlier) => match executions[earlier] {
                    Submission::Created { id, status } => {
                        Submission::Duplicate { id, status: Some(status) }
                    }
                    duplicate => duplicate,
                },
            });
        }
        Ok(Submitted { executions })
    }

    /// An id is promised once, so that only someone who chose it himself can have taken it.
    fn check_promised(&self, read: &mut dyn Read, id: ExecutionId) -> Result<()> {
        let Some(namespace) = read.namespace(&self.namespace)? else { return Ok(()) };
        match read.find(namespace.id, &[id])?.pop().flatten() {
            None => Ok(()),
            Some(_) => Err(Error::new(
                Code::IdempotencyConflict,
                format!("the promised id `{id}` belongs to another execution; ask again"),
            )),
        }
    }

    fn check(&self, limits: &Limits) -> Result<()> {
        let mut check = Check::default();
        check.name("namespace", &self.namespace);
        check.batch("executions", self.executions.len());
        let bytes = self.executions.iter().map(|item| item.input.bytes.len()).sum();
        check.bytes("executions", bytes, limits.batch_bytes);
        for (index, item) in self.executions.iter().enumerate().take(Limits::BATCH) {
            check.item("executions", index);
            item.check(&mut check, limits);
        }
        check.finish()
    }

    fn plan(&self, read: &mut dyn Read, cx: &Context) -> Result<Vec<Plan>> {
        let namespace = read.namespace(&self.namespace)?;
        let mut first = FirstUses::default();
        let mut refusals = Refusals::of("executions");
        let mut plans = Vec::with_capacity(self.executions.len());
        for (index, item) in self.executions.iter().enumerate() {
            let named = item.key.is_some() || item.id.is_some();
            let fingerprint = named.then(|| item.fingerprint());
            let plan = match fingerprint {
                None => Ok(Plan::Create { fingerprint: None }),
                Some(fingerprint) => match first.find(item, &fingerprint, index) {
                    Some(found) => found,
                    None => known(read, cx, namespace.as_deref(), item, fingerprint),
                },
            };
            match plan {
                Ok(Plan::Create { fingerprint }) => {
                    if let Err(error) = may_enter(read, cx, namespace.as_deref(), item) {
                        refusals.add(index, error)?;
                    }
                    plans.push(Plan::Create { fingerprint });
                }
                Ok(plan) => plans.push(plan),
                Err(error) => refusals.add(index, error)?,
            }
        }
        refusals.finish()?;
        let created = self.executions.iter().zip(&plans);
        let created = created.filter(|(_, plan)| matches!(plan, Plan::Create { .. }));
        let created: Vec<_> = created.map(|(item, _)| item).collect();
        check_routes(read, namespace.as_deref(), &created, "executions")?;
        Ok(plans)
    }
}

/// Counts the routes that would be new, so that a refusal comes before the first write.
pub(crate) fn check_routes(
    read: &mut dyn Read,
    namespace: Option<&Namespace>,
    items: &[&NewExecution],
    field: &str,
) -> Result<()> {
    let table = match namespace {
        Some(namespace) => Some(read.routes(namespace.id)?),
        None => None,
    };
    let known = table.as_ref().map_or(0, |table| table.routes().len());
    if known + items.len() <= Limits::ROUTES {
        return Ok(());
    }
    let mut added = BTreeSet::new();
    for item in items {
        let capabilities = sorted(&item.capabilities);
        let exists = |kind: &str| {
            table.as_ref().is_some_and(|table| table.find(kind, &capabilities).is_some())
        };
        if !exists(&item.kind) {
            added.insert((&item.kind, capabilities));
        }
    }
    if known + added.len() <= Limits::ROUTES {
        return Ok(());
    }
    Err(Error::invalid(
        field,
        format!(
            "a namespace has at most {} pairs of kind and capabilities, with these it would have {}; \
             use fewer kinds and put what varies into the input",
            Limits::ROUTES,
            known + added.len()
        ),
    ))
}

/// Where in the batch each key and id was first used.
#[derive(Default)]
struct FirstUses<'a> {
    keys: HashMap<&'a str, (usize, [u8; 16])>,
    ids: HashMap<ExecutionId, (usize, [u8; 16])>,
}

impl<'a> FirstUses<'a> {
    fn find(
        &mut self,
        item: &'a NewExecution,
        fingerprint: &[u8; 16],
        index: usize,
    ) -> Option<Result<Plan>> {
        let by_key = item.key.as_deref().and_then(|key| self.keys.get(key));
        let by_id = item.id.and_then(|id| self.ids.get(&id));
        if let Some((earlier, used_for)) = by_key.or(by_id) {
            return Some(match used_for == fingerprint {
                true => Ok(Plan::SameAs(*earlier)),
                false => Err(conflict(item)),
            });
        }
        if let Some(key) = &item.key {
            self.keys.insert(key, (index, *fingerprint));
        }
        if let Some(id) = item.id {
            self.ids.insert(id, (index, *fingerprint));
        }
        None
    }
}

/// What the store knows of an item's key or id.
fn known(
    read: &mut dyn Read,
    cx: &Context,
    namespace: Option<&Namespace>,
    item: &NewExecution,
    fingerprint: [u8; 16],
) -> Result<Plan> {
    let new = Plan::Create { fingerprint: Some(fingerprint) };
    let Some(namespace) = namespace else {
        return Ok(new);
    };
    if let Some(key) = &item.key {
        let held = read.keys(namespace.id, &[key])?.pop().flatten();
        if let Some(held) = held_by(read, cx, namespace.id, held.as_ref())? {
            return match (held.of, held.fingerprint == fingerprint) {
                (KeyOf::Execution(id), true) => Ok(Plan::Duplicate { id, status: held.status }),
                _ => Err(conflict(item)),
            };
        }
    }
    if let Some(id) = item.id
        && let Some(existing) = read.find(namespace.id, &[id])?.pop().flatten()
    {
        return match read.fingerprint(existing.row)? == Some(fingerprint) {
            true => Ok(Plan::Duplicate { id, status: Some(existing.status()) }),
            false => Err(conflict(item)),
        };
    }
    Ok(new)
}

/// A key whose window is open.
pub(crate) struct HeldKey {
    pub(crate) of: KeyOf,
    pub(crate) fingerprint: [u8; 16],
    /// What its execution is doing, unless that was removed or the key is a flow's.
    status: Option<Status>,
}

/// The key, as long as its window is open.
pub(crate) fn held_by(
    read: &mut dyn Read,
    cx: &Context,
    namespace: NamespaceId,
    key: Option<&Key>,
) -> Result<Option<HeldKey>> {
    let Some(&Key { of, fingerprint, expires_at, .. }) = key else { return Ok(None) };
    let held = |status| HeldKey { of, fingerprint, status };
    if let Some(expires_at) = expires_at {
        return Ok((cx.now < expires_at).then(|| held(None)));
    }
    let (status, ended) = match of {
        KeyOf::Execution(id) => match read.find(namespace, &[id])?.pop().flatten() {
            Some(execution) => {
                let ended = execution.status().is_terminal();
                let window = execution.since + execution.policy.key_window();
                (Some(execution.status()), ended.then_some(window))
            }
            None => return Ok(None),
        },
        KeyOf::Flow(id) => match read.flow(namespace, id)? {
            Some(flow) => {
                let ended = flow.status().is_terminal();
                (None, ended.then(|| flow.since + flow.terms.policy.key_window()))
            }
            None => return Ok(None),
        },
        KeyOf::Spend => return Ok(None),
    };
    Ok(ended.is_none_or(|over_at| cx.now < over_at).then(|| held(status)))
}

fn conflict(item: &NewExecution) -> Error {
    match (&item.key, item.id) {
        (Some(key), _) => used_otherwise("key", key),
        (None, Some(id)) => used_otherwise("id", &id.to_string()),
        (None, None) => used_otherwise("request", &item.kind),
    }
}

/// The refusal of a key or id that stands for another request.
pub(crate) fn used_otherwise(what: &str, name: &str) -> Error {
    Error::new(
        Code::IdempotencyConflict,
        format!("{what} `{name}` was used for another request; send that one again or choose another {what}"),
    )
    .with_field(what)
}

/// Refusals of several items, told together.
pub(crate) struct Refusals {
    list: &'static str,
    part: &'static str,
    refused: Vec<(usize, Error)>,
    misses: Misses,
}

impl Refusals {
    pub(crate) fn of(list: &'static str) -> Self {
        Self { list, part: "", refused: vec![], misses: Misses::default() }
    }

    /// The same for a part of each item.
    pub(crate) fn within(self, part: &'static str) -> Self {
        Self { part, ..self }
    }

    pub(crate) fn add(&mut self, index: usize, error: Error) -> Result<()> {
        match error.code() {
            Code::IdempotencyConflict | Code::WrongState | Code::InvalidInput | Code::NotFound => {
                self.refused.push((index, error));
                Ok(())
            }
            _ => self.misses.pass(Err::<(), _>(error)).map(drop),
        }
    }

    pub(crate) fn finish(self) -> Result<()> {
        self.misses.finish()?;
        let Some((index, first)) = self.refused.first() else {
            return Ok(());
        };
        let place =
            |index: usize, field: &str| format!("{}[{index}].{}{field}", self.list, self.part);
        let field = place(*index, first.field().unwrap_or("key"));
        let more = match self.refused.len() - 1 {
            0 => String::new(),
            n => format!(" (and {n} more)"),
        };
        let all: Vec<_> = (self.refused.iter())
            .map(|(index, error)| {
                serde_json::json!({
                    "field": place(*index, error.field().unwrap_or("key")),
                    "code": error.code(),
                    "message": error.message(),
                })
            })
            .collect();
        Err(Error::new(first.code(), format!("{field}: {}{more}", first.message()))
            .with_field(field)
            .with_details(serde_json::json!({ "violations": all })))
    }
}

/// Whether new work may be added as asked, at this time and into that lane.
pub(crate) fn may_enter(
    read: &mut dyn Read,
    cx: &Context,
    namespace: Option<&Namespace>,
    item: &NewExecution,
) -> Result<()> {
    if item.deadline_at.is_some_and(|at| at <= cx.now) {
        return Err(Error::invalid(
            "deadline_at",
            "is in the past; leave it out or set a later one",
        )
        .with_field("deadline_at"));
    }
    check_named(read, namespace, &item.policy, "policy.")?;
    let Some(namespace) = namespace else {
        return Ok(());
    };
    check_named(read, Some(namespace), &namespace.defaults.policy, "policy.")?;
    let lane = read.lane(namespace.id, lane_name(item))?;
    if let Some(lane) = &lane {
        check_named(read, Some(namespace), &lane.defaults.policy, "policy.")?;
    }
    match lane {
        Some(lane) if lane.mode == LaneMode::Draining => Err(Error::new(
            Code::WrongState,
            format!(
                "lane `{}` is draining and takes no new work; resume it or choose another",
                lane.name
            ),
        )
        .with_field("lane")),
        _ => Ok(()),
    }
}

fn lane_name(item: &NewExecution) -> &str {
    item.lane.as_deref().unwrap_or(crate::DEFAULT_NAME)
}

/// Where in a flow new work belongs, and what it inherits from there.
#[derive(Default)]
pub(crate) struct Place {
    pub(crate) member: Option<Arc<Member>>,
    pub(crate) parent: Option<RowId>,
    pub(crate) terms: Option<Arc<FlowTerms>>,
    pub(crate) gated: bool,
    /// Whether it has something to wait for.
    pub(crate) blocked: bool,
}

fn create(
    tx: &mut dyn Tx,
    cx: &Context,
    namespace: &Namespace,
    item: &NewExecution,
    fingerprint: Option<[u8; 16]>,
    promised: Option<ExecutionId>,
) -> Result<Submission> {
    let id = item.id.or(promised).unwrap_or_else(|| cx.execution_id());
    let by_id = fingerprint.filter(|_| item.id.is_some());
    let execution = insert(tx, cx, namespace, item, id, by_id, Place::default())?;
    if let (Some(key), Some(fingerprint)) = (&item.key, fingerprint) {
        tx.put_key(&Key {
            namespace: namespace.id,
            key: key.clone(),
            of: KeyOf::Execution(execution.id),
            fingerprint,
            expires_at: None,
        })?;
    }
    Ok(Submission::Created { id: execution.id, status: execution.status() })
}

/// Inserts an execution in the state it begins in.
pub(crate) fn insert(
    tx: &mut dyn Tx,
    cx: &Context,
    namespace: &Namespace,
    item: &NewExecution,
    id: ExecutionId,
    fingerprint: Option<[u8; 16]>,
    place: Place,
) -> Result<Execution> {
    let lane = lane::used(tx, namespace.id, lane_name(item))?;
    let route = route(tx, namespace.id, item)?;
    let terms = place.terms.as_deref();
    let policy = resolve_policy(item, terms, &lane, namespace, cx.now);
    let inherited = (terms.and_then(|terms| terms.priority))
        .or(lane.defaults.priority)
        .or(namespace.defaults.priority);
    let beginning = Blocked { then: Ready::Waiting, delay: item.delay, start_at: item.start_at };
    let row = tx.new_row()?;
    let priority = item.priority.or(inherited).unwrap_or(Limits::DEFAULT_PRIORITY);
    let execution = Execution {
        row,
        id,
        namespace: namespace.id,
        lane: lane.id,
        route,
        priority,
        rank: rank(tx, &lane, priority, &policy, &item.tags, row)?,
        state: match place.blocked {
            true => State::WaitingChildren(beginning),
            false => beginning.release(cx.now),
        },
        since: cx.now,
        held: item.hold,
        gated: place.gated,
        deadline_at: policy.deadline.map(|allowed| cx.now + allowed),
        created_at: cx.now,
        started_at: None,
        epoch: Epoch(0),
        attempt: 0,
        retries: 0,
        reclaims: 0,
        run: 1,
        beside: Beside { limits: policy.names_limits(), ..Beside::default() },
        policy,
        tags: Arc::new(item.tags.clone()),
        created_by: item.created_by.clone(),
        progress: None,
        key: item.key.clone(),
        member: place.member,
        parent: place.parent,
    };
    tx.insert(&execution, &item.input, fingerprint.as_ref())?;
    if execution.beside.limits {
        named(tx, &execution)?;
    }
    log(tx, cx, &execution, EventKind::Submitted, None, None)?;
    Ok(execution)
}

fn route(tx: &mut dyn Tx, namespace: NamespaceId, item: &NewExecution) -> Result<RouteId> {
    let capabilities = sorted(&item.capabilities);
    match tx.routes(namespace)?.find(&item.kind, &capabilities) {
        Some(route) => Ok(route),
        None => tx.add_route(namespace, &item.kind, &capabilities),
    }
}

/// The policy to freeze. A deadline becomes the time allowed, which a replay has again.
fn resolve_policy(
    item: &NewExecution,
    terms: Option<&FlowTerms>,
    lane: &Lane,
    namespace: &Namespace,
    now: Timestamp,
) -> Arc<Policy> {
    let mut policy = item.policy.clone();
    if let Some(deadline_at) = item.deadline_at {
        policy.deadline = Some(deadline_at.since(now));
    }
    if let Some(terms) = terms {
        policy.fill(&terms.policy);
    }
    policy.fill(&lane.defaults.policy);
    policy.fill(&namespace.defaults.policy);
    Arc::new(policy)
}
