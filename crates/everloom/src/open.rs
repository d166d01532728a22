//! Opening an engine: where the store is, how it behaves, and one engine per database and process.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use everloom_core::{
    Code, Error, Examination, Limits, MemoryStore, Prepare, Result, Settings, Store, Tick,
};
use everloom_postgres::{PgStore, TimeSource};
use everloom_sqlite::{Durability, Location, SqliteStore};
use tokio::sync::Mutex;

use crate::clock::{SystemClock, Ticked, Timekeeper};
use crate::driver::{self, Driver};
use crate::engine::{Engine, Shared};

/// How an engine is opened.
///
/// ```
/// # use std::time::Duration;
/// # use everloom::Engine;
/// # async fn example() -> everloom::Result<()> {
/// let engine = Engine::options()
///     .event_retention(Duration::from_secs(24 * 3600))
///     .open("memory")
///     .await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
#[must_use]
pub struct OpenOptions {
    settings: Settings,
    driver: driver::Options,
    sqlite: everloom_sqlite::Options,
    postgres: everloom_postgres::Options,
    writers: usize,
    clock: Arc<dyn Timekeeper>,
    ticks: bool,
}

impl Default for OpenOptions {
    fn default() -> Self {
        Self {
            settings: Settings::default(),
            driver: driver::Options::default(),
            sqlite: everloom_sqlite::Options::default(),
            postgres: everloom_postgres::Options::default(),
            writers: 2,
            clock: Arc::new(SystemClock),
            ticks: true,
        }
    }
}

impl OpenOptions {
    /// What an acknowledged command survives: the loss of power, by default.
    pub fn durability(mut self, durability: Durability) -> Self {
        self.sqlite.durability = durability;
        self
    }

    /// The bounds on what a command may ask for.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.settings.limits = limits;
        self
    }

    /// How long events are kept (7 days; zero keeps them for ever).
    pub fn event_retention(mut self, kept: Duration) -> Self {
        self.settings.event_retention = kept;
        self
    }

    /// How often retention looks for what to remove (1 minute).
    pub fn sweep_every(mut self, interval: Duration) -> Self {
        self.settings.sweep_every = interval;
        self
    }

    /// Whether each renewal of a lease is an event (no).
    pub fn log_renewals(mut self, yes: bool) -> Self {
        self.settings.log_renewals = yes;
        self
    }

    /// Goes by another clock than the machine's or the database's, such as
    /// [`crate::ManualClock`]: for tests that move time by hand.
    pub fn clock(mut self, clock: impl Timekeeper + 'static) -> Self {
        self.clock = Arc::new(clock);
        self.postgres.clock = TimeSource::Given;
        self
    }

    /// Connections that write to a PostgreSQL database at the same time (2). Few are best: those
    /// who wait together share a transaction.
    pub fn writers(mut self, writers: usize) -> Self {
        self.writers = writers;
        self
    }

    /// Whether this engine does what is due (yes). At least one engine of a database must.
    pub fn ticks(mut self, yes: bool) -> Self {
        self.ticks = yes;
        self
    }

    /// Queries that run at the same time (4).
    pub fn readers(mut self, readers: usize) -> Self {
        self.driver.readers = readers;
        self
    }

    /// Whether a caller that is alone runs its command on its own thread (yes). Faster for one
    /// sequential caller; blocks its runtime thread for one commit.
    pub fn inline(mut self, yes: bool) -> Self {
        self.driver.inline = yes;
        self
    }

    /// How often to look whether another process has changed something, while someone waits for
    /// that (100 ms).
    pub fn poll(mut self, interval: Duration) -> Self {
        self.driver.poll = interval;
        self
    }

    /// How often to look again although nobody told of a change (5 s, and 1 s for what others left
    /// behind on PostgreSQL): only a safety net.
    pub fn recheck(mut self, interval: Duration) -> Self {
        self.driver.recheck = interval;
        self.postgres.poll = interval;
        self
    }

    /// Whether an older or empty database is brought to the current schema (yes).
    pub fn migrate(mut self, yes: bool) -> Self {
        self.sqlite.migrate = yes;
        self.postgres.migrate = yes;
        self
    }

    /// Whether an SQLite file has a write-ahead log (yes). Without one, for file systems that can
    /// not share memory, commits are slower and reads wait for the writer.
    pub fn wal(mut self, yes: bool) -> Self {
        self.sqlite.wal = yes;
        self
    }

    /// How long to wait for another process that writes before answering `unavailable` (5 s).
    pub fn busy_timeout(mut self, timeout: Duration) -> Self {
        self.sqlite.busy_timeout = timeout;
        self.postgres.busy_timeout = timeout;
        self.driver.busy_timeout = timeout;
        self
    }

    /// The most pages an SQLite file may have: a full disk for tests.
    pub fn max_pages(mut self, pages: u32) -> Self {
        self.sqlite.max_pages = Some(pages);
        self
    }

    /// Opens a database and begins to serve it.
    ///
    /// `memory` keeps everything in this engine and nothing else. `postgres://user@host/database`
    /// is a schema in a PostgreSQL database (`?schema=everloom` by default). Everything else is
    /// SQLite: a path, `sqlite://path`, a `file:` URI, or `:memory:`. A database that this process
    /// has open already is shared, with the options it was opened with.
    pub async fn open(mut self, url: &str) -> Result<Engine> {
        self.settings.limits.validate()?;
        let place = Place::parse(url)?;
        // Its connections block, which a thread of the runtime must not.
        self.driver.inline &= !matches!(place, Place::Postgres(_));
        let Some(key) = place.key() else {
            let stores = place.open(&self)?;
            return self.start(stores).await;
        };
        let mut open = open_engines().lock().await;
        open.retain(|_, shared| shared.strong_count() > 0);
        if let Some(shared) = open.get(&key).and_then(Weak::upgrade)
            && !shared.is_closed()
        {
            return Ok(Engine::new(shared));
        }
        let options = self.clone();
        let opened = tokio::task::spawn_blocking(move || place.open(&options));
        let stores =
            opened.await.unwrap_or_else(|_| Err(Error::bug("opening the store panicked")))?;
        let engine = self.start(stores).await?;
        open.insert(key, Arc::downgrade(engine.shared()));
        Ok(engine)
    }

    async fn start(self, stores: Vec<Box<dyn Store>>) -> Result<Engine> {
        let driver = Driver::start(stores, self.settings, self.clock, self.driver)?;
        driver.apply(Prepare {}).await?;
        if self.ticks {
            driver.start_clock(Tick::default, |ticked| Ticked {
                more: ticked.more,
                next_due: ticked.next_due,
                requests: ticked.requests,
            });
        }
        tracing::debug!(store = %driver.info().store, "opened");
        Ok(Engine::new(Arc::new(Shared::new(driver))))
    }
}

/// Looks at a database without opening it: its schema, its settings and what it lies on. Changes
/// nothing, and works also where an engine could not be opened, as long as it can be reached.
pub async fn examine(url: &str) -> Result<Examination> {
    let place = Place::parse(url)?;
    let looked = tokio::task::spawn_blocking(move || match place {
        Place::Memory => Ok(Examination {
            store: MemoryStore::new().info(),
            wanted_schema: MemoryStore::new().info().schema,
            pending: Vec::new(),
            findings: Vec::new(),
        }),
        Place::Sqlite(location) => everloom_sqlite::examine(&location),
        Place::Postgres(url) => {
            everloom_postgres::examine(&url, &everloom_postgres::Options::default())
        }
    });
    looked.await.unwrap_or_else(|_| Err(Error::bug("looking at the database panicked")))
}

/// Where a database is.
enum Place {
    Memory,
    Sqlite(Location),
    Postgres(String),
}

impl Place {
    fn parse(url: &str) -> Result<Self> {
        match url.split_once("://").map(|(scheme, _)| scheme) {
            Some("postgres" | "postgresql") => Ok(Self::Postgres(url.to_owned())),
            None if url == "memory" => Ok(Self::Memory),
            None | Some("sqlite" | "file") => Ok(Self::Sqlite(Location::parse(url)?)),
            Some(scheme) => Err(Error::new(
                Code::Unsupported,
                format!("there is no store for `{scheme}://`; use a path, sqlite://, postgres:// or memory"),
            )
            .with_field("url")),
        }
    }

    /// What the engines of a process are told apart by; nothing for those that share nothing.
    fn key(&self) -> Option<String> {
        match self {
            Self::Memory => None,
            Self::Sqlite(location) => Some(location.key()),
            Self::Postgres(url) => Some(url.clone()),
        }
    }

    /// Opens as many stores as may write at the same time.
    fn open(&self, options: &OpenOptions) -> Result<Vec<Box<dyn Store>>> {
        let first: Box<dyn Store> = match self {
            Self::Memory => Box::new(MemoryStore::new()),
            Self::Sqlite(location) => Box::new(SqliteStore::open(location, &options.sqlite)?),
            Self::Postgres(url) => Box::new(PgStore::open(url, &options.postgres)?),
        };
        let mut stores = vec![first];
        while stores.len() < options.writers {
            let Some(another) = stores[0].another()? else { break };
            stores.push(another);
        }
        Ok(stores)
    }
}

/// The engines of this process, by database.
fn open_engines() -> &'static Mutex<HashMap<String, Weak<Shared>>> {
    static OPEN: OnceLock<Mutex<HashMap<String, Weak<Shared>>>> = OnceLock::new();
    OPEN.get_or_init(Mutex::default)
}
