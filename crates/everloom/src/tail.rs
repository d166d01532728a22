//! An execution's stream as a stream: what is there, then what comes, until it closes.

use std::collections::VecDeque;
use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
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

/// Which frames to tail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TailStream {
    /// Of which execution.
    pub execution: ExecutionId,
    /// From where.
    pub from: StreamFrom,
    /// Only frames of this attempt.
    pub attempt: Option<u32>,
    /// Leave out live frames.
    pub durable_only: bool,
}

impl TailStream {
    /// All of an execution's frames, from the oldest one that is kept.
    pub fn new(execution: ExecutionId) -> Self {
        Self { execution, from: StreamFrom::default(), attempt: None, durable_only: false }
    }

    /// The same from the frame after this one: [`Tail::cursor`] of an earlier tail.
    #[must_use]
    pub fn after(self, cursor: u64) -> Self {
        Self { from: StreamFrom::After(cursor), ..self }
    }
}

/// The frames of an execution's stream in order, each once, across attempts, until the stream
/// closes.
///
/// Reads on only when polled, so a slow reader is never cut off silently. It gets every durable
/// frame; if retention removes some before they were read, it ends with `cursor_expired`. Live
/// frames that were removed before they were read are left out: the numbers have a gap there, and
/// [`Tail::missed`] counts them. An error is the last item; [`Tail::cursor`] says where to begin
/// again.
pub struct Tail {
    driver: Driver,
    news: Arc<Both>,
    read: ReadStream,
    frames: VecDeque<FrameView>,
    /// Everything up to here was handed out or did not match.
    cursor: u64,
    /// Everything up to here was read.
    next: u64,
    at_end: bool,
    missed: u64,
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
    pub(crate) async fn begin(
        driver: Driver,
        namespace: String,
        wanted: TailStream,
    ) -> Result<Self> {
        let TailStream { execution, from, attempt, durable_only } = wanted;
        let read = ReadStream { namespace, limit: PAGE, ..ReadStream::new(execution) };
        let read = ReadStream { from, attempt, durable_only, ..read };
        // Before the first look, so that every commit after it is heard.
        let news = Arc::new(Both::watch(&driver, execution));
        let page = driver.query(read.clone()).await?;
        let cursor = match from {
            StreamFrom::After(cursor) => cursor,
            _ => page.frames.first().map_or(page.next, |frame| frame.seq - 1),
        };
        let mut tail = Self {
            driver,
            news,
            read,
            frames: VecDeque::new(),
            cursor,
            next: page.next,
            at_end: false,
            missed: 0,
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
        self.closed.filter(|_| self.at_end && self.frames.is_empty())
    }

    /// How many live frames had been removed before they were read, after the cursor it began at
    /// or else its first frame. Not counted where only some of the frames are wanted.
    pub fn missed(&self) -> u64 {
        self.missed
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
        if !self.read.durable_only && self.read.attempt.is_none() {
            self.missed += frame.seq - self.cursor - 1;
        }
        self.cursor = if self.frames.is_empty() { self.next } else { frame.seq };
        Some(frame)
    }

    /// Reads on; at the end of the stream only when there is more.
    fn read_on(&self) -> Reading {
        let driver = self.driver.clone();
        let news = self.at_end.then(|| Arc::clone(&self.news));
        let after = self.next;
        let read = ReadStream { from: StreamFrom::After(after), ..self.read.clone() };
        Box::pin(async move {
            let Some(news) = news else { return driver.query(read).await };
            loop {
                // It may end without news: then the look is for safety.
                let _ = timeout(driver.options().recheck, news.called()).await;
                let page = driver.query(read.clone()).await?;
                if page.next > after || page.closed.is_some() {
                    return Ok(page);
                }
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
