//! Crashing a handler before and after everything it keeps.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use everloom_core::{
    Claim, Claimed, Error, ExecutionId, ExecutionResult, ListSteps, Payload, Result, Status,
    StepView,
};
use serde::Serialize;
use tokio::sync::Notify;

use super::TestKit;
use crate::backend::{AnyAnswer, AnyCall, Backend, BoxFuture};
use crate::handler::Handler;
use crate::{Engine, Worker};

/// Runs a handler again and again, killing it before and after everything it keeps, and fails if
/// it then comes to something else, or takes other steps. Sleeps take no time.
///
/// ```
/// use everloom::Ctx;
/// use everloom::handler::Error;
/// use everloom::test::crash_at_every_step;
///
/// async fn order(ctx: Ctx, amount: u64) -> Result<u64, Error> {
///     let charged = ctx.step("charge", || async { Ok::<_, Error>(amount) }).await?;
///     ctx.sleep(std::time::Duration::from_secs(86_400)).await?;
///     ctx.step("ship", || async { Ok::<_, Error>(()) }).await?;
///     Ok(charged)
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let crashed = crash_at_every_step(order, &42).await;
/// assert!(crashed.crashes >= 8);
/// # }
/// ```
///
/// # Panics
///
/// If a crash made a difference; it says which.
pub async fn crash_at_every_step<Args: 'static>(
    handler: impl Handler<Args>,
    input: &impl Serialize,
) -> Crashed {
    CrashTest::new(handler, input).run().await
}

/// What it came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Crashed {
    /// How often the handler was killed.
    pub crashes: usize,
    /// How it ended, every time.
    pub status: Status,
    /// What came of it, every time.
    pub result: Option<Payload>,
}

type Equip = Box<dyn Fn(Worker) -> Worker + Send + Sync>;
type Answer = Box<dyn Fn(Engine, ExecutionId) -> BoxFuture<'static, Result<()>> + Send + Sync>;

/// As [`crash_at_every_step`], with more to say about it.
pub struct CrashTest {
    input: Result<Vec<u8>>,
    equip: Vec<Equip>,
    answer: Option<Answer>,
}

/// What the handler under test is called.
const KIND: &str = "under-test";

/// How often those who wait are answered before the test gives up.
const PATIENCE: usize = 1000;

impl CrashTest {
    /// A test of that handler with that input.
    pub fn new<Args: 'static>(handler: impl Handler<Args>, input: &impl Serialize) -> Self {
        let input = serde_json::to_vec(input)
            .map_err(|error| Error::invalid("input", format!("has no JSON form: {error}")));
        Self { input, equip: vec![], answer: None }
            .equip(move |worker| worker.handle(KIND, handler.clone()))
    }

    /// Gives the worker more: handlers for what the one under test makes, and data they share.
    #[must_use]
    pub fn equip(mut self, equip: impl Fn(Worker) -> Worker + Send + Sync + 'static) -> Self {
        self.equip.push(Box::new(equip));
        self
    }

    /// Called whenever the handler waits for a signal or for people, to answer.
    #[must_use]
    pub fn answer<F>(mut self, answer: F) -> Self
    where
        F: Fn(Engine, ExecutionId) -> BoxFuture<'static, Result<()>> + Send + Sync + 'static,
    {
        self.answer = Some(Box::new(answer));
        self
    }

    /// Runs it.
    ///
    /// # Panics
    ///
    /// If a crash made a difference; it says which.
    pub async fn run(self) -> Crashed {
        let plain = self.live(None).await.unwrap_or_else(|error| panic!("{error}"));
        let mut crashes = 0;
        for at in 1..=plain.kept {
            for moment in [Moment::Before, Moment::After] {
                let crash = Crash { at, moment };
                let life = self.live(Some(crash)).await;
                let life = life.unwrap_or_else(|error| panic!("after a crash {crash}: {error}"));
                life.expect_same(&plain, crash);
                crashes += 1;
            }
        }
        Crashed { crashes, status: plain.end.status, result: plain.end.result }
    }

    /// Runs the handler to its end, with a crash or without.
    async fn live(&self, crash: Option<Crash>) -> Result<Life> {
        let fate = Arc::new(Fate { crash, kept: AtomicUsize::new(0), struck: Notify::new() });
        let kit = TestKit::with(
            |worker| self.equip.iter().fold(worker, |worker, equip| equip(worker)),
            |engine| Fateful { engine, fate: Arc::clone(&fate) },
        )
        .await?;
        let input = Payload { content_type: Payload::JSON.into(), bytes: self.input.clone()? };
        let new = everloom_core::NewExecution::new(KIND).input(input);
        let id = kit.engine().submit_one(new).await?.id();
        for _ in 0..PATIENCE {
            tokio::select! {
                ran = kit.run() => ran?,
                () = fate.struck.notified() => {
                    // A process that begins anew under its old name takes its work back.
                    kit.worker.register_once().await?;
                    continue;
                }
            }
            let end = kit.engine().result(id).await?;
            if end.status.is_terminal() {
                let steps = kit.engine().list_steps(ListSteps::new(id)).await?.steps;
                return Ok(Life { end, steps, kept: fate.kept.load(Ordering::SeqCst) });
            }
            self.go_on(&kit, id, end.status).await?;
        }
        Err(Error::bug("the handler does not come to an end"))
    }

    /// Lets a handler that waits go on.
    async fn go_on(&self, kit: &TestKit, id: ExecutionId, status: Status) -> Result<()> {
        match (&self.answer, kit.tick().await?) {
            (Some(answer), _) if status == Status::Suspended => {
                answer(kit.engine().clone(), id).await
            }
            (_, Some(due)) => {
                kit.clock.set(due.max(kit.now()));
                Ok(())
            }
            (_, None) => Err(Error::bug(format!(
                "the handler is {status} and nothing will change that; give the test an `answer`"
            ))),
        }
    }
}

/// How a handler came to its end.
struct Life {
    end: ExecutionResult,
    steps: Vec<StepView>,
    kept: usize,
}

impl Life {
    fn expect_same(&self, plain: &Self, crash: Crash) {
        let outcome = |life: &Self| (life.end.status, life.end.result.clone());
        assert!(
            outcome(self) == outcome(plain),
            "a crash {crash} made a difference: the handler came to {:?} and not to {:?}; what it \
             does between its steps must come to the same every time",
            outcome(self),
            outcome(plain)
        );
        let named = |life: &Self| {
            let steps = life.steps.iter();
            steps
                .map(|step| ((step.name.clone(), step.occurrence), step.kind.clone()))
                .collect::<BTreeMap<_, _>>()
        };
        assert!(
            named(self) == named(plain),
            "a crash {crash} made a difference: the handler took the steps {:?} and not {:?}; \
             steps must have the same names every time",
            named(self).keys(),
            named(plain).keys()
        );
    }
}

/// When a handler is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Crash {
    /// With the how many-th thing it keeps.
    at: usize,
    moment: Moment,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Moment {
    /// It was not kept.
    Before,
    /// It was kept, and the handler never heard of it.
    After,
}

impl fmt::Display for Crash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let moment = match self.moment {
            Moment::Before => "before",
            Moment::After => "after",
        };
        write!(f, "{moment} change {} of the handler's", self.at)
    }
}

/// What is in store for a worker.
struct Fate {
    crash: Option<Crash>,
    kept: AtomicUsize,
    struck: Notify,
}

/// An engine to a worker that is killed at some moment.
struct Fateful {
    engine: Engine,
    fate: Arc<Fate>,
}

impl Backend for Fateful {
    fn namespace(&self) -> &str {
        Backend::namespace(&self.engine)
    }

    fn call(&self, call: Box<dyn AnyCall>) -> BoxFuture<'_, Result<AnyAnswer>> {
        let counts = call.is_command() && !matches!(call.name(), "register_worker" | "renew");
        if !counts {
            return self.engine.call(call);
        }
        let number = self.fate.kept.fetch_add(1, Ordering::SeqCst) + 1;
        match self.fate.crash.filter(|crash| crash.at == number) {
            None => self.engine.call(call),
            Some(crash) => Box::pin(async move {
                if crash.moment == Moment::After {
                    // Nobody hears the answer.
                    let _ = self.engine.call(call).await;
                }
                self.fate.struck.notify_one();
                std::future::pending().await
            }),
        }
    }

    fn claim(&self, claim: Claim) -> BoxFuture<'_, Result<Claimed>> {
        Backend::claim(&self.engine, claim)
    }

    fn wait(&self, execution: ExecutionId) -> BoxFuture<'_, Result<ExecutionResult>> {
        Backend::wait(&self.engine, execution)
    }
}
