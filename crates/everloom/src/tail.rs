//! An execution's stream as a stream: what is there, then what comes, until it closes.

use std::collections::VecDeque;
use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};

use everloom_core::{
    ExecutionId, FrameView, ReadStream, Result, StreamClosed, StreamFrom, StreamPage,
};
use futures_core::Stream;
use tokio::time::timeout;

use crate::driver::Driver;
use crate::hub::Watch;

/// Frames of one page.
const PAGE: usize = 500;

/// The frames of an execution's stream in order, each once, across attempts, until the stream
/// closes.
///
/// Reads on only when polled, so a slow reader is never cut off, unless retention removes what it
/// has not read yet: then it ends with `cursor_expired`. An error is the last item;
/// [`Tail::cursor`] says where to begin again.
pub struct Tail {
    driver: Driver,
    read: ReadStream,
    frames: VecDeque<FrameView>,
    /// Everything up to here was handed out or did not match.
    cursor: u64,
    /// Everything up to here was read.
    next: u64,
    at_end: bool,
    closed: Option<StreamClosed>,
    step: Step,
}

type Reading = Pin<Box<dyn Future<Output = Result<StreamPage>> + Send>>;

enum Step {
    Idle,
    Reading(Reading),
    Over,
}

impl Tail {
    /// Begins at a place; what is appended afterwards is not missed.
    pub(crate) async fn begin(driver: Driver, read: ReadStream) -> Result<Self> {
        let read = ReadStream { limit: PAGE, to: None, backward: false, ..read };
        let page = driver.query(read.clone()).await?;
        let mut tail = Self {
            driver,
            read,
            frames: VecDeque::new(),
            cursor: page.frames.first().map_or(page.next, |frame| frame.seq - 1),
            next: page.next,
            at_end: false,
            closed: None,
            step: Step::Idle,
        };
        tail.turn(page);
        Ok(tail)
    }

    /// Everything up to this frame was handed out: tail from after it to go on.
    pub fn cursor(&self) -> u64 {
        self.cursor
    }

    /// Why the stream has closed, once everything before that was handed out.
    pub fn closed(&self) -> Option<StreamClosed> {
        self.closed.filter(|_| matches!(self.step, Step::Over))
    }

    /// The next frame.
    pub async fn next(&mut self) -> Option<Result<FrameView>> {
        poll_fn(|cx| Pin::new(&mut *self).poll_next(cx)).await
    }

    fn turn(&mut self, page: StreamPage) {
        self.next = page.next;
        self.at_end = page.at_end;
        self.closed = page.closed;
        self.frames.extend(page.frames);
        if self.frames.is_empty() {
            self.cursor = self.next;
        }
    }

    fn hand_out(&mut self) -> Option<FrameView> {
        let frame = self.frames.pop_front()?;
        self.cursor = if self.frames.is_empty() { self.next } else { frame.seq };
        Some(frame)
    }

    /// Reads on; at the end of the stream only when there is more.
    fn read_on(&self) -> Reading {
        let driver = self.driver.clone();
        let wait = self.at_end;
        let after = self.next;
        let read = ReadStream { from: StreamFrom::After(after), ..self.read.clone() };
        Box::pin(async move {
            if !wait {
                return driver.query(read).await;
            }
            loop {
                // Before the look, so that a commit after it is heard.
                let news = Both::watch(&driver, read.execution);
                let page = driver.query(read.clone()).await?;
                if page.next > after || page.closed.is_some() {
                    return Ok(page);
                }
                // It may end without news: then the next look is for safety.
                let _ = timeout(driver.options().recheck, news.called()).await;
            }
        })
    }
}

/// News of an execution's stream, and of its end, which closes a stream that was never begun.
struct Both {
    stream: Watch,
    ended: Watch,
}

impl Both {
    fn watch(driver: &Driver, execution: ExecutionId) -> Self {
        let hub = driver.hub();
        Self { stream: hub.streams().watch(execution.0), ended: hub.endings().watch(execution.0) }
    }

    async fn called(&self) {
        tokio::select! {
            () = self.stream.called() => {}
            () = self.ended.called() => {}
        }
    }
}

impl Stream for Tail {
    type Item = Result<FrameView>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        loop {
            if let Some(frame) = this.hand_out() {
                return Poll::Ready(Some(Ok(frame)));
            }
            match std::mem::replace(&mut this.step, Step::Over) {
                Step::Over => return Poll::Ready(None),
                Step::Idle if this.at_end && this.closed.is_some() => return Poll::Ready(None),
                Step::Idle => this.step = Step::Reading(this.read_on()),
                Step::Reading(mut reading) => {
                    let Poll::Ready(page) = reading.as_mut().poll(cx) else {
                        this.step = Step::Reading(reading);
                        return Poll::Pending;
                    };
                    match page {
                        Ok(page) => {
                            this.step = Step::Idle;
                            this.turn(page);
                        }
                        Err(error) => return Poll::Ready(Some(Err(error))),
                    }
                }
            }
        }
    }
}

impl fmt::Debug for Tail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tail")
            .field("execution", &self.read.execution)
            .field("cursor", &self.cursor)
            .finish_non_exhaustive()
    }
}
