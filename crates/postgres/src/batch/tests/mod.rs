//! A batch over a fake database: the rows of a memory store behind the seam.

mod fake;
mod flows;
mod gates;
mod limits;
mod loads;
mod mail;
mod mailbox;
mod outputs;
mod streams;
mod suite;
mod ties;
