//! What programs depend on: a durable execution engine on one SQLite file.
//!
//! [`Engine`] has an async method for every command and query of [`everloom_core`], whose types it
//! re-exports. Between its callers and the synchronous rules lies the machinery in these modules,
//! in the order a command meets them:
//!
//! - `engine`, `open`: what programs see;
//! - `driver`: takes commands and queries, closes;
//! - `queue`, `request`, `writer`: group commit, one transaction for all that wait;
//! - `readers`: queries beside the writer;
//! - `hub`: who waits for what a commit changed;
//! - `clock`, `watcher`: what happens because time passed, or because of another process;
//! - `follow`: the event log as a stream.

mod clock;
mod driver;
mod engine;
mod follow;
mod hub;
mod open;
mod queue;
mod readers;
mod request;
mod sync;
mod watcher;
mod writer;

#[cfg(test)]
mod tests;

pub use clock::{ManualClock, SystemClock, Timekeeper};
pub use driver::Closed;
pub use engine::Engine;
pub use everloom_core::*;
pub use everloom_sqlite::Durability;
pub use follow::Follow;
pub use open::{OpenOptions, examine};

/// Compiles the program in the README.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
