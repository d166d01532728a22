//! How much of budgets and quotas is used, and what waits for them.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::budget::load_budget;
use super::find;
use super::gate::budget_terms;
use super::queue::opens_at;
use crate::command::{Context, Query};
use crate::event::default_page;
use crate::lease::load;
use crate::model::{
    Amounts, Breach, BudgetCourse, BudgetTerms, Error, ExecutionId, Gate, Limit, LimitPlace,
    LimitSort, LimitTerms, Limited, LimitedBy, QuotaTerms, Result, Timestamp, default_name,
};
use crate::namespace::namespace_of;
use crate::page::{check_page, cut};
use crate::store::Read;

/// Asks how a budget stands.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GetBudget {
    /// Where it belongs.
    #[serde(default = "default_name")]
    pub namespace: String,
    /// Which one.
    pub budget: String,
}

/// How a budget stands.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BudgetStatus {
    /// Its name.
    pub budget: String,
    /// What it allows.
    pub terms: BudgetTerms,
    /// What is used, by dimension.
    pub usage: BTreeMap<String, DimensionStatus>,
    /// Since when that counts.
    pub since: Timestamp,
    /// When it begins anew.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_reset_at: Option<Timestamp>,
    /// How often it has begun anew.
    pub resets: u64,
    /// The breach that keeps work from beginning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub breach: Option<Breach>,
    /// The last breach there was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_breach: Option<Breach>,
    /// How often more was asked for than was left.
    pub breaches: u64,
    /// How often a soft limit was passed.
    pub soft_breaches: u64,
    /// How many executions workers have under it.
    pub active: u64,
    /// How many executions wait for it.
    pub blocked: u64,
    /// What it applies to, apart from flows and executions that name it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attached_to: Vec<LimitPlace>,
    /// When it was made.
    pub created_at: Timestamp,
}

/// What is used of a dimension.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DimensionStatus {
    /// What was spent since the budget last began anew.
    pub spent: u64,
    /// What is put by for executions that workers have.
    pub reserved: u64,
    /// Never more than this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hard: Option<u64>,
    /// More than this is told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub soft: Option<u64>,
}

impl Query for GetBudget {
    const NAME: &'static str = "get_budget";
    type Output = BudgetStatus;

    fn run(&self, read: &mut dyn Read, cx: &Context) -> Result<BudgetStatus> {
        let limit = load_budget(read, &self.namespace, &self.budget)?;
        budget_status(read, cx, &limit)
    }
}

/// How a budget stands by now, whether or not anybody has used it since its period ended.
fn budget_status(read: &mut dyn Read, cx: &Context, limit: &Limit) -> Result<BudgetStatus> {
    let terms = budget_terms(limit)?;
    let gate = read.find_gate(limit.namespace, limit.row, "")?;
    let gate = gate.map(|gate| gate.course).unwrap_or_default();
    let (active, blocked) = (gate.active, gate.waiting);
    let mut course = gate.budget.unwrap_or_else(|| BudgetCourse::begin(terms, cx.now));
    course.roll(terms, cx.now);
    let usage = terms.dimensions.iter().map(|(name, allowance)| {
        let used = course.of(name);
        let status = DimensionStatus {
            spent: used.spent,
            reserved: used.reserved,
            hard: allowance.hard,
            soft: allowance.soft,
        };
        (name.clone(), status)
    });
    Ok(BudgetStatus {
        budget: limit.name.clone(),
        usage: usage.collect(),
        terms: terms.clone(),
        since: course.since,
        next_reset_at: course.next_reset_at,
        resets: course.turn,
        breach: course.breach,
        last_breach: course.last_breach,
        breaches: course.breaches,
        soft_breaches: course.soft_breaches,
        active,
        blocked,
        attached_to: limit.places.clone(),
        created_at: limit.created_at,
    })
}

/// Limits of a sort by name, and where to read on.
fn page(
    read: &mut dyn Read,
    namespace: &str,
    sort: LimitSort,
    after: Option<&str>,
    limit: usize,
) -> Result<(Vec<Arc<Limit>>, Option<String>)> {
    check_page(limit)?;
    let Some(namespace) = read.namespace(namespace)? else { return Ok((vec![], None)) };
    let mut found = read.limits(namespace.id, sort, after, limit + 1)?;
    let next = cut(&mut found, limit, |last| last.name.clone());
    Ok((found, next))
}

/// Lists the budgets of a namespace.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ListBudgets {
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

/// A page of budgets.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct BudgetPage {
    /// The budgets, by name.
    pub budgets: Vec<BudgetStatus>,
    /// Read on after this one; absent at the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

impl Query for ListBudgets {
    const NAME: &'static str = "list_budgets";
    type Output = BudgetPage;

    fn run(&self, read: &mut dyn Read, cx: &Context) -> Result<BudgetPage> {
        let after = self.after.as_deref();
        let (found, next) = page(read, &self.namespace, LimitSort::Budget, after, self.limit)?;
        let budgets: Result<_> = found.iter().map(|limit| budget_status(read, cx, limit)).collect();
        Ok(BudgetPage { budgets: budgets?, next })
    }
}

/// Asks how a quota stands.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GetQuota {
    /// Where it belongs.
    #[serde(default = "default_name")]
    pub namespace: String,
    /// Which one.
    pub quota: String,
    /// The first page of keys begins after this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after_key: Option<String>,
    /// How many keys to tell of at most.
    #[serde(default = "default_page")]
    pub limit: usize,
}

/// How a quota stands.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct QuotaStatus {
    /// Its name.
    pub quota: String,
    /// What it allows.
    pub terms: QuotaTerms,
    /// The keys that were used lately; one that is empty when it applies to all alike.
    pub keys: Vec<QuotaKeyStatus>,
    /// Read on after this key; absent at the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_key: Option<String>,
    /// What it applies to, apart from flows and executions that name it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attached_to: Vec<LimitPlace>,
    /// When it was made.
    pub created_at: Timestamp,
}

/// How a quota stands for a key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuotaKeyStatus {
    /// The key.
    pub key: String,
    /// How many executions workers have.
    pub active: u64,
    /// How many executions wait.
    pub blocked: u64,
    /// When the rate lets the next one pass, if not now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub opens_at: Option<Timestamp>,
}

impl Query for GetQuota {
    const NAME: &'static str = "get_quota";
    type Output = QuotaStatus;

    fn run(&self, read: &mut dyn Read, cx: &Context) -> Result<QuotaStatus> {
        check_page(self.limit)?;
        let namespace = namespace_of(read, &self.namespace, "quota", &self.quota)?;
        let limit = find(read, namespace.id, LimitSort::Quota, &self.quota)?;
        quota_status(read, cx, &limit, self.after_key.as_deref(), self.limit)
    }
}

fn quota_status(
    read: &mut dyn Read,
    cx: &Context,
    limit: &Limit,
    after: Option<&str>,
    count: usize,
) -> Result<QuotaStatus> {
    let Some(terms) = limit.quota() else {
        return Err(Error::bug("a budget stands where a quota should"));
    };
    let mut gates = read.gates(limit.row, after, count + 1)?;
    let next_key = cut(&mut gates, count, |last| last.key.clone());
    let mut keys = Vec::with_capacity(gates.len());
    for gate in gates {
        let opens_at = opens_at(read, &gate)?.filter(|at| *at > cx.now);
        let Gate { key, course, .. } = gate;
        let (active, blocked) = (course.active, course.waiting);
        keys.push(QuotaKeyStatus { key, active, blocked, opens_at });
    }
    Ok(QuotaStatus {
        quota: limit.name.clone(),
        terms: terms.clone(),
        keys,
        next_key,
        attached_to: limit.places.clone(),
        created_at: limit.created_at,
    })
}

/// Lists the quotas of a namespace, each with its first keys.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ListQuotas {
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

/// A page of quotas.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct QuotaPage {
    /// The quotas, by name.
    pub quotas: Vec<QuotaStatus>,
    /// Read on after this one; absent at the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// How many keys of each quota a list tells of.
const KEYS: usize = 10;

impl Query for ListQuotas {
    const NAME: &'static str = "list_quotas";
    type Output = QuotaPage;

    fn run(&self, read: &mut dyn Read, cx: &Context) -> Result<QuotaPage> {
        let after = self.after.as_deref();
        let (found, next) = page(read, &self.namespace, LimitSort::Quota, after, self.limit)?;
        let quotas: Result<_> =
            found.iter().map(|limit| quota_status(read, cx, limit, None, KEYS)).collect();
        Ok(QuotaPage { quotas: quotas?, next })
    }
}

/// Asks what an execution has spent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GetLedger {
    /// Where it belongs.
    #[serde(default = "default_name")]
    pub namespace: String,
    /// Which one.
    pub execution: ExecutionId,
}

/// What an execution has spent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Ledger {
    /// Of each budget it is or was under, by name.
    pub budgets: Vec<LedgerEntry>,
}

/// What an execution has spent of a budget.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LedgerEntry {
    /// Which budget.
    pub budget: String,
    /// What it has spent since the budget last began anew.
    pub spent: Amounts,
    /// What it has spent in all.
    pub total: Amounts,
    /// What is put by for it.
    pub reserved: Amounts,
}

impl Query for GetLedger {
    const NAME: &'static str = "get_ledger";
    type Output = Ledger;

    fn run(&self, read: &mut dyn Read, cx: &Context) -> Result<Ledger> {
        let execution = load(read, &self.namespace, self.execution)?;
        let mut budgets = Vec::new();
        for of in read.uses(execution.row)? {
            let limit = read.limit_by_row(of.limit)?;
            let Some(terms) = limit.budget() else { continue };
            let gate = read.find_gate(limit.namespace, limit.row, "")?;
            let course = gate.and_then(|gate| gate.course.budget);
            let present = course.is_some_and(|mut course| {
                course.roll(terms, cx.now);
                course.turn == of.share.turn
            });
            budgets.push(LedgerEntry {
                budget: limit.name.clone(),
                spent: if present { of.share.spent } else { Amounts::new() },
                total: of.share.total,
                reserved: of.share.reserved,
            });
        }
        budgets.sort_by(|one, other| one.budget.cmp(&other.budget));
        Ok(Ledger { budgets })
    }
}

/// What a limited execution waits for, in sentences.
pub(crate) fn what_for(
    read: &mut dyn Read,
    cx: &Context,
    limited: &Limited,
) -> Result<Vec<String>> {
    let by = &limited.by;
    let Some(gate) = read.gate_by_row(limited.gate)? else {
        return Ok(vec![format!("The {by} does not let it pass.")]);
    };
    let active = gate.course.active;
    if let LimitedBy::ConcurrencyKey(_) = by {
        return Ok(vec![format!("{active} with the {by} are under way, as many as may be.")]);
    }
    let limit = read.limit_by_row(gate.limit)?;
    let when = |at: Option<Timestamp>| at.map(|at| format!(" at {at}"));
    match &limit.terms {
        LimitTerms::Budget(terms) => {
            let mut course = gate.course.budget.clone().unwrap_or_default();
            course.roll(terms, cx.now);
            let then = match when(course.next_reset_at) {
                Some(at) => format!("it begins anew{at}"),
                None => "raise or reset it".to_owned(),
            };
            let mut found = Vec::new();
            if let Some(breach) = &course.breach {
                found.push(format!(
                    "The {by} was breached at {}: {} more of `{}` were asked for; {then}.",
                    breach.at, breach.asked, breach.dimension
                ));
            }
            for (name, allowance) in &terms.dimensions {
                let Some(hard) = allowance.hard else { continue };
                let used = course.of(name);
                found.push(format!(
                    "Of `{name}` in the {by}, {} of {hard} are spent and {} put by; {then}.",
                    used.spent, used.reserved
                ));
            }
            Ok(found)
        }
        LimitTerms::Quota(terms) => {
            let whose = match gate.key.as_str() {
                "" => String::new(),
                key => format!(" for `{key}`"),
            };
            let mut found = Vec::new();
            if let Some(most) = terms.concurrency {
                found.push(format!("The {by} lets {most} run at once{whose}; {active} do."));
            }
            if let Some(rate) = &terms.rate {
                let next = opens_at(read, &gate)?.filter(|at| *at > cx.now);
                let next = when(next).unwrap_or_else(|| " now".to_owned());
                found.push(format!(
                    "The {by} lets {} begin in {} ms{whose}; the next may{next}.",
                    rate.limit,
                    rate.window.as_millis()
                ));
            }
            Ok(found)
        }
    }
}
