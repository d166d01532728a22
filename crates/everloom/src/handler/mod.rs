//! What a worker runs: async functions with typed input and output.

mod error;

pub use error::Error;

use std::future::Future;

use everloom_core::Payload;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::backend::BoxFuture;
use crate::worker::Ctx;

/// What a handler gets and gives as it is, without JSON.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Raw(pub Payload);

/// What the input of an execution can be read as: anything that comes from JSON, and [`Raw`].
pub trait FromInput: Sized {
    /// Reads it. What can not be read fails for good.
    fn from_input(input: Payload) -> Result<Self, Error>;
}

impl<T: DeserializeOwned> FromInput for T {
    fn from_input(input: Payload) -> Result<Self, Error> {
        // Whoever submits without input means nothing.
        let bytes: &[u8] = if input.bytes.is_empty() { b"null" } else { &input.bytes };
        serde_json::from_slice(bytes).map_err(|error| {
            Error::permanent(format!("the input can not be read: {error}")).category("bad_input")
        })
    }
}

impl FromInput for Raw {
    fn from_input(input: Payload) -> Result<Self, Error> {
        Ok(Self(input))
    }
}

/// What the result of an execution can be made from: anything that has a JSON form, and [`Raw`].
pub trait IntoOutput {
    /// Makes it.
    fn into_output(self) -> Result<Payload, Error>;
}

impl<T: Serialize> IntoOutput for T {
    fn into_output(self) -> Result<Payload, Error> {
        let bytes = serde_json::to_vec(&self).map_err(|error| {
            Error::permanent(format!("the result has no JSON form: {error}")).category("bad_output")
        })?;
        Ok(Payload { content_type: Payload::JSON.into(), bytes })
    }
}

impl IntoOutput for Raw {
    fn into_output(self) -> Result<Payload, Error> {
        Ok(self.0)
    }
}

/// Something a worker can run: an async function of a [`Ctx`] and an input, of one of the two, or
/// of nothing.
pub trait Handler<Args>: Clone + Send + Sync + 'static {
    /// Runs it once.
    fn call(self, ctx: Ctx, input: Payload) -> BoxFuture<'static, Result<Payload, Error>>;
}

impl<F, I, O, E, Run> Handler<(Ctx, I)> for F
where
    F: FnOnce(Ctx, I) -> Run + Clone + Send + Sync + 'static,
    I: FromInput + Send + 'static,
    O: IntoOutput,
    E: Into<Error>,
    Run: Future<Output = Result<O, E>> + Send + 'static,
{
    fn call(self, ctx: Ctx, input: Payload) -> BoxFuture<'static, Result<Payload, Error>> {
        Box::pin(async move {
            let input = I::from_input(input)?;
            self(ctx, input).await.map_err(Into::into)?.into_output()
        })
    }
}

impl<F, O, E, Run> Handler<(Ctx,)> for F
where
    F: FnOnce(Ctx) -> Run + Clone + Send + Sync + 'static,
    O: IntoOutput,
    E: Into<Error>,
    Run: Future<Output = Result<O, E>> + Send + 'static,
{
    fn call(self, ctx: Ctx, _: Payload) -> BoxFuture<'static, Result<Payload, Error>> {
        Box::pin(async move { self(ctx).await.map_err(Into::into)?.into_output() })
    }
}
