//! Making, changing, resetting and removing budgets.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::find;
use super::gate::{budget_course, budget_gate, budget_terms, use_of};
use super::queue::open;
use crate::cancel::operator;
use crate::command::{Command, Context};
use crate::event::{EventKind, NewEvent};
use crate::lease::load;
use crate::model::{
    Amounts, BudgetTerms, Check, Code, Error, ExecutionId, Limit, LimitSort, LimitTerms, Limits,
    NamespaceId, Result, default_name,
};
use crate::namespace;
use crate::namespace::namespace_of;
use crate::store::{Read, Tx};

/// Makes a budget. Making the same one again changes nothing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CreateBudget {
    /// Where it belongs; created by use.
    #[serde(default = "default_name")]
    pub namespace: String,
    /// Its name.
    pub budget: String,
    /// What it allows.
    pub terms: BudgetTerms,
}

impl CreateBudget {
    /// A budget of the default namespace.
    pub fn new(budget: impl Into<String>, terms: BudgetTerms) -> Self {
        Self { namespace: default_name(), budget: budget.into(), terms }
    }
}

/// A budget or quota is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum LimitCreated {
    /// It was made.
    Created,
    /// It was there, with the same terms.
    Existing,
}

impl Command for CreateBudget {
    const NAME: &'static str = "create_budget";
    type Output = LimitCreated;

    fn apply(&self, tx: &mut dyn Tx, cx: &Context) -> Result<LimitCreated> {
        let mut check = Check::default();
        check.name("namespace", &self.namespace);
        check.name("budget", &self.budget);
        self.terms.check(&mut check);
        check.finish()?;
        create(tx, cx, &self.namespace, &self.budget, LimitTerms::Budget(self.terms.clone()))
    }
}

/// Makes a limit that is not there.
pub(super) fn create(
    tx: &mut dyn Tx,
    cx: &Context,
    namespace: &str,
    name: &str,
    terms: LimitTerms,
) -> Result<LimitCreated> {
    let (sort, kind) = match &terms {
        LimitTerms::Budget(_) => (LimitSort::Budget, EventKind::BudgetCreated),
        LimitTerms::Quota(_) => (LimitSort::Quota, EventKind::QuotaCreated),
    };
    let known = match tx.namespace(namespace)? {
        Some(namespace) => tx.limit(namespace.id, sort, name)?,
        None => None,
    };
    match known {
        Some(known) if known.terms == terms => return Ok(LimitCreated::Existing),
        Some(_) => {
            let noun = sort.as_str();
            return Err(Error::new(
                Code::WrongState,
                format!("{noun} `{name}` exists with other terms; update it instead"),
            )
            .with_field(noun));
        }
        None => {}
    }
    let namespace = namespace::used(tx, namespace)?;
    let data = json!({ sort.as_str(): name, "terms": terms });
    let row = tx.new_limit_row()?;
    tx.put_limit(&Limit {
        row,
        namespace: namespace.id,
        name: name.to_owned(),
        terms,
        places: vec![],
        created_at: cx.now,
    })?;
    note(tx, cx, kind, namespace.id, data)?;
    Ok(LimitCreated::Created)
}

pub(super) fn note(
    tx: &mut dyn Tx,
    cx: &Context,
    kind: EventKind,
    namespace: NamespaceId,
    data: Value,
) -> Result<()> {
    tx.add_event(&NewEvent { data: Some(data), ..NewEvent::new(kind, cx.now, namespace) })
}

/// Changes what a budget allows. What is spent stays spent; work that may go on again does.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UpdateBudget {
    /// Where it belongs.
    #[serde(default = "default_name")]
    pub namespace: String,
    /// Which one.
    pub budget: String,
    /// What it allows from now on.
    pub terms: BudgetTerms,
}

impl Command for UpdateBudget {
    const NAME: &'static str = "update_budget";
    type Output = ();

    fn apply(&self, tx: &mut dyn Tx, cx: &Context) -> Result<()> {
        let mut check = Check::default();
        self.terms.check(&mut check);
        check.finish()?;
        let limit = load_budget(tx, &self.namespace, &self.budget)?;
        if limit.budget() == Some(&self.terms) {
            return Ok(());
        }
        let mut gate = budget_gate(tx, cx, &limit)?;
        let terms = LimitTerms::Budget(self.terms.clone());
        let limit = Limit { terms, ..Limit::clone(&limit) };
        tx.put_limit(&limit)?;
        budget_course(&mut gate)?.revise(&self.terms, cx.now);
        let data = json!({ "budget": self.budget, "terms": self.terms });
        note(tx, cx, EventKind::BudgetUpdated, limit.namespace, data)?;
        open(tx, cx, &mut gate)
    }
}

/// The budget of that name.
pub(super) fn load_budget(read: &mut dyn Read, namespace: &str, name: &str) -> Result<Arc<Limit>> {
    let namespace = namespace_of(read, namespace, "budget", name)?;
    find(read, namespace.id, LimitSort::Budget, name)
}

/// Begins a budget anew, before its time. Its periods stay as they are.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ResetBudget {
    /// Where it belongs.
    #[serde(default = "default_name")]
    pub namespace: String,
    /// Which one.
    pub budget: String,
    /// Who asks.
    #[serde(default = "operator")]
    pub by: String,
}

impl Command for ResetBudget {
    const NAME: &'static str = "reset_budget";
    type Output = ();

    fn apply(&self, tx: &mut dyn Tx, cx: &Context) -> Result<()> {
        let mut check = Check::default();
        check.name("by", &self.by);
        check.finish()?;
        let limit = load_budget(tx, &self.namespace, &self.budget)?;
        let mut gate = budget_gate(tx, cx, &limit)?;
        budget_course(&mut gate)?.reset(cx.now);
        let data = json!({ "budget": self.budget, "by": self.by });
        note(tx, cx, EventKind::BudgetReset, limit.namespace, data)?;
        open(tx, cx, &mut gate)
    }
}

/// Gives a budget back what an execution has spent of it since it last began anew.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReleaseBudget {
    /// Where both belong.
    #[serde(default = "default_name")]
    pub namespace: String,
    /// Which budget.
    pub budget: String,
    /// Which execution.
    pub execution: ExecutionId,
    /// Who asks.
    #[serde(default = "operator")]
    pub by: String,
}

/// What was given back.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BudgetReleased {
    /// By dimension; nothing if nothing had been spent.
    pub amounts: Amounts,
}

impl Command for ReleaseBudget {
    const NAME: &'static str = "release_budget";
    type Output = BudgetReleased;

    fn apply(&self, tx: &mut dyn Tx, cx: &Context) -> Result<BudgetReleased> {
        let mut check = Check::default();
        check.name("by", &self.by);
        check.finish()?;
        let limit = load_budget(tx, &self.namespace, &self.budget)?;
        let execution = load(tx, &self.namespace, self.execution)?;
        let mut of = use_of(tx, &execution, limit.row)?;
        if of.share.spent.is_empty() {
            return Ok(BudgetReleased::default());
        }
        let mut gate = budget_gate(tx, cx, &limit)?;
        let course = budget_course(&mut gate)?;
        let amounts = std::mem::take(&mut of.share.spent);
        // What was spent before the budget began anew is not in its count any more.
        if of.share.turn != course.turn {
            tx.put_use(&of)?;
            return Ok(BudgetReleased::default());
        }
        for (dimension, amount) in &amounts {
            if let Some(usage) = course.usage.get_mut(dimension) {
                usage.spent = usage.spent.saturating_sub(*amount);
            }
            if let Some(total) = of.share.total.get_mut(dimension) {
                *total = total.saturating_sub(*amount);
            }
        }
        course.forgive(budget_terms(&limit)?);
        tx.put_use(&of)?;
        let data = json!({
            "budget": self.budget,
            "execution": self.execution,
            "amounts": amounts,
            "by": self.by,
        });
        note(tx, cx, EventKind::BudgetReleased, limit.namespace, data)?;
        open(tx, cx, &mut gate)?;
        Ok(BudgetReleased { amounts })
    }
}

/// Removes a budget that nothing is under.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeleteBudget {
    /// Where it belongs.
    #[serde(default = "default_name")]
    pub namespace: String,
    /// Which one.
    pub budget: String,
}

impl Command for DeleteBudget {
    const NAME: &'static str = "delete_budget";
    type Output = ();

    fn apply(&self, tx: &mut dyn Tx, cx: &Context) -> Result<()> {
        let limit = load_budget(tx, &self.namespace, &self.budget)?;
        expect_unused(tx, &limit)?;
        tx.drop_limit(&limit)?;
        let data = json!({ "budget": self.budget });
        note(tx, cx, EventKind::BudgetDeleted, limit.namespace, data)
    }
}

/// Refuses to remove a limit that applies to something, or for which something waits.
pub(super) fn expect_unused(read: &mut dyn Read, limit: &Limit) -> Result<()> {
    let in_use = |why: String| {
        let noun = limit.sort().as_str();
        Error::new(Code::InUse, format!("{noun} `{}` {why}", limit.name)).with_field(noun)
    };
    if let Some(place) = limit.places.first() {
        return Err(in_use(format!("is attached to {}; detach it first", place.words())));
    }
    if let Some(of) = read.open_uses(limit.row, None, 1)?.first() {
        let execution = read.execution(of.execution)?;
        let name = execution.map(|execution| execution.id.to_string()).unwrap_or_default();
        return Err(in_use(format!(
            "limits execution {name}, which is not over; let it end or detach it"
        )));
    }
    let mut after = None;
    loop {
        let gates = read.gates(limit.row, after.as_deref(), Limits::PAGE)?;
        if gates.iter().any(|gate| gate.course.waiting > 0) {
            return Err(in_use("has work waiting for it; try again in a moment".into()));
        }
        if gates.len() < Limits::PAGE {
            return Ok(());
        }
        after = gates.last().map(|gate| gate.key.clone());
    }
}
