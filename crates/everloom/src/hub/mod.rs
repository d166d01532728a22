//! Who waits for what a commit changed.
//!
//! Nothing here is truth: whoever is woken looks into the store. Everyone registers before
//! looking, so that no commit falls between an empty look and the wait.

mod alarm;
mod bells;
mod line;

use std::sync::Arc;

use everloom_core::{News, Wakes};
use tokio::sync::watch;

pub(crate) use alarm::Alarm;
pub(crate) use bells::{Bells, Watch};
pub(crate) use line::{Interest, Line, Seat};

#[derive(Default)]
pub(crate) struct Hub {
    line: Arc<Line>,
    endings: Arc<Bells>,
    streams: Arc<Bells>,
    alarm: Alarm,
    /// Counts the commits with events, so that a follower sees that it missed some.
    events: watch::Sender<u64>,
}

impl Hub {
    /// Stands in line for work. See [`Seat`] for how.
    pub(crate) fn stand_in_line(&self, interest: Interest) -> Seat {
        Seat::new(Arc::clone(&self.line), interest)
    }

    /// Where executions that end are called out.
    pub(crate) fn endings(&self) -> &Arc<Bells> {
        &self.endings
    }

    /// Where executions whose stream goes on or closes are called out.
    pub(crate) fn streams(&self) -> &Arc<Bells> {
        &self.streams
    }

    /// Changes when events were appended; commits close together may show as one change.
    pub(crate) fn events(&self) -> watch::Receiver<u64> {
        self.events.subscribe()
    }

    /// The moment the clock sleeps for.
    pub(crate) fn alarm(&self) -> &Alarm {
        &self.alarm
    }

    /// From now on a clock waits.
    pub(crate) fn expect_time_to_matter(&self) {
        self.alarm.expect();
    }

    /// Whether anyone would like to hear of changes.
    pub(crate) fn anyone_waits(&self) -> bool {
        self.alarm.is_expected()
            || self.events.receiver_count() > 0
            || !self.line.is_empty()
            || !self.endings.is_empty()
            || !self.streams.is_empty()
    }

    /// Tells those concerned what a commit changed.
    pub(crate) fn publish(&self, wakes: Wakes) {
        for work in wakes.ready {
            self.line.call(&work);
        }
        let flows = wakes.ended_flows.iter().map(|id| id.0);
        self.endings.call(wakes.ended.iter().map(|id| id.0).chain(flows));
        self.streams.call(wakes.streams.iter().map(|id| id.0));
        if wakes.events {
            self.events.send_modify(|commits| *commits += 1);
        }
        if let Some(due) = wakes.due {
            self.alarm.note(due);
        }
    }

    /// Passes on what the store tells of itself.
    pub(crate) fn hear(&self, news: News) {
        match news {
            News::Elsewhere => self.wake_everyone(),
            News::Events => self.events.send_modify(|commits| *commits += 1),
            News::Stream(execution) => self.streams.call([execution.0].into_iter()),
        }
    }

    /// Tells everyone to look again: something changed, nobody knows what.
    pub(crate) fn wake_everyone(&self) {
        self.line.call_everyone();
        self.endings.call_everyone();
        self.streams.call_everyone();
        self.events.send_modify(|commits| *commits += 1);
        self.alarm.ring_now();
    }
}
