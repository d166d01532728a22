//! Questions about budgets and quotas.

use std::sync::Arc;

use everloom_core::{
    Execution, Gate, GateRow, LaneId, Limit, LimitRow, LimitSort, NamespaceId, Passage, ReadLimits,
    Result, RowId, Turn, Use,
};

use super::{View, missing};
use crate::link::params;
use crate::rows::{code, executions, gates, integer, limit, limits, passages, turns, uses};
use crate::sql;
use crate::text;

impl ReadLimits for View<'_> {
    fn limit(
        &mut self,
        namespace: NamespaceId,
        sort: LimitSort,
        name: &str,
    ) -> Result<Option<Arc<Limit>>> {
        if !text::can_be(name) {
            return Ok(None);
        }
        let params = params![namespace.0, code(sort.code()), name.to_owned()];
        self.first(sql::limits::BY_NAME, params, limits::from_row)
    }

    fn limit_by_row(&mut self, row: LimitRow) -> Result<Arc<Limit>> {
        let found = self.first(sql::limits::BY_ROW, params![vec![row.0]], limits::from_row)?;
        found.ok_or_else(|| missing("limit", row.0))
    }

    fn limits(
        &mut self,
        namespace: NamespaceId,
        sort: LimitSort,
        after: Option<&str>,
        most: usize,
    ) -> Result<Vec<Arc<Limit>>> {
        let params = params![namespace.0, code(sort.code()), text::bound(after), limit(most)];
        self.all(sql::limits::AFTER, params, limits::from_row)
    }

    fn find_gate(
        &mut self,
        namespace: NamespaceId,
        limit: LimitRow,
        key: &str,
    ) -> Result<Option<Gate>> {
        if !text::can_be(key) {
            return Ok(None);
        }
        let params = params![limit.0, namespace.0, key.to_owned()];
        self.first(sql::gates::BY_KEY, params, gates::from_row)
    }

    fn gate_by_row(&mut self, row: GateRow) -> Result<Option<Gate>> {
        self.first(sql::gates::BY_ROW, params![row.0], gates::from_row)
    }

    fn gates(&mut self, of: LimitRow, after: Option<&str>, most: usize) -> Result<Vec<Gate>> {
        let params = params![of.0, text::from(after), limit(most)];
        self.all(sql::gates::PAGE, params, gates::from_row)
    }

    fn uses(&mut self, execution: RowId) -> Result<Vec<Use>> {
        self.all(sql::uses::BY_ROW, params![execution.0], uses::from_row)
    }

    fn open_uses(&mut self, of: LimitRow, after: Option<RowId>, most: usize) -> Result<Vec<Use>> {
        let after = after.map_or(i64::MIN, |row| row.0);
        let params = params![vec![of.0], vec![after], vec![limit(most)]];
        self.all(sql::uses::OPEN, params, uses::from_row)
    }

    fn passage(&mut self, gate: GateRow, number: u64) -> Result<Option<Passage>> {
        let params = params![vec![gate.0], vec![integer(number)], vec![1_i64]];
        let found = self.first(sql::passages::PAGES, params, passages::from_row)?;
        let found = found.map(|(_, passage)| passage);
        Ok(found.filter(|passage| (passage.first..=passage.last).contains(&number)))
    }

    fn limited(&mut self, gate: GateRow, each: usize) -> Result<Vec<Execution>> {
        let params = params![vec![gate.0], vec![limit(each)]];
        let mut found = self.all(sql::executions::LIMITED, params, executions::from_row)?;
        found.sort_by_key(executions::place);
        Ok(found)
    }

    fn turn(&mut self, lane: LaneId, priority: i32, key: &str) -> Result<Option<Turn>> {
        if !text::can_be(key) {
            return Ok(None);
        }
        let params = params![vec![lane.0], vec![priority], vec![key.to_owned()]];
        self.first(sql::turns::FIND, params, turns::from_row)
    }
}
