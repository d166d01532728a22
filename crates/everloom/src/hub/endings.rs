//! Those who wait for an execution or a flow to end.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex};

use tokio::sync::Notify;
use uuid::Uuid;

use crate::sync::lock;

#[derive(Default)]
pub(crate) struct Endings {
    waiting: Mutex<HashMap<Uuid, Vec<Arc<Notify>>>>,
}

impl Endings {
    /// Waits for the end of an execution or a flow, beginning now. An id is unique within its
    /// namespace only, so the end of a namesake elsewhere may be taken for it: look before
    /// believing.
    pub(crate) fn watch(self: &Arc<Self>, id: Uuid) -> EndWatch {
        let bell = Arc::new(Notify::new());
        lock(&self.waiting).entry(id).or_default().push(Arc::clone(&bell));
        EndWatch { endings: Arc::clone(self), id, bell }
    }

    pub(crate) fn is_empty(&self) -> bool {
        lock(&self.waiting).is_empty()
    }

    /// These have ended.
    pub(crate) fn call(&self, ended: impl Iterator<Item = Uuid>) {
        let waiting = lock(&self.waiting);
        if waiting.is_empty() {
            return;
        }
        ended.filter_map(|id| waiting.get(&id)).flatten().for_each(|bell| bell.notify_one());
    }

    /// Any of them may have ended.
    pub(crate) fn call_everyone(&self) {
        lock(&self.waiting).values().flatten().for_each(|bell| bell.notify_one());
    }
}

/// Someone who waits for an end.
pub(crate) struct EndWatch {
    endings: Arc<Endings>,
    id: Uuid,
    bell: Arc<Notify>,
}

impl EndWatch {
    /// Completes when it may have ended since this was last asked.
    pub(crate) async fn called(&self) {
        self.bell.notified().await;
    }
}

impl Drop for EndWatch {
    fn drop(&mut self) {
        if let Entry::Occupied(mut entry) = lock(&self.endings.waiting).entry(self.id) {
            entry.get_mut().retain(|bell| !Arc::ptr_eq(bell, &self.bell));
            if entry.get().is_empty() {
                entry.remove();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(text: &str) -> Uuid {
        text.parse().unwrap()
    }

    #[tokio::test]
    async fn everyone_who_waits_for_an_execution_hears_of_its_end() {
        let (one, other) = (
            id("018f0000-0000-7000-8000-000000000001"),
            id("018f0000-0000-7000-8000-000000000002"),
        );
        let endings = Arc::new(Endings::default());
        let (first, second, elsewhere) =
            (endings.watch(one), endings.watch(one), endings.watch(other));
        endings.call([one].into_iter());
        first.called().await;
        second.called().await;
        tokio::select! {
            biased;
            () = elsewhere.called() => panic!("the other one has not ended"),
            () = std::future::ready(()) => {}
        }
    }

    #[test]
    fn nothing_is_kept_of_those_who_left() {
        let endings = Arc::new(Endings::default());
        let one = id("018f0000-0000-7000-8000-000000000001");
        let (first, second) = (endings.watch(one), endings.watch(one));
        drop(first);
        assert!(!endings.is_empty());
        drop(second);
        assert!(endings.is_empty());
    }
}
