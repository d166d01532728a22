//! The behaviours, by topic.

#![allow(missing_docs, reason = "the name of a behaviour says what it promises")]

pub mod cancel;
pub mod children;
pub mod claim;
pub mod clock;
pub mod deadline;
pub mod delay;
pub mod delete;
pub mod events;
pub mod explain;
pub mod fence;
pub mod flow_build;
pub mod flow_cancel;
pub mod flow_reads;
pub mod flow_replay;
pub mod flows;
pub mod grants;
pub mod idempotency;
pub mod inbox;
pub mod joins;
pub mod lanes;
pub mod limits;
pub mod namespaces;
pub mod operator;
pub mod random;
pub mod reads;
pub mod replay;
pub mod retention;
pub mod retry;
pub mod routes;
pub mod submit;
pub mod tags;
pub mod workers;

pub mod approvals;
pub mod bearers;
pub mod conditions;
pub mod signing_keys;
pub mod tokens;
