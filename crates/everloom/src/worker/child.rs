//! Work that a handler makes, and waits for.

use std::future::IntoFuture;
use std::marker::PhantomData;

use everloom_core::{
    Bound, ExecutionId, FlowId, GetResult, Need, NewExecution, NewFlow, NewNode, Policy, Spawn,
    SpawnInto, Status, SubmitFlow,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::ctx::Ctx;
use super::park::Wait;
use crate::backend::BoxFuture;
use crate::handler::{Error, FromInput, IntoOutput};

/// Work a handler has made, whose result is a `T`.
#[derive(Debug, PartialEq, Eq)]
pub struct Child<T> {
    id: ExecutionId,
    value: PhantomData<fn() -> T>,
}

impl<T> Clone for Child<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Child<T> {}

impl<T> Child<T> {
    fn new(id: ExecutionId) -> Self {
        Self { id, value: PhantomData }
    }

    /// The execution.
    pub fn id(&self) -> ExecutionId {
        self.id
    }
}

/// Work that is about to be made: await it.
#[must_use = "nothing is made until this is awaited"]
pub struct SpawnCall<T> {
    ctx: Ctx,
    step: String,
    occurrence: u32,
    children: Result<Vec<NewExecution>, Error>,
    value: PhantomData<fn() -> T>,
}

impl Ctx {
    /// Makes an execution that runs beside this one, and ends with it unless its policy says
    /// otherwise. Made once, however often the handler runs.
    pub fn spawn<T>(&self, kind: impl Into<String>, input: &impl Serialize) -> SpawnCall<T> {
        self.spawn_all(kind, [input])
    }

    /// The same for many inputs.
    pub fn spawn_all<'a, T, I: Serialize + 'a>(
        &self,
        kind: impl Into<String>,
        inputs: impl IntoIterator<Item = &'a I>,
    ) -> SpawnCall<T> {
        let kind = kind.into();
        let step = format!("spawn {kind}");
        let child = |input: &I| Ok(NewExecution::new(&kind).input(input.into_output()?));
        SpawnCall {
            ctx: self.clone(),
            occurrence: self.occurrence(&step),
            step,
            children: inputs.into_iter().map(child).collect(),
            value: PhantomData,
        }
    }

    /// Waits until all of them are over, holding nothing meanwhile; tells what became of each.
    pub async fn join_all<T: DeserializeOwned>(
        &self,
        children: impl IntoIterator<Item = Child<T>>,
    ) -> Result<Vec<Result<T, Error>>, Error> {
        let children: Vec<_> = children.into_iter().collect();
        let over = self.join(&children, Need::All).await?;
        Ok(over.into_iter().map(|over| over.unwrap_or_else(|| Err(not_over()))).collect())
    }

    /// Waits until one of them is over, holding nothing meanwhile; tells which, and what became of
    /// it.
    pub async fn join_any<T: DeserializeOwned>(
        &self,
        children: impl IntoIterator<Item = Child<T>>,
    ) -> Result<(usize, Result<T, Error>), Error> {
        let children: Vec<_> = children.into_iter().collect();
        let over = self.join(&children, Need::Any).await?;
        let first = over.into_iter().enumerate().find_map(|(index, over)| Some((index, over?)));
        first.ok_or_else(not_over)
    }

    /// Waits until so many of them are over, holding nothing meanwhile; tells what became of those
    /// that are, each in its place.
    pub async fn join_count<T: DeserializeOwned>(
        &self,
        count: u32,
        children: impl IntoIterator<Item = Child<T>>,
    ) -> Result<Vec<Option<Result<T, Error>>>, Error> {
        let children: Vec<_> = children.into_iter().collect();
        self.join(&children, Need::Count(count)).await
    }

    async fn join<T: DeserializeOwned>(
        &self,
        children: &[Child<T>],
        need: Need,
    ) -> Result<Vec<Option<Result<T, Error>>>, Error> {
        if children.is_empty() {
            return Ok(vec![]);
        }
        let occurrence = self.occurrence("join");
        let ids: Vec<_> = children.iter().map(|child| child.id).collect();
        let over: Vec<Option<Bound>> = match self.recorded("join", occurrence, "join")? {
            Some(recorded) => Vec::from_input(recorded)?,
            None => {
                let of = ids.clone();
                let found = self.wait(Wait::Children { of, need }, |memory| {
                    // Taken along, because they may be waited for again when more of them are over.
                    let told = |id: &ExecutionId| memory.waits.children.remove_entry(id);
                    let over: Vec<_> = ids.iter().filter_map(told).collect();
                    (!over.is_empty()).then_some(over)
                });
                let found = found.await;
                let of_id = |id: &ExecutionId| {
                    let bound = found.iter().find(|(one, _)| one == id).map(|(_, bound)| bound);
                    bound.filter(|bound| bound.status.is_terminal()).cloned()
                };
                let over: Vec<_> = ids.iter().map(of_id).collect();
                let recorded = self.record("join", occurrence, "join", over.into_output()?).await?;
                Vec::from_input(recorded)?
            }
        };
        let mut results = Vec::with_capacity(over.len());
        for bound in over {
            results.push(match bound {
                Some(bound) => Some(self.result_of(bound).await?),
                None => None,
            });
        }
        Ok(results)
    }

    async fn result_of<T: DeserializeOwned>(
        &self,
        bound: Bound,
    ) -> Result<Result<T, Error>, Error> {
        let Bound { execution, status, result, message, left_out } = bound;
        if status != Status::Completed {
            let why = message.unwrap_or_default();
            let told = format!("execution {execution} ended {status}: {why}");
            return Ok(Err(Error::permanent(told).category("child")));
        }
        let result = match left_out {
            true => {
                let namespace = self.here();
                self.0.calls.ask(GetResult { namespace, execution }).await?.result
            }
            false => result,
        };
        Ok(T::from_input(result.unwrap_or_default()))
    }

    /// Submits a flow of its own, once, however often the handler runs.
    pub async fn submit_flow(&self, flow: NewFlow) -> Result<FlowId, Error> {
        let name = "submit_flow";
        let occurrence = self.occurrence(name);
        if let Some(recorded) = self.recorded(name, occurrence, "flow")? {
            return FlowId::from_input(recorded);
        }
        let key = flow.key.clone();
        let key = key.unwrap_or_else(|| self.idempotency_key(&format!("{name} {occurrence}")));
        let flow = NewFlow { key: Some(key), ..flow };
        let submitted = self.apply(SubmitFlow { namespace: self.here(), flow }).await?;
        let recorded = self.record(name, occurrence, "flow", submitted.id.into_output()?).await?;
        FlowId::from_input(recorded)
    }
}

fn not_over() -> Error {
    Error::retry("a child that should be over is not")
}

impl<T> SpawnCall<T> {
    fn with(mut self, change: impl Fn(NewExecution) -> NewExecution) -> Self {
        self.children = self.children.map(|all| all.into_iter().map(change).collect());
        self
    }

    /// Into that queue.
    pub fn lane(self, lane: impl Into<String>) -> Self {
        let lane = lane.into();
        self.with(|child| child.lane(&lane))
    }

    /// 0 to 9000, higher first.
    pub fn priority(self, priority: i32) -> Self {
        self.with(|child| child.priority(priority))
    }

    /// With a label.
    pub fn tag(self, key: impl Into<String>, value: impl Into<String>) -> Self {
        let (key, value) = (key.into(), value.into());
        self.with(|child| child.tag(&key, &value))
    }

    /// Treated so.
    pub fn policy(self, policy: &Policy) -> Self {
        self.with(|child| child.policy(policy.clone()))
    }

    async fn make(self) -> Result<Vec<Child<T>>, Error> {
        let Self { ctx, step, occurrence, children, .. } = self;
        if let Some(recorded) = ctx.recorded(&step, occurrence, "spawn")? {
            let ids = Vec::<ExecutionId>::from_input(recorded)?;
            return Ok(ids.into_iter().map(Child::new).collect());
        }
        let children = children?;
        if children.is_empty() {
            return Ok(vec![]);
        }
        let name = |index: usize| format!("{}-{occurrence}-{index:06}", step.replace(' ', "-"));
        let nodes = children.into_iter().enumerate();
        let nodes: Vec<_> = nodes.map(|(index, child)| NewNode::new(name(index), child)).collect();
        let count = nodes.len();
        let spawn = Spawn {
            namespace: ctx.here(),
            lease: ctx.lease(),
            step: format!("{step} {occurrence}"),
            nodes,
            into: SpawnInto::New,
        };
        let made = ctx.apply(spawn).await?.nodes;
        let ids: Vec<_> = (0..count).filter_map(|index| made.get(&name(index)).copied()).collect();
        let recorded = ctx.record(&step, occurrence, "spawn", ids.into_output()?).await?;
        let ids = Vec::<ExecutionId>::from_input(recorded)?;
        Ok(ids.into_iter().map(Child::new).collect())
    }
}

impl<T: 'static> IntoFuture for SpawnCall<T> {
    type Output = Result<Vec<Child<T>>, Error>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.make())
    }
}

impl<T> SpawnCall<T> {
    /// Makes just one.
    pub async fn one(self) -> Result<Child<T>, Error> {
        let made = self.make().await?;
        made.first().copied().ok_or_else(|| Error::permanent("nothing was made"))
    }
}
