//! One execution, from its claim to the end of its lease.

use std::any::Any;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::Poll;
use std::time::Duration;

use everloom_core::{
    AcknowledgeCancel, Command, Complete, Error as Refusal, Fail, GetInput, Leased, ListSteps,
    Payload, Release, Result, StepView,
};

use super::ctx::Ctx;
use super::park::Parked;
use crate::backend::{BoxFuture, Calls};
use crate::handler::Error;

/// How a handler came to a standstill.
enum Halt {
    /// It is through.
    Done(Result<Payload, Error>),
    /// All it does is wait.
    Waits,
    /// It did not survive.
    Panicked(String),
    /// Someone wants the work to stop, and the handler does not look after that itself.
    Cancelled,
    /// Another has the work by now.
    Lost,
    /// The work is to be given back, and why.
    GivenBack(&'static str),
}

/// Runs a handler for work that was claimed, and reports what came of it.
pub(super) async fn run(ctx: Ctx, mut handler: BoxFuture<'static, Result<Payload, Error>>) {
    loop {
        let told = match halt(&ctx, &mut handler).await {
            Halt::Waits => match ctx.park().await {
                Ok(Parked::Gone) => return,
                Ok(Parked::Ready) => continue,
                Err(error) => fail(&ctx, error).await,
            },
            Halt::Done(Ok(result)) => complete(&ctx, result).await,
            Halt::Done(Err(error)) => fail(&ctx, error).await,
            Halt::Panicked(said) => {
                let error = Error::retry(format!("the handler panicked: {said}"));
                fail(&ctx, error.category("panic")).await
            }
            Halt::Cancelled => {
                let (namespace, lease) = (ctx.here(), ctx.lease());
                let command = AcknowledgeCancel { namespace, lease, reason: None };
                insist(&ctx, command).await
            }
            Halt::GivenBack(why) => {
                let (namespace, lease) = (ctx.here(), ctx.lease());
                let reason = Some(why.to_owned());
                let command = Release { namespace, lease, reason };
                insist(&ctx, command).await
            }
            Halt::Lost => Ok(()),
        };
        if let Err(refusal) = told {
            tracing::warn!(execution = %ctx.id(), error = %refusal, "what came of it was refused");
        }
        return;
    }
}

async fn halt(ctx: &Ctx, handler: &mut BoxFuture<'static, Result<Payload, Error>>) -> Halt {
    let mut orders = ctx.orders().subscribe();
    let standstill =
        poll_fn(|cx| match catch_unwind(AssertUnwindSafe(|| handler.as_mut().poll(cx))) {
            Ok(Poll::Ready(done)) => Poll::Ready(Halt::Done(done)),
            Ok(Poll::Pending) if ctx.only_waits() => Poll::Ready(Halt::Waits),
            Ok(Poll::Pending) => Poll::Pending,
            Err(panic) => Poll::Ready(Halt::Panicked(said(&*panic))),
        });
    let ordered = orders.wait_for(|orders| {
        let ignored = orders.cancel.is_some() && !ctx.memory().watches_cancel;
        orders.lost.is_some() || orders.stop || orders.pause.is_some() || ignored
    });
    tokio::select! {
        biased;
        orders = ordered => match orders {
            Ok(orders) if orders.lost.is_some() => Halt::Lost,
            Ok(orders) if orders.cancel.is_some() => Halt::Cancelled,
            Ok(orders) if orders.pause.is_some() => Halt::GivenBack("its budget is used up"),
            _ => Halt::GivenBack("its worker was shut down"),
        },
        halt = standstill => halt,
    }
}

fn said(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("no message").to_owned()
}

async fn complete(ctx: &Ctx, result: Payload) -> Result<()> {
    let command = Complete { namespace: ctx.here(), lease: ctx.lease(), result };
    insist(ctx, command).await
}

async fn fail(ctx: &Ctx, error: Error) -> Result<()> {
    let (failure, retry_after) = error.into_parts();
    let (namespace, lease) = (ctx.here(), ctx.lease());
    let command = Fail { namespace, lease, failure, retry_after };
    insist(ctx, command).await
}

/// How long to wait before a call the store could not take is made again.
const AGAIN: Duration = Duration::from_millis(200);

/// Makes a call until it is answered, or the lease is lost.
async fn insist<C: Command + Clone>(ctx: &Ctx, command: C) -> Result<()> {
    loop {
        match ctx.apply(command.clone()).await {
            Err(error) if error.is_retryable() && ctx.orders().borrow().lost.is_none() => {
                tokio::time::sleep(AGAIN).await;
            }
            Err(error) if error.why_lease_lost().is_some() => return Ok(()),
            answered => return answered.map(drop),
        }
    }
}

/// The input of work that was claimed, wherever it is.
pub(super) async fn input(calls: &Calls, leased: &Leased) -> Result<Payload> {
    match &leased.input {
        Some(input) => Ok(input.clone()),
        None => {
            let (namespace, execution) = (leased.namespace.clone(), leased.id());
            calls.ask(GetInput { namespace, execution }).await
        }
    }
}

/// All recorded steps of work that was claimed, with their results.
pub(super) async fn steps(calls: &Calls, leased: &Leased) -> Result<Vec<StepView>> {
    let mut steps = Vec::with_capacity(leased.steps.len());
    let mut page = leased.steps.clone();
    let mut more = leased.more_steps;
    loop {
        let whole = page.iter().take_while(|step| step.result.is_some()).count();
        more |= whole < page.len();
        page.truncate(whole);
        let after = page.last().map_or(steps.last(), Some).map_or(0, |step: &StepView| step.seq);
        steps.append(&mut page);
        if !more {
            return Ok(steps);
        }
        let list = ListSteps {
            namespace: leased.namespace.clone(),
            after,
            limit: everloom_core::Limits::PAGE,
            ..ListSteps::new(leased.id())
        };
        let next = calls.ask(list).await?;
        if next.steps.first().is_some_and(|step| step.result.is_none()) {
            return Err(Refusal::bug("a page begins with a step whose result is left out"));
        }
        more = next.next.is_some();
        page = next.steps;
    }
}
