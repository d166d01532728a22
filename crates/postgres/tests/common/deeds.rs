//! What is done to two stores at once, to compare what they say.

use std::fmt::Debug;

use everloom_core::{Clock, Result, Store, Timestamp, Tx};

pub(crate) struct Stopped;

impl Clock for Stopped {
    fn now(&self) -> Timestamp {
        at(1)
    }
}

pub(crate) fn at(millis: i64) -> Timestamp {
    Timestamp::from_millis(millis)
}

/// Numbers that look random and are the same in every run with a seed.
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn roll(&mut self, sides: u32) -> u32 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let high = u32::try_from(self.0 >> 33).unwrap_or(0);
        high % sides
    }

    pub(crate) fn toss(&mut self) -> bool {
        self.roll(2) == 0
    }
}

/// Something done to a transaction, and what it says.
pub(crate) type Deed = Box<dyn Fn(&mut dyn Tx) -> Result<String>>;

pub(crate) fn deed<T: Debug>(deed: impl Fn(&mut dyn Tx) -> Result<T> + 'static) -> Deed {
    Box::new(move |tx| Ok(format!("{:?}", deed(tx)?)))
}

/// Does all of it in one transaction, in as many rounds as it takes.
pub(crate) fn transact<T>(store: &mut dyn Store, work: impl Fn(&mut dyn Tx) -> Result<T>) -> T {
    let mut tx = store.begin().unwrap();
    let now = tx.last_now().unwrap();
    for _ in 0..20 {
        let done = work(&mut *tx);
        if !tx.load_missing().unwrap() {
            tx.commit(now).unwrap();
            return done.unwrap();
        }
    }
    panic!("it asks for more and more");
}

pub(crate) fn answers(tx: &mut dyn Tx, deeds: &[Deed]) -> Result<Vec<String>> {
    deeds.iter().map(|deed| deed(tx)).collect()
}
