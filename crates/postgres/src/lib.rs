//! The shared store of Everloom: a schema in a PostgreSQL database, for any number of processes.
//!
//! [`PgStore`] fulfils the storage contract of `everloom-core` and decides nothing. Commands that
//! share a transaction have everything they need loaded in one round trip and everything they
//! wrote flushed in another.
//!
//! Suggested reading order: `link` (how statements travel), `exchange` (what the two halves tell
//! each other), `batch` (a transaction as the rules see it: no SQL), `load`, `flush` and `database`
//! (a transaction as PostgreSQL sees it), `numbering` (how the log can be followed while others
//! commit), `watch` (how processes wake each other), `rows` with `sql` (how rows become values),
//! `submit` (how a caller's own transaction submits).

mod batch;
mod database;
mod error;
mod examine;
mod exchange;
mod flush;
mod link;
mod load;
mod migrate;
mod numbering;
mod options;
mod read;
mod round;
mod rows;
mod sql;
mod store;
mod submit;
mod target;
mod text;
mod tls;
mod watch;

pub use examine::examine;
pub use link::Counters;
pub use migrate::SCHEMA_VERSION;
pub use options::{Options, TimeSource};
pub use store::PgStore;
pub use submit::{Submitter, submit};
pub use tokio_postgres;
