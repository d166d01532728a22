//! Submitting with types, and waiting for what comes of it.

use std::future::IntoFuture;
use std::time::Duration;

use everloom_core::{
    Code, Error, ExecutionId, ExecutionResult, NewExecution, Payload, Policy, Result, Status,
    Submission, Submit, Timestamp,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::backend::{Backend, BoxFuture, Calls};

/// An execution that is about to be submitted: await it, or its [`SubmitCall::result`].
#[must_use = "nothing is submitted until this is awaited"]
pub struct SubmitCall {
    calls: Calls,
    new: Result<NewExecution>,
}

impl SubmitCall {
    pub(crate) fn new(backend: impl Backend, kind: String, input: &impl Serialize) -> Self {
        let new = serde_json::to_vec(input)
            .map(|bytes| {
                let content_type = Payload::JSON.into();
                NewExecution::new(kind).input(Payload { content_type, bytes })
            })
            .map_err(|error| Error::invalid("input", format!("has no JSON form: {error}")));
        Self { calls: Calls::new(backend), new }
    }

    fn with(mut self, change: impl FnOnce(NewExecution) -> NewExecution) -> Self {
        self.new = self.new.map(change);
        self
    }

    /// Submitting again under the same key gives the first execution instead of a second.
    pub fn key(self, key: impl Into<String>) -> Self {
        self.with(|new| new.key(key))
    }

    /// Into that queue.
    pub fn lane(self, lane: impl Into<String>) -> Self {
        self.with(|new| new.lane(lane))
    }

    /// 0 to 9000, higher first.
    pub fn priority(self, priority: i32) -> Self {
        self.with(|new| new.priority(priority))
    }

    /// Not before this long from now.
    pub fn delay(self, delay: Duration) -> Self {
        self.with(|new| new.delay(delay))
    }

    /// Not before this time.
    pub fn start_at(self, at: Timestamp) -> Self {
        self.with(|new| new.start_at(at))
    }

    /// Expires then.
    pub fn deadline_at(self, at: Timestamp) -> Self {
        self.with(|new| new.deadline_at(at))
    }

    /// Only for workers that have this.
    pub fn capability(self, token: impl Into<String>) -> Self {
        self.with(|new| new.capability(token))
    }

    /// With a label.
    pub fn tag(self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.with(|new| new.tag(key, value))
    }

    /// Treated so.
    pub fn policy(self, policy: Policy) -> Self {
        self.with(|new| new.policy(policy))
    }

    /// Submits it, waits until it has ended, and reads its result. One that did not complete is an
    /// error that says how it ended.
    pub async fn result<T: DeserializeOwned>(self) -> Result<T> {
        let calls = self.calls.clone();
        let id = self.submit().await?.id();
        let ended = calls.backend().wait(id).await?;
        read_result(id, ended)
    }

    async fn submit(self) -> Result<Submission> {
        let (namespace, executions) = (self.calls.here(), vec![self.new?]);
        let submitted = self.calls.apply(Submit { namespace, executions }).await?;
        let first = submitted.executions.first().copied();
        first.ok_or_else(|| Error::bug("a submission got no answer"))
    }
}

impl IntoFuture for SubmitCall {
    type Output = Result<Submission>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.submit())
    }
}

/// The result of an execution that has ended.
pub(crate) fn read_result<T: DeserializeOwned>(
    id: ExecutionId,
    ended: ExecutionResult,
) -> Result<T> {
    match (ended.status, ended.result) {
        (Status::Completed, result) => {
            let result = result.unwrap_or_default();
            let bytes: &[u8] = if result.bytes.is_empty() { b"null" } else { &result.bytes };
            serde_json::from_slice(bytes).map_err(|error| {
                let told = format!("the result of {id} can not be read: {error}");
                Error::new(Code::InvalidInput, told)
            })
        }
        (status, _) => {
            let why = ended.end.and_then(|end| end.message).unwrap_or_default();
            Err(Error::new(Code::WrongState, format!("execution {id} ended {status}: {why}"))
                .with_details(serde_json::json!({ "status": status })))
        }
    }
}
