//! Budgets and quotas, and what waits before them.

use std::cmp::Reverse;
use std::ops::Bound::{Excluded, Included, Unbounded};
use std::sync::Arc;

use super::Session;
use super::read::missing;
use super::tables::{Change, Place};
use super::write::next;
use crate::model::{
    Execution, Flow, Gate, GateCourse, GateRow, LaneId, Limit, LimitRow, LimitSort, Namespace,
    NamespaceId, NamespaceLimits, Passage, Result, RouteId, RowId, Timestamp, Turn, Use,
};
use crate::store::{Read, ReadLimits, WriteLimits};

impl ReadLimits for Session<'_> {
    fn limit(
        &mut self,
        namespace: NamespaceId,
        sort: LimitSort,
        name: &str,
    ) -> Result<Option<Arc<Limit>>> {
        let row = self.tables.index.limit_names.get(&(namespace, sort, name.to_owned())).copied();
        row.map(|row| self.limit_by_row(row)).transpose()
    }

    fn limit_by_row(&mut self, row: LimitRow) -> Result<Arc<Limit>> {
        self.tables.limits.get(&row).cloned().ok_or_else(|| missing("limit", row.0))
    }

    fn limits(
        &mut self,
        namespace: NamespaceId,
        sort: LimitSort,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<Arc<Limit>>> {
        let from = match after {
            Some(after) => Excluded((namespace, sort, after.to_owned())),
            None => Included((namespace, sort, String::new())),
        };
        let names = self.tables.index.limit_names.range((from, Unbounded));
        let rows: Vec<_> = names
            .take_while(|(name, _)| (name.0, name.1) == (namespace, sort))
            .take(limit)
            .map(|(_, row)| *row)
            .collect();
        rows.into_iter().map(|row| self.limit_by_row(row)).collect()
    }

    fn find_gate(
        &mut self,
        namespace: NamespaceId,
        limit: LimitRow,
        key: &str,
    ) -> Result<Option<Gate>> {
        let row = self.tables.index.gate_keys.get(&(limit, namespace, key.to_owned()));
        Ok(row.map(|row| Gate::clone(&self.tables.gates[row])))
    }

    fn gate_by_row(&mut self, row: GateRow) -> Result<Option<Gate>> {
        Ok(self.tables.gates.get(&row).map(|gate| Gate::clone(gate)))
    }

    fn gates(
        &mut self,
        limit: LimitRow,
        after: Option<&str>,
        limit_to: usize,
    ) -> Result<Vec<Gate>> {
        let all = (limit, NamespaceId(i64::MIN), String::new());
        let gates = self.tables.index.gate_keys.range(all..);
        let gates = gates
            .take_while(|((of, ..), _)| *of == limit)
            .filter(|((.., key), _)| after.is_none_or(|after| after < key.as_str()));
        Ok(gates.take(limit_to).map(|(_, row)| Gate::clone(&self.tables.gates[row])).collect())
    }

    fn uses(&mut self, execution: RowId) -> Result<Vec<Use>> {
        let all = (execution, LimitRow(i64::MIN))..=(execution, LimitRow(i64::MAX));
        Ok(self.tables.uses.range(all).map(|(_, of)| Use::clone(of)).collect())
    }

    fn open_uses(
        &mut self,
        limit: LimitRow,
        after: Option<RowId>,
        limit_to: usize,
    ) -> Result<Vec<Use>> {
        let from = Excluded((limit, after.unwrap_or(RowId(i64::MIN))));
        let to = Included((limit, RowId(i64::MAX)));
        let open = self.tables.index.open_uses.range((from, to));
        let uses = open.map(|(limit, row)| Use::clone(&self.tables.uses[&(*row, *limit)]));
        Ok(uses.take(limit_to).collect())
    }

    fn passage(&mut self, gate: GateRow, number: u64) -> Result<Option<Passage>> {
        let before = self.tables.passages.range((gate, 0)..=(gate, number)).next_back();
        Ok(before.map(|(_, passage)| **passage).filter(|passage| number <= passage.last))
    }

    fn limited(&mut self, gate: GateRow, each: usize) -> Result<Vec<Execution>> {
        const FIRST: Place = (Reverse(i32::MAX), i64::MIN, RowId(i64::MIN));
        const LAST: Place = (Reverse(i32::MIN), i64::MAX, RowId(i64::MAX));
        let index = &self.tables.index.limited;
        let mut found = Vec::new();
        let mut from = Included((gate, LaneId(i64::MIN), RouteId(i64::MIN), FIRST));
        while let Some((of, lane, route, _)) = index.range((from, Unbounded)).next().copied()
            && of == gate
        {
            let queue = index.range((gate, lane, route, FIRST)..=(gate, lane, route, LAST));
            let rows = queue.take(each).map(|(.., place)| place.2);
            found.extend(rows.map(|row| self.tables.execution(row).clone()));
            from = Excluded((gate, lane, route, LAST));
        }
        Ok(found)
    }

    fn turn(&mut self, lane: LaneId, priority: i32, key: &str) -> Result<Option<Turn>> {
        Ok(self.tables.turns.get(&(lane, priority, key.to_owned())).map(|turn| Turn::clone(turn)))
    }
}

impl WriteLimits for Session<'_> {
    fn new_limit_row(&mut self) -> Result<LimitRow> {
        Ok(LimitRow(next(&mut self.tables.sequences.limit)))
    }

    fn put_limit(&mut self, limit: &Limit) -> Result<()> {
        self.write(Change::Limit(limit.row, Some(Arc::new(limit.clone()))));
        Ok(())
    }

    fn drop_limit(&mut self, limit: &Limit) -> Result<()> {
        for gate in self.gates(limit.row, None, usize::MAX)? {
            self.remove_gate(gate.row);
        }
        let uses = self.tables.uses.keys().filter(|(_, of)| *of == limit.row);
        for place in uses.copied().collect::<Vec<_>>() {
            self.write(Change::Use(place, None));
        }
        self.write(Change::Limit(limit.row, None));
        Ok(())
    }

    fn gate(&mut self, namespace: NamespaceId, limit: LimitRow, key: &str) -> Result<Gate> {
        if let Some(gate) = self.find_gate(namespace, limit, key)? {
            return Ok(gate);
        }
        let row = GateRow(next(&mut self.tables.sequences.gate));
        let gate = Gate {
            row,
            namespace,
            limit,
            key: key.to_owned(),
            course: GateCourse::default(),
            idle_at: None,
        };
        self.write(Change::Gate(row, Some(Box::new(gate.clone()))));
        Ok(gate)
    }

    fn save_gate(&mut self, gate: &Gate) -> Result<()> {
        if !self.tables.gates.contains_key(&gate.row) {
            return Err(missing("gate", gate.row.0));
        }
        self.write(Change::Gate(gate.row, Some(Box::new(gate.clone()))));
        Ok(())
    }

    fn trim_gates(&mut self, by: Timestamp, limit: usize) -> Result<usize> {
        let idle = self.tables.index.idle_gates.iter().take_while(|(at, _)| *at <= by);
        let idle: Vec<_> = idle.take(limit).map(|(_, row)| *row).collect();
        for row in &idle {
            self.remove_gate(*row);
        }
        Ok(idle.len())
    }

    fn put_use(&mut self, of: &Use) -> Result<()> {
        self.expect_execution(of.execution)?;
        self.write(Change::Use((of.execution, of.limit), Some(Box::new(of.clone()))));
        Ok(())
    }

    fn drop_use(&mut self, execution: RowId, limit: LimitRow) -> Result<()> {
        self.write(Change::Use((execution, limit), None));
        Ok(())
    }

    fn put_passage(&mut self, gate: GateRow, passage: &Passage) -> Result<()> {
        self.write(Change::Passage((gate, passage.first), Some(Box::new(*passage))));
        Ok(())
    }

    fn drop_passages(&mut self, gate: GateRow, through: u64) -> Result<()> {
        let old = self.tables.passages.range((gate, 0)..=(gate, through));
        let old: Vec<_> =
            old.filter(|(_, passage)| passage.last <= through).map(|(place, _)| *place).collect();
        for place in old {
            self.write(Change::Passage(place, None));
        }
        Ok(())
    }

    fn put_turn(&mut self, turn: &Turn) -> Result<()> {
        let place = (turn.lane, turn.priority, turn.key.clone());
        self.write(Change::Turn(place, Some(Box::new(turn.clone()))));
        Ok(())
    }

    fn drop_turns(&mut self, lane: LaneId, priority: i32, before: i64, limit: usize) -> Result<()> {
        let first = (lane, priority, i64::MIN, String::new());
        let past = self.tables.index.turns.range(first..(lane, priority, before, String::new()));
        let past = past.take(limit).map(|(lane, priority, _, key)| (*lane, *priority, key.clone()));
        for place in past.collect::<Vec<_>>() {
            self.write(Change::Turn(place, None));
        }
        Ok(())
    }

    fn save_policy(&mut self, execution: &Execution) -> Result<()> {
        let saved = self.saved(execution)?.clone();
        let row = Execution { policy: Arc::clone(&execution.policy), ..saved };
        self.write(Change::Execution(row.row, Some(Box::new(row))));
        Ok(())
    }

    fn save_terms(&mut self, flow: &Flow) -> Result<()> {
        let saved = self.flow_by_row(flow.row)?;
        let row = Flow { terms: Arc::clone(&flow.terms), ..saved };
        self.write(Change::Flow(row.row, Some(Box::new(row))));
        Ok(())
    }

    fn save_limits(&mut self, namespace: NamespaceId, limits: &NamespaceLimits) -> Result<()> {
        let saved = self.namespace_by_id(namespace)?;
        let row = Namespace { limits: limits.clone(), ..Namespace::clone(&saved) };
        self.write(Change::Namespace(namespace, Some(Arc::new(row))));
        Ok(())
    }
}

impl Session<'_> {
    fn remove_gate(&mut self, row: GateRow) {
        let passages = self.tables.passages.range((row, 0)..=(row, u64::MAX));
        for place in passages.map(|(place, _)| *place).collect::<Vec<_>>() {
            self.write(Change::Passage(place, None));
        }
        self.write(Change::Gate(row, None));
    }

    pub(super) fn remove_uses(&mut self, row: RowId) {
        let uses = self.tables.uses.range((row, LimitRow(i64::MIN))..=(row, LimitRow(i64::MAX)));
        for place in uses.map(|(place, _)| *place).collect::<Vec<_>>() {
            self.write(Change::Use(place, None));
        }
    }
}
