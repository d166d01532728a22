//! The moment the clock sleeps for, and how it is made earlier.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use everloom_core::Timestamp;
use tokio::sync::Notify;

use crate::sync::lock;

/// Before every moment a store knows.
const AT_ONCE: Timestamp = Timestamp::from_millis(i64::MIN);

#[derive(Default)]
pub(crate) struct Alarm {
    earliest: Mutex<Option<Timestamp>>,
    bell: Notify,
    expected: AtomicBool,
}

impl Alarm {
    /// Forgets every moment noted; the clock is about to look for itself.
    pub(crate) fn forget(&self) {
        *lock(&self.earliest) = None;
    }

    /// Sets the moment the store told, unless an earlier one was noted since.
    pub(crate) fn set(&self, due: Option<Timestamp>) {
        if let Some(due) = due {
            self.lower(due);
        }
    }

    /// Notes that something is due then, and rings when that is earlier than what was known.
    pub(crate) fn note(&self, due: Timestamp) {
        if self.lower(due) {
            self.bell.notify_one();
        }
    }

    /// Rings so that the clock looks for itself.
    pub(crate) fn ring_now(&self) {
        self.note(AT_ONCE);
    }

    fn lower(&self, due: Timestamp) -> bool {
        let mut earliest = lock(&self.earliest);
        let lower = earliest.is_none_or(|known| due < known);
        if lower {
            *earliest = Some(due);
        }
        lower
    }

    /// The earliest moment noted.
    pub(crate) fn earliest(&self) -> Option<Timestamp> {
        *lock(&self.earliest)
    }

    /// Completes when an earlier moment was noted. May do so once too often.
    pub(crate) async fn rung(&self) {
        self.bell.notified().await;
    }

    /// From now on a clock waits.
    pub(crate) fn expect(&self) {
        self.expected.store(true, Ordering::Relaxed);
    }

    /// Whether a clock waits.
    pub(crate) fn is_expected(&self) -> bool {
        self.expected.load(Ordering::Relaxed)
    }
}
