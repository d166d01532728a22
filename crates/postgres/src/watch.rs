//! What other processes do, and the numbering of events: one thread and one connection per process.
//!
//! The thread listens on the schema's channel. Whoever numbers events tells the channel, and every
//! commit that made something ready or ended it has events, so that one message means both: look
//! for work, and read on in the log. When all of them are this process's own, it has looked for
//! work already. A message that is not about numbering asks for a pass: it comes from a transaction
//! that nobody's store has committed. The slow poll finds what a process that died has left without
//! a number.
//!
//! Frames are no events: the thread tells the channel whose streams its process appended to, after
//! the commit, because to tell within it makes all commits of the server wait for each other.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use everloom_core::{Code, Error, ExecutionId, News, Result};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};
use tokio_postgres::{AsyncMessage, Client, Statement};
use uuid::Uuid;

use crate::link;
use crate::numbering::{Message, Numberer};
use crate::sql;
use crate::target::Target;

/// How long to wait before a lost connection is made again.
const BREATH: Duration = Duration::from_millis(200);

/// The time between two passes: a pass is a commit of its own, so that under load one serves many
/// others. The first after a pause comes at once.
const PACE: Duration = Duration::from_millis(10);

/// How long to wait before looking for work again that others have locked: longer while they keep
/// it, and the shorter time again after a while without.
const SOON: Duration = Duration::from_millis(20);
const LATER: Duration = Duration::from_secs(1);
const FORGIVE: Duration = Duration::from_secs(3);

/// The watching thread, as the stores of a process see it. It ends with the last of them.
pub(crate) struct Watch {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// What is called when something has changed.
pub(crate) type Listener = Arc<dyn Fn(News) + Send + Sync>;

struct Shared {
    /// Names this process among those that write events.
    source: i64,
    wake: Notify,
    again: Notify,
    /// Streams that went on and were not told of yet.
    streams: Mutex<BTreeSet<ExecutionId>>,
    went_on: Notify,
    changed: AtomicBool,
    ended: AtomicBool,
    listeners: Mutex<Vec<Listener>>,
}

impl Shared {
    fn tell(&self, news: News) {
        if news == News::Elsewhere {
            self.changed.store(true, Ordering::Release);
        }
        let listeners = self.listeners.lock().unwrap_or_else(PoisonError::into_inner);
        listeners.iter().for_each(|listener| listener(news));
    }

    fn streams(&self) -> MutexGuard<'_, BTreeSet<ExecutionId>> {
        self.streams.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Completes at that moment, or later when a stream goes on.
    async fn streams_to_tell(&self, at: Instant) {
        while self.streams().is_empty() {
            self.went_on.notified().await;
        }
        sleep_until(at).await;
    }

    /// Tells other processes whose streams went on. What is lost with the connection is found by
    /// those who look again by themselves.
    async fn tell_streams(
        &self,
        client: &Client,
        notify: &Statement,
        channel: &str,
    ) -> std::result::Result<(), tokio_postgres::Error> {
        let ids: Vec<_> = std::mem::take(&mut *self.streams()).into_iter().collect();
        for ids in ids.chunks(Message::STREAMS) {
            let message = Message::of_streams(self.source, ids);
            client.execute(notify, &[&channel, &message]).await?;
        }
        Ok(())
    }
}

impl Watch {
    pub(crate) fn start(target: &Arc<Target>) -> Result<Self> {
        // The random half; its first bit is set, so that it is never 0, which stands for nobody.
        let source = Uuid::now_v7().as_u64_pair().1.cast_signed();
        let shared = Arc::new(Shared {
            source,
            wake: Notify::new(),
            again: Notify::new(),
            streams: Mutex::default(),
            went_on: Notify::new(),
            changed: AtomicBool::new(false),
            ended: AtomicBool::new(false),
            listeners: Mutex::default(),
        });
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| Error::new(Code::Unavailable, format!("no runtime: {error}")))?;
        let (target, theirs) = (Arc::clone(target), Arc::clone(&shared));
        let thread = std::thread::Builder::new()
            .name("everloom-watch".into())
            .spawn(move || runtime.block_on(watch(&target, &theirs)))
            .map_err(|error| Error::new(Code::Unavailable, format!("no thread: {error}")))?;
        Ok(Self { shared, thread: Mutex::new(Some(thread)) })
    }

    /// What names this process among those that write events.
    pub(crate) fn source(&self) -> i64 {
        self.shared.source
    }

    /// There are events to number.
    pub(crate) fn wake(&self) {
        self.shared.wake.notify_one();
    }

    /// The streams of these executions went on.
    pub(crate) fn tell_of_streams(&self, ids: &[ExecutionId]) {
        self.shared.streams().extend(ids);
        self.shared.went_on.notify_one();
    }

    /// There is work that others have locked.
    pub(crate) fn look_again_soon(&self) {
        self.shared.again.notify_one();
    }

    /// Calls this whenever someone has numbered events or something may have been missed.
    pub(crate) fn listen(&self, listener: Listener) {
        self.shared.listeners.lock().unwrap_or_else(PoisonError::into_inner).push(listener);
    }

    /// Ends the thread and waits for it.
    pub(crate) fn end(&self) {
        self.shared.ended.store(true, Ordering::Release);
        self.shared.wake.notify_one();
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            let _ = thread.join();
        }
    }

    /// Whether events of others were numbered since the last time this was asked.
    pub(crate) fn take_changed(&self) -> bool {
        self.shared.changed.swap(false, Ordering::AcqRel)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.end();
    }
}

async fn watch(target: &Target, shared: &Arc<Shared>) {
    while !shared.ended.load(Ordering::Acquire) {
        let result = listen(target, shared).await;
        // What happens while nobody listens is not known.
        shared.tell(News::Elsewhere);
        if let Err(error) = result {
            tracing::warn!(%error, "the watching connection was lost");
            let _ = tokio::time::timeout(BREATH, shared.wake.notified()).await;
        }
    }
}

/// Listens and numbers until the connection is lost or the last store is gone.
async fn listen(target: &Target, shared: &Arc<Shared>) -> Result<()> {
    let (client, mut messages) = link::connect_listening(target).await?;
    let sent = |error: tokio_postgres::Error| crate::error::translate(&error);
    let channel = target.channel();
    client.batch_execute(&format!("LISTEN \"{channel}\"")).await.map_err(sent)?;
    let numberer = Numberer::prepare(&client, target).await.map_err(sent)?;
    let notify = client.prepare(sql::meta::NOTIFY).await.map_err(sent)?;
    let mut asked = true;
    let mut next_pass = Instant::now();
    let mut next_tell = Instant::now();
    let mut again = Again::default();
    loop {
        let ended = shared.ended.load(Ordering::Acquire);
        if asked && (ended || Instant::now() >= next_pass) {
            numberer.run().await.map_err(sent)?;
            asked = false;
            next_pass = Instant::now() + PACE;
        }
        if ended {
            return shared.tell_streams(&client, &notify, &channel).await.map_err(sent);
        }
        let look = if asked { next_pass } else { next_pass + target.options.poll };
        tokio::select! {
            () = shared.wake.notified() => asked = true,
            () = sleep_until(look) => asked = true,
            () = shared.again.notified() => again.plan(),
            () = again.due() => shared.tell(News::Elsewhere),
            () = shared.streams_to_tell(next_tell) => {
                shared.tell_streams(&client, &notify, &channel).await.map_err(sent)?;
                next_tell = Instant::now() + PACE;
            }
            message = messages.recv() => match message {
                Some(AsyncMessage::Notification(told)) => {
                    asked |= hear(shared, Message::parse(told.payload()));
                }
                Some(_) => {}
                None => return Err(Error::new(Code::Unavailable, "the connection ended")),
            },
        }
    }
}

/// Hands a message on; says whether it asks for a pass.
fn hear(shared: &Shared, message: Message) -> bool {
    match message {
        Message::NumberedOf(source) if source == shared.source => shared.tell(News::Events),
        // Those here were told when it was committed.
        Message::Streams(source, _) if source == shared.source => {}
        Message::Streams(_, ids) => ids.into_iter().for_each(|id| shared.tell(News::Stream(id))),
        Message::NumberedOf(_) | Message::Numbered => shared.tell(News::Elsewhere),
        Message::Other => {
            shared.tell(News::Elsewhere);
            return true;
        }
    }
    false
}

/// When to look for work again that others have locked.
struct Again {
    at: Option<Instant>,
    last: Instant,
    patience: Duration,
}

impl Default for Again {
    fn default() -> Self {
        Self { at: None, last: Instant::now(), patience: SOON }
    }
}

impl Again {
    fn plan(&mut self) {
        if self.last.elapsed() > FORGIVE {
            self.patience = SOON;
        }
        if self.at.is_none() {
            self.last = Instant::now() + self.patience;
            self.at = Some(self.last);
            self.patience = (self.patience * 2).min(LATER);
        }
    }

    /// Completes at the moment that was planned, once.
    async fn due(&mut self) {
        match self.at {
            Some(at) => sleep_until(at).await,
            None => std::future::pending().await,
        }
        self.at = None;
    }
}
