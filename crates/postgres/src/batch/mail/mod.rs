//! What lies beside an execution that waits: questions and writes about it.
//!
//! Its execution is locked before any of it is looked at, and whoever changes it has that lock: so
//! none of it is locked itself. An execution that says it has nothing of a sort is not asked for it.

mod known;
mod read;
mod round;
mod write;

use std::collections::BTreeMap;

use everloom_core::{Execution, NamespaceId, Result, RowId, Signal, Suspension, Waitpoint};

use super::{Batch, is_placeholder};
use crate::exchange::{HANDED_OVER, Lasts, Place};
pub(super) use known::Mail;
use known::Numbered;
pub(super) use round::NewMail;

impl Batch<'_> {
    /// Whether the database has mail of an execution.
    fn has_mail(&mut self, row: RowId) -> Result<bool> {
        self.has_beside(row, |execution| execution.beside.mail)
    }

    /// Whether the database has recorded steps of an execution.
    fn has_steps(&mut self, row: RowId) -> Result<bool> {
        self.has_beside(row, |execution| execution.beside.steps)
    }

    pub(super) fn has_beside(
        &mut self,
        row: RowId,
        of: impl Fn(&Execution) -> bool,
    ) -> Result<bool> {
        if self.is_new(row) || self.is_removed(row) {
            return Ok(false);
        }
        if let Some(known) = self.known.executions.get(&row) {
            return Ok(of(known));
        }
        self.by_row(row)?;
        Ok(false)
    }

    /// Whether a run has begun after the execution was loaded: the database knows nothing of it.
    fn is_later_run(&self, row: RowId, run: u32) -> bool {
        self.known.executions.get(&row).is_none_or(|known| run > known.run)
    }

    /// What the database knows of an execution's last numbers, once its mailbox is loaded.
    fn mailbox(&mut self, row: RowId) -> Result<Option<Lasts>> {
        if !self.has_mail(row)? {
            return Ok(Some(Lasts::default()));
        }
        if let Some(lasts) = self.known.mail.boxes.get(&row) {
            return Ok(Some(*lasts));
        }
        self.ask().mail.boxes.insert(row);
        Ok(None)
    }

    /// Asks for what is handed over to whoever claims an execution, if it can be claimed.
    fn ask_resumption(&mut self, row: RowId) {
        let known = self.known.executions.get(&row).filter(|known| known.claimable());
        let Some(has_steps) = known.map(|known| known.beside.steps) else { return };
        let wants = &mut self.ask().mail;
        wants.resumptions.insert(row);
        if has_steps {
            wants.step_pages.insert((row, 0), HANDED_OVER);
        }
    }

    fn current_suspension(&self, place: Place, stored: bool) -> Option<&Suspension> {
        let known = || self.known.mail.suspensions.get(place).filter(|_| stored);
        self.round.mail.suspensions.get(&place).or_else(known)
    }

    fn current_waitpoint(&self, place: Place, stored: bool) -> Option<&Waitpoint> {
        let known = || self.known.mail.waitpoints.get(place).filter(|_| stored);
        self.round.mail.waitpoints.get(&place).or_else(known)
    }

    fn current_signal(&self, place: Place, stored: bool) -> Option<&Signal> {
        let known = || self.known.mail.signals.get(place).filter(|_| stored);
        self.round.mail.signals.get(&place).or_else(known)
    }

    fn first_dropped(&self, row: RowId) -> Option<u32> {
        self.round.mail.dropped_steps.get(&row).copied()
    }

    fn is_dropped(&self, place: Place) -> bool {
        self.first_dropped(place.0).is_some_and(|from| place.1 >= from)
    }

    /// Asks for the signing keys of a namespace so that nobody else uses them meanwhile.
    fn ask_own_signing_keys(&mut self, namespace: NamespaceId) {
        let is_own = self.known.mail.own_signing_keys.contains(&namespace);
        if !is_own && !is_placeholder(namespace.0) {
            self.ask().mail.own_signing_keys.insert(namespace);
        }
    }
}

/// What is numbered within an execution, after a number.
fn of<T>(
    rows: &BTreeMap<Place, T>,
    row: RowId,
    after: u32,
) -> impl DoubleEndedIterator<Item = (u32, &T)> {
    let all = rows.range((row, after)..=(row, u32::MAX));
    all.map(|((_, number), one)| (*number, one)).filter(move |(number, _)| *number > after)
}

/// The last number within an execution.
fn last<T>(rows: &BTreeMap<Place, T>, row: RowId) -> u32 {
    of(rows, row, 0).next_back().map_or(0, |(number, _)| number)
}

/// Rows of one sort as a round sees them.
struct Sight<'a, T> {
    known: &'a Numbered<T>,
    written: &'a BTreeMap<Place, T>,
    /// Whether the database has any.
    stored: bool,
    /// From which number on none of those that are known counts any more.
    dropped: u32,
}

impl<'a, T: Clone> Sight<'a, T> {
    fn of(known: &'a Numbered<T>, written: &'a BTreeMap<Place, T>, stored: bool) -> Self {
        Self { known, written, stored, dropped: u32::MAX }
    }

    /// What is known or written after a place.
    fn after(&self, (row, after): Place) -> BTreeMap<u32, &'a T> {
        let known = of(&self.known.rows, row, after);
        let known = known.filter(|(number, _)| self.stored && *number < self.dropped);
        let known = known.filter_map(|(number, one)| Some((number, one.as_ref()?)));
        known.chain(of(self.written, row, after)).collect()
    }

    /// A page; nothing if it is to be loaded yet.
    fn page(&self, page: Place, limit: usize) -> Option<Vec<T>> {
        let known_to = self.known.known_to(page);
        let is_all = !self.stored || known_to >= self.dropped.saturating_sub(1);
        let to = if is_all { u32::MAX } else { known_to };
        let all = self.after(page);
        let listed: Vec<T> = all.range(..=to).map(|(_, one)| (*one).clone()).take(limit).collect();
        (is_all || listed.len() == limit).then_some(listed)
    }
}
