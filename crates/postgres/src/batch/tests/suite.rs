//! Every behaviour, through the identity map and the overlay.

use everloom_conformance::Place;

use super::fake::FakePg;

fn open() -> Box<dyn Place> {
    Box::new(FakePg::default())
}

everloom_conformance::suite!(open);
