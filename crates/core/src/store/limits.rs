//! Budgets and quotas, and what waits before them.

use std::sync::Arc;

use crate::model::{
    Execution, Flow, Gate, GateRow, LaneId, Limit, LimitRow, LimitSort, NamespaceId,
    NamespaceLimits, Passage, Result, RowId, Timestamp, Turn, Use,
};

/// Questions about budgets and quotas.
pub trait ReadLimits {
    /// The budget or quota of that name.
    fn limit(
        &mut self,
        namespace: NamespaceId,
        sort: LimitSort,
        name: &str,
    ) -> Result<Option<Arc<Limit>>>;

    /// The budget or quota in a row that exists.
    fn limit_by_row(&mut self, row: LimitRow) -> Result<Arc<Limit>>;

    /// Budgets or quotas by name, from the first one after `after`.
    fn limits(
        &mut self,
        namespace: NamespaceId,
        sort: LimitSort,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<Arc<Limit>>>;

    /// The gate of a limit for a key, if it was ever used.
    fn find_gate(
        &mut self,
        namespace: NamespaceId,
        limit: LimitRow,
        key: &str,
    ) -> Result<Option<Gate>>;

    /// The gate in a row, if it is still there.
    fn gate_by_row(&mut self, row: GateRow) -> Result<Option<Gate>>;

    /// The gates of a limit by key, from the first one after `after`.
    fn gates(&mut self, limit: LimitRow, after: Option<&str>, limit_to: usize)
    -> Result<Vec<Gate>>;

    /// The limits an execution is or was under, by row of the limit.
    fn uses(&mut self, execution: RowId) -> Result<Vec<Use>>;

    /// What is under a limit and not over, by row of the execution, from the first one after
    /// `after`.
    fn open_uses(
        &mut self,
        limit: LimitRow,
        after: Option<RowId>,
        limit_to: usize,
    ) -> Result<Vec<Use>>;

    /// The passage through a gate that has that number.
    fn passage(&mut self, gate: GateRow, number: u64) -> Result<Option<Passage>>;

    /// What waits before a gate: of every lane and route the first `each`, highest priority
    /// first, then lowest rank.
    fn limited(&mut self, gate: GateRow, each: usize) -> Result<Vec<Execution>>;

    /// When a key has its next turn among work of a priority in a lane.
    fn turn(&mut self, lane: LaneId, priority: i32, key: &str) -> Result<Option<Turn>>;
}

/// Writes of budgets and quotas.
pub trait WriteLimits {
    /// The row of the next budget or quota.
    fn new_limit_row(&mut self) -> Result<LimitRow>;

    /// Creates or replaces a budget or quota.
    fn put_limit(&mut self, limit: &Limit) -> Result<()>;

    /// Removes a budget or quota with its gates, their passages, and its uses.
    fn drop_limit(&mut self, limit: &Limit) -> Result<()>;

    /// The gate of a limit for a key, made by its use.
    fn gate(&mut self, namespace: NamespaceId, limit: LimitRow, key: &str) -> Result<Gate>;

    /// Saves the course of a gate, and from when on it is idle.
    fn save_gate(&mut self, gate: &Gate) -> Result<()>;

    /// Removes up to `limit` gates that are idle by then, with their passages, and says how many.
    fn trim_gates(&mut self, by: Timestamp, limit: usize) -> Result<usize>;

    /// Creates or replaces a use.
    fn put_use(&mut self, of: &Use) -> Result<()>;

    /// Removes a use, if there is one.
    fn drop_use(&mut self, execution: RowId, limit: LimitRow) -> Result<()>;

    /// Creates or replaces the passage that begins with its first number.
    fn put_passage(&mut self, gate: GateRow, passage: &Passage) -> Result<()>;

    /// Removes the passages through a gate whose last number is not after that one.
    fn drop_passages(&mut self, gate: GateRow, through: u64) -> Result<()>;

    /// Creates or replaces a turn.
    fn put_turn(&mut self, turn: &Turn) -> Result<()>;

    /// Removes up to `limit` turns of a priority in a lane that come before that moment.
    fn drop_turns(&mut self, lane: LaneId, priority: i32, before: i64, limit: usize) -> Result<()>;

    /// Saves an execution's policy.
    fn save_policy(&mut self, execution: &Execution) -> Result<()>;

    /// Saves a flow's terms.
    fn save_terms(&mut self, flow: &Flow) -> Result<()>;

    /// Saves the limits of a namespace.
    fn save_limits(&mut self, namespace: NamespaceId, limits: &NamespaceLimits) -> Result<()>;
}
