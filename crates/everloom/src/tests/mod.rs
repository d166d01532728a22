//! The machinery over a store that can be held up, broken and counted.

mod batches;
mod closing;
mod following;
mod queries;
mod tailing;
mod undelivered;
mod waiting;

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;
use std::{panic, thread};

use everloom_core::{
    Code, Command, Context, Defaults, Error, EventKind, MemoryStore, NewEvent, Query, Read, Result,
    Settings, Source, Store, StoreInfo, Timestamp, Transaction, Tx,
};
use serde::{Deserialize, Serialize};
use tokio::sync::{oneshot, watch};
use tokio::task::yield_now;
use tokio::time::timeout;

use crate::clock::ManualClock;
use crate::driver::{Driver, Options};
use crate::sync::lock;

/// How long a test waits for what must happen before it fails.
const PATIENCE: Duration = Duration::from_secs(20);

/// An engine over a probed store.
struct Bench {
    driver: Driver,
    probe: Arc<Probe>,
    clock: ManualClock,
    /// The store, once the engine has closed it.
    closed: oneshot::Receiver<MemoryStore>,
}

impl Bench {
    fn start(options: Options) -> Self {
        Self::with(options, Probe::default())
    }

    /// Every command goes through the writer thread.
    fn through_writer() -> Self {
        Self::start(Options { inline: false, ..Options::default() })
    }

    fn with(options: Options, probe: Probe) -> Self {
        Self::with_stores(options, probe, 1)
    }

    /// Several stores behind one probe, each with rows of its own.
    fn with_stores(options: Options, probe: Probe, count: usize) -> Self {
        let (give, closed) = oneshot::channel();
        let mut on_close = Some(give);
        let probe = Arc::new(probe);
        let stores = (0..count).map(|_| {
            let (store, probe) = (MemoryStore::new(), Arc::clone(&probe));
            Box::new(Probed { store, probe, on_close: on_close.take() }) as Box<dyn Store>
        });
        let clock = ManualClock::new(Timestamp::from_millis(1_000));
        let settings = Settings::default();
        let driver =
            Driver::start(stores.collect(), settings, Arc::new(clock.clone()), options).unwrap();
        Self { driver, probe, clock, closed }
    }

    fn waiting(&self) -> usize {
        self.driver.queue().waiting()
    }

    /// Calls from a task of its own.
    fn call(&self, act: Act) -> tokio::task::JoinHandle<Result<String>> {
        let driver = self.driver.clone();
        tokio::spawn(async move { driver.apply(act).await })
    }

    /// Holds the store up within a transaction, and comes back when it is.
    async fn hold_up(&self) -> tokio::task::JoinHandle<Result<String>> {
        let begun = self.probe.begins();
        self.probe.shut();
        let first = self.call(put("first"));
        until(|| self.probe.begins() > begun).await;
        first
    }
}

/// What a test sees of a store, and does to it.
#[derive(Default)]
struct Probe {
    begun: watch::Sender<usize>,
    shut: Mutex<bool>,
    opened: Condvar,
    breaks: AtomicBool,
    foreign: AtomicBool,
    /// Whether the store can be read beside its writer.
    has_readers: bool,
    readers: AtomicUsize,
    reads: AtomicUsize,
}

impl Probe {
    fn begins(&self) -> usize {
        *self.begun.borrow()
    }

    /// Queries that were answered by the store itself.
    fn reads(&self) -> usize {
        self.reads.load(Ordering::Relaxed)
    }

    /// Lets no transaction begin.
    fn shut(&self) {
        *lock(&self.shut) = true;
    }

    fn open(&self) {
        *lock(&self.shut) = false;
        self.opened.notify_all();
    }

    fn pass(&self) {
        self.begun.send_modify(|begun| *begun += 1);
        assert!(!self.breaks.load(Ordering::Relaxed), "the store is broken");
        let gate = lock(&self.shut);
        drop(self.opened.wait_while(gate, |shut| *shut).unwrap());
    }
}

struct Probed {
    store: MemoryStore,
    probe: Arc<Probe>,
    on_close: Option<oneshot::Sender<MemoryStore>>,
}

impl Source for Probed {
    fn read(&mut self) -> Result<Box<dyn Read + '_>> {
        self.probe.reads.fetch_add(1, Ordering::Relaxed);
        self.store.read()
    }
}

impl Store for Probed {
    fn begin(&mut self) -> Result<Box<dyn Transaction + '_>> {
        self.probe.pass();
        self.store.begin()
    }

    // An empty store of its own: enough to see where a query was run.
    fn reader(&self) -> Result<Option<Box<dyn Source>>> {
        if !self.probe.has_readers {
            return Ok(None);
        }
        self.probe.readers.fetch_add(1, Ordering::Relaxed);
        Ok(Some(Box::new(MemoryStore::new())))
    }

    fn changed_elsewhere(&mut self) -> Result<bool> {
        Ok(self.probe.foreign.swap(false, Ordering::Relaxed))
    }

    fn info(&self) -> StoreInfo {
        StoreInfo { store: "probe".into(), version: String::new(), schema: 0 }
    }
}

impl Drop for Probed {
    fn drop(&mut self) {
        if let Some(on_close) = self.on_close.take() {
            let _ = on_close.send(std::mem::take(&mut self.store));
        }
    }
}

/// A command for every case.
#[derive(Clone, Debug, Serialize, Deserialize)]
enum Act {
    /// Creates a namespace, logs it, and answers with its name.
    Put(String),
    /// Removes the oldest events.
    Trim(usize),
    Refuse,
    RefuseAfterWriting,
    Panic,
    /// Answers with the name of the thread it runs on.
    Where,
}

fn put(name: impl Into<String>) -> Act {
    Act::Put(name.into())
}

impl Command for Act {
    const NAME: &'static str = "act";
    type Output = String;

    fn apply(&self, tx: &mut dyn Tx, cx: &Context) -> Result<String> {
        let refusal = || Error::new(Code::WrongState, "refused");
        match self {
            Self::Put(name) => {
                let namespace = tx.put_namespace(name, &Defaults::default())?;
                tx.add_event(&NewEvent::new(EventKind::NamespacePut, cx.now, namespace.id))?;
                Ok(name.clone())
            }
            Self::Trim(count) => Ok(tx.trim_events(Timestamp::MAX, *count)?.to_string()),
            Self::Refuse => Err(refusal()),
            Self::RefuseAfterWriting => {
                tx.put_namespace("half", &Defaults::default())?;
                Err(refusal())
            }
            Self::Panic => panic!("as asked"),
            Self::Where => Ok(thread_name()),
        }
    }
}

/// A query for every case.
#[derive(Clone, Debug, Serialize, Deserialize)]
enum Ask {
    Names,
    Now,
    Panic,
    Where,
}

impl Query for Ask {
    const NAME: &'static str = "ask";
    type Output = String;

    fn run(&self, read: &mut dyn Read, cx: &Context) -> Result<String> {
        match self {
            Self::Names => Ok(names(read).join(" ")),
            Self::Now => Ok(cx.now.as_millis().to_string()),
            Self::Panic => panic!("as asked"),
            Self::Where => Ok(thread_name()),
        }
    }
}

fn names(read: &mut dyn Read) -> Vec<String> {
    let found = read.namespaces(None, 10_000).unwrap();
    found.iter().map(|namespace| namespace.name.clone()).collect()
}

fn thread_name() -> String {
    thread::current().name().unwrap_or_default().to_owned()
}

const WRITER: &str = "everloom-writer";

/// Comes back when it is so.
async fn until(so: impl Fn() -> bool) {
    let reached = async {
        while !so() {
            yield_now().await;
        }
    };
    timeout(PATIENCE, reached).await.expect("it never came to be so");
}

/// Comes back when it has happened.
async fn soon<T>(happens: impl Future<Output = T>) -> T {
    timeout(PATIENCE, happens).await.expect("it never happened")
}
