//! The suite on the in-memory store.

use everloom_conformance::Place;
use everloom_core::MemoryStore;

fn open() -> Box<dyn Place> {
    Box::new(MemoryStore::new())
}

everloom_conformance::suite!(open);
