//! Index questions: what was found when they were first asked, as far as this round has left it
//! alone.

use std::collections::BTreeMap;

use everloom_core::{
    Error, Execution, LaneId, NamespaceId, Request, Result, RouteId, RowId, State, Timestamp,
    WorkerRow,
};

use super::{Batch, is_placeholder};
use crate::exchange::WantedClaim;

/// Due moments that are asked for beyond what a tick may settle, if there is anything to settle.
const SPARE_DUE_MOMENTS: usize = 100;

impl Batch<'_> {
    /// An execution that this round has not written. The answer to an index question says nothing
    /// about one that it has.
    pub(super) fn untouched(&self, row: RowId) -> Option<&Execution> {
        match self.round.executions.contains_key(&row) {
            true => None,
            false => self.known.executions.get(&row),
        }
    }

    pub(super) fn list_claimable(
        &mut self,
        lane: LaneId,
        routes: &[RouteId],
        limit: usize,
    ) -> Result<Vec<Execution>> {
        if is_placeholder(lane.0) || routes.is_empty() {
            return Ok(vec![]);
        }
        // Routes are in ascending order; the round that made one is run again without it.
        if is_placeholder(routes[0].0) {
            return Err(Error::miss());
        }
        *self.round.demand.entry(lane).or_default() += limit;
        // Whoever finds nothing here goes on to its next lane, which is then loaded along.
        let unknown = match self.caches.is_idle(lane) {
            true => Ok(vec![]),
            false => Err(Error::miss()),
        };
        let claims = &mut self.wants.claims;
        let same = |claim: &&mut WantedClaim| claim.lane == lane && *claim.routes == *routes;
        if let Some(wanted) = claims.iter_mut().find(same) {
            wanted.limit += limit;
            return unknown;
        }
        let pool = self.known.pool(lane, routes);
        let found = pool.map_or(&[][..], |(_, found)| &found.rows);
        let taken = pool.map_or(0, |(index, _)| self.skip_taken(index, found));
        let free = found[taken..].iter().filter_map(|row| self.untouched(*row));
        let free: Vec<_> = free.take(limit).cloned().collect();
        let first = pool.is_none();
        let is_all = pool.is_some_and(|(_, found)| found.is_all());
        if free.len() < limit && !is_all {
            let changed = found.len() - free.len();
            let limit = changed + limit + self.spare_for_refused(found);
            let claim = WantedClaim { lane, routes: routes.into(), limit };
            self.ask().claims.push(claim);
            if first && unknown.is_err() {
                self.ask_gates_of_lane(lane);
            }
            return unknown;
        }
        let free = self.with_freed(free, lane, routes, limit);
        for one in free.iter().filter(|one| one.beside.limits) {
            self.ask_uses(one.row);
        }
        Ok(free)
    }

    /// How many more to look for than are wanted. What a limit has refused is likely to be followed by
    /// more of its kind, and one at a time would be a load for each.
    fn spare_for_refused(&self, found: &[RowId]) -> usize {
        let limited = |row: &&RowId| {
            let current = self.current(**row);
            current.is_some_and(|current| matches!(current.state, State::Limited(_)))
        };
        match found.iter().filter(limited).count() {
            0 => 0,
            refused => (4 * refused).max(16),
        }
    }

    /// How many rows at the head of a pool this round has written: claims take from there, and
    /// each would otherwise pass all those before it.
    fn skip_taken(&self, pool: usize, found: &[RowId]) -> usize {
        let mut heads = self.round.pool_heads.borrow_mut();
        let head = heads.entry(pool).or_default();
        while found.get(*head).is_some_and(|row| self.untouched(*row).is_none()) {
            *head += 1;
        }
        *head
    }

    pub(super) fn list_owned(
        &mut self,
        namespace: NamespaceId,
        worker: &str,
        by: Timestamp,
        limit: usize,
    ) -> Vec<Execution> {
        if is_placeholder(namespace.0) {
            return vec![];
        }
        let name = (namespace, worker.to_owned());
        let owned = |execution: &&Execution| {
            execution.state.worker() == Some(worker) && execution.since <= by
        };
        let (mut still, mut others, mut is_all) = (Vec::new(), 0, false);
        if let Some(found) = self.known.owned.get(&name) {
            // The longest owned come first, so nothing behind one that is owned too shortly counts.
            let last = found.rows.last().and_then(|row| self.known.executions.get(row));
            is_all = found.is_all() || last.is_some_and(|last| last.since > by);
            for row in &found.rows {
                // Also what this round changed: a lease that is renewed here must not outlive the
                // registration that takes it away.
                match self.current(*row).filter(owned) {
                    Some(execution) => still.push(execution),
                    None => others += 1,
                }
            }
        }
        let owned = still.into_iter().take(limit).cloned().collect::<Vec<_>>();
        if owned.len() < limit && !is_all {
            let wanted = self.ask().owned.entry(name).or_default();
            *wanted = others + limit.max(*wanted);
        }
        owned
    }

    pub(super) fn list_requests(&mut self, limit: usize) -> Vec<Request> {
        let round = &self.round.requests;
        let (mut waiting, mut is_all) = (Vec::new(), false);
        if let Some((ids, asked)) = &self.known.waiting_requests {
            let untouched = ids.iter().filter(|id| !round.contains_key(id));
            let rows = untouched.filter_map(|id| self.known.requests.get(id)?.clone());
            waiting.extend(rows.take(limit));
            is_all = ids.len() < *asked;
        }
        if waiting.len() < limit && !is_all {
            let taken = round.len();
            let wants = self.ask();
            wants.requests = wants.requests.max(taken + limit);
        }
        waiting
    }

    pub(super) fn number_owned(&mut self, lane: LaneId) -> u32 {
        let known = match self.known.owned_counts.get(&lane) {
            Some(count) => *count,
            None if is_placeholder(lane.0) => 0,
            None => {
                self.ask().owned_counts.insert(lane);
                0
            }
        };
        let owned =
            |execution: &&Execution| execution.lane == lane && execution.state.worker().is_some();
        let rows = self.round.executions.keys();
        let before = rows.filter_map(|row| self.known.executions.get(row)).filter(owned).count();
        let after = self.round.executions.values().flatten().filter(owned).count();
        let count = (known as usize + after).saturating_sub(before);
        u32::try_from(count).unwrap_or(u32::MAX)
    }

    pub(super) fn earliest_due(&mut self) -> Option<Timestamp> {
        let settled = self.wants.due.map(|(_, limit)| limit);
        let settled = settled.or(self.known.due.as_ref().map(Vec::len)).unwrap_or(0);
        let needed = match &self.known.due_moments {
            Some(known) if known.first().is_some_and(|first| first <= self.now) => {
                settled + SPARE_DUE_MOMENTS
            }
            // Nothing is due, most likely, and so the first one is all there is to tell.
            Some(_) | None => 1,
        };
        let known = self.known.due_moments.as_ref();
        if known.is_none_or(|known| known.limit < needed) {
            let wants = self.ask();
            wants.next_due = wants.next_due.max(needed);
        }
        let known = self.known.due_moments.as_ref()?;
        let round = &self.round;
        let kept = [
            first_kept(&known.executions, known.limit, &round.executions),
            first_kept(&known.workers, known.limit, &round.workers),
            first_kept(&known.chores, known.limit, &round.chores),
        ];
        let executions = round.executions.values().flatten();
        let open = executions.filter(|execution| !execution.status().is_terminal());
        let written = (open.filter_map(Execution::due_at))
            .chain(round.workers.values().flatten().map(WorkerRow::due_at))
            .chain(round.chores.values().flatten().map(|chore| chore.due_at));
        written.chain(kept.into_iter().flatten()).min()
    }
}

/// The earliest moment of a row that this round has not written. When there may be more rows than
/// were looked at, the last of these tells how early theirs may be.
fn first_kept<K: Ord, V>(
    moments: &[(Timestamp, K)],
    limit: usize,
    written: &BTreeMap<K, Option<V>>,
) -> Option<Timestamp> {
    let kept = moments.iter().find(|(_, key)| !written.contains_key(key));
    let last = moments.last().filter(|_| moments.len() >= limit);
    kept.or(last).map(|(at, _)| *at)
}
