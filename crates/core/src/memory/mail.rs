//! What lies beside an execution that waits.

use std::collections::BTreeMap;
use std::ops::Bound::{Excluded, Included, Unbounded};

use super::Session;
use super::read::{missing, named_after};
use super::tables::{Change, Numbered, Tables};
use crate::model::{
    Error, NamespaceId, Payload, Result, RowId, Signal, SigningKey, Step, Suspension, Waitpoint,
    WaitpointId,
};
use crate::store::{ReadMail, WriteMail};

impl ReadMail for Session<'_> {
    fn suspension(&mut self, execution: RowId, number: Option<u32>) -> Result<Option<Suspension>> {
        let found = match number {
            Some(number) => self.tables.suspensions.get(&(execution, number)),
            None => last_of(&self.tables.suspensions, execution),
        };
        Ok(found.map(|suspension| Suspension::clone(suspension)))
    }

    fn suspension_by_key(
        &mut self,
        execution: RowId,
        run: u32,
        key: &str,
    ) -> Result<Option<Suspension>> {
        let place = self.tables.index.suspension_keys.get(&(execution, run, key.to_owned()));
        Ok(place.map(|place| Suspension::clone(&self.tables.suspensions[place])))
    }

    fn suspensions(
        &mut self,
        execution: RowId,
        after: u32,
        limit: usize,
    ) -> Result<Vec<Suspension>> {
        let found = all_after(&self.tables.suspensions, execution, after);
        Ok(found.take(limit).map(|suspension| Suspension::clone(suspension)).collect())
    }

    fn waitpoint(&mut self, execution: RowId, id: WaitpointId) -> Result<Option<Waitpoint>> {
        let place = self.tables.index.waitpoint_ids.get(&(execution, id));
        Ok(place.map(|place| Waitpoint::clone(&self.tables.waitpoints[place])))
    }

    fn open_waitpoints(&mut self, execution: RowId) -> Result<Vec<Waitpoint>> {
        let open = self.tables.index.open_waitpoints.range((execution, 0)..=(execution, u32::MAX));
        Ok(open.map(|place| Waitpoint::clone(&self.tables.waitpoints[place])).collect())
    }

    fn last_waitpoint(&mut self, execution: RowId) -> Result<u32> {
        Ok(last_of(&self.tables.waitpoints, execution).map_or(0, |waitpoint| waitpoint.seq))
    }

    fn waitpoints(&mut self, execution: RowId, after: u32, limit: usize) -> Result<Vec<Waitpoint>> {
        let found = all_after(&self.tables.waitpoints, execution, after);
        Ok(found.take(limit).map(|waitpoint| Waitpoint::clone(waitpoint)).collect())
    }

    fn inbox(
        &mut self,
        namespace: NamespaceId,
        key: Option<&str>,
        after: Option<WaitpointId>,
        limit: usize,
    ) -> Result<Vec<Waitpoint>> {
        let open = self.tables.open_in(namespace, after);
        let meant = open.filter(|waitpoint| key.is_none_or(|key| waitpoint.key == key));
        Ok(meant.take(limit).cloned().collect())
    }

    fn count_signed(&mut self, namespace: NamespaceId, kid: &str) -> Result<u64> {
        let open = self.tables.open_in(namespace, None);
        Ok(open.filter(|waitpoint| waitpoint.kid == kid).count() as u64)
    }

    fn last_signal(&mut self, execution: RowId) -> Result<u32> {
        Ok(last_of(&self.tables.signals, execution).map_or(0, |row| row.0.seq))
    }

    fn signal_by_key(&mut self, execution: RowId, key: &str) -> Result<Option<Signal>> {
        let place = self.tables.index.signal_keys.get(&(execution, key.to_owned()));
        Ok(place.map(|place| self.tables.signals[place].0.clone()))
    }

    fn kept_signals(&mut self, execution: RowId, run: u32) -> Result<Vec<Signal>> {
        let kept =
            self.tables.index.kept_signals.range((execution, run, 0)..=(execution, run, u32::MAX));
        Ok(kept.map(|(.., seq)| self.tables.signals[&(execution, *seq)].0.clone()).collect())
    }

    fn taken_signals(
        &mut self,
        execution: RowId,
        suspension: u32,
        after: u32,
        limit: usize,
    ) -> Result<Vec<Signal>> {
        let from = Excluded((execution, suspension, after));
        let to = Included((execution, suspension, u32::MAX));
        let taken = self.tables.index.taken_signals.range((from, to)).take(limit);
        Ok(taken.map(|(.., seq)| self.tables.signals[&(execution, *seq)].0.clone()).collect())
    }

    fn signals(&mut self, execution: RowId, after: u32, limit: usize) -> Result<Vec<Signal>> {
        let found = all_after(&self.tables.signals, execution, after);
        Ok(found.take(limit).map(|row| row.0.clone()).collect())
    }

    fn signal_payloads(&mut self, execution: RowId, seqs: &[u32]) -> Result<Vec<Payload>> {
        let signals = &self.tables.signals;
        let payload = |seq: &u32| signals.get(&(execution, *seq)).map(|row| row.1.clone());
        let found =
            seqs.iter().map(|seq| payload(seq).ok_or_else(|| missing("signal", (*seq).into())));
        found.collect()
    }

    fn step(&mut self, execution: RowId, name: &str, occurrence: u32) -> Result<Option<Step>> {
        let place = self.tables.index.step_names.get(&(execution, name.to_owned(), occurrence));
        Ok(place.map(|place| self.tables.steps[place].0.clone()))
    }

    fn last_step(&mut self, execution: RowId) -> Result<u32> {
        Ok(last_of(&self.tables.steps, execution).map_or(0, |row| row.0.seq))
    }

    fn steps(&mut self, execution: RowId, after: u32, limit: usize) -> Result<Vec<Step>> {
        let found = all_after(&self.tables.steps, execution, after);
        Ok(found.take(limit).map(|row| row.0.clone()).collect())
    }

    fn step_results(&mut self, execution: RowId, seqs: &[u32]) -> Result<Vec<Payload>> {
        let steps = &self.tables.steps;
        let result = |seq: &u32| steps.get(&(execution, *seq)).map(|row| row.1.clone());
        let found =
            seqs.iter().map(|seq| result(seq).ok_or_else(|| missing("step", (*seq).into())));
        found.collect()
    }

    fn signing_keys(&mut self, namespace: NamespaceId) -> Result<Vec<SigningKey>> {
        let keys = named_after(&self.tables.signing_keys, namespace, None);
        Ok(keys.map(|key| SigningKey::clone(key)).collect())
    }
}

impl WriteMail for Session<'_> {
    fn add_suspension(&mut self, suspension: &Suspension) -> Result<()> {
        self.expect_execution(suspension.execution)?;
        let place = (suspension.execution, suspension.number);
        if self.tables.suspensions.contains_key(&place) {
            return Err(Error::bug(format!("the suspension {place:?} exists")));
        }
        self.write(Change::Suspension(place, Some(Box::new(suspension.clone()))));
        Ok(())
    }

    fn save_suspension(&mut self, suspension: &Suspension) -> Result<()> {
        let place = (suspension.execution, suspension.number);
        let Some(saved) = self.tables.suspensions.get(&place) else {
            return Err(missing("suspension", suspension.number.into()));
        };
        let course = suspension.course.clone();
        let row = Suspension { course, ..Suspension::clone(saved) };
        self.write(Change::Suspension(place, Some(Box::new(row))));
        Ok(())
    }

    fn add_waitpoint(&mut self, waitpoint: &Waitpoint) -> Result<()> {
        self.expect_execution(waitpoint.execution)?;
        let place = (waitpoint.execution, waitpoint.seq);
        if self.tables.waitpoints.contains_key(&place) {
            return Err(Error::bug(format!("the waitpoint {place:?} exists")));
        }
        self.write(Change::Waitpoint(place, Some(Box::new(waitpoint.clone()))));
        Ok(())
    }

    fn save_waitpoint(&mut self, waitpoint: &Waitpoint) -> Result<()> {
        let place = (waitpoint.execution, waitpoint.seq);
        let Some(saved) = self.tables.waitpoints.get(&place) else {
            return Err(missing("waitpoint", waitpoint.seq.into()));
        };
        let row = Waitpoint {
            kid: waitpoint.kid.clone(),
            fingerprint: waitpoint.fingerprint,
            state: waitpoint.state.clone(),
            borne: waitpoint.borne,
            ..Waitpoint::clone(saved)
        };
        self.write(Change::Waitpoint(place, Some(Box::new(row))));
        Ok(())
    }

    fn add_signal(&mut self, signal: &Signal, payload: &Payload) -> Result<()> {
        self.expect_execution(signal.execution)?;
        let place = (signal.execution, signal.seq);
        if self.tables.signals.contains_key(&place) {
            return Err(Error::bug(format!("the signal {place:?} exists")));
        }
        self.write(Change::Signal(place, Some(Box::new((signal.clone(), payload.clone())))));
        Ok(())
    }

    fn save_signal(&mut self, signal: &Signal) -> Result<()> {
        let place = (signal.execution, signal.seq);
        let Some(saved) = self.tables.signals.get(&place) else {
            return Err(missing("signal", signal.seq.into()));
        };
        let (fixed, payload) = (**saved).clone();
        let row = Signal { taken: signal.taken, ..fixed };
        self.write(Change::Signal(place, Some(Box::new((row, payload)))));
        Ok(())
    }

    fn add_step(&mut self, step: &Step, result: &Payload) -> Result<()> {
        self.expect_execution(step.execution)?;
        let place = (step.execution, step.seq);
        if self.tables.steps.contains_key(&place) {
            return Err(Error::bug(format!("the step {place:?} exists")));
        }
        self.write(Change::Step(place, Some(Box::new((step.clone(), result.clone())))));
        Ok(())
    }

    fn drop_steps(&mut self, execution: RowId, from: u32) -> Result<()> {
        for place in numbers(&self.tables.steps, execution, from) {
            self.write(Change::Step(place, None));
        }
        Ok(())
    }

    fn put_signing_key(&mut self, key: &SigningKey) -> Result<()> {
        let name = (key.namespace, key.kid.clone());
        self.write(Change::SigningKey(name, Some(Box::new(key.clone()))));
        Ok(())
    }
}

impl Session<'_> {
    pub(super) fn remove_mail(&mut self, row: RowId) {
        for place in numbers(&self.tables.suspensions, row, 0) {
            self.write(Change::Suspension(place, None));
        }
        for place in numbers(&self.tables.waitpoints, row, 0) {
            self.write(Change::Waitpoint(place, None));
        }
        for place in numbers(&self.tables.signals, row, 0) {
            self.write(Change::Signal(place, None));
        }
    }
}

impl Tables {
    /// The open waitpoints of a namespace by id, from the first one after `after`.
    fn open_in(
        &self,
        namespace: NamespaceId,
        after: Option<WaitpointId>,
    ) -> impl Iterator<Item = &Waitpoint> {
        let from = match after {
            Some(after) => Excluded((namespace, after)),
            None => Included((namespace, WaitpointId(uuid::Uuid::nil()))),
        };
        let open = self.index.open_in.range((from, Unbounded));
        open.take_while(move |((of, _), _)| *of == namespace)
            .map(|(_, place)| &*self.waitpoints[place])
    }
}

fn last_of<T>(map: &BTreeMap<Numbered, T>, row: RowId) -> Option<&T> {
    map.range((row, 0)..=(row, u32::MAX)).next_back().map(|(_, value)| value)
}

/// What is numbered within an execution, from the first one after a number.
fn all_after<T>(map: &BTreeMap<Numbered, T>, row: RowId, after: u32) -> impl Iterator<Item = &T> {
    map.range((Excluded((row, after)), Included((row, u32::MAX)))).map(|(_, value)| value)
}

/// Where what is numbered within an execution stands, from a number on.
fn numbers<T>(map: &BTreeMap<Numbered, T>, row: RowId, from: u32) -> Vec<Numbered> {
    map.range((row, from)..=(row, u32::MAX)).map(|(place, _)| *place).collect()
}
