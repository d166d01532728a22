//! Questions about budgets, quotas and turns, and changes of them.

use std::sync::Arc;

use everloom_core::{
    Execution, Flow, Gate, GateRow, LaneId, Limit, LimitRow, LimitSort, NamespaceId,
    NamespaceLimits, Passage, ReadLimits, Result, RowId, Timestamp, Turn, Use, WriteLimits,
};

use crate::rows::{executions, flows, gates, limited, limits, namespaces, passages, turns, uses};
use crate::view::View;

impl ReadLimits for View<'_> {
    fn limit(
        &mut self,
        namespace: NamespaceId,
        sort: LimitSort,
        name: &str,
    ) -> Result<Option<Arc<Limit>>> {
        Ok(limits::by_name(self.conn, self.caches, namespace, sort, name)?)
    }

    fn limit_by_row(&mut self, row: LimitRow) -> Result<Arc<Limit>> {
        Ok(limits::by_row(self.conn, self.caches, row)?)
    }

    fn limits(
        &mut self,
        namespace: NamespaceId,
        sort: LimitSort,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<Arc<Limit>>> {
        Ok(limits::after(self.conn, namespace, sort, after, limit)?)
    }

    fn find_gate(
        &mut self,
        namespace: NamespaceId,
        limit: LimitRow,
        key: &str,
    ) -> Result<Option<Gate>> {
        Ok(gates::find(self.conn, namespace, limit, key)?)
    }

    fn gate_by_row(&mut self, row: GateRow) -> Result<Option<Gate>> {
        Ok(gates::by_row(self.conn, row)?)
    }

    fn gates(
        &mut self,
        limit: LimitRow,
        after: Option<&str>,
        limit_to: usize,
    ) -> Result<Vec<Gate>> {
        Ok(gates::after(self.conn, limit, after, limit_to)?)
    }

    fn uses(&mut self, execution: RowId) -> Result<Vec<Use>> {
        Ok(uses::of(self.conn, execution)?)
    }

    fn open_uses(
        &mut self,
        limit: LimitRow,
        after: Option<RowId>,
        limit_to: usize,
    ) -> Result<Vec<Use>> {
        Ok(uses::open(self.conn, limit, after, limit_to)?)
    }

    fn passage(&mut self, gate: GateRow, number: u64) -> Result<Option<Passage>> {
        Ok(passages::find(self.conn, gate, number)?)
    }

    fn limited(&mut self, gate: GateRow, each: usize) -> Result<Vec<Execution>> {
        Ok(limited::firsts(self.conn, gate, each)?)
    }

    fn turn(&mut self, lane: LaneId, priority: i32, key: &str) -> Result<Option<Turn>> {
        Ok(turns::find(self.conn, lane, priority, key)?)
    }
}

impl WriteLimits for View<'_> {
    fn new_limit_row(&mut self) -> Result<LimitRow> {
        self.change(|conn, _| limits::new_row(conn))
    }

    fn put_limit(&mut self, limit: &Limit) -> Result<()> {
        self.change(|conn, caches| limits::put(conn, caches, limit))
    }

    fn drop_limit(&mut self, limit: &Limit) -> Result<()> {
        self.change(|conn, caches| {
            uses::drop_of_limit(conn, limit.row)?;
            gates::drop_of_limit(conn, limit.row)?;
            limits::remove(conn, caches, limit.row)
        })
    }

    fn gate(&mut self, namespace: NamespaceId, limit: LimitRow, key: &str) -> Result<Gate> {
        match self.find_gate(namespace, limit, key)? {
            Some(known) => Ok(known),
            None => self.change(|conn, _| gates::add(conn, namespace, limit, key)),
        }
    }

    fn save_gate(&mut self, gate: &Gate) -> Result<()> {
        self.change(|conn, _| gates::save(conn, gate))
    }

    fn trim_gates(&mut self, by: Timestamp, limit: usize) -> Result<usize> {
        self.change(|conn, _| gates::trim(conn, by, limit))
    }

    fn put_use(&mut self, of: &Use) -> Result<()> {
        self.change(|conn, _| uses::put(conn, of))
    }

    fn drop_use(&mut self, execution: RowId, limit: LimitRow) -> Result<()> {
        self.change(|conn, _| uses::remove(conn, execution, limit))
    }

    fn put_passage(&mut self, gate: GateRow, passage: &Passage) -> Result<()> {
        self.change(|conn, _| passages::put(conn, gate, passage))
    }

    fn drop_passages(&mut self, gate: GateRow, through: u64) -> Result<()> {
        self.change(|conn, _| passages::drop_through(conn, gate, through))
    }

    fn put_turn(&mut self, turn: &Turn) -> Result<()> {
        self.change(|conn, _| turns::put(conn, turn))
    }

    fn drop_turns(&mut self, lane: LaneId, priority: i32, before: i64, limit: usize) -> Result<()> {
        self.change(|conn, _| turns::drop_before(conn, lane, priority, before, limit))
    }

    fn save_policy(&mut self, execution: &Execution) -> Result<()> {
        self.change(|conn, _| executions::save_policy(conn, execution))
    }

    fn save_terms(&mut self, flow: &Flow) -> Result<()> {
        self.change(|conn, caches| flows::save_terms(conn, caches, flow))
    }

    fn save_limits(&mut self, namespace: NamespaceId, limits: &NamespaceLimits) -> Result<()> {
        self.change(|conn, caches| namespaces::save_limits(conn, caches, namespace, limits))
    }
}
