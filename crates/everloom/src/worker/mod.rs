//! Workers: processes that run handlers.

mod child;
mod ctx;
mod park;
pub(crate) mod pump;
mod run;
mod signal;
mod step;

pub use child::{Child, SpawnCall};
pub use ctx::{Ctx, Fence};
pub use pump::{Drained, RunningWorker};
pub use signal::{ApprovalWait, Callback, Decision, SignalWait};
pub use step::StepCall;

use std::any::{Any, TypeId};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use everloom_core::{DEFAULT_NAME, Payload};
use uuid::Uuid;

use crate::backend::{Backend, BoxFuture, Calls};
use crate::handler::{Error, Handler};

/// Runs handlers for the work of some lanes.
///
/// ```
/// use everloom::handler::Error;
/// use everloom::{Ctx, Engine, Worker};
///
/// async fn greet(_: Ctx, name: String) -> Result<String, Error> {
///     Ok(format!("Hello, {name}!"))
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> everloom::Result<()> {
/// let engine = Engine::open("memory").await?;
/// let worker = Worker::new(engine.clone()).handle("greet", greet).start();
/// let greeting: String = engine.submit("greet", &"Ada").result().await?;
/// assert_eq!(greeting, "Hello, Ada!");
/// worker.shutdown(std::time::Duration::from_secs(5)).await;
/// # Ok(())
/// # }
/// ```
pub struct Worker {
    calls: Calls,
    name: String,
    instance: Option<String>,
    lanes: Vec<String>,
    capabilities: Vec<String>,
    handlers: BTreeMap<String, Handled>,
    concurrency: usize,
    lease_ttl: Duration,
    data: HashMap<TypeId, Arc<dyn Any + Send + Sync>>,
}

/// One run of a handler.
type Run = dyn Fn(Ctx, Payload) -> BoxFuture<'static, Result<Payload, Error>> + Send + Sync;

/// A handler, and how many of it may run at once.
pub(crate) struct Handled {
    run: Box<Run>,
    most: Option<usize>,
}

impl Worker {
    /// A worker of the default lane, without handlers yet, that runs up to 64 at once.
    pub fn new(backend: impl Backend) -> Self {
        Self {
            calls: Calls::new(backend),
            name: DEFAULT_NAME.to_owned(),
            instance: None,
            lanes: vec![DEFAULT_NAME.to_owned()],
            capabilities: vec![],
            handlers: BTreeMap::new(),
            concurrency: 64,
            lease_ttl: Duration::from_secs(30),
            data: HashMap::new(),
        }
    }

    /// Runs work of this kind with that handler; the last one set counts.
    #[must_use]
    pub fn handle<Args>(mut self, kind: impl Into<String>, handler: impl Handler<Args>) -> Self {
        let run = move |ctx, input| handler.clone().call(ctx, input);
        self.handlers.insert(kind.into(), Handled { run: Box::new(run), most: None });
        self
    }

    /// The same, but no more than so many at once.
    #[must_use]
    pub fn handle_up_to<Args>(
        mut self,
        most: usize,
        kind: impl Into<String>,
        handler: impl Handler<Args>,
    ) -> Self {
        let kind = kind.into();
        self = self.handle(kind.clone(), handler);
        if let Some(handled) = self.handlers.get_mut(&kind) {
            handled.most = Some(most.max(1));
        }
        self
    }

    /// Takes work from these lanes, strictly in this order, instead of the default one.
    #[must_use]
    pub fn lanes<L: Into<String>>(mut self, lanes: impl IntoIterator<Item = L>) -> Self {
        self.lanes = lanes.into_iter().map(Into::into).collect();
        self
    }

    /// Has this, so that it gets work that needs it.
    #[must_use]
    pub fn capability(mut self, token: impl Into<String>) -> Self {
        self.capabilities.push(token.into());
        self
    }

    /// Runs up to so many handlers at once.
    #[must_use]
    pub fn concurrency(mut self, most: usize) -> Self {
        self.concurrency = most.max(1);
        self
    }

    /// Holds work for so long without a sign of life: 1 s to 1 h, 30 s by default.
    #[must_use]
    pub fn lease_ttl(mut self, ttl: Duration) -> Self {
        self.lease_ttl = ttl;
        self
    }

    /// Belongs to the pool of that name.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// Is this process. One that begins anew under the same id takes its work back at once,
    /// instead of when its leases run out; no two may run under the same id.
    #[must_use]
    pub fn instance(mut self, id: impl Into<String>) -> Self {
        self.instance = Some(id.into());
        self
    }

    /// What handlers share: [`Ctx::data`] has it. One value of each type.
    #[must_use]
    pub fn data<T: Send + Sync + 'static>(mut self, value: T) -> Self {
        self.data.insert(TypeId::of::<T>(), Arc::new(value));
        self
    }

    /// Begins to work, in the background, until the answer is shut down or dropped.
    ///
    /// # Panics
    ///
    /// Outside of a Tokio runtime.
    pub fn start(self) -> RunningWorker {
        pump::start(self)
    }

    fn instance_id(&self) -> String {
        match &self.instance {
            Some(id) => id.clone(),
            None => format!("{}-{}", self.name, Uuid::now_v7()),
        }
    }
}
