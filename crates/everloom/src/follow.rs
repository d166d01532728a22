//! The event log as a stream: page by page what is there, then what comes.

use std::collections::VecDeque;
use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};

use everloom_core::{Cursor, Event, EventFilter, EventPage, From, ReadEvents, Result};
use futures_core::Stream;
use tokio::sync::watch;
use tokio::time::timeout;

use crate::driver::Driver;

/// Events of one page.
const PAGE: usize = 500;

/// Matching events in order, each once, for ever.
///
/// Reads on only when polled, so a slow consumer is never cut off, unless retention removes what
/// it has not read yet. An error is the last item; [`Follow::cursor`] says where to begin again.
pub struct Follow {
    driver: Driver,
    filter: EventFilter,
    read: VecDeque<Event>,
    /// Everything up to here was handed out or did not match.
    cursor: Cursor,
    /// Everything up to here was read.
    next: Cursor,
    at_end: bool,
    step: Step,
}

/// A page under way.
type Reading = Pin<Box<dyn Future<Output = (watch::Receiver<u64>, Result<EventPage>)> + Send>>;

enum Step {
    /// To read, with what tells of new events.
    Idle(watch::Receiver<u64>),
    Reading(Reading),
    Over,
}

impl Follow {
    /// Begins at a place; what is appended afterwards is not missed.
    pub(crate) async fn begin(driver: Driver, filter: EventFilter, from: From) -> Result<Self> {
        let events = driver.hub().events();
        let read = ReadEvents { filter: filter.clone(), from, limit: PAGE };
        let page = driver.query(read).await?;
        let mut follow = Self {
            driver,
            filter,
            read: VecDeque::new(),
            cursor: page.events.first().map_or(page.next, |event| Cursor(event.cursor.0 - 1)),
            next: page.next,
            at_end: false,
            step: Step::Idle(events),
        };
        follow.turn(page);
        Ok(follow)
    }

    /// Everything up to here was handed out: follow from after it to go on.
    pub fn cursor(&self) -> Cursor {
        self.cursor
    }

    /// The next event.
    pub async fn next(&mut self) -> Option<Result<Event>> {
        poll_fn(|cx| Pin::new(&mut *self).poll_next(cx)).await
    }

    fn turn(&mut self, page: EventPage) {
        self.next = page.next;
        self.at_end = page.at_end;
        self.read.extend(page.events);
        if self.read.is_empty() {
            self.cursor = self.next;
        }
    }

    fn hand_out(&mut self) -> Option<Event> {
        let event = self.read.pop_front()?;
        self.cursor = if self.read.is_empty() { self.next } else { event.cursor };
        Some(event)
    }

    /// Reads on; at the end of the log only when there is more.
    fn read_on(&self, mut events: watch::Receiver<u64>) -> Reading {
        let driver = self.driver.clone();
        let wait = self.at_end;
        let read =
            ReadEvents { filter: self.filter.clone(), from: From::After(self.next), limit: PAGE };
        Box::pin(async move {
            if wait {
                // It may end without news: then the look into the log is for safety.
                let _ = timeout(driver.options().recheck, events.changed()).await;
            }
            // Before the read, so that a commit after it shows as news.
            events.mark_unchanged();
            let page = driver.query(read).await;
            (events, page)
        })
    }
}

impl Stream for Follow {
    type Item = Result<Event>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        loop {
            if let Some(event) = this.hand_out() {
                return Poll::Ready(Some(Ok(event)));
            }
            match std::mem::replace(&mut this.step, Step::Over) {
                Step::Over => return Poll::Ready(None),
                Step::Idle(events) => this.step = Step::Reading(this.read_on(events)),
                Step::Reading(mut reading) => {
                    let Poll::Ready((events, page)) = reading.as_mut().poll(cx) else {
                        this.step = Step::Reading(reading);
                        return Poll::Pending;
                    };
                    match page {
                        Ok(page) => {
                            this.step = Step::Idle(events);
                            this.turn(page);
                        }
                        Err(error) => return Poll::Ready(Some(Err(error))),
                    }
                }
            }
        }
    }
}

impl fmt::Debug for Follow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Follow")
            .field("filter", &self.filter)
            .field("cursor", &self.cursor)
            .finish_non_exhaustive()
    }
}
