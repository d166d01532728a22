//! A transaction or a snapshot: the one implementation of the storage contract.

use everloom_core::{Error, Result, Timestamp, Transaction};
use rusqlite::Connection;
use uuid::Uuid;

use crate::caches::Caches;
use crate::error::{self, Fault, ended_early};
use crate::rows::meta::{self, Meta};
use crate::sql;

/// A consistent view of the rows through one connection, which it has for itself until it ends.
pub(crate) struct View<'a> {
    pub(crate) conn: &'a Connection,
    pub(crate) caches: &'a mut Caches,
    /// Names this store among those that commit.
    committer: [u8; 8],
    /// Whether the transaction is someone else's to end.
    lent: bool,
    /// Whether the rows or the caches may differ from what is committed.
    dirty: bool,
}

impl<'a> View<'a> {
    /// A snapshot of what is committed.
    pub(crate) fn snapshot(conn: &'a Connection, caches: &'a mut Caches) -> Result<Self> {
        Ok(Self::begin(sql::BEGIN_READ, conn, caches, [0; 8])?)
    }

    /// A transaction, once no one else has one.
    pub(crate) fn transaction(
        conn: &'a Connection,
        caches: &'a mut Caches,
        committer: [u8; 8],
    ) -> Result<Self> {
        Ok(Self::begin(sql::BEGIN_WRITE, conn, caches, committer)?)
    }

    /// What a transaction sees that is open on the connection and that someone else ends.
    pub(crate) fn within(conn: &'a Connection, caches: &'a mut Caches) -> Self {
        Self { conn, caches, committer: new_committer(), lent: true, dirty: false }
    }

    fn begin(
        sql: &str,
        conn: &'a Connection,
        caches: &'a mut Caches,
        committer: [u8; 8],
    ) -> error::Result<Self> {
        conn.prepare_cached(sql)?.execute([])?;
        let view = Self { conn, caches, committer, lent: false, dirty: false };
        // Only after the begin: what it says about the rows holds until the end.
        view.caches.forget_if_changed_elsewhere(conn)?;
        Ok(view)
    }

    /// Makes a change, unless SQLite has already given the transaction up.
    pub(crate) fn change<T>(
        &mut self,
        change: impl FnOnce(&Connection, &mut Caches) -> error::Result<T>,
    ) -> Result<T> {
        if self.conn.is_autocommit() {
            return Err(ended_early());
        }
        self.dirty = true;
        Ok(change(self.conn, self.caches)?)
    }

    /// Counts the commit that is to follow, and notes its time.
    pub(crate) fn stamp(&mut self, now: Timestamp) -> Result<Meta> {
        let committer = self.committer;
        self.change(|conn, caches| {
            let mut next = meta::cached(conn, caches)?.clone();
            next.advance(now, committer);
            meta::write(conn, &next)?;
            Ok(next)
        })
    }

    /// Whether a commit that failed has happened all the same.
    fn resolve(&mut self, committed: &Meta, error: rusqlite::Error) -> Result<()> {
        match meta::read(self.conn)?.includes(committed.commits, self.committer) {
            Some(true) => {
                tracing::warn!(%error, "a commit reported an error and has happened");
                Ok(())
            }
            Some(false) => Err(Fault::from(error).into()),
            None => Err(Error::bug(format!(
                "it can not be told any more whether commit {} has happened ({error})",
                committed.commits
            ))),
        }
    }
}

/// A name for someone who commits.
pub(crate) fn new_committer() -> [u8; 8] {
    Uuid::now_v7().as_u64_pair().1.to_le_bytes()
}

impl Transaction for View<'_> {
    fn commit(mut self: Box<Self>, now: Timestamp) -> Result<()> {
        let committed = self.stamp(now)?;
        let result =
            self.conn.prepare_cached(sql::COMMIT).and_then(|mut commit| commit.execute([]));
        match result {
            Ok(_) => {
                self.dirty = false;
                self.caches.meta = Some(committed);
                Ok(())
            }
            // It still stands, so it has not happened; the drop rolls it back.
            Err(error) if !self.conn.is_autocommit() => Err(Fault::from(error).into()),
            Err(error) => self.resolve(&committed, error),
        }
    }
}

impl Drop for View<'_> {
    fn drop(&mut self) {
        if self.dirty {
            self.caches.clear();
        }
        if self.lent || self.conn.is_autocommit() {
            return;
        }
        let result =
            self.conn.prepare_cached(sql::ROLLBACK).and_then(|mut rollback| rollback.execute([]));
        if let Err(error) = result {
            tracing::error!(%error, "a transaction could not be rolled back");
        }
    }
}
