//! Questions about what lies beside an execution that waits.

use std::collections::HashMap;

use everloom_core::{
    NamespaceId, Payload, ReadMail, Result, RowId, Signal, SigningKey, Step, Suspension, Waitpoint,
    WaitpointId,
};
use uuid::Uuid;

use super::{View, missing};
use crate::link::{Param, params};
use crate::rows::{
    Columns, limit, payloads, signals, signing_keys, steps, suspensions, waitpoints,
};
use crate::sql;
use crate::text;

impl ReadMail for View<'_> {
    fn suspension(&mut self, execution: RowId, number: Option<u32>) -> Result<Option<Suspension>> {
        let (sql, params) = match number {
            Some(number) => (sql::suspensions::FIND, place(execution, number)),
            None => (sql::suspensions::LAST, params![execution.0]),
        };
        self.first(sql, params, suspensions::from_row)
    }

    fn suspension_by_key(
        &mut self,
        execution: RowId,
        run: u32,
        key: &str,
    ) -> Result<Option<Suspension>> {
        if !text::can_be(key) {
            return Ok(None);
        }
        let params = params![vec![execution.0], vec![i64::from(run)], vec![key.to_owned()]];
        self.first(sql::suspensions::BY_KEY, params, suspensions::from_row)
    }

    fn suspensions(
        &mut self,
        execution: RowId,
        after: u32,
        most: usize,
    ) -> Result<Vec<Suspension>> {
        self.all(sql::suspensions::PAGES, page(execution, after, most), suspensions::from_row)
    }

    fn waitpoint(&mut self, execution: RowId, id: WaitpointId) -> Result<Option<Waitpoint>> {
        let params = params![vec![execution.0], vec![id.0]];
        self.first(sql::waitpoints::BY_UUID, params, waitpoints::from_row)
    }

    fn open_waitpoints(&mut self, execution: RowId) -> Result<Vec<Waitpoint>> {
        self.all(sql::waitpoints::OPEN, params![execution.0], waitpoints::from_row)
    }

    fn last_waitpoint(&mut self, execution: RowId) -> Result<u32> {
        self.last(sql::waitpoints::LAST, execution)
    }

    fn waitpoints(&mut self, execution: RowId, after: u32, most: usize) -> Result<Vec<Waitpoint>> {
        self.all(sql::waitpoints::PAGES, page(execution, after, most), waitpoints::from_row)
    }

    fn inbox(
        &mut self,
        namespace: NamespaceId,
        key: Option<&str>,
        after: Option<WaitpointId>,
        most: usize,
    ) -> Result<Vec<Waitpoint>> {
        if !key.is_none_or(text::can_be) {
            return Ok(vec![]);
        }
        // Ids are minted, and none is nil.
        let after = after.map_or(Uuid::nil(), |id| id.0);
        let params = params![namespace.0, after, key.map(str::to_owned), limit(most)];
        self.all(sql::waitpoints::INBOX, params, waitpoints::from_row)
    }

    fn count_signed(&mut self, namespace: NamespaceId, kid: &str) -> Result<u64> {
        if !text::can_be(kid) {
            return Ok(0);
        }
        let params = params![vec![namespace.0], vec![kid.to_owned()]];
        let count = self.first(sql::waitpoints::SIGNED, params, waitpoints::signed_from_row)?;
        Ok(count.map_or(0, |(_, count)| count))
    }

    fn last_signal(&mut self, execution: RowId) -> Result<u32> {
        self.last(sql::signals::LAST, execution)
    }

    fn signal_by_key(&mut self, execution: RowId, key: &str) -> Result<Option<Signal>> {
        if !text::can_be(key) {
            return Ok(None);
        }
        let params = params![vec![execution.0], vec![key.to_owned()]];
        self.first(sql::signals::BY_KEY, params, signals::from_row)
    }

    fn kept_signals(&mut self, execution: RowId, run: u32) -> Result<Vec<Signal>> {
        self.all(sql::signals::KEPT, place(execution, run), signals::from_row)
    }

    fn taken_signals(
        &mut self,
        execution: RowId,
        suspension: u32,
        after: u32,
        most: usize,
    ) -> Result<Vec<Signal>> {
        let mut params = place(execution, suspension);
        params.extend(params![vec![i64::from(after)], vec![limit(most)]]);
        self.all(sql::signals::TAKEN, params, signals::from_row)
    }

    fn signals(&mut self, execution: RowId, after: u32, most: usize) -> Result<Vec<Signal>> {
        self.all(sql::signals::PAGES, page(execution, after, most), signals::from_row)
    }

    fn signal_payloads(&mut self, execution: RowId, seqs: &[u32]) -> Result<Vec<Payload>> {
        self.payloads(sql::signals::PAYLOADS, "signal", execution, seqs)
    }

    fn step(&mut self, execution: RowId, name: &str, occurrence: u32) -> Result<Option<Step>> {
        if !text::can_be(name) {
            return Ok(None);
        }
        let params = params![vec![execution.0], vec![name.to_owned()], vec![i64::from(occurrence)]];
        self.first(sql::steps::BY_NAME, params, steps::from_row)
    }

    fn last_step(&mut self, execution: RowId) -> Result<u32> {
        let last =
            self.first(sql::steps::LAST, params![vec![execution.0]], steps::last_from_row)?;
        Ok(last.map_or(0, |(_, seq)| seq))
    }

    fn steps(&mut self, execution: RowId, after: u32, most: usize) -> Result<Vec<Step>> {
        self.all(sql::steps::PAGES, page(execution, after, most), steps::from_row)
    }

    fn step_results(&mut self, execution: RowId, seqs: &[u32]) -> Result<Vec<Payload>> {
        self.payloads(sql::steps::RESULTS, "step", execution, seqs)
    }

    fn signing_keys(&mut self, namespace: NamespaceId) -> Result<Vec<SigningKey>> {
        self.all(sql::signing_keys::OF, params![vec![namespace.0]], signing_keys::from_row)
    }
}

impl View<'_> {
    /// The last number of a sort of mail.
    fn last(&mut self, sql: &'static str, execution: RowId) -> Result<u32> {
        let last = self.first(sql, params![execution.0], |row| Columns::of(row).count())?;
        Ok(last.unwrap_or(0))
    }

    fn payloads(
        &mut self,
        sql: &'static str,
        noun: &str,
        execution: RowId,
        seqs: &[u32],
    ) -> Result<Vec<Payload>> {
        let numbers: Vec<i64> = seqs.iter().map(|seq| i64::from(*seq)).collect();
        let params = params![vec![execution.0; seqs.len()], numbers];
        let found = self.all(sql, params, payloads::numbered_from_row)?;
        let found: HashMap<u32, Payload> =
            found.into_iter().map(|((_, seq), payload)| (seq, payload)).collect();
        let of = |seq: &u32| found.get(seq).cloned().ok_or_else(|| missing(noun, (*seq).into()));
        seqs.iter().map(of).collect()
    }
}

/// An execution and a number within it.
fn place(execution: RowId, number: u32) -> Vec<Param> {
    params![vec![execution.0], vec![i64::from(number)]]
}

fn page(execution: RowId, after: u32, most: usize) -> Vec<Param> {
    params![vec![execution.0], vec![i64::from(after)], vec![limit(most)]]
}
