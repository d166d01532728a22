//! Statements, a module per table. What binds them is in `rows`.

pub(crate) mod chores;
pub(crate) mod edges;
pub(crate) mod events;
pub(crate) mod executions;
pub(crate) mod flows;
pub(crate) mod inbox;
pub(crate) mod joins;
pub(crate) mod keys;
pub(crate) mod lanes;
pub(crate) mod meta;
pub(crate) mod namespaces;
pub(crate) mod past_leases;
pub(crate) mod payloads;
pub(crate) mod routes;
pub(crate) mod signals;
pub(crate) mod signing_keys;
pub(crate) mod steps;
pub(crate) mod suspensions;
pub(crate) mod tags;
pub(crate) mod waitpoints;
pub(crate) mod workers;

pub(crate) const BEGIN_READ: &str = "BEGIN";
pub(crate) const BEGIN_WRITE: &str = "BEGIN IMMEDIATE";
pub(crate) const COMMIT: &str = "COMMIT";
pub(crate) const ROLLBACK: &str = "ROLLBACK";

/// Within a transaction of someone else.
pub(crate) const SAVEPOINT: &str = "SAVEPOINT everloom_submit";
pub(crate) const RELEASE: &str = "RELEASE everloom_submit";
pub(crate) const ROLLBACK_TO_SAVEPOINT: &str =
    "ROLLBACK TO everloom_submit; RELEASE everloom_submit";

/// Changes when another connection has committed.
pub(crate) const DATA_VERSION: &str = "PRAGMA data_version";
