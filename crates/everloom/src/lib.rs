//! What programs depend on: a durable execution engine on one SQLite file.
//!
//! [`Engine`] has an async method for every command and query of [`everloom_core`], whose types it
//! re-exports. Between its callers and the synchronous rules lies the machinery in these modules,
//! in the order a command meets them:
//!
//! - `engine`, `flows`, `streams`, `suspension`, `open`: what programs see;
//! - `driver`: takes commands and queries, closes;
//! - `queue`, `request`, `writer`: group commit, one transaction for all that wait;
//! - `readers`: queries beside the writer;
//! - `hub`: who waits for what a commit changed;
//! - `clock`, `watcher`: what happens because time passed, or because of another process;
//! - `follow`, `tail`: the event log and an execution's frames as streams.

mod backend;
mod call;
mod clock;
mod driver;
mod engine;
mod flows;
mod follow;
pub mod handler;
mod hub;
mod limits;
mod open;
mod queue;
mod readers;
mod request;
mod streams;
mod suspension;
mod sync;
mod tail;
pub mod test;
mod watcher;
mod worker;
mod writer;

#[cfg(test)]
mod tests;

pub use backend::{AnyAnswer, AnyCall, Backend, BoxFuture};
pub use call::SubmitCall;
pub use clock::{ManualClock, SystemClock, Timekeeper};
pub use driver::Closed;
pub use engine::Engine;
pub use everloom_core::*;
pub use everloom_sqlite::Durability;
pub use follow::Follow;
pub use open::{OpenOptions, examine};
pub use tail::{Tail, TailStream};
pub use worker::{
    ApprovalWait, Callback, Child, Ctx, Decision, Drained, Fence, RunningWorker, SignalWait,
    SpawnCall, StepCall, Worker,
};

/// Submitting within a transaction of one's own on the engine's SQLite file.
///
/// ```no_run
/// use everloom::NewExecution;
/// use everloom::sqlite::{rusqlite, submit};
/// use rusqlite::{Connection, TransactionBehavior};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let mut conn = Connection::open("app.db")?;
/// let tx = conn.transaction_with_behavior(TransactionBehavior::Immediate)?;
/// tx.execute("INSERT INTO orders (id) VALUES (?1)", [17])?;
/// submit(&tx, NewExecution::new("ship_order"))?;
/// tx.commit()?;
/// # Ok(())
/// # }
/// ```
pub mod sqlite {
    pub use everloom_sqlite::{Submitter, rusqlite, submit};
}

/// Submitting within a transaction of one's own in the engine's PostgreSQL database.
///
/// ```no_run
/// use everloom::NewExecution;
/// use everloom::postgres::{submit, tokio_postgres};
///
/// # async fn example(mut client: tokio_postgres::Client) -> Result<(), Box<dyn std::error::Error>> {
/// let mut tx = client.transaction().await?;
/// tx.execute("INSERT INTO orders (id) VALUES ($1)", &[&17_i64]).await?;
/// submit(&mut tx, NewExecution::new("ship_order")).await?;
/// tx.commit().await?;
/// # Ok(())
/// # }
/// ```
pub mod postgres {
    pub use everloom_postgres::{Submitter, submit, tokio_postgres};
}

/// Compiles the program in the README.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;

#[cfg(doctest)]
#[doc = include_str!("../../../docs/handlers.md")]
struct Handlers;
