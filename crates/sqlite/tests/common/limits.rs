//! Budgets and quotas, and what waits before them.

use std::time::Duration;

use everloom_core::{
    Allowance, BudgetTerms, Execution, GateRow, Limit, LimitPlace, LimitRow, LimitTerms, Limited,
    LimitedBy, NamespaceId, Payload, QuotaTerms, RateTerms, Ready, RowId, Share, State,
    Transaction, Use,
};

use super::{Queue, at};

pub(crate) fn budget(row: LimitRow, namespace: NamespaceId, name: &str) -> Limit {
    let terms = BudgetTerms {
        period: Some(Duration::from_secs(60)),
        ..BudgetTerms::new([("tokens", Allowance { hard: Some(u64::MAX), soft: Some(9) })])
    };
    let (terms, places) = (LimitTerms::Budget(terms), vec![LimitPlace::Lane("default".into())]);
    Limit { row, namespace, name: name.into(), terms, places, created_at: at(3) }
}

pub(crate) fn quota(row: LimitRow, namespace: NamespaceId, name: &str) -> Limit {
    let rate = RateTerms { limit: 5, window: Duration::from_secs(1) };
    let terms = QuotaTerms { rate: Some(rate), concurrency: Some(2), by_tag: Some("team".into()) };
    let terms = LimitTerms::Quota(terms);
    Limit { row, namespace, name: name.into(), terms, places: vec![], created_at: at(4) }
}

/// The state of what waits before a gate.
pub(crate) fn before(gate: GateRow) -> State {
    State::Limited(Limited { gate, by: LimitedBy::Quota("q".into()), then: Ready::Resumable })
}

/// Inserts an execution that waits before a gate.
pub(crate) fn add_limited(tx: &mut dyn Transaction, queue: Queue, gate: GateRow) -> Execution {
    let execution = Execution { state: before(gate), ..queue.waiting(tx.new_row().unwrap()) };
    tx.insert(&execution, &Payload::default(), None).unwrap();
    execution
}

pub(crate) fn open_use(execution: RowId, limit: LimitRow) -> Use {
    Use { execution, limit, open: true, gate: None, share: Share::default() }
}
