//! Putting things under a limit, and taking them out again.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::json;

use super::budget::note;
use super::gate::use_of;
use super::queue::let_go;
use super::{check_uses_exist, find};
use crate::cancel::already_terminal;
use crate::chore::ChoreKind;
use crate::command::{Command, Context};
use crate::event::EventKind;
use crate::flow::{self, Cascade, FlowWork};
use crate::lane;
use crate::lease::load;
use crate::model::{
    Amounts, BudgetUse, Check, Execution, ExecutionId, Flow, FlowId, Lane, Limit, LimitPlace,
    LimitRow, LimitSort, LimitUses, Limits, Namespace, Policy, QuotaUse, Result, RowId, State,
    check_uses, default_name,
};
use crate::namespace::namespace_of;
use crate::store::Tx;

/// Which limit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LimitName {
    /// The budget of that name.
    Budget(String),
    /// The quota of that name.
    Quota(String),
}

impl LimitName {
    fn parts(&self) -> (LimitSort, &str) {
        match self {
            Self::Budget(name) => (LimitSort::Budget, name),
            Self::Quota(name) => (LimitSort::Quota, name),
        }
    }
}

/// What a limit is attached to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AttachTo {
    /// All work of the namespace.
    Namespace,
    /// All work in a lane; created by use.
    Lane(String),
    /// All work of a kind.
    Kind(String),
    /// The members of a flow, also those still to come.
    Flow(FlowId),
    /// One execution.
    Execution(ExecutionId),
}

/// Puts something under a limit, from its next claim on; what is spent counts at once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AttachLimit {
    /// Where both belong.
    #[serde(default = "default_name")]
    pub namespace: String,
    /// Which limit.
    pub limit: LimitName,
    /// What is put under it.
    pub to: AttachTo,
    /// For a budget: what one execution will probably need.
    #[serde(default, skip_serializing_if = "Amounts::is_empty")]
    pub estimate: Amounts,
    /// For a quota: whom it applies to, instead of what a tag says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
}

/// Takes something out from under a limit. What waits for it is looked at anew.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DetachLimit {
    /// Where both belong.
    #[serde(default = "default_name")]
    pub namespace: String,
    /// Which limit.
    pub limit: LimitName,
    /// What is taken out.
    pub from: AttachTo,
}

impl DetachLimit {
    /// Takes something out from under a limit.
    pub fn new(limit: LimitName, from: AttachTo) -> Self {
        Self { namespace: default_name(), limit, from }
    }
}

/// It is as asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum LimitChanged {
    /// It changed.
    Done,
    /// It was so already.
    Already,
}

impl AttachLimit {
    /// Puts something under a budget, of which nothing is put by.
    pub fn budget(budget: impl Into<String>, to: AttachTo) -> Self {
        Self::new(LimitName::Budget(budget.into()), to)
    }

    /// Puts something under a quota.
    pub fn quota(quota: impl Into<String>, to: AttachTo) -> Self {
        Self::new(LimitName::Quota(quota.into()), to)
    }

    fn new(limit: LimitName, to: AttachTo) -> Self {
        Self { namespace: default_name(), limit, to, estimate: Amounts::new(), key: None }
    }

    fn uses(&self) -> LimitUses {
        match &self.limit {
            LimitName::Budget(budget) => {
                let one = BudgetUse { budget: budget.clone(), estimate: self.estimate.clone() };
                LimitUses { budgets: vec![one], quotas: vec![] }
            }
            LimitName::Quota(quota) => {
                let one = QuotaUse { quota: quota.clone(), key: self.key.clone() };
                LimitUses { budgets: vec![], quotas: vec![one] }
            }
        }
    }
}

impl Command for AttachLimit {
    const NAME: &'static str = "attach_limit";
    type Output = LimitChanged;

    fn apply(&self, tx: &mut dyn Tx, cx: &Context) -> Result<LimitChanged> {
        let (sort, name) = self.limit.parts();
        let uses = self.uses();
        let mut check = Check::default();
        check_uses(&mut check, "limit.", &uses.budgets, &uses.quotas);
        check_place(&mut check, "to", &self.to);
        check.that(self.key.is_none() || sort == LimitSort::Quota, "key", || {
            "only a quota has keys".into()
        });
        check.that(self.estimate.is_empty() || sort == LimitSort::Budget, "estimate", || {
            "only of a budget something is put by".into()
        });
        check.finish()?;
        let namespace = namespace_of(tx, &self.namespace, sort.as_str(), name)?;
        let limit = find(tx, namespace.id, sort, name)?;
        check_uses_exist(tx, Some(&namespace), &uses.budgets, &uses.quotas, "")?;
        let change = LimitChange::Add(uses);
        let done = apply(tx, cx, &namespace, &limit, &self.to, &change)?;
        if done == LimitChanged::Done {
            let data = json!({ "limit": self.limit, "to": self.to });
            note(tx, cx, EventKind::LimitAttached, namespace.id, data)?;
        }
        Ok(done)
    }
}

impl Command for DetachLimit {
    const NAME: &'static str = "detach_limit";
    type Output = LimitChanged;

    fn apply(&self, tx: &mut dyn Tx, cx: &Context) -> Result<LimitChanged> {
        let (sort, name) = self.limit.parts();
        let mut check = Check::default();
        check_place(&mut check, "from", &self.from);
        check.finish()?;
        let namespace = namespace_of(tx, &self.namespace, sort.as_str(), name)?;
        let limit = find(tx, namespace.id, sort, name)?;
        let change = LimitChange::Remove(sort, name.to_owned());
        let done = apply(tx, cx, &namespace, &limit, &self.from, &change)?;
        if done == LimitChanged::Done {
            let data = json!({ "limit": self.limit, "from": self.from });
            note(tx, cx, EventKind::LimitDetached, namespace.id, data)?;
            tx.add_chore(&ChoreKind::Reconsider { limit: limit.row, after: None }, cx.now)?;
        }
        Ok(done)
    }
}

fn check_place(check: &mut Check, field: &str, place: &AttachTo) {
    match place {
        AttachTo::Lane(name) | AttachTo::Kind(name) => check.name(field, name),
        AttachTo::Namespace | AttachTo::Flow(_) | AttachTo::Execution(_) => {}
    }
}

/// What changes about the limits something is under.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LimitChange {
    /// These are added, or replace those of the same name.
    Add(LimitUses),
    /// This one is removed.
    Remove(LimitSort, String),
}

impl LimitChange {
    /// Changes some limits; says whether that made a difference.
    fn make(&self, uses: &mut LimitUses) -> bool {
        let before = uses.clone();
        match self {
            Self::Add(added) => {
                let mut all = added.clone();
                all.add(uses);
                if !before.contains(added) {
                    *uses = all;
                }
            }
            Self::Remove(sort, name) => {
                uses.remove(*sort, name);
            }
        }
        *uses != before
    }

    fn make_to_policy(&self, policy: &mut Policy) -> bool {
        let mut uses = LimitUses::of(policy);
        let changed = self.make(&mut uses);
        LimitUses { budgets: policy.budgets, quotas: policy.quotas } = uses;
        changed
    }

    fn adds(&self) -> bool {
        matches!(self, Self::Add(_))
    }

    /// Which limit it is about.
    fn limit(&self) -> (LimitSort, &str) {
        match self {
            Self::Remove(sort, name) => (*sort, name),
            Self::Add(uses) => match (uses.budgets.first(), uses.quotas.first()) {
                (Some(one), _) => (LimitSort::Budget, &one.budget),
                (None, Some(one)) => (LimitSort::Quota, &one.quota),
                (None, None) => (LimitSort::Quota, ""),
            },
        }
    }
}

fn apply(
    tx: &mut dyn Tx,
    cx: &Context,
    namespace: &Namespace,
    limit: &Limit,
    to: &AttachTo,
    change: &LimitChange,
) -> Result<LimitChanged> {
    let place = match to {
        AttachTo::Execution(id) => {
            let execution = load(tx, &namespace.name, *id)?;
            if execution.status().is_terminal() {
                return Err(already_terminal(&execution));
            }
            let mut policy = Policy::clone(&execution.policy);
            if change.make_to_policy(&mut policy) {
                check_room(policy.budgets.len(), policy.quotas.len())?;
                change_execution(tx, cx, limit, execution, change)?;
                return Ok(LimitChanged::Done);
            }
            return Ok(LimitChanged::Already);
        }
        AttachTo::Flow(id) => return change_flow(tx, cx, namespace, limit, *id, change),
        AttachTo::Namespace => LimitPlace::Namespace,
        AttachTo::Lane(name) => LimitPlace::Lane(name.clone()),
        AttachTo::Kind(name) => LimitPlace::Kind(name.clone()),
    };
    let mut places = limit.places.clone();
    match places.binary_search(&place) {
        Err(index) if change.adds() => places.insert(index, place.clone()),
        Ok(index) if !change.adds() => drop(places.remove(index)),
        _ => {}
    }
    let mut check = Check::default();
    check.at_most("to", places.len(), Limits::PLACES);
    check.finish()?;
    let changed = match &place {
        LimitPlace::Lane(name) => {
            let known = tx.lane(namespace.id, name)?;
            let mut uses = known.as_ref().map(|lane| lane.limits.clone()).unwrap_or_default();
            let changed = change.make(&mut uses);
            check_room(uses.budgets.len(), uses.quotas.len())?;
            if changed {
                let lane = lane::used(tx, namespace.id, name)?;
                tx.save_lane(&Lane { limits: uses, ..Lane::clone(&lane) })?;
            }
            changed
        }
        LimitPlace::Namespace | LimitPlace::Kind(_) => {
            let mut limits = namespace.limits.clone();
            let changed = match &place {
                LimitPlace::Kind(kind) => {
                    let uses = limits.kinds.entry(kind.clone()).or_default();
                    let changed = change.make(uses);
                    check_room(uses.budgets.len(), uses.quotas.len())?;
                    changed
                }
                _ => {
                    let changed = change.make(&mut limits.all);
                    check_room(limits.all.budgets.len(), limits.all.quotas.len())?;
                    changed
                }
            };
            limits.kinds.retain(|_, uses| !uses.is_empty());
            if changed {
                tx.save_limits(namespace.id, &limits)?;
            }
            changed
        }
    };
    if !changed {
        return Ok(LimitChanged::Already);
    }
    if places != limit.places {
        tx.put_limit(&Limit { places, ..limit.clone() })?;
    }
    Ok(LimitChanged::Done)
}

fn check_room(budgets: usize, quotas: usize) -> Result<()> {
    let mut check = Check::default();
    check.at_most("limit.budgets", budgets, Limits::USES);
    check.at_most("limit.quotas", quotas, Limits::USES);
    check.finish()
}

/// Changes the limits of an execution that is not over.
fn change_execution(
    tx: &mut dyn Tx,
    cx: &Context,
    limit: &Limit,
    mut execution: Execution,
    change: &LimitChange,
) -> Result<()> {
    let policy = Arc::make_mut(&mut execution.policy);
    if !change.make_to_policy(policy) {
        return Ok(());
    }
    tx.save_policy(&execution)?;
    let mut of = use_of(tx, &execution, limit.row)?;
    of.share.named = change.adds();
    match change.adds() || of.gate.is_some() || !of.share.total.is_empty() {
        true => tx.put_use(&of)?,
        false => tx.drop_use(of.execution, of.limit)?,
    }
    if !change.adds()
        && let State::Limited(limited) = &execution.state
    {
        let gate = tx.gate_by_row(limited.gate)?;
        if gate.is_some_and(|gate| gate.limit == limit.row) {
            return let_go(tx, cx, &mut execution);
        }
    }
    if !execution.beside.limits {
        execution.beside.limits = true;
        tx.save(&execution)?;
    }
    Ok(())
}

fn change_flow(
    tx: &mut dyn Tx,
    cx: &Context,
    namespace: &Namespace,
    limit: &Limit,
    id: FlowId,
    change: &LimitChange,
) -> Result<LimitChanged> {
    let mut flow = flow::load(tx, &namespace.name, id)?;
    if flow.status().is_terminal() {
        return Err(flow::already_terminal(&flow));
    }
    let mut terms = (*flow.terms).clone();
    if !change.make_to_policy(&mut terms.policy) {
        return Ok(LimitChanged::Already);
    }
    check_room(terms.policy.budgets.len(), terms.policy.quotas.len())?;
    flow.terms = Arc::new(terms);
    tx.save_terms(&flow)?;
    let mut cascade = Cascade::new(flow);
    cascade.push(FlowWork::Limit { limit: limit.row, change: change.clone(), after: None });
    cascade.finish(tx, cx)?;
    Ok(LimitChanged::Done)
}

/// Puts an execution that became a member of a flow under the flow's limits.
pub(crate) fn joined(tx: &mut dyn Tx, cx: &Context, flow: &Flow, member: RowId) -> Result<()> {
    let Policy { budgets, quotas, .. } = &flow.terms.policy;
    let budgets = budgets.iter().map(|one| (LimitSort::Budget, &one.budget));
    let quotas = quotas.iter().map(|one| (LimitSort::Quota, &one.quota));
    for (sort, name) in budgets.chain(quotas) {
        let Some(limit) = tx.limit(flow.namespace, sort, name)? else { continue };
        let mut uses = LimitUses::of(&flow.terms.policy);
        uses.keep(sort, name);
        if let Some(current) = tx.execution(member)? {
            change_execution(tx, cx, &limit, current, &LimitChange::Add(uses))?;
        }
    }
    Ok(())
}

/// Changes the limits of some members of a flow; answers with where to go on.
pub(crate) fn attach_members(
    cascade: &mut Cascade,
    tx: &mut dyn Tx,
    cx: &Context,
    limit: LimitRow,
    change: &LimitChange,
    after: Option<&str>,
) -> Result<Option<FlowWork>> {
    let (sort, name) = change.limit();
    let known = tx.limit(cascade.flow.namespace, sort, name)?;
    // What names a limit keeps it from being removed: if this one is gone, nothing names it.
    let Some(limit) = known.filter(|known| known.row == limit) else { return Ok(None) };
    let (page, next) = cascade.members(tx, after)?;
    for member in page.into_iter().filter(|member| !member.status().is_terminal()) {
        change_execution(tx, cx, &limit, member, change)?;
    }
    Ok(next.map(|after| FlowWork::Limit {
        limit: limit.row,
        change: change.clone(),
        after: Some(after),
    }))
}

impl LimitUses {
    fn of(policy: &Policy) -> Self {
        Self { budgets: policy.budgets.clone(), quotas: policy.quotas.clone() }
    }

    /// Removes all but one.
    fn keep(&mut self, sort: LimitSort, name: &str) {
        self.budgets.retain(|one| sort == LimitSort::Budget && one.budget == name);
        self.quotas.retain(|one| sort == LimitSort::Quota && one.quota == name);
    }

    /// Whether all of these are here, just so.
    fn contains(&self, others: &Self) -> bool {
        others.budgets.iter().all(|one| self.budgets.contains(one))
            && others.quotas.iter().all(|one| self.quotas.contains(one))
    }
}
