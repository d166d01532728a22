//! Looks whether another process has changed something, for those who wait for that.

use std::sync::Arc;

use everloom_core::Code;
use tokio::time::{MissedTickBehavior, interval};

use crate::driver::Inner;

pub(crate) async fn watch(inner: Arc<Inner>) {
    let mut turns = interval(inner.options.poll);
    turns.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        turns.tick().await;
        if !inner.hub.anyone_waits() {
            continue;
        }
        match inner.glance(|store| store.changed_elsewhere()).await.and_then(|looked| looked) {
            Ok(true) => inner.hub.wake_everyone(),
            Ok(false) => {}
            Err(error) if error.code() == Code::Unavailable => {
                tracing::debug!(%error, "could not look for changes of other processes");
            }
            Err(error) => tracing::warn!(%error, "could not look for changes of other processes"),
        }
    }
}
