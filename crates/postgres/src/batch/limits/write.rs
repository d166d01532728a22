//! The writes: into the overlay only, but for gates, which a load makes.

use std::sync::Arc;

use everloom_core::{
    Error, Execution, Flow, Gate, GateCourse, GateRow, LaneId, Limit, LimitRow, NamespaceId,
    NamespaceLimits, Passage, Result, RowId, Timestamp, Turn, Use, WriteLimits,
};

use super::super::read::missing;
use super::super::{Batch, is_placeholder};
use crate::exchange::GateName;

impl WriteLimits for Batch<'_> {
    fn new_limit_row(&mut self) -> Result<LimitRow> {
        let limits = &mut self.overlay().limits;
        let used = limits.rows_used;
        limits.rows_used += 1;
        if let Some(row) = self.known.limits.new_rows.get(used) {
            return Ok(*row);
        }
        self.wants.limits.new_rows += 1;
        Ok(LimitRow(self.round.new_placeholder()))
    }

    fn put_limit(&mut self, limit: &Limit) -> Result<()> {
        self.ask_own_limit(limit.row);
        let limits = &mut self.overlay().limits;
        limits.names.insert((limit.namespace, limit.sort(), limit.name.clone()), limit.row);
        limits.limits.insert(limit.row, Some(Arc::new(limit.clone())));
        Ok(())
    }

    fn drop_limit(&mut self, limit: &Limit) -> Result<()> {
        self.ask_own_limit(limit.row);
        let limits = &mut self.overlay().limits;
        let gone = limits.gates.extract_if(.., |_, gate| gate.limit == limit.row);
        for row in gone.map(|(row, _)| row).collect::<Vec<_>>() {
            limits.passages.retain(|(gate, _), _| *gate != row);
            limits.dropped_passages.remove(&row);
        }
        limits.limits.insert(limit.row, None);
        Ok(())
    }

    fn gate(&mut self, namespace: NamespaceId, limit: LimitRow, key: &str) -> Result<Gate> {
        let name = (limit, namespace, key.to_owned());
        let known = self.known.limits.gate_names.get(&name).copied().flatten();
        if let Some(row) = known.filter(|row| self.round.limits.trimmed.contains(row)) {
            return Ok(self.begin_anew(row, name));
        }
        if let Some(row) = known
            && let Some(Some(gate)) = self.current_gate(row)
        {
            return Ok(gate.clone());
        }
        // A round with placeholders runs again without them.
        if !is_placeholder(namespace.0) && !is_placeholder(limit.0) {
            self.ask().limits.new_gates.insert(name);
            self.expect_passages();
        }
        Err(Error::miss())
    }

    fn save_gate(&mut self, gate: &Gate) -> Result<()> {
        if self.current_gate(gate.row).flatten().is_none() {
            return Err(missing("gate", gate.row.0));
        }
        self.overlay().limits.gates.insert(gate.row, gate.clone());
        Ok(())
    }

    fn trim_gates(&mut self, by: Timestamp, limit: usize) -> Result<usize> {
        let told = std::mem::replace(&mut self.overlay().limits.told_trimmed, true);
        let Some(trimmed) = self.known.limits.trimmed else {
            self.wants.limits.trim_gates = Some((by, limit));
            return Ok(0);
        };
        let trimmed = if told { 0 } else { trimmed };
        // A load leaves those alone that were read: they may not be idle any more.
        let rows = self.known.limits.gates.keys().filter_map(|row| self.current_gate(*row)?);
        let idle = rows.filter(|gate| gate.idle_at.is_some_and(|at| at <= by));
        let idle: Vec<GateRow> = idle.take(limit - trimmed).map(|gate| gate.row).collect();
        let found = idle.len();
        self.overlay().limits.trimmed.extend(idle);
        Ok(trimmed + found)
    }

    fn put_use(&mut self, of: &Use) -> Result<()> {
        self.expect_execution(of.execution)?;
        self.overlay().limits.uses.insert((of.execution, of.limit), Some(of.clone()));
        Ok(())
    }

    fn drop_use(&mut self, execution: RowId, limit: LimitRow) -> Result<()> {
        let place = (execution, limit);
        let stored = self.has_uses(execution)?;
        let uses = &mut self.overlay().limits.uses;
        uses.remove(&place);
        if stored {
            uses.insert(place, None);
        }
        Ok(())
    }

    fn put_passage(&mut self, gate: GateRow, passage: &Passage) -> Result<()> {
        self.overlay().limits.passages.insert((gate, passage.first), *passage);
        Ok(())
    }

    fn drop_passages(&mut self, gate: GateRow, through: u64) -> Result<()> {
        let limits = &mut self.overlay().limits;
        limits.passages.retain(|place, passage| place.0 != gate || passage.last > through);
        let dropped = limits.dropped_passages.entry(gate).or_default();
        *dropped = through.max(*dropped);
        Ok(())
    }

    fn put_turn(&mut self, turn: &Turn) -> Result<()> {
        let name = (turn.lane, turn.priority, turn.key.clone());
        self.overlay().limits.turns.insert(name, turn.clone());
        Ok(())
    }

    // What is past is as good as none, and so nobody needs to know that it is gone.
    fn drop_turns(&mut self, lane: LaneId, priority: i32, before: i64, limit: usize) -> Result<()> {
        let past = self.overlay().limits.past_turns.entry((lane, priority)).or_default();
        *past = (before.max(past.0), limit.max(past.1));
        Ok(())
    }

    fn save_policy(&mut self, execution: &Execution) -> Result<()> {
        let saved = self.saved(execution)?.clone();
        let row = Execution { policy: Arc::clone(&execution.policy), ..saved };
        self.overlay().executions.insert(row.row, Some(row));
        Ok(())
    }

    fn save_terms(&mut self, flow: &Flow) -> Result<()> {
        self.put_terms(flow)
    }

    fn save_limits(&mut self, namespace: NamespaceId, limits: &NamespaceLimits) -> Result<()> {
        if !is_placeholder(namespace.0) && !self.known.limits.own_namespaces.contains(&namespace) {
            let wants = self.ask();
            wants.limits.own_namespaces.insert(namespace);
            wants.namespace_ids.insert(namespace);
        }
        self.overlay().limits.namespaces.insert(namespace, limits.clone());
        Ok(())
    }
}

impl Batch<'_> {
    /// A gate that this round has trimmed and is used again: the row stays, and says nothing.
    fn begin_anew(&mut self, row: GateRow, (limit, namespace, key): GateName) -> Gate {
        let course = GateCourse::default();
        let gate = Gate { row, namespace, limit, key, course, idle_at: None };
        let limits = &mut self.overlay().limits;
        limits.trimmed.remove(&row);
        limits.passages.retain(|place, _| place.0 != row);
        limits.dropped_passages.insert(row, i64::MAX as u64);
        limits.gates.insert(row, gate.clone());
        gate
    }
}
