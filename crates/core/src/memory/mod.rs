//! The in-memory store: for tests, for simulation, and for programs that need no durability.
//!
//! Rows live in ordered maps, and every question is answered from an ordered index over them, as
//! in a relational store. A row is changed by [`Tables::apply`] and nowhere else. It keeps the
//! indexes true and answers with the inverse of the change; a transaction remembers the inverses
//! and applies them backwards when it is dropped.

mod limits;
mod mail;
mod read;
mod scan;
mod streams;
mod tables;
#[cfg(test)]
mod tests;
mod write;

use crate::model::{Result, Timestamp};
use crate::store::{Read, Source, Store, StoreInfo, Transaction};
use tables::{Change, Tables};

/// A store that keeps everything in memory, for as long as it lives.
///
/// ```
/// # use everloom_core::{MemoryStore, Source, Store};
/// let mut store = MemoryStore::new();
/// assert_eq!(store.info().store, "memory");
/// assert!(store.read().unwrap().namespaces(None, 10).unwrap().is_empty());
/// ```
#[derive(Debug, Default)]
pub struct MemoryStore {
    tables: Tables,
}

impl MemoryStore {
    /// Nothing is written anywhere, so no schema is ever out of date.
    const SCHEMA: u32 = 0;

    /// An empty store.
    pub fn new() -> Self {
        Self::default()
    }

    fn session(&mut self) -> Session<'_> {
        Session { tables: &mut self.tables, undo: Vec::new() }
    }
}

impl Source for MemoryStore {
    fn read(&mut self) -> Result<Box<dyn Read + '_>> {
        Ok(Box::new(self.session()))
    }
}

impl Store for MemoryStore {
    fn begin(&mut self) -> Result<Box<dyn Transaction + '_>> {
        Ok(Box::new(self.session()))
    }

    fn reader(&self) -> Result<Option<Box<dyn Source>>> {
        Ok(None)
    }

    fn changed_elsewhere(&mut self) -> Result<bool> {
        Ok(false)
    }

    fn info(&self) -> StoreInfo {
        StoreInfo {
            store: "memory".into(),
            version: env!("CARGO_PKG_VERSION").into(),
            schema: Self::SCHEMA,
        }
    }
}

/// A view of the store or a transaction on it: a view has nothing to undo.
struct Session<'a> {
    tables: &'a mut Tables,
    undo: Vec<Change>,
}

impl Session<'_> {
    fn write(&mut self, change: Change) {
        let inverse = self.tables.apply(change);
        self.undo.push(inverse);
    }
}

impl Transaction for Session<'_> {
    fn commit(mut self: Box<Self>, now: Timestamp) -> Result<()> {
        self.undo.clear();
        self.tables.last_now = now;
        Ok(())
    }
}

impl Drop for Session<'_> {
    fn drop(&mut self) {
        while let Some(inverse) = self.undo.pop() {
            self.tables.apply(inverse);
        }
    }
}
