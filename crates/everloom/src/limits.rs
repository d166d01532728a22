//! Budgets and quotas as programs see them.

use everloom_core::{
    AttachLimit, BudgetPage, BudgetReleased, BudgetStatus, BudgetTerms, CreateBudget, CreateQuota,
    DeleteBudget, DeleteQuota, DetachLimit, ExecutionId, GetBudget, GetLedger, GetQuota, Ledger,
    LimitChanged, LimitCreated, Limits, ListBudgets, ListQuotas, QuotaPage, QuotaStatus,
    QuotaTerms, ReleaseBudget, ResetBudget, Result, Spend, Spent, UpdateBudget, UpdateQuota,
};

use crate::Engine;

/// What work may use.
///
/// ```
/// use everloom::{
///     Allowance, BudgetTerms, BudgetUse, Claim, Engine, NewExecution, Policy, Spend, Spent,
/// };
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> everloom::Result<()> {
/// let engine = Engine::open("memory").await?;
/// let tokens = Allowance { hard: Some(1000), soft: Some(800) };
/// let terms = BudgetTerms::new([("tokens", tokens)]);
/// engine.create_budget("team", terms).await?;
///
/// let policy = Policy { budgets: vec![BudgetUse::new("team")], ..Policy::default() };
/// engine.submit_one(NewExecution::new("ask").policy(policy)).await?;
/// let work = engine.claim(Claim::new("w")).await?.leases.remove(0);
///
/// let spent = engine.spend(Spend::new(work.lease.clone(), [("tokens", 900)]).key("call-1")).await?;
/// assert!(matches!(spent, Spent::SoftBreach { spent: 900, soft: 800, .. }));
/// let refused = engine.spend(Spend::new(work.lease, [("tokens", 200)])).await?;
/// assert!(matches!(refused, Spent::HardBreach { hard: 1000, .. }));
/// assert_eq!(engine.budget("team").await?.usage["tokens"].spent, 900);
/// # Ok(())
/// # }
/// ```
impl Engine {
    /// Makes a budget. Making the same one again changes nothing.
    pub async fn create_budget(
        &self,
        budget: impl Into<String>,
        terms: BudgetTerms,
    ) -> Result<LimitCreated> {
        let budget = budget.into();
        self.apply(CreateBudget { namespace: self.here(), budget, terms }).await
    }

    /// Changes what a budget allows. What is spent stays spent; work that may go on again does.
    pub async fn update_budget(&self, budget: impl Into<String>, terms: BudgetTerms) -> Result<()> {
        let budget = budget.into();
        self.apply(UpdateBudget { namespace: self.here(), budget, terms }).await
    }

    /// Begins a budget anew, before its time.
    pub async fn reset_budget(
        &self,
        budget: impl Into<String>,
        by: impl Into<String>,
    ) -> Result<()> {
        let (budget, by) = (budget.into(), by.into());
        self.apply(ResetBudget { namespace: self.here(), budget, by }).await
    }

    /// Gives a budget back what an execution has spent of it since it last began anew.
    pub async fn release_budget(
        &self,
        budget: impl Into<String>,
        execution: ExecutionId,
        by: impl Into<String>,
    ) -> Result<BudgetReleased> {
        let (budget, by) = (budget.into(), by.into());
        self.apply(ReleaseBudget { namespace: self.here(), budget, execution, by }).await
    }

    /// Removes a budget that nothing is under.
    pub async fn delete_budget(&self, budget: impl Into<String>) -> Result<()> {
        self.apply(DeleteBudget { namespace: self.here(), budget: budget.into() }).await
    }

    /// How a budget stands.
    pub async fn budget(&self, budget: impl Into<String>) -> Result<BudgetStatus> {
        self.ask(GetBudget { namespace: self.here(), budget: budget.into() }).await
    }

    /// A page of budgets by name, from the first one after `after`.
    pub async fn budgets(&self, after: Option<String>, limit: usize) -> Result<BudgetPage> {
        self.ask(ListBudgets { namespace: self.here(), after, limit }).await
    }

    /// Makes a quota. Making the same one again changes nothing.
    pub async fn create_quota(
        &self,
        quota: impl Into<String>,
        terms: QuotaTerms,
    ) -> Result<LimitCreated> {
        let quota = quota.into();
        self.apply(CreateQuota { namespace: self.here(), quota, terms }).await
    }

    /// Changes what a quota allows.
    pub async fn update_quota(&self, quota: impl Into<String>, terms: QuotaTerms) -> Result<()> {
        let quota = quota.into();
        self.apply(UpdateQuota { namespace: self.here(), quota, terms }).await
    }

    /// Removes a quota that nothing is under.
    pub async fn delete_quota(&self, quota: impl Into<String>) -> Result<()> {
        self.apply(DeleteQuota { namespace: self.here(), quota: quota.into() }).await
    }

    /// How a quota stands, with its first keys; [`GetQuota`] has the rest.
    pub async fn quota(&self, quota: impl Into<String>) -> Result<QuotaStatus> {
        let (namespace, limit) = (self.here(), Limits::DEFAULT_PAGE);
        self.ask(GetQuota { namespace, quota: quota.into(), after_key: None, limit }).await
    }

    /// A page of quotas by name, from the first one after `after`.
    pub async fn quotas(&self, after: Option<String>, limit: usize) -> Result<QuotaPage> {
        self.ask(ListQuotas { namespace: self.here(), after, limit }).await
    }

    /// Puts a namespace, a lane, a kind, a flow or an execution under a budget or quota.
    pub async fn attach_limit(&self, attach: AttachLimit) -> Result<LimitChanged> {
        self.apply(AttachLimit { namespace: self.here(), ..attach }).await
    }

    /// Takes something out from under a budget or quota.
    pub async fn detach_limit(&self, detach: DetachLimit) -> Result<LimitChanged> {
        self.apply(DetachLimit { namespace: self.here(), ..detach }).await
    }

    /// Spends amounts of budgets: of all at once, or of none.
    pub async fn spend(&self, spend: Spend) -> Result<Spent> {
        self.apply(Spend { namespace: self.here(), ..spend }).await
    }

    /// What an execution has spent, of each budget.
    pub async fn ledger(&self, execution: ExecutionId) -> Result<Ledger> {
        self.ask(GetLedger { namespace: self.here(), execution }).await
    }
}
