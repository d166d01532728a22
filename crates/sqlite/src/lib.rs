//! The embedded store of Everloom: one SQLite file, or none at all.
//!
//! [`SqliteStore`] fulfils the storage contract of `everloom-core` and decides nothing. One
//! connection writes; readers have their own and see the last commit. Several processes may share
//! a file: a process notices another's commits and forgets what it remembered.
//!
//! Suggested reading order: `connect` and `migrate` (how a file is opened), `view` (a transaction
//! or a snapshot: the one implementation of the contract), `ready` (how a claim finds its work),
//! `rows` with `sql` (how rows become values), `submit` (how a caller's own transaction submits).

mod backup;
mod caches;
mod connect;
mod counters;
mod error;
mod examine;
mod limits;
mod location;
mod mail;
mod migrate;
mod options;
mod read;
mod ready;
mod rows;
mod sql;
mod store;
mod streams;
mod submit;
mod view;
mod write;

pub use counters::Counters;
pub use examine::examine;
pub use location::Location;
pub use migrate::SCHEMA_VERSION;
pub use options::{Durability, Options};
pub use rusqlite;
pub use store::SqliteStore;
pub use submit::{Submitter, submit};
