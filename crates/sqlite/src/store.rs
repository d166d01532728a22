use std::path::Path;

use everloom_core::{BackupProgress, Read, Result, Source, Store, StoreInfo, Transaction};
use rusqlite::Connection;

use crate::backup::Writer;
use crate::caches::Caches;
use crate::connect;
use crate::counters::{self, Counters};
use crate::location::Location;
use crate::migrate::SCHEMA_VERSION;
use crate::options::Options;
use crate::view::{View, new_committer};

/// Rows in an SQLite database.
pub struct SqliteStore {
    writer: Writer,
    caches: Caches,
    committer: [u8; 8],
    location: Location,
    options: Options,
}

impl SqliteStore {
    /// Opens the database, creating and migrating it as the options say.
    pub fn open(location: &Location, options: &Options) -> Result<Self> {
        let writer = Writer::new(connect::writer(location, options)?);
        let mut caches = Caches::default();
        caches.forget_if_changed_elsewhere(&writer)?;
        Ok(Self {
            writer,
            caches,
            committer: new_committer(),
            location: location.clone(),
            options: options.clone(),
        })
    }

    /// What the statements of the writing connection have cost so far: for tests and benchmarks
    /// that watch the work behind an operation instead of its time.
    pub fn statement_counters(&self) -> Counters {
        counters::of(&self.writer)
    }
}

impl Source for SqliteStore {
    fn read(&mut self) -> Result<Box<dyn Read + '_>> {
        Ok(Box::new(View::snapshot(&self.writer, &mut self.caches)?))
    }
}

impl Store for SqliteStore {
    fn begin(&mut self) -> Result<Box<dyn Transaction + '_>> {
        Ok(Box::new(View::transaction(&self.writer, &mut self.caches, self.committer)?))
    }

    fn reader(&self) -> Result<Option<Box<dyn Source>>> {
        // Without a write-ahead log a reader would keep the writer from committing.
        if self.location.is_memory() || !self.options.wal {
            return Ok(None);
        }
        let conn = connect::reader(&self.location, &self.options)?;
        Ok(Some(Box::new(Reader { conn, caches: Caches::default() })))
    }

    fn changed_elsewhere(&mut self) -> Result<bool> {
        self.caches.forget_if_changed_elsewhere(&self.writer)?;
        Ok(self.caches.take_changed_elsewhere())
    }

    fn info(&self) -> StoreInfo {
        StoreInfo {
            store: "sqlite".into(),
            version: rusqlite::version().into(),
            schema: SCHEMA_VERSION,
        }
    }

    fn backup(&mut self, to: &Path, pages: usize) -> Result<BackupProgress> {
        self.writer.backup(to, pages)
    }

    fn abandon_backup(&mut self) {
        self.writer.abandon_backup();
    }
}

/// Another connection to the same file, which only reads.
struct Reader {
    conn: Connection,
    caches: Caches,
}

impl Source for Reader {
    fn read(&mut self) -> Result<Box<dyn Read + '_>> {
        Ok(Box::new(View::snapshot(&self.conn, &mut self.caches)?))
    }
}
