//! Waiting without a lease: for time, for signals, for people and for children.
//!
//! A handler that waits is put aside: its future is dropped and its lease ends. When what it waits
//! for has come it runs again from the start, and its recorded steps bring it back to where it was.
//! It is put aside only when all it does is wait; what it does at the same time is finished first.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::task::{Poll, Waker};
use std::time::Duration;

use everloom_core::{
    Bound, Condition, Delay, DelayOutcome, ExecutionId, Need, OnTimeout, Resumption, SignalView,
    Suspend, SuspendOutcome, SuspendReason, Timestamp, WaitChildren, WaitChildrenOutcome,
};

use super::ctx::{Ctx, Memory};
use crate::handler::{Error, FromInput, IntoOutput};

/// What parts of a handler wait for.
#[derive(Default)]
pub(super) struct Waits {
    last: u64,
    open: BTreeMap<u64, (Wait, Waker)>,
    /// What came and was not handed to the handler yet.
    pub(super) signals: Vec<SignalView>,
    /// What became of children, by name.
    pub(super) children: BTreeMap<ExecutionId, Bound>,
}

/// What a part of a handler waits for.
#[derive(Clone, Debug)]
pub(super) enum Wait {
    Time(Timestamp),
    Signal(Condition, SuspendReason),
    Children { of: Vec<ExecutionId>, need: Need },
}

impl Waits {
    pub(super) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// The first signal that is meant, if it has come.
    pub(super) fn take_signal(
        &mut self,
        is_meant: impl Fn(&SignalView) -> bool,
    ) -> Option<SignalView> {
        let index = self.signals.iter().position(is_meant)?;
        Some(self.signals.remove(index))
    }

    /// All signals that are meant and have come.
    pub(super) fn take_signals(
        &mut self,
        is_meant: impl Fn(&SignalView) -> bool,
    ) -> Vec<SignalView> {
        self.signals.extract_if(.., |signal| is_meant(signal)).collect()
    }

    fn wake(&self) {
        for (_, waker) in self.open.values() {
            waker.wake_by_ref();
        }
    }
}

/// What follows from an attempt to put work aside.
pub(super) enum Parked {
    /// It waits, or is over: nobody here has it any more.
    Gone,
    /// What it wanted to wait for is there.
    Ready,
}

impl Ctx {
    /// Whether all the handler does is wait.
    pub(super) fn only_waits(&self) -> bool {
        let memory = self.memory();
        memory.busy == 0 && !memory.waits.is_empty()
    }

    /// Waits until `ready` has an answer, which it may have at once.
    pub(super) async fn wait<T>(
        &self,
        wait: Wait,
        mut ready: impl FnMut(&mut Memory) -> Option<T>,
    ) -> T {
        let mut place = Place { ctx: self.clone(), id: None };
        poll_fn(|cx| {
            let mut memory = self.memory();
            if let Some(answer) = ready(&mut memory) {
                return Poll::Ready(answer);
            }
            let waits = &mut memory.waits;
            let id = *place.id.get_or_insert_with(|| {
                waits.last += 1;
                waits.last
            });
            waits.open.insert(id, (wait.clone(), cx.waker().clone()));
            Poll::Pending
        })
        .await
    }

    /// Puts the work aside until something has come that its handler waits for.
    pub(super) async fn park(&self) -> Result<Parked, Error> {
        let waits: Vec<_> = {
            let memory = self.memory();
            memory.waits.open.values().map(|(wait, _)| wait.clone()).collect()
        };
        let (mut until, mut conditions, mut children) = (None::<Timestamp>, vec![], None);
        let mut why = SuspendReason::default();
        for wait in waits {
            match wait {
                Wait::Time(at) => until = until.into_iter().chain([at]).min(),
                Wait::Signal(condition, reason) => {
                    conditions.push(condition);
                    why = reason;
                }
                Wait::Children { of, need } => children = children.or(Some((of, need))),
            }
        }
        match (children, conditions.is_empty(), until) {
            (Some((of, need)), true, None) => self.park_for_children(of, need).await,
            (Some(_), ..) => Err(Error::permanent(
                "a handler can not wait for children and for something else at the same time; \
                 wait for one after the other, or let a child wait for the other",
            )),
            (None, true, Some(until)) => self.park_until(until).await,
            (None, ..) => self.park_for_signals(conditions, until, why).await,
        }
    }

    async fn park_until(&self, until: Timestamp) -> Result<Parked, Error> {
        let (namespace, lease) = (self.here(), self.lease());
        let delay = Delay { namespace, lease, until: Some(until), duration: None };
        match self.apply(delay).await? {
            DelayOutcome::Delayed { .. } | DelayOutcome::Cancelled => Ok(Parked::Gone),
        }
    }

    async fn park_for_signals(
        &self,
        mut conditions: Vec<Condition>,
        until: Option<Timestamp>,
        reason: SuspendReason,
    ) -> Result<Parked, Error> {
        if until.is_some() {
            conditions.push(Condition::Timeout);
        }
        let condition = match conditions.len() {
            1 => conditions.remove(0),
            _ => Condition::any(conditions),
        };
        let suspend = Suspend {
            namespace: self.here(),
            until,
            on_timeout: until.map(|_| OnTimeout::Resume),
            reason,
            ..Suspend::new(self.lease(), condition)
        };
        match self.apply(suspend).await? {
            SuspendOutcome::Suspended { .. } | SuspendOutcome::Cancelled => Ok(Parked::Gone),
            SuspendOutcome::AlreadySatisfied { resumption } => {
                self.receive(resumption);
                Ok(Parked::Ready)
            }
        }
    }

    async fn park_for_children(&self, of: Vec<ExecutionId>, need: Need) -> Result<Parked, Error> {
        let wait =
            WaitChildren { namespace: self.here(), need, ..WaitChildren::new(self.lease(), of) };
        match self.apply(wait).await? {
            WaitChildrenOutcome::Waiting | WaitChildrenOutcome::Cancelled => Ok(Parked::Gone),
            WaitChildrenOutcome::Ready { children, .. } => {
                let mut memory = self.memory();
                let by_id = children.into_values().map(|bound| (bound.execution, bound));
                memory.waits.children.extend(by_id);
                memory.waits.wake();
                Ok(Parked::Ready)
            }
        }
    }

    /// Takes what has come.
    pub(super) fn receive(&self, resumption: Resumption) {
        let mut memory = self.memory();
        memory.waits.signals.extend(resumption.signals);
        memory.waits.wake();
    }
}

/// A part of a handler that waits, until it does not any more.
struct Place {
    ctx: Ctx,
    id: Option<u64>,
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Some(id) = self.id {
            self.ctx.memory().waits.open.remove(&id);
        }
    }
}

/// Waiting.
impl Ctx {
    /// Sleeps, for a moment or for a year, holding nothing meanwhile.
    pub async fn sleep(&self, duration: Duration) -> Result<(), Error> {
        let until = self.now() + duration;
        self.sleep_as("sleep", until).await
    }

    /// Sleeps until then, holding nothing meanwhile.
    pub async fn sleep_until(&self, until: Timestamp) -> Result<(), Error> {
        self.sleep_as("sleep", until).await
    }

    async fn sleep_as(&self, name: &str, until: Timestamp) -> Result<(), Error> {
        let until = self.recorded_time(name, self.occurrence(name), until).await?;
        if self.now() < until {
            self.wait(Wait::Time(until), |_| None::<()>).await;
        }
        Ok(())
    }

    /// A time that is on record before it is waited for, so that whoever runs the handler again
    /// does not begin to wait anew.
    pub(super) async fn recorded_time(
        &self,
        name: &str,
        occurrence: u32,
        until: Timestamp,
    ) -> Result<Timestamp, Error> {
        let recorded = match self.recorded(name, occurrence, "sleep")? {
            Some(recorded) => recorded,
            None => self.record(name, occurrence, "sleep", until.into_output()?).await?,
        };
        Timestamp::from_input(recorded)
    }
}
