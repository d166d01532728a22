//! What was loaded.

use std::collections::{BTreeMap, BTreeSet};
use std::mem::take;

use everloom_core::{
    Execution, NamespaceId, Payload, RowId, Signal, SigningKey, Step, Suspension, Waitpoint,
    WaitpointId,
};

use super::super::caches::Caches;
use super::super::known::{absent, merge};
use crate::exchange::{
    HANDED_OVER, Lasts, Loaded, MailWants, Named, Place, SignalName, StepName, SuspensionName,
};

/// Rows of one sort that are numbered within executions, as they were loaded. A place without a row
/// was looked at in vain.
pub(super) struct Numbered<T> {
    pub(super) rows: BTreeMap<Place, Option<T>>,
    /// Up to which number all that follow a place are known.
    spans: BTreeMap<Place, u32>,
}

impl<T> Default for Numbered<T> {
    fn default() -> Self {
        Self { rows: BTreeMap::new(), spans: BTreeMap::new() }
    }
}

impl<T> Numbered<T> {
    pub(super) fn get(&self, place: Place) -> Option<&T> {
        self.rows.get(&place)?.as_ref()
    }

    /// Up to which number all after one are known.
    pub(super) fn known_to(&self, (row, after): Place) -> u32 {
        let spans = self.spans.range((row, 0)..=(row, after)).map(|(_, to)| *to);
        spans.max().unwrap_or(0).max(after)
    }

    /// Adds what was loaded, and what pages of it were asked for.
    fn merge(&mut self, rows: Vec<(Place, T)>, pages: BTreeMap<Place, usize>) {
        for (page, limit) in pages {
            let numbers = rows.iter().map(|(place, _)| *place);
            let on_page = numbers.filter(|place| place.0 == page.0 && place.1 > page.1);
            self.spans.insert(page, end_of_page(on_page.map(|place| place.1), limit));
        }
        self.rows.extend(rows.into_iter().map(|(place, row)| (place, Some(row))));
    }
}

/// Up to which number a page knows all: what other questions found beyond its end comes later.
fn end_of_page(numbers: impl Iterator<Item = u32>, limit: usize) -> u32 {
    let numbers: BTreeSet<u32> = numbers.collect();
    match limit.checked_sub(1) {
        Some(last) => numbers.iter().nth(last).copied().unwrap_or(u32::MAX),
        None => 0,
    }
}

/// What was loaded. A key without a value is one that was looked for and does not exist.
#[derive(Default)]
pub(in crate::batch) struct Mail {
    /// Executions whose mailboxes were loaded: of these the last numbers, the last suspension, the
    /// open waitpoints, and what is kept in their run are known.
    pub(super) boxes: BTreeMap<RowId, Lasts>,
    pub(super) suspensions: Numbered<Suspension>,
    pub(super) suspension_names: BTreeMap<SuspensionName, Option<u32>>,
    pub(super) waitpoints: Numbered<Waitpoint>,
    pub(super) waitpoint_ids: BTreeMap<(RowId, WaitpointId), Option<u32>>,
    pub(super) signals: Numbered<Signal>,
    pub(super) signal_names: BTreeMap<SignalName, Option<u32>>,
    /// Runs of which all kept signals are known.
    pub(super) kept: BTreeSet<(RowId, u32)>,
    /// Up to which number all are known that a suspension has taken, after one.
    taken: BTreeMap<(Place, u32), u32>,
    pub(super) signal_payloads: BTreeMap<Place, Option<Payload>>,
    pub(super) steps: Numbered<Step>,
    pub(super) step_names: BTreeMap<StepName, Option<u32>>,
    pub(super) last_steps: BTreeMap<RowId, u32>,
    pub(super) step_results: BTreeMap<Place, Option<Payload>>,
    pub(super) signing_keys: BTreeMap<NamespaceId, Vec<SigningKey>>,
    /// Namespaces whose signing keys nobody else reads.
    pub(super) own_signing_keys: BTreeSet<NamespaceId>,
    pub(super) signed: BTreeMap<Named, u64>,
}

impl Mail {
    /// Up to which number all signals are known that a suspension has taken, after one.
    pub(super) fn taken_to(&self, suspension: Place, after: u32) -> u32 {
        let spans = self.taken.range((suspension, 0)..=(suspension, after)).map(|(_, to)| *to);
        spans.max().unwrap_or(0).max(after)
    }

    /// Adds what was loaded; `executions` are those that are locked.
    pub(in crate::batch) fn merge(
        &mut self,
        wants: &mut MailWants,
        loaded: &mut Loaded,
        executions: &BTreeMap<RowId, Execution>,
        caches: &mut Caches,
    ) {
        let mail = &mut loaded.mail;
        // What comes along with an execution that was not there to be locked may still change.
        let is_locked = |row: &RowId| executions.contains_key(row);
        mail.boxes.retain(|row, _| is_locked(row));
        mail.suspensions.retain(|one| is_locked(&one.execution));
        mail.waitpoints.retain(|one| is_locked(&one.execution));
        mail.signals.retain(|one| is_locked(&one.execution));
        for row in take(&mut wants.resumptions) {
            let last = mail.boxes.get(&row).map(|lasts| (row, lasts.suspension));
            wants.taken_pages.extend(last.map(|last| ((last, 0), HANDED_OVER)));
        }
        self.merge_suspensions(wants, take(&mut mail.suspensions));
        self.merge_waitpoints(wants, take(&mut mail.waitpoints));
        self.merge_signals(wants, take(&mut mail.signals));
        for row in mail.boxes.keys() {
            self.kept.extend(executions.get(row).map(|execution| (*row, execution.run)));
        }
        self.boxes.append(&mut mail.boxes);
        let payloads = take(&mut mail.signal_payloads);
        merge(&mut self.signal_payloads, take(&mut wants.signal_payloads), payloads);
        self.merge_steps(wants, loaded);
        self.merge_keys(wants, loaded, caches);
    }

    fn merge_suspensions(&mut self, wants: &mut MailWants, loaded: Vec<Suspension>) {
        self.suspensions.rows.extend(take(&mut wants.suspensions).into_iter().map(absent));
        self.suspension_names.extend(take(&mut wants.suspension_names).into_iter().map(absent));
        for one in &loaded {
            let name = one.key.as_ref().map(|key| (one.execution, one.run, key.clone()));
            self.suspension_names.extend(name.map(|name| (name, Some(one.number))));
        }
        let rows = loaded.into_iter().map(|one| ((one.execution, one.number), one));
        self.suspensions.merge(rows.collect(), take(&mut wants.suspension_pages));
    }

    fn merge_waitpoints(&mut self, wants: &mut MailWants, loaded: Vec<Waitpoint>) {
        self.waitpoint_ids.extend(take(&mut wants.waitpoints).into_iter().map(absent));
        for one in &loaded {
            self.waitpoint_ids.insert((one.execution, one.id), Some(one.seq));
        }
        let rows = loaded.into_iter().map(|one| ((one.execution, one.seq), one));
        self.waitpoints.merge(rows.collect(), take(&mut wants.waitpoint_pages));
    }

    fn merge_signals(&mut self, wants: &mut MailWants, loaded: Vec<Signal>) {
        self.signal_names.extend(take(&mut wants.signal_names).into_iter().map(absent));
        self.kept.append(&mut wants.kept_signals);
        for one in &loaded {
            let name = one.key.as_ref().map(|key| (one.execution, key.clone()));
            self.signal_names.extend(name.map(|name| (name, Some(one.seq))));
        }
        for (page, limit) in take(&mut wants.taken_pages) {
            let ((row, suspension), after) = page;
            let taken = loaded.iter().filter(|one| {
                one.execution == row
                    && one.taken.is_some_and(|taken| taken.suspension == suspension)
                    && one.seq > after
            });
            self.taken.insert(page, end_of_page(taken.map(|one| one.seq), limit));
        }
        let rows = loaded.into_iter().map(|one| ((one.execution, one.seq), one));
        self.signals.merge(rows.collect(), take(&mut wants.signal_pages));
    }

    fn merge_steps(&mut self, wants: &mut MailWants, loaded: &mut Loaded) {
        self.last_steps.extend(take(&mut wants.last_steps).into_iter().map(|row| (row, 0)));
        self.last_steps.append(&mut loaded.mail.last_steps);
        self.step_names.extend(take(&mut wants.step_names).into_iter().map(absent));
        let loaded_steps = take(&mut loaded.mail.steps);
        for one in &loaded_steps {
            let name = (one.execution, one.name.clone(), one.occurrence);
            self.step_names.insert(name, Some(one.seq));
        }
        let rows = loaded_steps.into_iter().map(|one| ((one.execution, one.seq), one));
        self.steps.merge(rows.collect(), take(&mut wants.step_pages));
        let results = take(&mut loaded.mail.step_results);
        merge(&mut self.step_results, take(&mut wants.step_results), results);
    }

    fn merge_keys(&mut self, wants: &mut MailWants, loaded: &mut Loaded, caches: &mut Caches) {
        self.own_signing_keys.extend(&wants.own_signing_keys);
        wants.signing_keys.append(&mut wants.own_signing_keys);
        for namespace in take(&mut wants.signing_keys) {
            let keys = loaded.mail.signing_keys.extract_if(.., |key| key.namespace == namespace);
            let keys: Vec<SigningKey> = keys.collect();
            caches.keep_signing_keys(namespace, &keys);
            self.signing_keys.insert(namespace, keys);
        }
        self.signed.extend(take(&mut wants.signed).into_iter().map(|name| (name, 0)));
        self.signed.append(&mut loaded.mail.signed);
    }
}
