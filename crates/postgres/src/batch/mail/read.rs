//! The questions.

use std::collections::BTreeMap;

use everloom_core::{
    Error, NamespaceId, Payload, ReadMail, Result, RowId, Signal, SigningKey, Step, Suspension,
    Waitpoint, WaitpointId,
};

use super::super::read::missing;
use super::super::{Batch, is_placeholder};
use super::{Sight, last, of};
use crate::exchange::Place;
use crate::text;

impl ReadMail for Batch<'_> {
    fn suspension(&mut self, execution: RowId, number: Option<u32>) -> Result<Option<Suspension>> {
        let stored = self.has_mail(execution)?;
        let number = match number {
            Some(number) => number,
            None => {
                let Some(lasts) = self.mailbox(execution)? else {
                    self.ask_resumption(execution);
                    return Err(Error::miss());
                };
                last(&self.round.mail.suspensions, execution).max(lasts.suspension)
            }
        };
        let place = (execution, number);
        if let Some(current) = self.current_suspension(place, stored) {
            return Ok(Some(current.clone()));
        }
        let lasts = self.known.mail.boxes.get(&execution);
        let is_absent = lasts.is_some_and(|lasts| number > lasts.suspension)
            || self.known.mail.suspensions.rows.contains_key(&place);
        if !stored || number == 0 || is_absent {
            return Ok(None);
        }
        self.ask().mail.suspensions.insert(place);
        self.mailbox(execution)?;
        Err(Error::miss())
    }

    fn suspension_by_key(
        &mut self,
        execution: RowId,
        run: u32,
        key: &str,
    ) -> Result<Option<Suspension>> {
        let is_meant = |one: &&Suspension| one.run == run && one.key.as_deref() == Some(key);
        let written = of(&self.round.mail.suspensions, execution, 0);
        if let Some(written) = written.map(|(_, one)| one).find(is_meant) {
            return Ok(Some(written.clone()));
        }
        if !self.has_mail(execution)? || self.is_later_run(execution, run) || !text::can_be(key) {
            return Ok(None);
        }
        let name = (execution, run, key.to_owned());
        match self.known.mail.suspension_names.get(&name) {
            Some(number) => {
                let place = number.map(|number| (execution, number));
                Ok(place.and_then(|place| self.known.mail.suspensions.get(place)).cloned())
            }
            None => {
                self.ask().mail.suspension_names.insert(name);
                self.mailbox(execution)?;
                Ok(None)
            }
        }
    }

    fn suspensions(
        &mut self,
        execution: RowId,
        after: u32,
        limit: usize,
    ) -> Result<Vec<Suspension>> {
        let stored = self.has_mail(execution)?;
        let (known, written) = (&self.known.mail.suspensions, &self.round.mail.suspensions);
        let page = (execution, after);
        let listed = Sight::of(known, written, stored).page(page, limit);
        Ok(listed.unwrap_or_else(|| {
            widen(&mut self.ask().mail.suspension_pages, page, limit);
            vec![]
        }))
    }

    fn waitpoint(&mut self, execution: RowId, id: WaitpointId) -> Result<Option<Waitpoint>> {
        let name = (execution, id);
        if let Some(seq) = self.round.mail.waitpoint_ids.get(&name) {
            return Ok(self.round.mail.waitpoints.get(&(execution, *seq)).cloned());
        }
        let stored = self.has_mail(execution)?;
        match self.known.mail.waitpoint_ids.get(&name).copied() {
            _ if !stored => Ok(None),
            Some(seq) => {
                let place = seq.map(|seq| (execution, seq));
                let current = place.and_then(|place| self.current_waitpoint(place, stored));
                Ok(current.cloned())
            }
            None => {
                // Most likely it is open.
                self.ask().mail.waitpoints.insert(name);
                self.mailbox(execution)?;
                Err(Error::miss())
            }
        }
    }

    fn open_waitpoints(&mut self, execution: RowId) -> Result<Vec<Waitpoint>> {
        let stored = self.has_mail(execution)?;
        self.mailbox(execution)?;
        let (known, written) = (&self.known.mail.waitpoints, &self.round.mail.waitpoints);
        let all = Sight::of(known, written, stored).after((execution, 0));
        Ok(all.into_values().filter(|one| one.is_open()).cloned().collect())
    }

    fn last_waitpoint(&mut self, execution: RowId) -> Result<u32> {
        let lasts = self.mailbox(execution)?.unwrap_or_default();
        Ok(last(&self.round.mail.waitpoints, execution).max(lasts.waitpoint))
    }

    fn waitpoints(&mut self, execution: RowId, after: u32, limit: usize) -> Result<Vec<Waitpoint>> {
        let stored = self.has_mail(execution)?;
        let (known, written) = (&self.known.mail.waitpoints, &self.round.mail.waitpoints);
        let page = (execution, after);
        let listed = Sight::of(known, written, stored).page(page, limit);
        Ok(listed.unwrap_or_else(|| {
            widen(&mut self.ask().mail.waitpoint_pages, page, limit);
            vec![]
        }))
    }

    fn inbox(
        &mut self,
        namespace: NamespaceId,
        key: Option<&str>,
        after: Option<WaitpointId>,
        limit: usize,
    ) -> Result<Vec<Waitpoint>> {
        let written = &self.round.mail.waitpoints;
        let mut found = match is_placeholder(namespace.0) {
            true => vec![],
            false => {
                // As many more as this round may have closed.
                let most = limit.saturating_add(written.len());
                self.rows.direct().inbox(namespace, key, after, most)?
            }
        };
        found.retain(|one| !written.contains_key(&(one.execution, one.seq)));
        let is_meant = |one: &&Waitpoint| {
            one.namespace == namespace
                && one.is_open()
                && key.is_none_or(|key| one.key == key)
                && after.is_none_or(|after| one.id > after)
        };
        found.extend(written.values().filter(is_meant).cloned());
        found.sort_by_key(|one| one.id);
        found.truncate(limit);
        Ok(found)
    }

    fn count_signed(&mut self, namespace: NamespaceId, kid: &str) -> Result<u64> {
        let name = (namespace, kid.to_owned());
        let known = match self.known.mail.signed.get(&name) {
            Some(count) => *count,
            None if is_placeholder(namespace.0) || !text::can_be(kid) => 0,
            None => {
                // Nobody may sign with it between now and what is made of the count.
                self.ask_own_signing_keys(namespace);
                self.ask().mail.signed.insert(name);
                0
            }
        };
        let is_signed =
            |one: &&Waitpoint| one.namespace == namespace && one.kid == kid && one.is_open();
        let written = &self.round.mail.waitpoints;
        let before = written.keys().filter_map(|place| self.known.mail.waitpoints.get(*place));
        let before = before.filter(is_signed).count() as u64;
        let after = written.values().filter(is_signed).count() as u64;
        Ok((known + after).saturating_sub(before))
    }

    fn last_signal(&mut self, execution: RowId) -> Result<u32> {
        let lasts = self.mailbox(execution)?.unwrap_or_default();
        Ok(last(&self.round.mail.signals, execution).max(lasts.signal))
    }

    fn signal_by_key(&mut self, execution: RowId, key: &str) -> Result<Option<Signal>> {
        let name = (execution, key.to_owned());
        if let Some(seq) = self.round.mail.signal_names.get(&name) {
            return Ok(self.round.mail.signals.get(&(execution, *seq)).cloned());
        }
        let stored = self.has_mail(execution)?;
        match self.known.mail.signal_names.get(&name).copied() {
            _ if !stored || !text::can_be(key) => Ok(None),
            Some(seq) => {
                let place = seq.map(|seq| (execution, seq));
                Ok(place.and_then(|place| self.current_signal(place, stored)).cloned())
            }
            None => {
                self.ask().mail.signal_names.insert(name);
                self.mailbox(execution)?;
                Ok(None)
            }
        }
    }

    fn kept_signals(&mut self, execution: RowId, run: u32) -> Result<Vec<Signal>> {
        let stored = self.has_mail(execution)?;
        self.mailbox(execution)?;
        let is_known = !self.known.mail.boxes.contains_key(&execution)
            || self.is_later_run(execution, run)
            || self.known.mail.kept.contains(&(execution, run));
        if stored && !is_known {
            self.ask().mail.kept_signals.insert((execution, run));
        }
        let (known, written) = (&self.known.mail.signals, &self.round.mail.signals);
        let all = Sight::of(known, written, stored).after((execution, 0)).into_values();
        Ok(all.filter(|one| one.run == run && one.taken.is_none()).cloned().collect())
    }

    fn taken_signals(
        &mut self,
        execution: RowId,
        suspension: u32,
        after: u32,
        limit: usize,
    ) -> Result<Vec<Signal>> {
        let stored = self.has_mail(execution)?;
        let by = (execution, suspension);
        let to = if stored { self.known.mail.taken_to(by, after) } else { u32::MAX };
        let (known, written) = (&self.known.mail.signals, &self.round.mail.signals);
        let is_taken = |one: &&Signal| {
            one.seq <= to && one.taken.is_some_and(|taken| taken.suspension == suspension)
        };
        let all = Sight::of(known, written, stored).after((execution, after)).into_values();
        let taken: Vec<_> = all.filter(is_taken).take(limit).cloned().collect();
        if taken.len() < limit && to < u32::MAX {
            let more = limit.saturating_add(written.len());
            widen(&mut self.ask().mail.taken_pages, (by, after), more);
        }
        Ok(taken)
    }

    fn signals(&mut self, execution: RowId, after: u32, limit: usize) -> Result<Vec<Signal>> {
        let stored = self.has_mail(execution)?;
        let (known, written) = (&self.known.mail.signals, &self.round.mail.signals);
        let page = (execution, after);
        let listed = Sight::of(known, written, stored).page(page, limit);
        Ok(listed.unwrap_or_else(|| {
            widen(&mut self.ask().mail.signal_pages, page, limit);
            vec![]
        }))
    }

    fn signal_payloads(&mut self, execution: RowId, seqs: &[u32]) -> Result<Vec<Payload>> {
        let stored = self.has_mail(execution)?;
        let (known, written) = (&self.known.mail.signal_payloads, &self.round.mail.signal_payloads);
        let payloads = Payloads::look(known, written, execution, seqs, stored);
        if !payloads.unknown.is_empty() {
            self.ask().mail.signal_payloads.extend(payloads.unknown);
        }
        payloads
            .found
            .into_iter()
            .collect::<Option<_>>()
            .ok_or_else(|| missing("signal", execution.0))
    }

    fn step(&mut self, execution: RowId, name: &str, occurrence: u32) -> Result<Option<Step>> {
        let name = (execution, name.to_owned(), occurrence);
        if let Some(seq) = self.round.mail.step_names.get(&name) {
            return Ok(self.round.mail.steps.get(&(execution, *seq)).cloned());
        }
        let stored = self.has_steps(execution)?;
        match self.known.mail.step_names.get(&name).copied() {
            _ if !stored || !text::can_be(&name.1) => Ok(None),
            Some(seq) => {
                let place = seq.map(|seq| (execution, seq));
                let kept = place.filter(|place| !self.is_dropped(*place));
                Ok(kept.and_then(|place| self.known.mail.steps.get(place)).cloned())
            }
            None => {
                self.ask().mail.step_names.insert(name);
                self.last_step(execution)?;
                Ok(None)
            }
        }
    }

    fn last_step(&mut self, execution: RowId) -> Result<u32> {
        let stored = self.has_steps(execution)?;
        let known = match self.known.mail.last_steps.get(&execution) {
            _ if !stored => 0,
            Some(last) => *last,
            None => {
                self.ask().mail.last_steps.insert(execution);
                0
            }
        };
        // Steps are numbered without gaps, and dropped from a number on.
        let kept =
            self.first_dropped(execution).map_or(known, |from| known.min(from.saturating_sub(1)));
        Ok(last(&self.round.mail.steps, execution).max(kept))
    }

    fn steps(&mut self, execution: RowId, after: u32, limit: usize) -> Result<Vec<Step>> {
        let stored = self.has_steps(execution)?;
        let (known, written) = (&self.known.mail.steps, &self.round.mail.steps);
        let dropped = self.first_dropped(execution).unwrap_or(u32::MAX);
        let page = (execution, after);
        let listed = Sight { dropped, ..Sight::of(known, written, stored) }.page(page, limit);
        Ok(listed.unwrap_or_else(|| {
            widen(&mut self.ask().mail.step_pages, page, limit);
            vec![]
        }))
    }

    fn step_results(&mut self, execution: RowId, seqs: &[u32]) -> Result<Vec<Payload>> {
        let stored = self.has_steps(execution)?;
        let (known, written) = (&self.known.mail.step_results, &self.round.mail.step_results);
        let results = Payloads::look(known, written, execution, seqs, stored);
        if !results.unknown.is_empty() {
            self.ask().mail.step_results.extend(results.unknown);
        }
        results.found.into_iter().collect::<Option<_>>().ok_or_else(|| missing("step", execution.0))
    }

    fn signing_keys(&mut self, namespace: NamespaceId) -> Result<Vec<SigningKey>> {
        let known = match self.known.mail.signing_keys.get(&namespace) {
            Some(known) => known.clone(),
            None if is_placeholder(namespace.0) => vec![],
            None => {
                self.ask().mail.signing_keys.insert(namespace);
                // Whoever is told of none makes one, which needs the keys for itself.
                self.caches.signing_keys(namespace).ok_or_else(Error::miss)?.to_vec()
            }
        };
        let known = known.into_iter().map(|key| (key.kid.clone(), key));
        let mut keys: BTreeMap<String, SigningKey> = known.collect();
        let written = self.round.mail.signing_keys.values();
        let written = written.filter(|key| key.namespace == namespace);
        keys.extend(written.map(|key| (key.kid.clone(), key.clone())));
        Ok(keys.into_values().collect())
    }
}

/// Payloads of what is numbered within an execution.
struct Payloads {
    /// In the order asked; nothing for what does not exist, and a guess for what is unknown.
    found: Vec<Option<Payload>>,
    unknown: Vec<Place>,
}

impl Payloads {
    fn look(
        known: &BTreeMap<Place, Option<Payload>>,
        written: &BTreeMap<Place, Payload>,
        row: RowId,
        seqs: &[u32],
        stored: bool,
    ) -> Self {
        let mut unknown = Vec::new();
        let look = |seq: &u32| {
            let place = (row, *seq);
            match (written.get(&place), known.get(&place)) {
                (Some(written), _) => Some(written.clone()),
                (None, _) if !stored => None,
                (None, Some(known)) => known.clone(),
                (None, None) => {
                    unknown.push(place);
                    Some(Payload::default())
                }
            }
        };
        let found = seqs.iter().map(look).collect();
        Self { found, unknown }
    }
}

/// Asks for as much of a page as any of several.
fn widen<K: Ord>(pages: &mut BTreeMap<K, usize>, page: K, limit: usize) {
    let wanted = pages.entry(page).or_default();
    *wanted = limit.max(*wanted);
}
