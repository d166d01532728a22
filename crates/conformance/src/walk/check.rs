use std::collections::BTreeMap;

use everloom_core::*;

use super::{LANES, Walk};
use crate::fixtures::*;
use crate::flow_lab::*;

/// What there is, as a reader sees it.
pub(super) type Seen = BTreeMap<ExecutionId, ExecutionView>;

pub(super) fn owned(status: Status) -> bool {
    matches!(status, Status::Granted | Status::Active)
}

impl Walk<'_> {
    /// Compares what there is now with what there was before the last deed.
    pub(super) fn check(&mut self) {
        let all = ListExecutions { limit: Limits::PAGE, ..ListExecutions::default() };
        let now: Seen = self.lab.list(all).into_iter().map(|view| (view.id, view)).collect();
        let told = self.news();
        let earlier = std::mem::take(&mut self.seen);
        for (id, before) in &earlier {
            let news = told.get(id).map_or(&[][..], Vec::as_slice);
            let removed = news.iter().any(|event| event.kind == EventKind::Deleted);
            if removed {
                self.forget_mail(*id);
            }
            match now.get(id) {
                Some(_) if removed => {}
                Some(after) => self.check_change(before, after, news),
                None => assert!(removed, "{id} vanished"),
            }
        }
        for (id, view) in &now {
            check_shape(view);
            let news = told.get(id).map_or(&[][..], Vec::as_slice);
            self.note_passed(earlier.get(id), view, news);
            let born = news.iter().any(|event| event.kind == EventKind::Submitted);
            assert!(born || earlier.contains_key(id), "{id} came from nowhere");
            if born && news.len() == 1 {
                self.note(None, &news[0], view.status);
            }
            let ends = self.terminal_events.get(id).copied().unwrap_or(0);
            let expected = view.run - 1 + u32::from(view.status.is_terminal());
            assert_eq!(ends, expected, "{id} has {ends} terminal events in run {}", view.run);
            if !news.is_empty() {
                self.check_attempts(view);
                self.check_mail(view);
            }
            if !news.is_empty() || self.put_out == Some(*id) {
                self.check_stream(view, news);
            }
        }
        // The inbox looks at every open waitpoint: often enough is enough.
        if self.steps.is_multiple_of(10) {
            self.check_inbox();
        }
        self.check_flows();
        self.check_counts(&now);
        self.check_slots(&now);
        self.passed.retain(|id, _| now.contains_key(id));
        self.check_limits(&now);
        self.seen = now;
    }

    /// The events since the last look, by execution.
    fn news(&mut self) -> BTreeMap<ExecutionId, Vec<Event>> {
        let mut told = BTreeMap::<_, Vec<_>>::new();
        loop {
            let query =
                ReadEvents { from: self.cursor, limit: Limits::PAGE, ..ReadEvents::default() };
            let page = self.lab.see(query);
            self.cursor = From::After(page.next);
            for event in page.events {
                let Some(id) = event.execution else { continue };
                if event.kind == EventKind::Deleted {
                    self.terminal_events.remove(&id);
                }
                if event.kind.is_terminal() {
                    *self.terminal_events.entry(id).or_default() += 1;
                }
                told.entry(id).or_default().push(event);
            }
            if page.at_end {
                return told;
            }
        }
    }

    fn check_change(&mut self, before: &ExecutionView, after: &ExecutionView, news: &[Event]) {
        let id = after.id;
        let moves: Vec<_> =
            news.iter().filter(|event| cause(event, before.status).is_some()).collect();
        assert!(after.epoch >= before.epoch, "the epoch of {id} fell");
        match moves.as_slice() {
            [] => {
                let owner = |view: &ExecutionView| (view.status, view.epoch, view.worker.clone());
                assert_eq!(owner(before), owner(after), "{id} changed and nobody was told");
            }
            [event] => self.note(Some(before.status), event, after.status),
            _ => {}
        }
        assert!(self.stale != Some(id) || news.is_empty(), "a stale lease did something to {id}");
        if !moves.is_empty() && [before, after].iter().any(|view| owned(view.status)) {
            assert!(after.epoch > before.epoch, "{id} changed its owner and not its epoch");
        }
        let replays = news.iter().filter(|event| event.kind == EventKind::Replayed).count();
        assert_eq!(after.run - before.run, u32::try_from(replays).unwrap_or(u32::MAX));
        if before.status.is_terminal() && replays == 0 {
            assert_eq!(before.end, after.end, "{id} ended twice");
        }
        assert!((before.attempt..=before.attempt + 1).contains(&after.attempt));
        assert!(after.retries <= after.policy.retry.max_retries());
        assert!(after.reclaims <= after.policy.max_reclaims());
    }

    fn note(&mut self, from: Option<Status>, event: &Event, to: Status) {
        let cause = cause(event, from.unwrap_or(to)).expect("only moves are noted");
        let edge = Transition { from, cause, to };
        assert!(edge.exists(), "there is no transition {edge}");
        self.taken.insert(edge);
    }

    /// Attempts are numbered 1, 2, 3 …, one after the other, and only a sleep is continued.
    fn check_attempts(&mut self, view: &ExecutionView) {
        let attempts = self.lab.attempts(view.id);
        let mut last: Option<&AttemptView> = None;
        for one in &attempts {
            let (number, epoch, run) =
                last.map_or((0, Epoch(0), 1), |last| (last.attempt, last.epoch, last.run));
            let slept = last.is_some_and(|last| {
                matches!(last.end, Some(LeaseEnd::Delayed { .. } | LeaseEnd::Suspended { .. }))
            });
            let expected = [number + u32::from(!slept), number + 1];
            assert!(expected.contains(&one.attempt), "attempt {} after {number}", one.attempt);
            assert!(one.epoch > epoch && one.run >= run);
            assert!(last.is_none_or(|last| last.ended_at <= Some(one.claimed_at)));
            last = Some(one);
        }
        let open = attempts.iter().filter(|one| one.end.is_none()).count();
        assert_eq!(open == 1, view.status == Status::Active);
        assert!(open <= 1);
        assert_eq!(last.map_or(0, |last| last.attempt), view.attempt);
    }

    /// The counters of every flow are those of its members.
    fn check_flows(&mut self) {
        for id in self.flows.clone() {
            match self.lab.ask(get_flow(id)) {
                Ok(view) => {
                    let of = |status: Status| -> u64 {
                        let same = view.members.iter().filter(|one| one.status == status);
                        same.map(|one| one.count).sum()
                    };
                    let counts = view.counts;
                    assert_eq!(counts.nodes, view.members.iter().map(|one| one.count).sum::<u64>());
                    assert_eq!(counts.completed, of(Status::Completed));
                    assert_eq!(counts.failed, of(Status::Failed));
                    assert_eq!(counts.cancelled, of(Status::Cancelled));
                    assert_eq!(counts.expired, of(Status::Expired));
                    assert_eq!(counts.skipped, of(Status::Skipped));
                    assert_eq!(view.status.is_terminal(), counts.open() == 0);
                }
                Err(_) => self.flows.retain(|flow| *flow != id),
            }
        }
    }

    fn check_counts(&mut self, now: &Seen) {
        let counts = self.lab.counts();
        assert_eq!(counts.total(), now.len() as u64);
        for one in counts.counts {
            let same = |view: &&ExecutionView| (view.status, view.held) == (one.status, one.held);
            assert_eq!(one.count, now.values().filter(same).count() as u64, "{}", one.status);
        }
    }

    fn check_slots(&mut self, now: &Seen) {
        for lane in self.lab.see(lanes()).lanes {
            assert!(LANES.contains(&lane.lane.as_str()));
            let inside = || now.values().filter(|view| view.lane == lane.lane);
            let taken = inside().filter(|view| owned(view.status)).count() as u64;
            let free = lane.max_active.map(|max| u64::from(max).saturating_sub(taken));
            assert_eq!(lane.free, free, "free slots of lane {}", lane.lane);
            let ready = |view: &&ExecutionView| {
                !view.held && matches!(view.status, Status::Waiting | Status::Resumable)
            };
            assert_eq!(lane.depth, inside().filter(ready).count() as u64);
            assert_eq!(lane.oldest, inside().filter(ready).map(|view| view.since).min());
        }
    }
}

/// What belongs to a state is there, and nothing else is.
fn check_shape(view: &ExecutionView) {
    let status = view.status;
    assert_eq!(view.worker.is_some(), owned(status));
    assert_eq!(view.owned_until.is_some(), owned(status));
    assert_eq!(view.end.is_some(), status.is_terminal());
    assert!(view.cancel.is_none() || status == Status::Active);
    assert!(!view.held || !(owned(status) || status.is_terminal()));
    // A member is removed with its flow.
    let goes = status.is_terminal() && view.flow.is_none();
    let timed = owned(status) || status == Status::Delayed || goes;
    assert!(view.due_at.is_some() || !timed, "{} has nothing to wait for", view.id);
    assert_eq!(view.axes.public_state, status);
}

/// Why the state changed, as the event tells it.
pub(super) fn cause(event: &Event, from: Status) -> Option<Cause> {
    let said = |field: &str| event.data.as_ref().and_then(|data| data.get(field));
    let reason = || said("reason").and_then(|reason| reason.as_str());
    Some(match event.kind {
        EventKind::Submitted => Cause::Submit,
        EventKind::BecameReady if from == Status::WaitingChildren => Cause::Join,
        EventKind::BecameReady if from == Status::RateLimited => Cause::Free,
        EventKind::BecameReady => Cause::Due,
        EventKind::Limited => Cause::Limit,
        EventKind::Paused => Cause::Pause,
        EventKind::Skipped => Cause::Join,
        EventKind::Delayed => Cause::Delay,
        EventKind::Retrying => Cause::Fail,
        EventKind::Completed => Cause::Complete,
        EventKind::Failed | EventKind::Cancelled | EventKind::Expired
            if reason() == Some("suspension_timeout") =>
        {
            Cause::SuspensionTimeout
        }
        EventKind::Suspended => Cause::Suspend,
        EventKind::Resumed => {
            match said("resumed").and_then(|resumed| resumed.get("ended_by")?.as_str()) {
                Some("signal") => Cause::Signal,
                Some("operator") => Cause::Resume,
                _ => Cause::SuspensionTimeout,
            }
        }
        EventKind::Failed if reason() == Some("max_reclaims") => Cause::LeaseExpired,
        EventKind::Failed => Cause::Fail,
        EventKind::Cancelled => Cause::Cancel,
        EventKind::Expired => Cause::Deadline,
        EventKind::Replayed => Cause::Replay,
        EventKind::Held if matches!(from, Status::Granted | Status::RateLimited) => Cause::Hold,
        EventKind::Claimed if from == Status::Granted => Cause::Redeem,
        EventKind::Claimed => Cause::Claim,
        EventKind::Granted => Cause::Grant,
        EventKind::GrantEnded => Cause::GrantLapsed,
        EventKind::Released => Cause::Release,
        EventKind::Revoked => Cause::Revoke,
        EventKind::LeaseExpired => Cause::LeaseExpired,
        EventKind::LeaseLost => Cause::WorkerGone,
        _ => return None,
    })
}
