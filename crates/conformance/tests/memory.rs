//! The suite on the in-memory store.

use everloom_conformance::Place;
use everloom_core::MemoryStore;

fn open() -> Box<dyn Place> {
    Box::new(MemoryStore::new())
}

everloom_conformance::suite!(open);

#[test]
fn flows_are_what_an_evaluator_says() {
    everloom_conformance::dag::flows_are_what_an_evaluator_says(&open, 2000);
}

#[test]
fn conditions_are_what_an_evaluator_says() {
    everloom_conformance::conditions::conditions_are_what_an_evaluator_says(&open, 2000);
}
