//! Statements, a module per table. What binds them is in `rows`.
//!
//! What is wanted or written comes in arrays, one per column or one of whole rows, so that one
//! statement serves any number of rows. A statement that locks has two forms: the first questions of a transaction wait
//! for locks in a fixed order, later ones may not wait (`…_NOWAIT`).

pub(crate) mod batches;
pub(crate) mod chores;
pub(crate) mod chunks;
pub(crate) mod edges;
pub(crate) mod events;
pub(crate) mod executions;
pub(crate) mod flows;
pub(crate) mod gates;
pub(crate) mod health;
pub(crate) mod inbox;
pub(crate) mod joins;
pub(crate) mod keys;
pub(crate) mod lanes;
pub(crate) mod limits;
pub(crate) mod mailboxes;
pub(crate) mod members;
pub(crate) mod meta;
pub(crate) mod namespaces;
pub(crate) mod passages;
pub(crate) mod past_leases;
pub(crate) mod payloads;
#[cfg(test)]
mod plans;
pub(crate) mod routes;
pub(crate) mod signals;
pub(crate) mod signing_keys;
pub(crate) mod steps;
#[cfg(test)]
mod stream_costs;
pub(crate) mod streams;
pub(crate) mod summaries;
pub(crate) mod suspensions;
pub(crate) mod tags;
pub(crate) mod turns;
pub(crate) mod uses;
pub(crate) mod waitpoints;
pub(crate) mod workers;

pub(crate) const BEGIN_READ: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";
pub(crate) const BEGIN_WRITE: &str = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE";
pub(crate) const COMMIT: &str = "COMMIT";
pub(crate) const ROLLBACK: &str = "ROLLBACK";
