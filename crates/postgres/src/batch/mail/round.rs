//! What a round wrote.

use std::collections::BTreeMap;

use everloom_core::{Payload, RowId, Signal, SigningKey, Step, Suspension, Waitpoint, WaitpointId};

use super::known::Mail;
use crate::exchange::{Changes, Named, Place, SignalName, StepName};

/// What a round wrote, at its last state.
#[derive(Default)]
pub(in crate::batch) struct NewMail {
    pub(super) suspensions: BTreeMap<Place, Suspension>,
    pub(super) waitpoints: BTreeMap<Place, Waitpoint>,
    pub(super) waitpoint_ids: BTreeMap<(RowId, WaitpointId), u32>,
    pub(super) signals: BTreeMap<Place, Signal>,
    pub(super) signal_names: BTreeMap<SignalName, u32>,
    /// Of new ones.
    pub(super) signal_payloads: BTreeMap<Place, Payload>,
    /// New ones, which may stand in the places of dropped ones.
    pub(super) steps: BTreeMap<Place, Step>,
    pub(super) step_names: BTreeMap<StepName, u32>,
    pub(super) step_results: BTreeMap<Place, Payload>,
    /// From which number on those that were there before are gone.
    pub(super) dropped_steps: BTreeMap<RowId, u32>,
    pub(super) signing_keys: BTreeMap<Named, SigningKey>,
}

impl NewMail {
    /// Forgets what was written about an execution that is removed.
    pub(in crate::batch) fn forget(&mut self, row: RowId) {
        let is_of_another = |place: &Place| place.0 != row;
        self.suspensions.retain(|place, _| is_of_another(place));
        self.waitpoints.retain(|place, _| is_of_another(place));
        self.signals.retain(|place, _| is_of_another(place));
        self.signal_payloads.retain(|place, _| is_of_another(place));
        self.steps.retain(|place, _| is_of_another(place));
        self.step_results.retain(|place, _| is_of_another(place));
        self.dropped_steps.remove(&row);
    }

    /// What is left to be written.
    pub(in crate::batch) fn into_changes(mut self, changes: &mut Changes, known: &Mail) {
        let changes = &mut changes.mail;
        for (place, one) in self.suspensions {
            match known.suspensions.get(place) {
                None => changes.new_suspensions.push(one),
                Some(before) if *before != one => changes.suspensions.push(one),
                Some(_) => {}
            }
        }
        for (place, one) in self.waitpoints {
            match known.waitpoints.get(place) {
                None => changes.new_waitpoints.push(one),
                Some(before) if *before != one => changes.waitpoints.push(one),
                Some(_) => {}
            }
        }
        for (place, one) in self.signals {
            match self.signal_payloads.remove(&place) {
                Some(payload) => changes.new_signals.push((one, payload)),
                None if known.signals.get(place) != Some(&one) => changes.signals.push(one),
                None => {}
            }
        }
        changes.dropped_steps.extend(self.dropped_steps);
        for (place, one) in self.steps {
            let result = self.step_results.remove(&place).unwrap_or_default();
            changes.new_steps.push((one, result));
        }
        for key in self.signing_keys.into_values() {
            let before = known.signing_keys.get(&key.namespace);
            if !before.is_some_and(|keys| keys.contains(&key)) {
                changes.signing_keys.push(key);
            }
        }
    }
}
