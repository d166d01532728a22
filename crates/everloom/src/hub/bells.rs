//! Those who wait for news of one thing: the end of an execution or a flow, or more of a stream.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex};

use tokio::sync::Notify;
use uuid::Uuid;

use crate::sync::lock;

#[derive(Default)]
pub(crate) struct Bells {
    waiting: Mutex<HashMap<Uuid, Vec<Arc<Notify>>>>,
}

impl Bells {
    /// Waits for news, beginning now. An id is unique within its namespace only, so news of a
    /// namesake elsewhere may be taken for it: look before believing.
    pub(crate) fn watch(self: &Arc<Self>, id: Uuid) -> Watch {
        let bell = Arc::new(Notify::new());
        lock(&self.waiting).entry(id).or_default().push(Arc::clone(&bell));
        Watch { bells: Arc::clone(self), id, bell }
    }

    pub(crate) fn is_empty(&self) -> bool {
        lock(&self.waiting).is_empty()
    }

    /// There is news of these.
    pub(crate) fn call(&self, of: impl Iterator<Item = Uuid>) {
        let waiting = lock(&self.waiting);
        if waiting.is_empty() {
            return;
        }
        of.filter_map(|id| waiting.get(&id)).flatten().for_each(|bell| bell.notify_one());
    }

    /// There may be news of any of them.
    pub(crate) fn call_everyone(&self) {
        lock(&self.waiting).values().flatten().for_each(|bell| bell.notify_one());
    }
}

/// Someone who waits for news.
pub(crate) struct Watch {
    bells: Arc<Bells>,
    id: Uuid,
    bell: Arc<Notify>,
}

impl Watch {
    /// Completes when there may have been news since this was last asked.
    pub(crate) async fn called(&self) {
        self.bell.notified().await;
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        if let Entry::Occupied(mut entry) = lock(&self.bells.waiting).entry(self.id) {
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
    async fn everyone_who_waits_for_news_hears_it() {
        let (one, other) = (
            id("018f0000-0000-7000-8000-000000000001"),
            id("018f0000-0000-7000-8000-000000000002"),
        );
        let bells = Arc::new(Bells::default());
        let (first, second, elsewhere) = (bells.watch(one), bells.watch(one), bells.watch(other));
        bells.call([one].into_iter());
        first.called().await;
        second.called().await;
        tokio::select! {
            biased;
            () = elsewhere.called() => panic!("there is no news of the other one"),
            () = std::future::ready(()) => {}
        }
    }

    #[test]
    fn nothing_is_kept_of_those_who_left() {
        let bells = Arc::new(Bells::default());
        let one = id("018f0000-0000-7000-8000-000000000001");
        let (first, second) = (bells.watch(one), bells.watch(one));
        drop(first);
        assert!(!bells.is_empty());
        drop(second);
        assert!(bells.is_empty());
    }
}
