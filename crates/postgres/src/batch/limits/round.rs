//! What a round wrote.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use everloom_core::{
    Gate, GateRow, LaneId, Limit, LimitRow, NamespaceId, NamespaceLimits, Passage, RowId, Turn, Use,
};

use super::is_dropped;
use super::known::KnownLimits;
use crate::exchange::{Changes, LimitName, PastTurns, TurnName, UsePlace};

/// What a round wrote, at its last state. A key without a value was removed.
#[derive(Default)]
pub(in crate::batch) struct NewLimits {
    pub(super) rows_used: usize,
    pub(in crate::batch) namespaces: BTreeMap<NamespaceId, NamespaceLimits>,
    /// The names of those that were put.
    pub(super) names: BTreeMap<LimitName, LimitRow>,
    pub(super) limits: BTreeMap<LimitRow, Option<Arc<Limit>>>,
    pub(super) gates: BTreeMap<GateRow, Gate>,
    /// Idle gates that were read before they were trimmed.
    pub(super) trimmed: BTreeSet<GateRow>,
    pub(super) uses: BTreeMap<UsePlace, Option<Use>>,
    pub(super) passages: BTreeMap<(GateRow, u64), Passage>,
    /// Up to which number those that were there before are gone.
    pub(super) dropped_passages: BTreeMap<GateRow, u64>,
    pub(super) turns: BTreeMap<TurnName, Turn>,
    /// Before which moment turns are gone, and how many of them.
    pub(super) past_turns: BTreeMap<(LaneId, i32), (i64, usize)>,
    pub(super) told_trimmed: bool,
}

impl NewLimits {
    /// Forgets what was written about an execution that is removed.
    pub(in crate::batch) fn forget(&mut self, row: RowId) {
        self.uses.retain(|place, _| place.0 != row);
    }

    /// What is left to be written.
    pub(in crate::batch) fn into_changes(mut self, changes: &mut Changes, known: &KnownLimits) {
        let changes = &mut changes.limits;
        let uses = std::mem::take(&mut self.uses);
        let is_known = |place: &UsePlace| known.uses.get(&place.0).and_then(|of| of.get(&place.1));
        for (place, of) in uses {
            match of {
                // They go with their limits.
                _ if is_dropped(&self, place) => {}
                Some(of) if is_known(&place) == Some(&of) => {}
                Some(of) => changes.uses.push(of),
                None => changes.dropped_uses.push(place),
            }
        }
        self.gates.retain(|row, _| !self.trimmed.contains(row));
        changes.dropped_gates.extend(self.trimmed);
        for (row, gate) in self.gates {
            if known.gates.get(&row).and_then(Option::as_ref) != Some(&gate) {
                changes.gates.push(gate);
            }
        }
        for (row, limit) in self.limits {
            let before = known.limits.get(&row).and_then(Option::as_ref);
            match (limit, before) {
                (Some(limit), before) if before != Some(&limit) => changes.limits.push(limit),
                (None, Some(before)) => changes.dropped.push(Arc::clone(before)),
                // It is what it was, or came and went within the round.
                (Some(_), _) | (None, None) => {}
            }
        }
        changes.namespaces.extend(self.namespaces);
        changes.dropped_passages.extend(self.dropped_passages);
        let passages = self.passages.into_iter();
        changes.passages.extend(passages.map(|((gate, _), passage)| (gate, passage)));
        for (name, turn) in self.turns {
            // How far a lane has come is not locked: several may be the first to say.
            let is_new = name.2 != Turn::NOW && matches!(known.turns.get(&name), Some(None));
            match is_new {
                true => changes.new_turns.push(turn),
                false => changes.turns.push(turn),
            }
        }
        let past = self.past_turns.into_iter();
        let past = past.map(|((lane, priority), (before, limit))| PastTurns {
            lane,
            priority,
            before,
            limit,
        });
        changes.past_turns.extend(past);
    }
}
