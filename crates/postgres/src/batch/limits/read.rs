//! The questions.

use std::collections::BTreeMap;
use std::sync::Arc;

use everloom_core::{
    Error, Execution, Gate, GateRow, LaneId, Limit, LimitRow, LimitSort, NamespaceId, Passage,
    ReadLimits, Result, RowId, Turn, Use, WriteLimits,
};

use super::super::read::missing;
use super::super::{Batch, is_placeholder};
use super::is_dropped;
use crate::text;

impl ReadLimits for Batch<'_> {
    fn limit(
        &mut self,
        namespace: NamespaceId,
        sort: LimitSort,
        name: &str,
    ) -> Result<Option<Arc<Limit>>> {
        let key = (namespace, sort, name.to_owned());
        let made = self.round.limits.names.get(&key).copied().map(Some);
        match made.or_else(|| self.known.limits.names.get(&key).copied()) {
            Some(row) => {
                let found = row.and_then(|row| self.current_limit(row)).flatten();
                Ok(found.cloned())
            }
            None if is_placeholder(namespace.0) || !text::can_be(name) => Ok(None),
            None => {
                let guess = self.caches.limit_named(&key).cloned();
                self.ask().limits.names.insert(key);
                guess.map(Some).ok_or_else(Error::miss)
            }
        }
    }

    fn limit_by_row(&mut self, row: LimitRow) -> Result<Arc<Limit>> {
        match self.current_limit(row) {
            Some(limit) => limit.cloned().ok_or_else(|| missing("limit", row.0)),
            None => {
                self.ask().limits.rows.insert(row);
                self.caches.limit_by_row(row).cloned().ok_or_else(Error::miss)
            }
        }
    }

    fn limits(
        &mut self,
        namespace: NamespaceId,
        sort: LimitSort,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<Arc<Limit>>> {
        let written = self.round.limits.limits.len();
        let found = self.rows.direct().limits(namespace, sort, after, limit + written)?;
        let is_all = found.len() < limit + written;
        let last = found.last().map(|last| last.name.clone());
        let found = found.into_iter().map(|one| (one.row, one));
        let untouched = found.filter(|(row, _)| !self.round.limits.limits.contains_key(row));
        let mut all: BTreeMap<String, Arc<Limit>> =
            untouched.map(|(_, one)| (one.name.clone(), one)).collect();
        for one in self.round.limits.limits.values().flatten() {
            let within = is_all || last.as_ref().is_some_and(|last| one.name <= *last);
            let meant = (one.namespace, one.sort()) == (namespace, sort);
            if meant && within && after.is_none_or(|after| one.name.as_str() > after) {
                all.insert(one.name.clone(), Arc::clone(one));
            }
        }
        Ok(all.into_values().take(limit).collect())
    }

    fn find_gate(
        &mut self,
        namespace: NamespaceId,
        limit: LimitRow,
        key: &str,
    ) -> Result<Option<Gate>> {
        let name = (limit, namespace, key.to_owned());
        match self.known.limits.gate_names.get(&name) {
            Some(row) => Ok(row.and_then(|row| self.current_gate(row)).flatten().cloned()),
            None => {
                if !is_placeholder(namespace.0) && !is_placeholder(limit.0) && text::can_be(key) {
                    self.ask().limits.gates.insert(name);
                }
                Ok(None)
            }
        }
    }

    fn gate_by_row(&mut self, row: GateRow) -> Result<Option<Gate>> {
        match self.current_gate(row) {
            Some(gate) => Ok(gate.cloned()),
            None => {
                self.ask().limits.gate_rows.insert(row);
                self.expect_passages();
                Ok(None)
            }
        }
    }

    fn gates(
        &mut self,
        limit: LimitRow,
        after: Option<&str>,
        limit_to: usize,
    ) -> Result<Vec<Gate>> {
        Ok(self.list_gates(limit, after, limit_to))
    }

    fn uses(&mut self, execution: RowId) -> Result<Vec<Use>> {
        let mut uses: BTreeMap<LimitRow, &Use> = BTreeMap::new();
        if self.has_uses(execution)? {
            self.ask_uses(execution);
            let known = self.known.limits.uses.get(&execution);
            uses.extend(known.into_iter().flatten().map(|(limit, of)| (*limit, of)));
        }
        let all = (execution, LimitRow(i64::MIN))..=(execution, LimitRow(i64::MAX));
        let written = self.round.limits.uses.range(all);
        uses.extend(written.filter_map(|(place, of)| Some((place.1, of.as_ref()?))));
        uses.retain(|limit, _| !is_dropped(&self.round.limits, (execution, *limit)));
        Ok(uses.into_values().cloned().collect())
    }

    fn open_uses(
        &mut self,
        limit: LimitRow,
        after: Option<RowId>,
        limit_to: usize,
    ) -> Result<Vec<Use>> {
        Ok(self.list_open_uses(limit, after, limit_to))
    }

    fn passage(&mut self, gate: GateRow, number: u64) -> Result<Option<Passage>> {
        let limits = &self.round.limits;
        let written = limits.passages.range((gate, 0)..=(gate, number)).next_back();
        if let Some((_, passage)) = written.filter(|(_, passage)| number <= passage.last) {
            return Ok(Some(*passage));
        }
        let stored = self.known.limits.gates.get(&gate).and_then(Option::as_ref);
        if stored.is_some_and(|gate| gate.course.passed < number) {
            return Ok(None);
        }
        if let Some(known) = self.known.limits.passage(gate, number) {
            let dropped = limits.dropped_passages.get(&gate).copied().unwrap_or(0);
            return Ok(known.filter(|passage| passage.last > dropped).copied());
        }
        self.ask().limits.passages.insert((gate, number));
        Err(Error::miss())
    }

    fn limited(&mut self, gate: GateRow, each: usize) -> Result<Vec<Execution>> {
        self.list_limited(gate, each)
    }

    fn turn(&mut self, lane: LaneId, priority: i32, key: &str) -> Result<Option<Turn>> {
        let name = (lane, priority, key.to_owned());
        if let Some(written) = self.round.limits.turns.get(&name) {
            return Ok(Some(written.clone()));
        }
        if let Some(known) = self.known.limits.turns.get(&name) {
            return Ok(known.clone());
        }
        if !is_placeholder(lane.0) {
            self.ask().limits.turns.insert(name);
        }
        Ok(None)
    }
}

impl Batch<'_> {
    /// Asks for the gate of a limit for all, or for a key.
    pub(super) fn ask_gate_of(
        &mut self,
        namespace: NamespaceId,
        sort: LimitSort,
        name: &str,
        key: Option<&str>,
    ) {
        // What is missed is noted, and the round runs again.
        let Ok(Some(limit)) = self.limit(namespace, sort, name) else { return };
        let by_tag = limit.quota().is_some_and(|terms| terms.by_tag.is_some());
        if key.is_some() || !by_tag {
            let _ = self.gate(namespace, limit.row, key.unwrap_or_default());
        }
    }

    /// Lets gates bring along their passages, if they are likely to have any.
    pub(super) fn expect_passages(&mut self) {
        self.wants.limits.passages_along = self.caches.expects_passages();
    }
}
