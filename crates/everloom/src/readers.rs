//! Places to read from beside the writer, opened when they are first needed.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, OnceLock};

use everloom_core::{Clock, Context, Error, Query, Result, Seed, Settings, Source};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::queue::closing;
use crate::sync::{lock, panic_text};

pub(crate) struct Readers {
    /// Sources nobody uses; absent after the end.
    idle: Mutex<Option<Vec<Box<dyn Source>>>>,
    permits: Arc<Semaphore>,
    /// Whether the store can be read beside its writer, once that is known.
    beside_writer: OnceLock<bool>,
}

impl Readers {
    /// At most `size` at a time.
    pub(crate) fn new(size: usize) -> Self {
        Self {
            idle: Mutex::new(Some(Vec::new())),
            permits: Arc::new(Semaphore::new(size.max(1))),
            beside_writer: OnceLock::new(),
        }
    }

    /// Whether every query has to go through the writer.
    pub(crate) fn through_writer(&self) -> bool {
        self.beside_writer.get() == Some(&false)
    }

    /// Remembers what the store said when it was asked for another place to read from.
    pub(crate) fn learn(&self, beside_writer: bool) {
        // It says the same every time.
        let _ = self.beside_writer.set(beside_writer);
    }

    /// The right to use one source.
    pub(crate) async fn permit(&self) -> Result<OwnedSemaphorePermit> {
        Arc::clone(&self.permits).acquire_owned().await.map_err(|_| closing())
    }

    /// A source that is open and unused.
    pub(crate) fn take_idle(&self) -> Option<Box<dyn Source>> {
        lock(&self.idle).as_mut()?.pop()
    }

    /// Keeps a source for the next query.
    pub(crate) fn put_back(&self, source: Box<dyn Source>) {
        match lock(&self.idle).as_mut() {
            Some(idle) => idle.push(source),
            None => drop(source),
        }
    }

    /// Closes what is open; what is in use is closed when it comes back.
    pub(crate) fn close(&self) {
        self.permits.close();
        let idle = lock(&self.idle).take();
        drop(idle);
    }
}

/// Answers a query from one consistent view. A panic is an error like any other, and says through
/// the flag that the source should not be trusted any more.
pub(crate) fn ask<Q: Query>(
    query: &Q,
    source: &mut dyn Source,
    settings: &Settings,
    clock: &dyn Clock,
) -> (Result<Q::Output>, bool) {
    let asked = catch_unwind(AssertUnwindSafe(|| {
        let mut view = source.read()?;
        let now = view.now(clock)?;
        query.run(&mut *view, &Context::new(now, settings, Seed::random()))
    }));
    match asked {
        Ok(answer) => (answer, true),
        Err(panic) => {
            let said = panic_text(&*panic);
            tracing::error!(query = Q::NAME, said, "a query panicked");
            (Err(Error::bug(format!("the query `{}` panicked, see the log", Q::NAME))), false)
        }
    }
}
