//! Durable steps: what a handler has done is not done again.

use std::future::{Future, IntoFuture};
use std::marker::PhantomData;
use std::time::Duration;

use everloom_core::{
    Backoff, Code, Error as Refusal, Failure, FailureClass, Payload, RecordStep, RetryPolicy,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::ctx::{Busy, Ctx};
use crate::backend::BoxFuture;
use crate::handler::{Error, FromInput, IntoOutput};

/// What a recorded failure is marked with.
const FAILURE: &str = "application/vnd.everloom.failure+json";

/// How long to wait before what was done is tried again to be recorded.
const AGAIN: Duration = Duration::from_millis(200);

/// A step that is about to be taken: await it.
#[must_use = "a step is taken when it is awaited"]
pub struct StepCall<'a, F> {
    ctx: Ctx,
    name: String,
    occurrence: u32,
    action: F,
    retry: Option<RetryPolicy>,
    timeout: Option<Duration>,
    borrows: PhantomData<&'a ()>,
}

impl Ctx {
    /// Takes a step: runs the action and records its result. When the handler runs again, after a
    /// retry, a wait or a crash, the recorded result is returned and the action is not run.
    ///
    /// Steps are known by their name and how often the handler has used it: a loop may use one
    /// name many times, and steps may run at the same time. What happens between steps happens
    /// again every time, so that it must come to the same.
    ///
    /// A permanent error is recorded, too, so that a handler that compensates for it does so again.
    ///
    /// ```
    /// # use everloom::handler::Error;
    /// # use everloom::Ctx;
    /// # async fn reserve(_: &str) -> Result<u64, Error> { Ok(7) }
    /// # async fn charge(_: u64, _: &str) -> Result<(), Error> { Ok(()) }
    /// async fn order(ctx: Ctx, item: String) -> Result<u64, Error> {
    ///     let reserved = ctx.step("reserve", || reserve(&item)).await?;
    ///     let key = ctx.idempotency_key("charge");
    ///     ctx.step("charge", || charge(reserved, &key)).retries(5).await?;
    ///     Ok(reserved)
    /// }
    /// ```
    pub fn step<'a, F, Run, T, E>(&self, name: impl Into<String>, action: F) -> StepCall<'a, F>
    where
        F: FnMut() -> Run + Send + 'a,
        Run: Future<Output = Result<T, E>> + Send + 'a,
        T: Serialize + DeserializeOwned + Send + 'a,
        E: Into<Error> + 'a,
    {
        let name = name.into();
        let occurrence = self.occurrence(&name);
        StepCall {
            ctx: self.clone(),
            name,
            occurrence,
            action,
            retry: None,
            timeout: None,
            borrows: PhantomData,
        }
    }
}

impl<F> StepCall<'_, F> {
    /// Tries it so often again, with growing waits, before it counts as failed. Then it has failed
    /// for good.
    pub fn retries(mut self, most: u32) -> Self {
        let retry = self.retry.get_or_insert_default();
        retry.max_retries = Some(most);
        self
    }

    /// Waits so before each retry.
    pub fn backoff(mut self, backoff: Backoff) -> Self {
        self.retry.get_or_insert_default().backoff = Some(backoff);
        self
    }

    /// Lets no try take longer.
    pub fn timeout(mut self, longest: Duration) -> Self {
        self.timeout = Some(longest);
        self
    }
}

impl<'a, F, Run, T, E> IntoFuture for StepCall<'a, F>
where
    F: FnMut() -> Run + Send + 'a,
    Run: Future<Output = Result<T, E>> + Send + 'a,
    T: Serialize + DeserializeOwned + Send + 'a,
    E: Into<Error> + 'a,
{
    type Output = Result<T, Error>;
    type IntoFuture = BoxFuture<'a, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.take())
    }
}

impl<'a, F, Run, T, E> StepCall<'a, F>
where
    F: FnMut() -> Run + Send + 'a,
    Run: Future<Output = Result<T, E>> + Send + 'a,
    T: Serialize + DeserializeOwned + Send + 'a,
    E: Into<Error> + 'a,
{
    async fn take(mut self) -> Result<T, Error> {
        let ctx = self.ctx.clone();
        if let Some(recorded) = ctx.recorded(&self.name, self.occurrence, "step")? {
            return read(&self.name, recorded);
        }
        let _busy = Busy::new(&ctx);
        let done = self.act().await;
        let result = match done {
            Ok(value) => value.into_output()?,
            Err(error) if error.is_permanent() => write_failure(error)?,
            Err(error) => return Err(error),
        };
        read(&self.name, ctx.record(&self.name, self.occurrence, "step", result).await?)
    }

    /// Runs the action, as often as need be.
    async fn act(&mut self) -> Result<T, Error> {
        let mut tries = 0;
        loop {
            let error = match self.act_once().await {
                Ok(value) => return Ok(value),
                Err(error) => error,
            };
            let Some(retry) = &self.retry else { return Err(error) };
            if error.is_permanent() {
                return Err(error);
            }
            if tries >= retry.max_retries() {
                return Err(error.class(FailureClass::Permanent));
            }
            tokio::time::sleep(retry.wait(tries)).await;
            tries += 1;
        }
    }

    async fn act_once(&mut self) -> Result<T, Error> {
        let action = (self.action)();
        let Some(longest) = self.timeout else { return action.await.map_err(Into::into) };
        match tokio::time::timeout(longest, action).await {
            Ok(done) => done.map_err(Into::into),
            Err(_) => {
                let told = format!("step `{}` took longer than {longest:?}", self.name);
                Err(Error::retry(told).class(FailureClass::Timeout))
            }
        }
    }
}

/// What a recorded step came to.
fn read<T: DeserializeOwned>(name: &str, recorded: Payload) -> Result<T, Error> {
    if recorded.content_type == FAILURE {
        return Err(read_failure(&recorded));
    }
    T::from_input(recorded).map_err(|error| {
        Error::permanent(format!(
            "what step `{name}` came to is not what the handler expects any more ({error}); give \
             the changed step a new name, or replay the execution from this step"
        ))
        .category(Code::StepsDiverged.as_str())
    })
}

fn write_failure(error: Error) -> Result<Payload, Error> {
    let (failure, _) = error.into_parts();
    Ok(Payload { content_type: FAILURE.into(), ..failure.into_output()? })
}

fn read_failure(recorded: &Payload) -> Error {
    let failure: Failure = serde_json::from_slice(&recorded.bytes)
        .unwrap_or_else(|_| Failure::permanent("it failed, and why can not be read any more"));
    Error::from_failure(failure)
}

impl Ctx {
    /// What was recorded before, if it was.
    pub(super) fn recorded(
        &self,
        name: &str,
        occurrence: u32,
        kind: &str,
    ) -> Result<Option<Payload>, Error> {
        let memory = self.memory();
        let Some(step) = memory.steps.get(&(name.to_owned(), occurrence)) else { return Ok(None) };
        if step.kind != kind {
            let diverged = Refusal::steps_diverged(name, occurrence, &step.kind, kind);
            return Err(diverged.into());
        }
        Ok(Some(step.result.clone().unwrap_or_default()))
    }

    /// Records what a step came to; answers with what counts.
    pub(super) async fn record(
        &self,
        name: &str,
        occurrence: u32,
        kind: &str,
        result: Payload,
    ) -> Result<Payload, Error> {
        let step = RecordStep {
            namespace: self.here(),
            lease: self.lease(),
            name: name.to_owned(),
            occurrence,
            kind: kind.to_owned(),
            result: result.clone(),
        };
        loop {
            match self.apply(step.clone()).await {
                Ok(recorded) => return Ok(recorded.earlier.unwrap_or(result)),
                // What was done must not be done again because the store was busy.
                Err(error) if error.is_retryable() => tokio::time::sleep(AGAIN).await,
                Err(error) => return Err(error.into()),
            }
        }
    }
}
