//! The engine from the outside: through its public methods, on files, in several processes.

mod claims;
mod common;
mod flows;
mod limits;
mod outages;
mod postgres;
mod processes;
mod signing;
mod storage;
mod streams;
mod suspension;
mod transactions;
