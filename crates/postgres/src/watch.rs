//! What other processes do, and the numbering of events: one thread and one connection per process.
//!
//! The thread listens on the schema's channel. Whoever numbers events tells the channel, and every
//! commit that made something ready or ended it has events, so that one message means both: look
//! for work, and read on in the log. A message that is not about numbering asks for a pass: it
//! comes from a transaction that nobody's store has committed. The slow poll finds what a process
//! that died has left without a number.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use everloom_core::{Code, Error, Result};
use tokio::sync::Notify;
use tokio_postgres::{AsyncMessage, Client};

use crate::link;
use crate::numbering;
use crate::target::Target;

/// How long to wait before a lost connection is made again.
const BREATH: Duration = Duration::from_millis(200);

/// The watching thread, as the stores of a process see it. It ends with the last of them.
pub(crate) struct Watch {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// What is called when something has changed.
pub(crate) type Listener = Arc<dyn Fn() + Send + Sync>;

#[derive(Default)]
struct Shared {
    wake: Notify,
    changed: AtomicBool,
    ended: AtomicBool,
    listeners: Mutex<Vec<Listener>>,
}

impl Shared {
    fn note_change(&self) {
        self.changed.store(true, Ordering::Release);
        let listeners = self.listeners.lock().unwrap_or_else(PoisonError::into_inner);
        listeners.iter().for_each(|listener| listener());
    }
}

impl Watch {
    pub(crate) fn start(target: &Arc<Target>) -> Result<Self> {
        let shared = Arc::<Shared>::default();
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

    /// There are events to number.
    pub(crate) fn wake(&self) {
        self.shared.wake.notify_one();
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

    /// Whether anyone has numbered events since the last time this was asked.
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
        shared.note_change();
        if let Err(error) = result {
            tracing::warn!(%error, "the watching connection was lost");
            let _ = tokio::time::timeout(BREATH, shared.wake.notified()).await;
        }
    }
}

/// Listens and numbers until the connection is lost or the last store is gone.
async fn listen(target: &Target, shared: &Arc<Shared>) -> Result<()> {
    let (client, mut messages) = link::connect_listening(target).await?;
    let script = numbering::script(target);
    let sent = |error: tokio_postgres::Error| crate::error::translate(&error);
    client.batch_execute(&format!("LISTEN \"{}\"", target.channel())).await.map_err(sent)?;
    loop {
        while numbering::is_full(run_pass(&client, &script).await.map_err(sent)?.as_deref()) {}
        let mut asked = false;
        while !asked {
            tokio::select! {
                () = shared.wake.notified() => asked = true,
                () = tokio::time::sleep(target.options.poll) => asked = true,
                message = messages.recv() => match message {
                    Some(AsyncMessage::Notification(told)) => {
                        shared.note_change();
                        asked = told.payload() != numbering::NUMBERED;
                    }
                    Some(_) => {}
                    None => return Err(Error::new(Code::Unavailable, "the connection ended")),
                },
            }
            if shared.ended.load(Ordering::Acquire) {
                return Ok(());
            }
        }
    }
}

async fn run_pass(
    client: &Client,
    script: &str,
) -> std::result::Result<Option<String>, tokio_postgres::Error> {
    let messages = client.simple_query(script).await?;
    Ok(link::last_text(messages))
}
