//! Where commands go: an engine in this process, or one elsewhere.

use std::any::Any;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use everloom_core::{Claim, Claimed, Command, Error, ExecutionId, ExecutionResult, Query, Result};
use serde_json::Value;

use crate::Engine;

/// A future that is boxed, because it is one of several.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// An answer of which only whoever asked knows the type.
pub type AnyAnswer = Box<dyn Any + Send>;

/// What a worker and typed calls need: someone who runs commands and answers queries.
///
/// An [`Engine`] does so in this process. Whoever does it elsewhere sends [`AnyCall::body`] under
/// [`AnyCall::name`] and reads the answer with [`AnyCall::decode`].
pub trait Backend: Send + Sync + 'static {
    /// The namespace everything happens in.
    fn namespace(&self) -> &str;

    /// Runs a command or answers a query.
    fn call(&self, call: Box<dyn AnyCall>) -> BoxFuture<'_, Result<AnyAnswer>>;

    /// Takes work, waiting for it as long as the claim says. What it got is given back when the
    /// future is dropped.
    fn claim(&self, claim: Claim) -> BoxFuture<'_, Result<Claimed>>;

    /// Waits until an execution has ended.
    fn wait(&self, execution: ExecutionId) -> BoxFuture<'_, Result<ExecutionResult>>;
}

/// A command or query of which only whoever made it knows the type.
pub trait AnyCall: Send {
    /// Its name in every layer.
    fn name(&self) -> &'static str;

    /// Whether it changes something.
    fn is_command(&self) -> bool;

    /// It as plain data.
    fn body(&self) -> Result<Value>;

    /// What an answer that came as plain data stands for.
    fn decode(&self, answer: Value) -> Result<AnyAnswer>;

    /// Runs it on an engine of this process.
    fn run(self: Box<Self>, engine: Engine) -> BoxFuture<'static, Result<AnyAnswer>>;
}

struct AnyCommand<C>(C);
struct AnyQuery<Q>(Q);

macro_rules! any_call {
    ($wrapper:ident, $trait:ident, $method:ident, $is_command:literal) => {
        impl<T: $trait> AnyCall for $wrapper<T> {
            fn name(&self) -> &'static str {
                T::NAME
            }

            fn is_command(&self) -> bool {
                $is_command
            }

            fn body(&self) -> Result<Value> {
                serde_json::to_value(&self.0)
                    .map_err(|error| Error::bug(format!("`{}` has no JSON form: {error}", T::NAME)))
            }

            fn decode(&self, answer: Value) -> Result<AnyAnswer> {
                let answer: T::Output = serde_json::from_value(answer).map_err(|error| {
                    Error::bug(format!("the answer to `{}` can not be read: {error}", T::NAME))
                })?;
                Ok(Box::new(answer))
            }

            fn run(self: Box<Self>, engine: Engine) -> BoxFuture<'static, Result<AnyAnswer>> {
                Box::pin(async move {
                    let answer = engine.$method(self.0).await?;
                    Ok(Box::new(answer) as AnyAnswer)
                })
            }
        }
    };
}

any_call!(AnyCommand, Command, apply, true);
any_call!(AnyQuery, Query, ask, false);

impl Backend for Engine {
    fn namespace(&self) -> &str {
        self.namespace_name()
    }

    fn call(&self, call: Box<dyn AnyCall>) -> BoxFuture<'_, Result<AnyAnswer>> {
        call.run(self.clone())
    }

    fn claim(&self, claim: Claim) -> BoxFuture<'_, Result<Claimed>> {
        Box::pin(Self::claim(self, claim))
    }

    fn wait(&self, execution: ExecutionId) -> BoxFuture<'_, Result<ExecutionResult>> {
        Box::pin(Self::wait(self, execution))
    }
}

/// A backend with its types back.
#[derive(Clone)]
pub(crate) struct Calls(Arc<dyn Backend>);

impl Calls {
    pub(crate) fn new(backend: impl Backend) -> Self {
        Self(Arc::new(backend))
    }

    pub(crate) fn backend(&self) -> &dyn Backend {
        &*self.0
    }

    pub(crate) fn here(&self) -> String {
        self.0.namespace().to_owned()
    }

    pub(crate) async fn apply<C: Command>(&self, command: C) -> Result<C::Output> {
        self.call(Box::new(AnyCommand(command))).await
    }

    pub(crate) async fn ask<Q: Query>(&self, query: Q) -> Result<Q::Output> {
        self.call(Box::new(AnyQuery(query))).await
    }

    async fn call<T: 'static>(&self, call: Box<dyn AnyCall>) -> Result<T> {
        let name = call.name();
        let answer = self.0.call(call).await?.downcast::<T>();
        answer
            .map(|answer| *answer)
            .map_err(|_| Error::bug(format!("`{name}` was answered wrongly")))
    }
}
