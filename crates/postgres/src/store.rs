use std::sync::Arc;

use everloom_core::{News, Read, Result, Source, Store, StoreInfo, Transaction};

use crate::batch::{Batch, Caches};
use crate::database::Database;
use crate::link::{Counters, Link, params};
use crate::migrate::{self, SCHEMA_VERSION};
use crate::options::Options;
use crate::read::View;
use crate::sql;
use crate::target::Target;
use crate::watch::Watch;

/// Rows in a schema of a PostgreSQL database.
///
/// It has a connection for its transactions, blocks the thread that calls it, and must not be
/// called on a thread of an async runtime.
pub struct PgStore {
    database: Database,
    caches: Caches,
    target: Arc<Target>,
    watch: Arc<Watch>,
}

impl PgStore {
    /// Opens the schema, creating and migrating it as the options say:
    /// `postgres://user:password@host:port/database?schema=everloom&sslmode=prefer`.
    ///
    /// `sslmode` means what it means to libpq: `disable`, `prefer`, `require`, `verify-ca` or
    /// `verify-full`. Certificates are checked against `sslrootcert`, a file, or against those the
    /// machine knows.
    pub fn open(url: &str, options: &Options) -> Result<Self> {
        let target = Arc::new(Target::parse(url, options)?);
        let mut link = Link::open(&target)?;
        migrate::migrate(&mut link)?;
        link.query(sql::meta::FORGET_OLD_COMMITTERS, params![])?;
        let watch = Arc::new(Watch::start(&target)?);
        Ok(Self::over(link, watch))
    }

    fn over(link: Link, watch: Arc<Watch>) -> Self {
        let target = Arc::clone(link.target());
        let database = Database::new(link, Arc::clone(&watch));
        Self { database, caches: Caches::default(), target, watch }
    }

    /// Removes the schema with everything in it: for tests, each of which has one.
    pub fn drop_schema(mut self) -> Result<()> {
        self.database.drop_schema()
    }

    /// What the connection of the transactions was used for so far: for tests and benchmarks that
    /// watch the work behind an operation instead of its time.
    pub fn counters(&self) -> Counters {
        self.database.link.counters()
    }
}

impl Source for PgStore {
    fn read(&mut self) -> Result<Box<dyn Read + '_>> {
        Ok(Box::new(View::snapshot(&mut self.database.link)?))
    }
}

impl Store for PgStore {
    fn begin(&mut self) -> Result<Box<dyn Transaction + '_>> {
        let clock = self.target.options.clock;
        self.database.prepare()?;
        Ok(Box::new(Batch::begin(Box::new(&mut self.database), &mut self.caches, clock)))
    }

    fn reader(&self) -> Result<Option<Box<dyn Source>>> {
        Ok(Some(Box::new(Reader { link: Link::open(&self.target)? })))
    }

    fn changed_elsewhere(&mut self) -> Result<bool> {
        Ok(self.watch.take_changed())
    }

    fn listen(&mut self, tell: Arc<dyn Fn(News) + Send + Sync>) -> Result<bool> {
        self.watch.listen(tell);
        Ok(true)
    }

    fn another(&self) -> Result<Option<Box<dyn Store>>> {
        let link = Link::open(&self.target)?;
        Ok(Some(Box::new(Self::over(link, Arc::clone(&self.watch)))))
    }

    fn info(&self) -> StoreInfo {
        StoreInfo {
            store: "postgres".into(),
            version: self.database.link.server_version().into(),
            schema: SCHEMA_VERSION,
        }
    }
}

/// Another connection to the same schema, which only reads.
struct Reader {
    link: Link,
}

impl Source for Reader {
    fn read(&mut self) -> Result<Box<dyn Read + '_>> {
        Ok(Box::new(View::snapshot(&mut self.link)?))
    }
}
