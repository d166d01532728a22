//! Every behaviour Everloom promises, as a suite that runs against any store.
//!
//! A behaviour is a function of a [`Lab`]: a store with a clock that is moved by hand. It says
//! what is given, applies commands, and expects what is promised. It sees no rows: only what
//! commands answer and queries tell, so that every store is held to the same.
//!
//! A store runs the suite by saying how a fresh one is made:
//!
//! ```
//! # use everloom_conformance::Place;
//! # use everloom_core::MemoryStore;
//! fn open() -> Box<dyn Place> {
//!     Box::new(MemoryStore::new())
//! }
//!
//! everloom_conformance::suite!(open);
//! ```

mod behaviours;
mod cluster;
pub mod conditions;
pub mod dag;
pub mod fixtures;
pub mod flow_lab;
mod lab;
pub mod limit_lab;
pub mod mail_lab;
mod place;
pub mod sabotage;
mod snapshot;
pub mod stream_lab;
pub mod topics;
pub mod waiting;
mod walk;

pub use behaviours::BEHAVIOURS;
pub use cluster::Cluster;
pub use lab::Lab;
pub use place::Place;
pub use snapshot::Snapshot;
