//! The suite on a PostgreSQL server: the one that `EVERLOOM_TEST_POSTGRES` names.

use std::sync::atomic::{AtomicU32, Ordering};

use everloom_conformance::Place;
use everloom_core::Store;
use everloom_postgres::{Options, PgStore, TimeSource};

/// A schema of its own, which goes away with it.
struct Schema {
    store: Option<PgStore>,
    url: String,
}

impl Schema {
    fn connect(url: &str) -> PgStore {
        // Time is moved by hand, and behaviours read the events of what they just did.
        let options =
            Options { clock: TimeSource::Given, number_at_commit: true, ..Options::default() };
        PgStore::open(url, &options).expect("a new schema opens")
    }
}

impl Place for Schema {
    fn store(&mut self) -> &mut dyn Store {
        self.store.as_mut().expect("the store is open")
    }

    fn reopen(&mut self) {
        self.store = None;
        self.store = Some(Self::connect(&self.url));
    }
}

impl Drop for Schema {
    fn drop(&mut self) {
        if let Some(store) = self.store.take() {
            store.drop_schema().expect("the schema goes away");
        }
    }
}

fn open() -> Box<dyn Place> {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let server = std::env::var("EVERLOOM_TEST_POSTGRES").expect(
        "EVERLOOM_TEST_POSTGRES names a PostgreSQL database to test in; ./scripts/test sets it",
    );
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let separator = if server.contains('?') { '&' } else { '?' };
    let url = format!("{server}{separator}schema=suite_{}_{number}", std::process::id());
    let store = Some(Schema::connect(&url));
    Box::new(Schema { store, url })
}

everloom_conformance::suite!(open);

#[test]
fn flows_are_what_an_evaluator_says() {
    everloom_conformance::dag::flows_are_what_an_evaluator_says(&open, 50);
}

#[test]
fn conditions_are_what_an_evaluator_says() {
    everloom_conformance::conditions::conditions_are_what_an_evaluator_says(&open, 40);
}
