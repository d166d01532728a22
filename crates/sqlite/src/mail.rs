//! Questions about what lies beside an execution that waits, and changes of it.

use everloom_core::{
    NamespaceId, Payload, ReadMail, Result, RowId, Signal, SigningKey, Step, Suspension, Waitpoint,
    WaitpointId, WriteMail,
};

use crate::rows::{signals, signing_keys, steps, suspensions, waitpoints};
use crate::view::View;

impl ReadMail for View<'_> {
    fn suspension(&mut self, execution: RowId, number: Option<u32>) -> Result<Option<Suspension>> {
        Ok(suspensions::find(self.conn, execution, number)?)
    }

    fn suspension_by_key(
        &mut self,
        execution: RowId,
        run: u32,
        key: &str,
    ) -> Result<Option<Suspension>> {
        Ok(suspensions::by_key(self.conn, execution, run, key)?)
    }

    fn suspensions(
        &mut self,
        execution: RowId,
        after: u32,
        limit: usize,
    ) -> Result<Vec<Suspension>> {
        Ok(suspensions::after(self.conn, execution, after, limit)?)
    }

    fn waitpoint(&mut self, execution: RowId, id: WaitpointId) -> Result<Option<Waitpoint>> {
        Ok(waitpoints::find(self.conn, execution, id)?)
    }

    fn open_waitpoints(&mut self, execution: RowId) -> Result<Vec<Waitpoint>> {
        Ok(waitpoints::open(self.conn, execution)?)
    }

    fn last_waitpoint(&mut self, execution: RowId) -> Result<u32> {
        Ok(waitpoints::last(self.conn, execution)?)
    }

    fn waitpoints(&mut self, execution: RowId, after: u32, limit: usize) -> Result<Vec<Waitpoint>> {
        Ok(waitpoints::after(self.conn, execution, after, limit)?)
    }

    fn inbox(
        &mut self,
        namespace: NamespaceId,
        key: Option<&str>,
        after: Option<WaitpointId>,
        limit: usize,
    ) -> Result<Vec<Waitpoint>> {
        Ok(waitpoints::inbox(self.conn, namespace, key, after, limit)?)
    }

    fn count_signed(&mut self, namespace: NamespaceId, kid: &str) -> Result<u64> {
        Ok(waitpoints::count_signed(self.conn, namespace, kid)?)
    }

    fn last_signal(&mut self, execution: RowId) -> Result<u32> {
        Ok(signals::last(self.conn, execution)?)
    }

    fn signal_by_key(&mut self, execution: RowId, key: &str) -> Result<Option<Signal>> {
        Ok(signals::by_key(self.conn, execution, key)?)
    }

    fn kept_signals(&mut self, execution: RowId, run: u32) -> Result<Vec<Signal>> {
        Ok(signals::kept(self.conn, execution, run)?)
    }

    fn taken_signals(
        &mut self,
        execution: RowId,
        suspension: u32,
        after: u32,
        limit: usize,
    ) -> Result<Vec<Signal>> {
        Ok(signals::taken(self.conn, execution, suspension, after, limit)?)
    }

    fn signals(&mut self, execution: RowId, after: u32, limit: usize) -> Result<Vec<Signal>> {
        Ok(signals::after(self.conn, execution, after, limit)?)
    }

    fn signal_payloads(&mut self, execution: RowId, seqs: &[u32]) -> Result<Vec<Payload>> {
        Ok(signals::payloads(self.conn, execution, seqs)?)
    }

    fn step(&mut self, execution: RowId, name: &str, occurrence: u32) -> Result<Option<Step>> {
        Ok(steps::find(self.conn, execution, name, occurrence)?)
    }

    fn last_step(&mut self, execution: RowId) -> Result<u32> {
        Ok(steps::last(self.conn, execution)?)
    }

    fn steps(&mut self, execution: RowId, after: u32, limit: usize) -> Result<Vec<Step>> {
        Ok(steps::after(self.conn, execution, after, limit)?)
    }

    fn step_results(&mut self, execution: RowId, seqs: &[u32]) -> Result<Vec<Payload>> {
        Ok(steps::results(self.conn, execution, seqs)?)
    }

    fn signing_keys(&mut self, namespace: NamespaceId) -> Result<Vec<SigningKey>> {
        Ok(signing_keys::of(self.conn, namespace)?)
    }
}

impl WriteMail for View<'_> {
    fn add_suspension(&mut self, suspension: &Suspension) -> Result<()> {
        self.change(|conn, _| suspensions::add(conn, suspension))
    }

    fn save_suspension(&mut self, suspension: &Suspension) -> Result<()> {
        self.change(|conn, _| suspensions::save(conn, suspension))
    }

    fn add_waitpoint(&mut self, waitpoint: &Waitpoint) -> Result<()> {
        self.change(|conn, _| waitpoints::add(conn, waitpoint))
    }

    fn save_waitpoint(&mut self, waitpoint: &Waitpoint) -> Result<()> {
        self.change(|conn, _| waitpoints::save(conn, waitpoint))
    }

    fn add_signal(&mut self, signal: &Signal, payload: &Payload) -> Result<()> {
        self.change(|conn, _| signals::add(conn, signal, payload))
    }

    fn save_signal(&mut self, signal: &Signal) -> Result<()> {
        self.change(|conn, _| signals::save(conn, signal))
    }

    fn add_step(&mut self, step: &Step, result: &Payload) -> Result<()> {
        self.change(|conn, _| steps::add(conn, step, result))
    }

    fn drop_steps(&mut self, execution: RowId, from: u32) -> Result<()> {
        self.change(|conn, _| steps::drop_from(conn, execution, from))
    }

    fn put_signing_key(&mut self, key: &SigningKey) -> Result<()> {
        self.change(|conn, _| signing_keys::put(conn, key))
    }
}
