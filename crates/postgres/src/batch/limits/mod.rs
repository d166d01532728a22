//! Budgets and quotas, and what waits before them: questions and writes about it.
//!
//! A limit is shared by all who go by its terms, and had alone by who changes it. A gate is always had
//! alone: whoever passes it counts. What executions have of limits changes only while they are locked.

mod known;
mod lists;
mod read;
mod round;
mod write;

use std::sync::Arc;

use everloom_core::{Gate, GateRow, LaneId, Limit, LimitRow, LimitSort, LimitUses, Result, RowId};

use super::{Batch, is_placeholder};
use crate::exchange::UsePlace;
pub(super) use known::KnownLimits;
pub(super) use round::NewLimits;

impl Batch<'_> {
    /// Whether the database has something that an execution has of limits.
    fn has_uses(&mut self, row: RowId) -> Result<bool> {
        self.has_beside(row, |execution| execution.beside.limits)
    }

    /// A limit as this round sees it, if that is known.
    fn current_limit(&self, row: LimitRow) -> Option<Option<&Arc<Limit>>> {
        let written = self.round.limits.limits.get(&row);
        written.or_else(|| self.known.limits.limits.get(&row)).map(Option::as_ref)
    }

    /// A gate as this round sees it, if that is known.
    fn current_gate(&self, row: GateRow) -> Option<Option<&Gate>> {
        if self.round.limits.trimmed.contains(&row) {
            return Some(None);
        }
        if let Some(written) = self.round.limits.gates.get(&row) {
            return Some(Some(written));
        }
        let known = self.known.limits.gates.get(&row)?.as_ref();
        Some(known.filter(|gate| !self.is_dropped_limit(gate.limit)))
    }

    fn is_dropped_limit(&self, row: LimitRow) -> bool {
        matches!(self.round.limits.limits.get(&row), Some(None))
    }

    /// Whether a limit has no past in the database.
    fn is_new_limit(&self, row: LimitRow) -> bool {
        let written = self.round.limits.limits.contains_key(&row);
        let known = self.known.limits.limits.get(&row);
        is_placeholder(row.0) || (written && !matches!(known, Some(Some(_))))
    }

    /// Asks for a limit so that nobody else reads it meanwhile.
    fn ask_own_limit(&mut self, row: LimitRow) {
        if !self.is_new_limit(row) && !self.known.limits.own.contains(&row) {
            self.ask().limits.own.insert(row);
        }
    }

    /// Asks for what an execution that was found has of limits.
    pub(super) fn ask_uses(&mut self, row: RowId) {
        if !self.known.limits.uses.contains_key(&row) {
            self.ask().limits.uses.insert(row);
        }
    }

    /// Asks for the gates that all work of a lane has to pass, together with the work.
    pub(super) fn ask_gates_of_lane(&mut self, lane: LaneId) {
        let known = self.known.lanes.get(&lane).and_then(Option::as_ref);
        let lane = self.round.lanes.get(&lane).or(known).or_else(|| self.caches.lane_by_id(lane));
        let Some(lane) = lane else { return };
        let id = lane.namespace;
        let known = self.known.namespaces.get(&id).and_then(Option::as_ref);
        let namespace = known.or_else(|| self.caches.namespace_by_id(id));
        let Some(namespace) = namespace else { return };
        if lane.limits.is_empty() && namespace.limits.is_empty() {
            return;
        }
        let mut uses = lane.limits.clone();
        uses.add(&namespace.limits.all);
        let LimitUses { budgets, quotas } = uses;
        for one in budgets {
            self.ask_gate_of(id, LimitSort::Budget, &one.budget, None);
        }
        for one in quotas {
            self.ask_gate_of(id, LimitSort::Quota, &one.quota, one.key.as_deref());
        }
    }
}

/// Whether the round has dropped a use.
fn is_dropped(round: &NewLimits, place: UsePlace) -> bool {
    matches!(round.uses.get(&place), Some(None)) || matches!(round.limits.get(&place.1), Some(None))
}
