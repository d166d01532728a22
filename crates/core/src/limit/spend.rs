//! Spending.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::json;
use sha2::{Digest, Sha256};

use super::budget::{load_budget, note};
use super::gate::{budget_course, budget_gate, budget_terms, use_of};
use super::{breach, undeclared, under};
use crate::command::{Command, Context};
use crate::event::EventKind;
use crate::lease::{fence, load};
use crate::misses::Misses;
use crate::model::{
    Amounts, BudgetCourse, BudgetTerms, Check, Error, Execution, ExecutionId, Gate, Key, KeyOf,
    LeaseToken, Limit, LimitSort, Limits, NamespaceId, Result, Timestamp, Use, default_name,
};
use crate::store::{Read, Tx};
use crate::submit::used_otherwise;

/// Spends amounts of budgets: of all at once, or of none.
///
/// Without names, of all budgets the execution is under, each counting what it has a dimension for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spend {
    /// Where the budgets belong.
    #[serde(default = "default_name")]
    pub namespace: String,
    /// The lease of the worker that spends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease: Option<LeaseToken>,
    /// For which execution it is, when no worker spends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub execution: Option<ExecutionId>,
    /// Which budgets; without names, all that the execution is under.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub budgets: Vec<String>,
    /// How much, by dimension.
    pub amounts: Amounts,
    /// Spending again under the same key spends nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
}

impl Spend {
    /// A worker's, of all its execution's budgets.
    pub fn new<D: Into<String>>(
        lease: LeaseToken,
        amounts: impl IntoIterator<Item = (D, u64)>,
    ) -> Self {
        Self {
            namespace: default_name(),
            lease: Some(lease),
            execution: None,
            budgets: vec![],
            amounts: amounts.into_iter().map(|(name, amount)| (name.into(), amount)).collect(),
            key: None,
        }
    }

    /// Under a key.
    #[must_use]
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.key = Some(key.into());
        self
    }
}

/// What became of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum Spent {
    /// It is spent.
    Ok,
    /// It is spent, and more than a soft limit is.
    SoftBreach {
        /// Of which budget.
        budget: String,
        /// Of what.
        dimension: String,
        /// What is spent now.
        spent: u64,
        /// The soft limit.
        soft: u64,
    },
    /// It is more than is left: nothing is spent, and the budget does what it does on a breach.
    HardBreach {
        /// Of which budget.
        budget: String,
        /// Of what.
        dimension: String,
        /// How much was asked for.
        asked: u64,
        /// What is spent.
        spent: u64,
        /// What is put by for other executions.
        reserved: u64,
        /// The hard limit.
        hard: u64,
        /// When the budget begins anew.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        next_reset_at: Option<Timestamp>,
    },
    /// It was spent under that key before.
    AlreadyApplied,
}

/// How long it is remembered under which keys something was spent.
const REMEMBERED: std::time::Duration = std::time::Duration::from_secs(7 * 24 * 3600);

impl Command for Spend {
    const NAME: &'static str = "spend";
    type Output = Spent;

    fn apply(&self, tx: &mut dyn Tx, cx: &Context) -> Result<Spent> {
        self.check()?;
        let mut execution = match (&self.lease, self.execution) {
            (Some(lease), _) => Some(fence(tx, cx, &self.namespace, lease)?.live(lease)?),
            (None, Some(id)) => Some(load(tx, &self.namespace, id)?),
            (None, None) => None,
        };
        let limits = self.budgets(tx, execution.as_ref())?;
        self.check_dimensions(&limits)?;
        let mut misses = Misses::default();
        let mut fresh = Vec::new();
        for limit in &limits {
            if misses.pass(self.is_fresh(tx, cx, limit))? == Some(true) {
                fresh.push(limit);
            }
        }
        misses.finish()?;
        if fresh.is_empty() {
            return Ok(Spent::AlreadyApplied);
        }
        let mut misses = Misses::default();
        let mut accounts = Vec::new();
        for limit in fresh {
            let account = Account::open(tx, cx, limit, execution.as_ref(), &self.amounts);
            accounts.extend(misses.pass(account)?);
        }
        misses.finish()?;
        for account in &mut accounts {
            if let Some(excess) = account.excess()? {
                return account.breach(tx, cx, &excess);
            }
        }
        let mut told = Spent::Ok;
        for account in accounts {
            let soft = account.spend(tx, cx)?;
            if told == Spent::Ok {
                told = soft.unwrap_or(Spent::Ok);
            }
        }
        for limit in &limits {
            self.remember(tx, cx, limit)?;
        }
        if let Some(execution) = &mut execution
            && !execution.beside.limits
        {
            execution.beside.limits = true;
            tx.save(execution)?;
        }
        Ok(told)
    }
}

impl Spend {
    fn check(&self) -> Result<()> {
        let mut check = Check::default();
        check.that(self.lease.is_none() || self.execution.is_none(), "execution", || {
            "a lease says which; leave it out".into()
        });
        let anyone = self.lease.is_some() || self.execution.is_some();
        check.that(anyone || !self.budgets.is_empty(), "budgets", || {
            "name budgets, or the execution whose budgets are meant".into()
        });
        check.at_most("budgets", self.budgets.len(), Limits::USES);
        for (index, name) in self.budgets.iter().enumerate().take(Limits::USES) {
            check.name("budgets", name);
            check.that(!self.budgets[..index].contains(name), "budgets", || {
                format!("`{name}` is named twice")
            });
        }
        check.that(!self.amounts.is_empty(), "amounts", || "nothing is spent".into());
        check.amounts("amounts", &self.amounts);
        if let Some(key) = &self.key {
            check.key("key", key);
        }
        check.finish()
    }

    /// The budgets that are meant, by name.
    fn budgets(
        &self,
        read: &mut dyn Read,
        execution: Option<&Execution>,
    ) -> Result<Vec<Arc<Limit>>> {
        let mut misses = Misses::default();
        let mut limits = Vec::new();
        for name in &self.budgets {
            limits.extend(misses.pass(load_budget(read, &self.namespace, name))?);
        }
        if let (true, Some(execution)) = (self.budgets.is_empty(), execution) {
            let namespace = read.namespace_by_id(execution.namespace)?;
            let lane = read.lane_by_id(execution.lane)?;
            for one in under(read, &namespace, &lane, execution)?.budgets {
                let found = read.limit(namespace.id, LimitSort::Budget, &one.budget);
                limits.extend(misses.pass(found)?.flatten());
            }
        }
        misses.finish()?;
        if limits.is_empty() {
            return Err(Error::invalid(
                "budgets",
                "the execution is under no budget; name some, or attach it to one",
            ));
        }
        limits.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(limits)
    }

    /// Refuses what none of the budgets counts.
    fn check_dimensions(&self, limits: &[Arc<Limit>]) -> Result<()> {
        let counts = |limit: &Arc<Limit>, dimension: &str| {
            limit.budget().is_some_and(|terms| terms.dimensions.contains_key(dimension))
        };
        for dimension in self.amounts.keys() {
            if !limits.iter().any(|limit| counts(limit, dimension)) {
                let names: Vec<_> = limits.iter().map(|limit| limit.name.as_str()).collect();
                return Err(undeclared("amounts", dimension, &names.join("`, `")));
            }
        }
        Ok(())
    }

    /// The name under which a key of a budget is remembered, beside the keys of submissions, none
    /// of which has such a character.
    fn key_name(key: &str, limit: &Limit) -> String {
        format!("\u{1f}{}\u{1f}{key}", limit.row.0)
    }

    fn fingerprint(&self) -> [u8; 16] {
        let mut hash = Sha256::new();
        hash.update(serde_json::to_vec(&self.amounts).expect("plain data has a JSON form"));
        let mut short = [0; 16];
        short.copy_from_slice(&hash.finalize()[..16]);
        short
    }

    fn is_fresh(&self, read: &mut dyn Read, cx: &Context, limit: &Limit) -> Result<bool> {
        let Some(key) = &self.key else { return Ok(true) };
        let name = Self::key_name(key, limit);
        let known = read.keys(limit.namespace, &[&name])?.pop().flatten();
        let known = known.filter(|known| known.expires_at.is_some_and(|at| cx.now < at));
        match known {
            Some(known) if known.fingerprint == self.fingerprint() => Ok(false),
            Some(_) => Err(used_otherwise("key", key)),
            None => Ok(true),
        }
    }

    fn remember(&self, tx: &mut dyn Tx, cx: &Context, limit: &Limit) -> Result<()> {
        let Some(key) = &self.key else { return Ok(()) };
        tx.put_key(&Key {
            namespace: limit.namespace,
            key: Self::key_name(key, limit),
            of: KeyOf::Spend,
            fingerprint: self.fingerprint(),
            expires_at: Some(cx.now + REMEMBERED),
        })
    }
}

/// What is spent of one budget.
struct Account {
    limit: Arc<Limit>,
    gate: Gate,
    of: Option<Use>,
    amounts: Amounts,
}

/// What is more than is left.
struct Excess {
    dimension: String,
    asked: u64,
    hard: u64,
}

impl Account {
    fn open(
        tx: &mut dyn Tx,
        cx: &Context,
        limit: &Arc<Limit>,
        execution: Option<&Execution>,
        amounts: &Amounts,
    ) -> Result<Self> {
        let terms = budget_terms(limit)?;
        let counted = amounts.iter().filter(|(name, _)| terms.dimensions.contains_key(*name));
        let amounts = counted.map(|(name, amount)| (name.clone(), *amount)).collect();
        let gate = budget_gate(tx, cx, limit)?;
        let of = execution.map(|execution| use_of(tx, execution, limit.row)).transpose()?;
        Ok(Self { limit: Arc::clone(limit), gate, of, amounts })
    }

    fn parts(&mut self) -> Result<(&BudgetTerms, &mut BudgetCourse)> {
        Ok((budget_terms(&self.limit)?, budget_course(&mut self.gate)?))
    }

    /// What of its own an execution has put by for a dimension.
    fn put_by(&self, dimension: &str) -> u64 {
        let reserved = self.of.as_ref().map(|of| &of.share.reserved);
        reserved.and_then(|reserved| reserved.get(dimension)).copied().unwrap_or(0)
    }

    /// The first dimension of which less is left than is asked for.
    fn excess(&mut self) -> Result<Option<Excess>> {
        for (dimension, asked) in self.amounts.clone() {
            let own = self.put_by(&dimension);
            let (terms, course) = self.parts()?;
            let Some(hard) = terms.dimensions.get(&dimension).and_then(|one| one.hard) else {
                continue;
            };
            let usage = course.of(&dimension);
            let used = usage.spent.saturating_add(usage.reserved.saturating_sub(own));
            if used.saturating_add(asked) > hard {
                return Ok(Some(Excess { dimension, asked, hard }));
            }
        }
        Ok(None)
    }

    /// Counts a breach, and lets it bite.
    fn breach(&mut self, tx: &mut dyn Tx, cx: &Context, excess: &Excess) -> Result<Spent> {
        let own = self.put_by(&excess.dimension);
        let budget = self.limit.name.clone();
        let course = budget_course(&mut self.gate)?;
        let usage = course.of(&excess.dimension);
        let next_reset_at = course.next_reset_at;
        breach::record(tx, cx, &self.limit, &mut self.gate, &excess.dimension, excess.asked)?;
        Ok(Spent::HardBreach {
            budget,
            dimension: excess.dimension.clone(),
            asked: excess.asked,
            spent: usage.spent,
            reserved: usage.reserved.saturating_sub(own),
            hard: excess.hard,
            next_reset_at,
        })
    }

    /// Spends; tells of the first soft limit that is passed.
    fn spend(mut self, tx: &mut dyn Tx, cx: &Context) -> Result<Option<Spent>> {
        let mut told = None;
        let mut crossed = Vec::new();
        let turn = budget_course(&mut self.gate)?.turn;
        if let Some(of) = &mut self.of
            && of.share.turn != turn
        {
            of.share.turn = turn;
            of.share.spent.clear();
        }
        for (dimension, amount) in self.amounts.clone() {
            let from_own = self.put_by(&dimension).min(amount);
            let budget = self.limit.name.clone();
            let (terms, course) = self.parts()?;
            let soft = terms.dimensions.get(&dimension).and_then(|one| one.soft);
            let usage = course.usage.entry(dimension.clone()).or_default();
            let before = usage.spent;
            usage.spent = usage.spent.saturating_add(amount);
            usage.reserved = usage.reserved.saturating_sub(from_own);
            let spent = usage.spent;
            if let Some(soft) = soft.filter(|soft| spent > *soft) {
                if before <= soft {
                    course.soft_breaches += 1;
                    crossed.push(dimension.clone());
                }
                let dimension = dimension.clone();
                told.get_or_insert(Spent::SoftBreach { budget, dimension, spent, soft });
            }
            if let Some(of) = &mut self.of {
                if let Some(left) = of.share.reserved.get_mut(&dimension) {
                    *left -= from_own;
                }
                of.share.reserved.retain(|_, left| *left > 0);
                *of.share.spent.entry(dimension.clone()).or_default() += amount;
                *of.share.total.entry(dimension).or_default() += amount;
            }
        }
        if let Some(of) = &self.of {
            tx.put_use(of)?;
        }
        tx.save_gate(&self.gate)?;
        for dimension in crossed {
            tell_soft(tx, cx, self.limit.namespace, &self.limit.name, &dimension)?;
        }
        Ok(told)
    }
}

fn tell_soft(
    tx: &mut dyn Tx,
    cx: &Context,
    namespace: NamespaceId,
    budget: &str,
    dimension: &str,
) -> Result<()> {
    let data = json!({ "budget": budget, "dimension": dimension });
    note(tx, cx, EventKind::BudgetSoftBreached, namespace, data)
}
