//! The writer thread: everything that waits goes into one transaction, one commit for all, and
//! the next batch begins while the runtime hands out the answers of the last.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Instant;

use everloom_core::{Error, Job, Store, Wakes, run_batch};
use tokio::sync::mpsc;

use crate::driver::Inner;
use crate::queue::{Turn, closing};
use crate::request::Pending;
use crate::sync::panic_text;

/// A batch that has been run. Dropping it hands out the answers and wakes who waits, so that it
/// happens also when the runtime that should have done it is gone.
pub(crate) struct Done {
    inner: Arc<Inner>,
    jobs: Vec<Box<dyn Pending>>,
    wakes: Wakes,
}

impl Drop for Done {
    fn drop(&mut self) {
        for job in self.jobs.drain(..) {
            job.deliver();
        }
        self.inner.hub.publish(std::mem::take(&mut self.wakes));
        self.inner.queue.answered();
    }
}

/// Works until the queue says it is over.
pub(crate) fn work(inner: &Arc<Inner>, answers: &mpsc::UnboundedSender<Done>) {
    while let Some(turn) = inner.queue.next_turn(inner.options.batch) {
        match catch_unwind(AssertUnwindSafe(|| take_turn(inner, turn))) {
            // The send fails when the runtime is gone; the batch is then dropped, that is
            // answered, here.
            Ok(Some(done)) => drop(answers.send(done)),
            Ok(None) => {}
            Err(panic) => {
                let said = panic_text(&*panic);
                tracing::error!(said, "the writer panicked; it goes on");
            }
        }
    }
    leave(inner);
}

fn take_turn(inner: &Arc<Inner>, turn: Turn<'_>) -> Option<Done> {
    let Turn { mut taken, visits, mut jobs, locked_out } = turn;
    for visit in visits {
        visit(taken.store());
    }
    jobs.retain(|job| !job.is_moot());
    if jobs.is_empty() {
        return None;
    }
    let mut batch: Vec<&mut dyn Job> = Vec::with_capacity(jobs.len());
    batch.extend(jobs.iter_mut().map(|job| &mut **job as &mut dyn Job));
    let wakes = run(inner, taken.store(), &mut batch);
    taken.ran(jobs.len());
    let since = locked_out.unwrap_or_else(Instant::now);
    if since.elapsed() < inner.options.busy_timeout {
        for job in jobs.extract_if(.., |job| job.is_locked_out()) {
            inner.put_off(job, since);
        }
    }
    Some(Done { inner: Arc::clone(inner), jobs, wakes })
}

/// Runs a batch; every job has its answer afterwards.
pub(crate) fn run(inner: &Inner, store: &mut dyn Store, jobs: &mut [&mut dyn Job]) -> Wakes {
    let ran =
        catch_unwind(AssertUnwindSafe(|| run_batch(store, jobs, &inner.settings, &*inner.clock)));
    ran.unwrap_or_else(|panic| {
        let said = panic_text(&*panic);
        tracing::error!(said, commands = jobs.len(), "the store panicked");
        // It may have happened after the commit, so the answers the rules gave are as doubtful
        // as that they were carried out.
        for job in jobs {
            job.refuse(Error::bug(
                "the store panicked, see the log; the command may or may not have been carried out",
            ));
        }
        inner.hub.wake_everyone();
        Wakes::default()
    })
}

fn leave(inner: &Inner) {
    let remains = inner.queue.leave();
    refuse(remains.jobs);
    drop(remains.visits);
    inner.readers.close();
    if catch_unwind(AssertUnwindSafe(|| drop(remains.store))).is_err() {
        tracing::error!("the store panicked while it was closed");
    }
    inner.queue.left();
}

/// Answers commands that will not run, and says how many were still waited for.
pub(crate) fn refuse(jobs: impl IntoIterator<Item = Box<dyn Pending>>) -> usize {
    let mut refused = 0;
    for mut job in jobs {
        refused += usize::from(!job.is_moot());
        job.refuse(closing());
        job.deliver();
    }
    refused
}

/// Hands out answers on the runtime, so that the writer pays one wake-up per batch and not one
/// per caller.
pub(crate) async fn hand_out(mut batches: mpsc::UnboundedReceiver<Done>) {
    while let Some(done) = batches.recv().await {
        drop(done);
    }
}
