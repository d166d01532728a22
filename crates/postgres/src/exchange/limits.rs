//! Budgets and quotas, and what waits before them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use everloom_core::{
    Gate, GateRow, LaneId, Limit, LimitRow, LimitSort, NamespaceId, NamespaceLimits, Passage,
    RowId, Timestamp, Turn, Use,
};

use super::add_pages;

/// A limit by its name.
pub(crate) type LimitName = (NamespaceId, LimitSort, String);

/// A gate by its key.
pub(crate) type GateName = (LimitRow, NamespaceId, String);

/// The gates of a limit after a key.
pub(crate) type GatePage = (LimitRow, Option<String>);

/// An execution under a limit.
pub(crate) type UsePlace = (RowId, LimitRow);

/// What is under a limit and not over, after an execution.
pub(crate) type OpenPage = (LimitRow, Option<RowId>);

/// A turn by its key: the lane, the priority and the key.
pub(crate) type TurnName = (LaneId, i32, String);

/// How many passages through a gate are loaded at a time.
pub(crate) const PASSAGES: usize = 100;

/// What is wanted. Limits are locked before gates, gates before flows and executions.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct LimitWants {
    /// Whether executions that are wanted by id bring along what they have of limits, with the
    /// gates.
    pub(crate) along: bool,
    /// Row ids for limits to be made.
    pub(crate) new_rows: usize,
    /// Namespaces whose limits nobody else changes meanwhile.
    pub(crate) own_namespaces: BTreeSet<NamespaceId>,
    /// Limits that nobody changes meanwhile.
    pub(crate) names: BTreeSet<LimitName>,
    pub(crate) rows: BTreeSet<LimitRow>,
    /// Limits that nobody else reads meanwhile.
    pub(crate) own: BTreeSet<LimitRow>,
    /// Locked; brings the limits along.
    pub(crate) gates: BTreeSet<GateName>,
    /// The same, and made unless they are there.
    pub(crate) new_gates: BTreeSet<GateName>,
    pub(crate) gate_rows: BTreeSet<GateRow>,
    pub(crate) gate_pages: BTreeMap<GatePage, usize>,
    /// Not locked: the execution is, always before. Brings gates and limits along.
    pub(crate) uses: BTreeSet<RowId>,
    /// Not locked.
    pub(crate) open_uses: BTreeMap<OpenPage, usize>,
    /// Passages from a number on. Not locked: the gate is.
    pub(crate) passages: BTreeSet<(GateRow, u64)>,
    /// Whether gates bring along their oldest passages.
    pub(crate) passages_along: bool,
    /// What waits before gates, how many of each lane and route; locked after other executions.
    pub(crate) limited: BTreeMap<GateRow, usize>,
    /// Locked, but for those that stand for the lane itself.
    pub(crate) turns: BTreeSet<TurnName>,
    /// To be removed now, because the rule wants to know how many there were.
    pub(crate) trim_gates: Option<(Timestamp, usize)>,
    /// Gates that are not to be trimmed, because they were read.
    pub(crate) spared: BTreeSet<GateRow>,
}

/// The answers to [`LimitWants`].
#[derive(Debug, Default)]
pub(crate) struct LoadedLimits {
    pub(crate) new_rows: Vec<LimitRow>,
    pub(crate) limits: Vec<Arc<Limit>>,
    pub(crate) gates: Vec<Gate>,
    pub(crate) uses: Vec<Use>,
    pub(crate) open_uses: BTreeMap<OpenPage, Vec<Use>>,
    pub(crate) passages: Vec<(GateRow, Passage)>,
    pub(crate) limited: BTreeMap<GateRow, Vec<RowId>>,
    pub(crate) turns: Vec<Turn>,
    pub(crate) trimmed_gates: usize,
}

/// Turns of a priority in a lane that are past.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PastTurns {
    pub(crate) lane: LaneId,
    pub(crate) priority: i32,
    pub(crate) before: i64,
    pub(crate) limit: usize,
}

/// What a batch wrote, in the order in which it is.
#[derive(Debug, Default)]
pub(crate) struct LimitChanges {
    pub(crate) namespaces: Vec<(NamespaceId, NamespaceLimits)>,
    /// With all that belongs to them.
    pub(crate) dropped: Vec<Arc<Limit>>,
    pub(crate) limits: Vec<Arc<Limit>>,
    pub(crate) gates: Vec<Gate>,
    pub(crate) dropped_gates: Vec<GateRow>,
    /// Through these numbers.
    pub(crate) dropped_passages: Vec<(GateRow, u64)>,
    pub(crate) passages: Vec<(GateRow, Passage)>,
    pub(crate) dropped_uses: Vec<UsePlace>,
    pub(crate) uses: Vec<Use>,
    /// Of keys that had none.
    pub(crate) new_turns: Vec<Turn>,
    pub(crate) turns: Vec<Turn>,
    pub(crate) past_turns: Vec<PastTurns>,
}

impl LimitWants {
    /// Wants also what `others` wants to lock in order, and what comes along with it.
    pub(super) fn add_locked(&mut self, others: &Self) {
        self.along |= others.along;
        self.own_namespaces.extend(&others.own_namespaces);
        self.names.extend(others.names.iter().cloned());
        self.rows.extend(&others.rows);
        self.own.extend(&others.own);
        self.gates.extend(others.gates.iter().cloned());
        self.new_gates.extend(others.new_gates.iter().cloned());
        self.gate_rows.extend(&others.gate_rows);
        add_pages(&mut self.gate_pages, &others.gate_pages);
        self.uses.extend(&others.uses);
        self.passages_along |= others.passages_along;
        add_pages(&mut self.limited, &others.limited);
        self.turns.extend(others.turns.iter().cloned());
    }
}
