//! What work may use: budgets, quotas, concurrency keys, and turns by key.
//!
//! Which limits work is under stands where a claim looks anyway: in its policy, its lane and its
//! namespace. Whether they let it pass is decided when it is claimed, and what they let it have
//! comes back when its owner goes, however that happens.

mod attach;
mod breach;
mod budget;
mod course;
mod fair;
mod gate;
mod queue;
mod quota;
mod rate;
mod read;
mod spend;

pub use attach::{AttachLimit, AttachTo, DetachLimit, LimitChange, LimitChanged, LimitName};
pub use breach::BreachWork;
pub use budget::{
    BudgetReleased, CreateBudget, DeleteBudget, LimitCreated, ReleaseBudget, ResetBudget,
    UpdateBudget,
};
pub use quota::{CreateQuota, DeleteQuota, UpdateQuota};
pub use read::{
    BudgetPage, BudgetStatus, DimensionStatus, GetBudget, GetLedger, GetQuota, Ledger, LedgerEntry,
    ListBudgets, ListQuotas, QuotaKeyStatus, QuotaPage, QuotaStatus,
};
pub use spend::{Spend, Spent};

pub(crate) use attach::{attach_members, joined};
pub(crate) use breach::{bite, pause, unpause};
pub(crate) use fair::{advance, after_all, rank};
pub(crate) use gate::{admit, left};
pub(crate) use queue::{gone, look, reconsider, retagged};
pub(crate) use read::what_for;

use std::sync::Arc;

use crate::model::{
    BudgetUse, Error, Execution, Lane, Limit, LimitRow, LimitSort, LimitUses, Namespace,
    NamespaceId, Policy, QuotaUse, Result, Share, Use,
};
use crate::store::{Read, Tx};

/// The budgets and quotas an execution is under: its own, and those of its lane, kind and
/// namespace.
fn under(
    read: &mut dyn Read,
    namespace: &Namespace,
    lane: &Lane,
    execution: &Execution,
) -> Result<LimitUses> {
    let mut uses = LimitUses {
        budgets: execution.policy.budgets.clone(),
        quotas: execution.policy.quotas.clone(),
    };
    uses.add(&lane.limits);
    if !namespace.limits.kinds.is_empty() {
        let routes = read.routes(namespace.id)?;
        let kind = routes.get(execution.route).map(|route| route.kind.as_str());
        if let Some(of_kind) = kind.and_then(|kind| namespace.limits.kinds.get(kind)) {
            uses.add(of_kind);
        }
    }
    uses.add(&namespace.limits.all);
    Ok(uses)
}

/// The budget or quota of that name.
fn find(
    read: &mut dyn Read,
    namespace: NamespaceId,
    sort: LimitSort,
    name: &str,
) -> Result<Arc<Limit>> {
    read.limit(namespace, sort, name)?
        .ok_or_else(|| Error::not_found(sort.as_str(), format!("`{name}`; create it first")))
}

/// Refuses a policy that names limits that do not exist, or needs of a budget what it does not
/// count.
pub(crate) fn check_named(
    read: &mut dyn Read,
    namespace: Option<&Namespace>,
    policy: &Policy,
    prefix: &str,
) -> Result<()> {
    check_uses_exist(read, namespace, &policy.budgets, &policy.quotas, prefix)
}

fn check_uses_exist(
    read: &mut dyn Read,
    namespace: Option<&Namespace>,
    budgets: &[BudgetUse],
    quotas: &[QuotaUse],
    prefix: &str,
) -> Result<()> {
    let missing = |sort: LimitSort, name: &str, list: &str| {
        Error::not_found(sort.as_str(), format!("`{name}`; create it first"))
            .with_field(format!("{prefix}{list}"))
    };
    for one in budgets {
        let found = match namespace {
            Some(namespace) => read.limit(namespace.id, LimitSort::Budget, &one.budget)?,
            None => None,
        };
        let limit = found.ok_or_else(|| missing(LimitSort::Budget, &one.budget, "budgets"))?;
        let terms = gate::budget_terms(&limit)?;
        for dimension in one.estimate.keys() {
            if !terms.dimensions.contains_key(dimension) {
                return Err(undeclared(
                    &format!("{prefix}budgets.estimate"),
                    dimension,
                    &one.budget,
                ));
            }
        }
    }
    for one in quotas {
        let found = match namespace {
            Some(namespace) => read.limit(namespace.id, LimitSort::Quota, &one.quota)?,
            None => None,
        };
        found.ok_or_else(|| missing(LimitSort::Quota, &one.quota, "quotas"))?;
    }
    Ok(())
}

fn undeclared(field: &str, dimension: &str, budget: &str) -> Error {
    Error::invalid(
        field,
        format!("budget `{budget}` has no dimension `{dimension}`; declare it or leave it out"),
    )
}

/// Remembers which limits a new execution names, so that they are not removed under it.
pub(crate) fn named(tx: &mut dyn Tx, execution: &Execution) -> Result<()> {
    let rows = named_rows(tx, execution)?;
    for limit in rows {
        let share = Share { named: true, ..Share::default() };
        tx.put_use(&Use { execution: execution.row, limit, open: true, gate: None, share })?;
    }
    Ok(())
}

fn named_rows(read: &mut dyn Read, execution: &Execution) -> Result<Vec<LimitRow>> {
    let policy = &execution.policy;
    let budgets = policy.budgets.iter().map(|one| (LimitSort::Budget, &one.budget));
    let quotas = policy.quotas.iter().map(|one| (LimitSort::Quota, &one.quota));
    let mut rows = Vec::new();
    for (sort, name) in budgets.chain(quotas) {
        rows.extend(read.limit(execution.namespace, sort, name)?.map(|limit| limit.row));
    }
    Ok(rows)
}

/// Puts an execution that begins anew under the limits it names.
pub(crate) fn reopened(tx: &mut dyn Tx, execution: &Execution) -> Result<()> {
    if !execution.policy.names_limits() {
        return Ok(());
    }
    for limit in named_rows(tx, execution)? {
        let mut of = gate::use_of(tx, execution, limit)?;
        of.open = true;
        of.share.named = true;
        tx.put_use(&of)?;
    }
    Ok(())
}
