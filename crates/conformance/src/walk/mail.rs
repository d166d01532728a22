//! What must always be so about what lies beside an execution.

use everloom_core::*;

use super::Walk;

/// What lies beside an execution, as a reader sees it.
#[derive(Default)]
pub(super) struct Mail {
    pub(super) suspensions: Vec<SuspensionView>,
    waitpoints: Vec<WaitpointView>,
    signals: Vec<SignalView>,
}

fn is_open(waitpoint: &WaitpointView) -> bool {
    !matches!(waitpoint.state, WaitpointState::Closed { .. })
}

impl Walk<'_> {
    /// Looks at what lies beside an execution about which there is news.
    pub(super) fn check_mail(&mut self, view: &ExecutionView) {
        let id = view.id;
        let now = Mail {
            suspensions: self.lab.suspensions(id),
            waitpoints: self.lab.waitpoints(id),
            signals: self.lab.signals(id),
        };
        let before = self.mail.remove(&id).unwrap_or_default();
        before.precedes(&now);
        now.check(view);
        self.mail.insert(id, now);
    }

    /// Forgets what was removed with its execution.
    pub(super) fn forget_mail(&mut self, id: ExecutionId) {
        self.mail.remove(&id);
        self.recorded.remove(&id);
        self.streams.remove(&id);
        self.keys.retain(|(of, _), _| *of != id);
    }

    /// The inbox has exactly what is open anywhere.
    pub(super) fn check_inbox(&mut self) {
        let page = self.lab.see(ListInbox { limit: Limits::PAGE, ..ListInbox::default() });
        let seen: Vec<_> = page.waitpoints.iter().map(|one| one.id).collect();
        let open = self.mail.values().flat_map(|mail| mail.waitpoints.iter());
        let mut open: Vec<_> = open.filter(|one| is_open(one)).map(|one| one.id).collect();
        open.sort_unstable();
        assert_eq!(seen, open);
    }
}

impl Mail {
    pub(super) fn has_open(&self, id: WaitpointId) -> bool {
        self.waitpoints.iter().any(|one| one.id == id && is_open(one))
    }

    /// What is over stays as it was, and nothing disappears.
    fn precedes(&self, now: &Self) {
        for (before, after) in self.suspensions.iter().zip(&now.suspensions) {
            assert_eq!((before.number, &before.terms), (after.number, &after.terms));
            assert!(before.end.is_none() || before == after, "a suspension ended twice");
        }
        for (before, after) in self.waitpoints.iter().zip(&now.waitpoints) {
            assert_eq!(before.id, after.id);
            assert!(is_open(before) || before.state == after.state, "a waitpoint was reopened");
        }
        for (before, after) in self.signals.iter().zip(&now.signals) {
            assert_eq!((before.id, &before.payload), (after.id, &after.payload));
            let taken = |one: &SignalView| (one.suspension, one.counted);
            assert!(before.suspension.is_none() || taken(before) == taken(after));
        }
        assert!(self.suspensions.len() <= now.suspensions.len());
        assert!(self.waitpoints.len() <= now.waitpoints.len());
        assert!(self.signals.len() <= now.signals.len());
    }

    fn check(&self, view: &ExecutionView) {
        assert!((1..).zip(&self.suspensions).all(|(number, one)| one.number == number));
        assert!((1..).zip(&self.waitpoints).all(|(seq, one)| one.seq == seq));
        assert!((1..).zip(&self.signals).all(|(seq, one)| one.seq == seq));
        let current = self.suspensions.last().filter(|last| last.end.is_none());
        assert_eq!(current.is_some(), view.status == Status::Suspended);
        let open = self.suspensions.iter().filter(|one| one.end.is_none()).count();
        assert_eq!(open, usize::from(current.is_some()));
        self.check_waitpoints(view, current);
        for suspension in &self.suspensions {
            self.check_tally(suspension);
        }
    }

    fn check_waitpoints(&self, view: &ExecutionView, current: Option<&SuspensionView>) {
        let open: Vec<_> = self.waitpoints.iter().filter(|one| is_open(one)).collect();
        assert!(open.is_empty() || !view.status.is_terminal(), "{} left a door open", view.id);
        let mut keys: Vec<_> = open.iter().map(|one| &one.key).collect();
        keys.sort_unstable();
        keys.dedup();
        assert_eq!(keys.len(), open.len(), "two doors of {} have one key", view.id);
        for waitpoint in open {
            let waits = waitpoint.state.suspension();
            assert!(waits.is_none() || waits == current.map(|one| one.number));
            let named = current.is_some_and(|one| one.terms.waitpoints.contains(&waitpoint.id));
            assert_eq!(waits.is_some(), named, "a door that is waited at is not open for it");
        }
    }

    /// A suspension goes on for as long as the signals it took do not meet its condition.
    fn check_tally(&self, suspension: &SuspensionView) {
        let condition = &suspension.terms.condition;
        let mut tally = Tally::new(condition);
        let mut met_by = None;
        for signal in self.signals.iter().filter(|one| one.suspension == Some(suspension.number)) {
            if signal.source == "clock" {
                continue;
            }
            let counted = met_by.is_none() && tally.offer(condition, offer(signal)).has_counted();
            assert_eq!(counted, signal.counted, "{} and {condition:?}", signal.name);
            if counted && tally.is_met(condition) {
                met_by = Some(signal.id);
            }
        }
        let by = suspension.end.as_ref().map(|end| &end.by);
        match (by, met_by) {
            (Some(EndedBy::Signal { signal }), met_by) => assert_eq!(met_by, Some(*signal)),
            // A member whose flow is being closed ends instead of going on.
            (Some(EndedBy::Execution), _) => {}
            (by, met_by) => assert_eq!(met_by, None, "{by:?} came late"),
        }
        if by.is_none() {
            assert_eq!(suspension.waits_for, Some(tally.tell(condition)));
        }
    }
}

fn offer(signal: &SignalView) -> Offer<'_> {
    let approval = signal.approval.as_ref();
    Offer {
        waitpoint: signal.waitpoint.as_deref(),
        name: &signal.name,
        source: &signal.source,
        approves: approval.map(|approval| approval.approved),
        roles: match signal.token {
            Some(_) => None,
            None => Some(approval.map_or(&[], |approval| &approval.roles)),
        },
    }
}
