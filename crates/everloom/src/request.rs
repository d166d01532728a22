//! A command on its way: from the caller's hands through the queue back to the caller, or to
//! whoever takes care of an answer that nobody received.

use std::panic::{AssertUnwindSafe, catch_unwind};

use everloom_core::{Again, Call, Command, Context, Error, Job, Result, Seed, Tx};
use tokio::sync::oneshot;

use crate::sync::panic_text;

/// A command in the queue, whatever its type.
pub(crate) trait Pending: Job {
    /// Whether nobody waits for it any more, so that it need not run.
    fn is_moot(&self) -> bool;

    /// Whether it was refused because of a lock that someone does not let go of.
    fn is_locked_out(&self) -> bool;

    /// Hands the answer over.
    fn deliver(self: Box<Self>);
}

/// Where an answer goes.
pub(crate) trait Reply<T>: Send {
    /// Whether nobody is there to take it.
    fn is_moot(&self) -> bool;

    /// Takes it there.
    fn give(self, name: &'static str, answer: Result<T>);
}

/// A command with the way back.
pub(crate) struct Request<C: Command, R> {
    call: Call<C>,
    reply: R,
}

impl<C: Command, R: Reply<C::Output>> Request<C, R> {
    pub(crate) fn new(call: Call<C>, reply: R) -> Self {
        Self { call, reply }
    }
}

impl<C: Command, R: Reply<C::Output>> Job for Request<C, R> {
    fn name(&self) -> &'static str {
        self.call.name()
    }

    fn seed(&self) -> Seed {
        self.call.seed()
    }

    fn apply(&mut self, tx: &mut dyn Tx, cx: &Context) -> Result<()> {
        self.call.apply(tx, cx)
    }

    fn refuse(&mut self, error: Error) {
        self.call.refuse(error);
    }
}

impl<C: Command, R: Reply<C::Output>> Pending for Request<C, R> {
    fn is_moot(&self) -> bool {
        self.reply.is_moot()
    }

    fn is_locked_out(&self) -> bool {
        self.call.refusal().is_some_and(|error| error.again() == Some(Again::Locked))
    }

    fn deliver(self: Box<Self>) {
        self.reply.give(C::NAME, self.call.into_answer());
    }
}

/// The way back to a caller, and what to do with an output that does not reach it.
pub(crate) struct ToCaller<T, F: FnOnce(T)> {
    pub(crate) reply: oneshot::Sender<Answer<T, F>>,
    pub(crate) on_undelivered: F,
}

impl<T: Send, F: FnOnce(T) + Send> Reply<T> for ToCaller<T, F> {
    fn is_moot(&self) -> bool {
        self.reply.is_closed()
    }

    fn give(self, _: &'static str, answer: Result<T>) {
        // An answer that can not be sent comes back and is dropped here; one that was sent and
        // not fetched is dropped with the channel. Both end in `Answer::drop`.
        drop(self.reply.send(Answer(Some((answer, self.on_undelivered)))));
    }
}

/// The way of an answer that nobody waits for.
pub(crate) struct ToNobody;

impl<T> Reply<T> for ToNobody {
    fn is_moot(&self) -> bool {
        false
    }

    fn give(self, name: &'static str, answer: Result<T>) {
        if let Err(error) = answer {
            tracing::debug!(command = name, %error, "a command that nobody waits for was refused");
        }
    }
}

/// An answer under way. Dropped before it was accepted, it gives its output to whoever takes care
/// of undelivered ones.
pub(crate) struct Answer<T, F: FnOnce(T)>(Option<(Result<T>, F)>);

impl<T, F: FnOnce(T)> Answer<T, F> {
    /// Takes delivery.
    pub(crate) fn accept(mut self) -> Result<T> {
        match self.0.take() {
            Some((answer, _)) => answer,
            None => Err(Error::bug("the answer was taken twice")),
        }
    }
}

impl<T, F: FnOnce(T)> Drop for Answer<T, F> {
    fn drop(&mut self) {
        let Some((Ok(output), on_undelivered)) = self.0.take() else { return };
        // This may run while another panic unwinds, when a second one would end the process.
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| on_undelivered(output))) {
            let said = panic_text(&*panic);
            tracing::error!(said, "what takes care of an undelivered answer panicked");
        }
    }
}
