//! Budgets and quotas in the lab: short ways to make them, to put work under them and to look at
//! them.

use std::time::Duration;

use everloom_core::*;

use crate::Lab;
use crate::fixtures::*;

/// A quota of so many at once.
pub fn at_once(most: u32) -> QuotaTerms {
    QuotaTerms { concurrency: Some(most), ..QuotaTerms::default() }
}

/// A quota of so many in each window.
pub fn in_each(limit: u64, window: Duration) -> QuotaTerms {
    QuotaTerms { rate: Some(RateTerms { limit, window }), ..QuotaTerms::default() }
}

/// The same for each value of a tag.
pub fn by_tag(tag: &str, mut terms: QuotaTerms) -> QuotaTerms {
    terms.by_tag = Some(tag.to_owned());
    terms
}

/// Makes the quota `q`.
pub fn make(terms: QuotaTerms) -> CreateQuota {
    CreateQuota::new("q", terms)
}

/// Changes the quota `q`.
pub fn update(terms: QuotaTerms) -> UpdateQuota {
    UpdateQuota { namespace: ns(), quota: "q".to_owned(), terms }
}

/// Removes a quota.
pub fn delete_quota(quota: &str) -> DeleteQuota {
    DeleteQuota { namespace: ns(), quota: quota.to_owned() }
}

/// A quota as work names it.
pub fn quota(name: &str) -> QuotaUse {
    QuotaUse { quota: name.to_owned(), key: None }
}

/// Something to do under these quotas.
pub fn under<const N: usize>(quotas: [&str; N]) -> NewExecution {
    work().policy(Policy { quotas: quotas.map(quota).into(), ..Policy::default() })
}

/// Something to do under the quota `q`.
pub fn limited() -> NewExecution {
    under(["q"])
}

/// Something to do under the quota `q`, for that key.
pub fn limited_for(key: &str) -> NewExecution {
    let one = QuotaUse { key: Some(key.to_owned()), ..quota("q") };
    work().policy(Policy { quotas: vec![one], ..Policy::default() })
}

/// Something to do of which only so many with the same key are owned at once.
pub fn keyed(key: &str, limit: u32) -> NewExecution {
    let concurrency_key = Some(ConcurrencyKey { key: key.to_owned(), limit });
    work().policy(Policy { concurrency_key, ..Policy::default() })
}

/// A budget of so many tokens.
pub fn tokens(hard: u64) -> BudgetTerms {
    dimensions([("tokens", Some(hard), None)])
}

/// A budget of these dimensions, with hard and soft limits.
pub fn dimensions<const N: usize>(all: [(&str, Option<u64>, Option<u64>); N]) -> BudgetTerms {
    let all = all.map(|(name, hard, soft)| (name.to_owned(), Allowance { hard, soft }));
    let grace = secs(30);
    BudgetTerms { dimensions: all.into(), grace, ..BudgetTerms::default() }
}

/// A budget that does that when it is breached.
pub fn on_breach(action: OnBreach, terms: BudgetTerms) -> BudgetTerms {
    BudgetTerms { on_breach: action, ..terms }
}

/// A budget that begins anew after each period.
pub fn each(period: Duration, terms: BudgetTerms) -> BudgetTerms {
    BudgetTerms { period: Some(period), ..terms }
}

/// Makes the budget `b`.
pub fn fund(terms: BudgetTerms) -> CreateBudget {
    CreateBudget::new("b", terms)
}

/// Changes the budget `b`.
pub fn revise(terms: BudgetTerms) -> UpdateBudget {
    UpdateBudget { namespace: ns(), budget: "b".to_owned(), terms }
}

/// Begins the budget `b` anew.
pub fn reset() -> ResetBudget {
    ResetBudget { namespace: ns(), budget: "b".to_owned(), by: "ann".to_owned() }
}

/// Gives the budget `b` back what an execution has spent of it.
pub fn give_back(execution: ExecutionId) -> ReleaseBudget {
    ReleaseBudget { namespace: ns(), budget: "b".to_owned(), execution, by: "ann".to_owned() }
}

/// Removes a budget.
pub fn delete_budget(budget: &str) -> DeleteBudget {
    DeleteBudget { namespace: ns(), budget: budget.to_owned() }
}

/// A budget as work names it, of which it will need so many tokens.
pub fn budget(name: &str, estimate: u64) -> BudgetUse {
    let estimate = (estimate > 0).then(|| ("tokens".to_owned(), estimate));
    BudgetUse { budget: name.to_owned(), estimate: estimate.into_iter().collect() }
}

/// Something to do under these budgets.
pub fn paid_by(budgets: impl IntoIterator<Item = BudgetUse>) -> NewExecution {
    work().policy(Policy { budgets: budgets.into_iter().collect(), ..Policy::default() })
}

/// Something to do under the budget `b`, which will need so many tokens of it.
pub fn costing(estimate: u64) -> NewExecution {
    paid_by([budget("b", estimate)])
}

/// Spends tokens as a worker.
pub fn spend(leased: &Leased, amount: u64) -> Spend {
    Spend::new(leased.lease.clone(), [("tokens", amount)])
}

/// Spends tokens of the budget `b` as an operator.
pub fn spend_of_b(amount: u64) -> Spend {
    Spend {
        namespace: ns(),
        lease: None,
        execution: None,
        budgets: names(["b"]),
        amounts: [("tokens".to_owned(), amount)].into(),
        key: None,
    }
}

/// Puts something under the quota `q`.
pub fn attach(to: AttachTo) -> AttachLimit {
    AttachLimit {
        namespace: ns(),
        limit: LimitName::Quota("q".to_owned()),
        to,
        estimate: Amounts::new(),
        key: None,
    }
}

/// Takes something out from under the quota `q`.
pub fn detach(from: AttachTo) -> DetachLimit {
    DetachLimit { namespace: ns(), limit: LimitName::Quota("q".to_owned()), from }
}

/// Puts something under the budget `b`.
pub fn attach_budget(to: AttachTo) -> AttachLimit {
    AttachLimit { limit: LimitName::Budget("b".to_owned()), ..attach(to) }
}

/// Takes something out from under the budget `b`.
pub fn detach_budget(from: AttachTo) -> DetachLimit {
    DetachLimit { limit: LimitName::Budget("b".to_owned()), ..detach(from) }
}

/// Lists the budgets of a namespace.
pub fn list_budgets(namespace: &str) -> ListBudgets {
    ListBudgets { namespace: namespace.to_owned(), after: None, limit: Limits::PAGE }
}

/// Lists the quotas of a namespace.
pub fn list_quotas(namespace: &str) -> ListQuotas {
    ListQuotas { namespace: namespace.to_owned(), after: None, limit: Limits::PAGE }
}

/// What was refused because of a limit, and by which.
#[track_caller]
pub fn refused_by(claimed: ClaimedExecution) -> LimitedBy {
    match claimed {
        ClaimedExecution::Refused { why: ClaimRefusal::Limited { by } } => by,
        other => panic!("not refused by a limit: {other:?}"),
    }
}

/// The quota of that name, as what does not let work pass.
pub fn by_quota(name: &str) -> LimitedBy {
    LimitedBy::Quota(name.to_owned())
}

/// The budget of that name, as what does not let work pass.
pub fn by_budget(name: &str) -> LimitedBy {
    LimitedBy::Budget(name.to_owned())
}

impl Lab {
    /// A budget of which there is nothing.
    #[track_caller]
    pub(crate) fn nothing(&mut self) -> BudgetUse {
        self.ok(CreateBudget::new("nothing", tokens(0)));
        budget("nothing", 0)
    }

    /// How a quota stands.
    #[track_caller]
    pub fn quota(&mut self, name: &str) -> QuotaStatus {
        let (namespace, quota) = (ns(), name.to_owned());
        self.see(GetQuota { namespace, quota, after_key: None, limit: Limits::PAGE })
    }

    /// How many are owned under the quota `q`, and how many wait for it, whatever their keys.
    #[track_caller]
    pub fn load(&mut self) -> (u64, u64) {
        let keys = self.quota("q").keys;
        keys.iter()
            .fold((0, 0), |(active, blocked), key| (active + key.active, blocked + key.blocked))
    }

    /// How the budget `b` stands.
    #[track_caller]
    pub fn budget(&mut self) -> BudgetStatus {
        self.budget_named("b")
    }

    /// How a budget stands.
    #[track_caller]
    pub fn budget_named(&mut self, name: &str) -> BudgetStatus {
        self.see(GetBudget { namespace: ns(), budget: name.to_owned() })
    }

    /// What is spent and what is put by of the tokens of the budget `b`.
    #[track_caller]
    pub fn used(&mut self) -> (u64, u64) {
        self.used_of("b")
    }

    /// What is spent and what is put by of the tokens of a budget.
    #[track_caller]
    pub fn used_of(&mut self, name: &str) -> (u64, u64) {
        let usage = self.budget_named(name).usage["tokens"];
        (usage.spent, usage.reserved)
    }

    /// What an execution has spent.
    #[track_caller]
    pub fn ledger(&mut self, execution: ExecutionId) -> Vec<LedgerEntry> {
        self.see(GetLedger { namespace: ns(), execution }).budgets
    }

    /// Claims so many of the default lane, and expects to get them.
    #[track_caller]
    pub fn claim_all<const N: usize>(&mut self) -> [Leased; N] {
        let found = self.claims(up_to(1000));
        let count = found.len();
        found.try_into().unwrap_or_else(|_| panic!("{count} instead of {N}"))
    }

    /// How many executions are in that state.
    #[track_caller]
    pub fn count(&mut self, status: Status) -> u64 {
        let counts = self.counts().counts;
        counts.iter().filter(|one| one.status == status).map(|one| one.count).sum()
    }
}
