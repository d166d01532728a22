//! Lists: what was found when they were first asked for, with what this round has written.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use everloom_core::{
    Error, Execution, Gate, GateRow, LaneId, LimitRow, Result, RouteId, RowId, State, Use,
};

use super::super::Batch;
use super::is_dropped;
use super::known::Page;

/// Where an execution stands among those that wait in one lane on one route.
type Place = (Reverse<i32>, i64, RowId);

fn place(execution: &Execution) -> Place {
    (Reverse(execution.priority), execution.rank, execution.row)
}

fn queue(execution: &Execution) -> (LaneId, RouteId) {
    (execution.lane, execution.route)
}

fn waits_before(execution: &Execution, gate: GateRow) -> bool {
    matches!(&execution.state, State::Limited(limited) if limited.gate == gate)
}

impl Batch<'_> {
    pub(super) fn list_gates(
        &mut self,
        limit: LimitRow,
        after: Option<&str>,
        most: usize,
    ) -> Vec<Gate> {
        let page = (limit, after.map(str::to_owned));
        let found = self.known.limits.gate_pages.get(&page);
        let is_all = self.is_new_limit(limit)
            || self.is_dropped_limit(limit)
            || found.is_some_and(Page::is_all);
        let last = found.and_then(|found| found.rows.last());
        let last = last.and_then(|row| self.known.limits.gates.get(row)?.as_ref());
        // Some may have been made after the page was loaded.
        let rows = self.known.limits.gates.keys().filter_map(|row| self.current_gate(*row)?);
        let of = rows.filter(|gate| gate.limit == limit);
        let within = |gate: &&Gate| {
            after.is_none_or(|after| gate.key.as_str() > after)
                && (is_all || last.is_some_and(|last| gate.key <= last.key))
        };
        let mut gates: Vec<_> = of.filter(within).cloned().collect();
        gates.sort_by(|one, other| one.key.cmp(&other.key));
        gates.truncate(most);
        if gates.len() < most && !is_all {
            let wanted = self.ask().limits.gate_pages.entry(page).or_default();
            *wanted = most.max(*wanted);
        }
        gates
    }

    pub(super) fn list_open_uses(
        &mut self,
        limit: LimitRow,
        after: Option<RowId>,
        most: usize,
    ) -> Vec<Use> {
        let page = (limit, after);
        let found = self.known.limits.open_uses.get(&page);
        let is_all = self.is_new_limit(limit)
            || self.is_dropped_limit(limit)
            || found.is_some_and(Page::is_all);
        let rows = found.map_or(&[][..], |found| &found.rows);
        let last = rows.last().map(|of| of.execution);
        let round = &self.round;
        let is_gone = |row: RowId| {
            matches!(round.executions.get(&row), Some(None))
                || is_dropped(&round.limits, (row, limit))
        };
        let mut uses: BTreeMap<RowId, Use> =
            rows.iter().map(|of| (of.execution, of.clone())).collect();
        for (_, of) in round.limits.uses.iter().filter(|(place, _)| place.1 == limit) {
            let Some(of) = of else { continue };
            let behind = after.is_none_or(|after| of.execution > after);
            let within = is_all || last.is_some_and(|last| of.execution <= last);
            if behind && within {
                uses.insert(of.execution, of.clone());
            }
        }
        uses.retain(|row, of| of.open && !is_gone(*row));
        let gone = rows.iter().filter(|of| !uses.contains_key(&of.execution)).count();
        let uses: Vec<Use> = uses.into_values().take(most).collect();
        if uses.len() < most && !is_all {
            let wanted = self.ask().limits.open_uses.entry(page).or_default();
            *wanted = most.saturating_add(gone).max(*wanted);
        }
        uses
    }

    pub(super) fn list_limited(&mut self, gate: GateRow, each: usize) -> Result<Vec<Execution>> {
        let Some(found) = self.known.limits.limited.get(&gate) else {
            return Err(self.miss_limited(gate, each));
        };
        let mut queues: BTreeMap<_, Queue<'_>> = BTreeMap::new();
        for known in found.rows.iter().filter_map(|row| self.known.executions.get(row)) {
            let queue = queues.entry(queue(known)).or_default();
            queue.found += 1;
            queue.last = queue.last.max(Some(place(known)));
            match self.current(known.row).filter(|current| waits_before(current, gate)) {
                // Whoever changes its priority or rank moves it.
                Some(current) if place(current) == place(known) => {
                    queue.waiting.insert(place(current), current);
                }
                _ => queue.gone += 1,
            }
        }
        for written in self.round.executions.values().flatten() {
            if waits_before(written, gate) {
                let queue = queues.entry(queue(written)).or_default();
                if queue.found < found.limit || queue.last.is_some_and(|last| place(written) < last)
                {
                    queue.waiting.insert(place(written), written);
                }
            }
        }
        let lacks = |queue: &Queue<'_>| queue.found >= found.limit && queue.waiting.len() < each;
        let gone = queues.values().filter(|queue| lacks(queue)).map(|queue| queue.gone).max();
        if let Some(gone) = gone {
            let more = each.saturating_add(gone).max(found.limit + 1);
            return Err(self.miss_limited(gate, more));
        }
        let heads = queues.values().flat_map(|queue| queue.waiting.values().take(each));
        Ok(heads.copied().cloned().collect())
    }

    /// Adds what this round has freed from its gate to what may be claimed in a lane on some routes.
    pub(in crate::batch) fn with_freed(
        &self,
        mut claimable: Vec<Execution>,
        lane: LaneId,
        routes: &[RouteId],
        limit: usize,
    ) -> Vec<Execution> {
        let waited = self.known.limits.limited.values().flat_map(|found| &found.rows);
        let freed = waited.filter_map(|row| self.round.executions.get(row)?.as_ref());
        let meant = |one: &&Execution| {
            one.claimable() && one.lane == lane && routes.binary_search(&one.route).is_ok()
        };
        let before = claimable.len();
        claimable.extend(freed.filter(meant).cloned());
        if claimable.len() > before {
            claimable.sort_by_key(place);
            claimable.truncate(limit);
        }
        claimable
    }

    fn miss_limited(&mut self, gate: GateRow, each: usize) -> Error {
        let wanted = self.ask().limits.limited.entry(gate).or_default();
        *wanted = each.max(*wanted);
        Error::miss()
    }
}

/// What waits before a gate in one lane on one route.
#[derive(Default)]
struct Queue<'a> {
    waiting: BTreeMap<Place, &'a Execution>,
    /// How many were found, the last of them, and how many of them do something else now.
    found: usize,
    last: Option<Place>,
    gone: usize,
}
