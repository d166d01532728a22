//! The writes: into the overlay only.

use everloom_core::{
    Error, Payload, Result, RowId, Signal, SigningKey, Step, Suspension, Waitpoint, WriteMail,
};

use super::super::Batch;
use super::super::read::missing;
use crate::exchange::Place;

impl WriteMail for Batch<'_> {
    fn add_suspension(&mut self, suspension: &Suspension) -> Result<()> {
        self.expect_execution(suspension.execution)?;
        let place = (suspension.execution, suspension.number);
        if self.current_suspension(place, true).is_some() {
            return Err(exists("suspension", place));
        }
        self.overlay().mail.suspensions.insert(place, suspension.clone());
        Ok(())
    }

    fn save_suspension(&mut self, suspension: &Suspension) -> Result<()> {
        let place = (suspension.execution, suspension.number);
        let saved = self.current_suspension(place, true);
        let saved = saved.ok_or_else(|| missing("suspension", place.1.into()))?;
        let row = Suspension { course: suspension.course.clone(), ..saved.clone() };
        self.overlay().mail.suspensions.insert(place, row);
        Ok(())
    }

    fn add_waitpoint(&mut self, waitpoint: &Waitpoint) -> Result<()> {
        self.expect_execution(waitpoint.execution)?;
        let place = (waitpoint.execution, waitpoint.seq);
        if self.current_waitpoint(place, true).is_some() {
            return Err(exists("waitpoint", place));
        }
        let mail = &mut self.overlay().mail;
        mail.waitpoint_ids.insert((waitpoint.execution, waitpoint.id), waitpoint.seq);
        mail.waitpoints.insert(place, waitpoint.clone());
        Ok(())
    }

    fn save_waitpoint(&mut self, waitpoint: &Waitpoint) -> Result<()> {
        let place = (waitpoint.execution, waitpoint.seq);
        let saved = self.current_waitpoint(place, true);
        let saved = saved.ok_or_else(|| missing("waitpoint", place.1.into()))?;
        let row = Waitpoint {
            kid: waitpoint.kid.clone(),
            fingerprint: waitpoint.fingerprint,
            state: waitpoint.state.clone(),
            borne: waitpoint.borne,
            ..saved.clone()
        };
        self.overlay().mail.waitpoints.insert(place, row);
        Ok(())
    }

    fn add_signal(&mut self, signal: &Signal, payload: &Payload) -> Result<()> {
        self.expect_execution(signal.execution)?;
        let place = (signal.execution, signal.seq);
        if self.current_signal(place, true).is_some() {
            return Err(exists("signal", place));
        }
        let mail = &mut self.overlay().mail;
        if let Some(key) = &signal.key {
            mail.signal_names.insert((signal.execution, key.clone()), signal.seq);
        }
        mail.signals.insert(place, signal.clone());
        mail.signal_payloads.insert(place, payload.clone());
        Ok(())
    }

    fn save_signal(&mut self, signal: &Signal) -> Result<()> {
        let place = (signal.execution, signal.seq);
        let saved = self.current_signal(place, true);
        let saved = saved.ok_or_else(|| missing("signal", place.1.into()))?;
        let row = Signal { taken: signal.taken, ..saved.clone() };
        self.overlay().mail.signals.insert(place, row);
        Ok(())
    }

    fn add_step(&mut self, step: &Step, result: &Payload) -> Result<()> {
        self.expect_execution(step.execution)?;
        let place = (step.execution, step.seq);
        let is_known = self.known.mail.steps.get(place).is_some() && !self.is_dropped(place);
        if is_known || self.round.mail.steps.contains_key(&place) {
            return Err(exists("step", place));
        }
        let mail = &mut self.overlay().mail;
        mail.step_names.insert((step.execution, step.name.clone(), step.occurrence), step.seq);
        mail.steps.insert(place, step.clone());
        mail.step_results.insert(place, result.clone());
        Ok(())
    }

    fn drop_steps(&mut self, execution: RowId, from: u32) -> Result<()> {
        let stored = self.has_steps(execution)?;
        let mail = &mut self.overlay().mail;
        let is_kept = |place: &Place| place.0 != execution || place.1 < from;
        mail.steps.retain(|place, _| is_kept(place));
        mail.step_results.retain(|place, _| is_kept(place));
        mail.step_names.retain(|name, seq| is_kept(&(name.0, *seq)));
        if stored {
            let first = mail.dropped_steps.entry(execution).or_insert(from);
            *first = from.min(*first);
        }
        Ok(())
    }

    fn put_signing_key(&mut self, key: &SigningKey) -> Result<()> {
        self.ask_own_signing_keys(key.namespace);
        let name = (key.namespace, key.kid.clone());
        self.overlay().mail.signing_keys.insert(name, key.clone());
        Ok(())
    }
}

fn exists(noun: &str, place: Place) -> Error {
    Error::bug(format!("the {noun} {place:?} exists"))
}
