//! The suite on SQLite files.

use everloom_conformance::Place;
use everloom_core::Store;
use everloom_sqlite::{Durability, Location, Options, SqliteStore};

/// A file of its own, in a folder that goes away with it.
struct Folder {
    store: Option<SqliteStore>,
    location: Location,
    _folder: tempfile::TempDir,
}

impl Folder {
    fn connect(location: &Location) -> SqliteStore {
        // No behaviour depends on what a loss of power does, and most tests are commits.
        let options = Options { durability: Durability::Normal, ..Options::default() };
        SqliteStore::open(location, &options).expect("a new file opens")
    }
}

impl Place for Folder {
    fn store(&mut self) -> &mut dyn Store {
        self.store.as_mut().expect("the store is open")
    }

    fn reopen(&mut self) {
        self.store = None;
        self.store = Some(Self::connect(&self.location));
    }
}

fn open() -> Box<dyn Place> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("suite.db");
    let location = Location::parse(path.to_str().expect("UTF-8")).expect("a path");
    let store = Some(Folder::connect(&location));
    Box::new(Folder { store, location, _folder: folder })
}

everloom_conformance::suite!(open);

#[test]
fn flows_are_what_an_evaluator_says() {
    everloom_conformance::dag::flows_are_what_an_evaluator_says(&open, 300);
}

#[test]
fn conditions_are_what_an_evaluator_says() {
    everloom_conformance::conditions::conditions_are_what_an_evaluator_says(&open, 200);
}
