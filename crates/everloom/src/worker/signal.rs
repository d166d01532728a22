//! Waiting for signals, for other systems and for people.

use std::future::IntoFuture;
use std::marker::PhantomData;
use std::time::Duration;

use everloom_core::{
    Approval, Condition, CreateWaitpoint, ListSignals, Payload, SignalView, SuspendReason, Ticket,
    Timestamp,
};
use serde::{Deserialize, Serialize};

use super::ctx::{Ctx, Memory};
use super::park::Wait;
use crate::backend::BoxFuture;
use crate::handler::{Error, FromInput, IntoOutput};

/// What is recorded when nothing came in time.
const NOTHING: &str = "application/vnd.everloom.nothing";

/// A wait for a signal: await it.
#[must_use = "nothing is waited for until this is awaited"]
pub struct SignalWait<T> {
    ctx: Ctx,
    name: String,
    occurrence: u32,
    condition: Condition,
    reason: SuspendReason,
    /// Whether signals to the waitpoint of that name are meant, or to the execution itself.
    waitpoint: bool,
    value: PhantomData<fn() -> T>,
}

impl Ctx {
    /// Waits for a signal of that name to the execution, holding nothing meanwhile. One that came
    /// early counts.
    ///
    /// ```
    /// # use everloom::handler::Error;
    /// # use everloom::Ctx;
    /// # use std::time::Duration;
    /// async fn order(ctx: Ctx, _: u64) -> Result<String, Error> {
    ///     match ctx.wait_for::<u64>("paid").within(Duration::from_secs(86_400)).await? {
    ///         Some(cents) => Ok(format!("paid {cents}")),
    ///         None => Ok("never paid".to_owned()),
    ///     }
    /// }
    /// ```
    pub fn wait_for<T: FromInput>(&self, name: impl Into<String>) -> SignalWait<T> {
        let name = name.into();
        SignalWait {
            ctx: self.clone(),
            occurrence: self.occurrence(&name),
            condition: Condition::signal().named(&name),
            reason: SuspendReason::WaitingForSignal,
            waitpoint: false,
            name,
            value: PhantomData,
        }
    }

    /// A place where another system can answer, with a token that lets it. Asking again for the
    /// same one, in this or a later attempt, gives the same token.
    pub async fn callback(&self, key: impl Into<String>) -> Result<Callback, Error> {
        let key = key.into();
        let create = CreateWaitpoint {
            namespace: self.here(),
            ..CreateWaitpoint::new(self.lease(), key.clone())
        };
        let occurrence = self.occurrence(&key);
        let ticket = match self.recorded(&key, occurrence, "signal")? {
            // It has answered, and its waitpoint has closed.
            Some(_) => None,
            None => Some(self.apply(create).await?.ticket),
        };
        Ok(Callback { ctx: self.clone(), key, occurrence, ticket })
    }

    /// Asks people for approval, and waits for their answer, holding nothing meanwhile.
    pub fn approval(&self, key: impl Into<String>) -> ApprovalWait {
        let key = key.into();
        ApprovalWait {
            ctx: self.clone(),
            occurrence: self.occurrence(&key),
            key,
            approvers: 1,
            rejections: 1,
            role: None,
        }
    }
}

/// A place where another system can answer.
pub struct Callback {
    ctx: Ctx,
    key: String,
    occurrence: u32,
    ticket: Option<Ticket>,
}

impl Callback {
    /// What the other system presents; nothing if it has answered.
    pub fn ticket(&self) -> Option<&Ticket> {
        self.ticket.as_ref()
    }

    /// Waits for the answer.
    pub fn answer<T: FromInput>(self) -> SignalWait<T> {
        SignalWait {
            occurrence: self.occurrence,
            ctx: self.ctx,
            condition: Condition::at(&self.key),
            reason: SuspendReason::WaitingForCallback,
            waitpoint: true,
            name: self.key,
            value: PhantomData,
        }
    }
}

impl<T: FromInput + 'static> SignalWait<T> {
    /// Waits no longer than this: then nothing has come.
    pub fn within(self, longest: Duration) -> BoxFuture<'static, Result<Option<T>, Error>> {
        Box::pin(async move {
            let until = self.ctx.now() + longest;
            let came = self.receive(Some(until)).await?;
            came.map(T::from_input).transpose()
        })
    }

    async fn receive(self, until: Option<Timestamp>) -> Result<Option<Payload>, Error> {
        let Self { ctx, name, occurrence, condition, reason, waitpoint, .. } = self;
        if let Some(recorded) = ctx.recorded(&name, occurrence, "signal")? {
            return Ok(Some(recorded).filter(|recorded| recorded.content_type != NOTHING));
        }
        let until = match until {
            Some(until) => {
                let deadline = format!("{name} in time");
                Some(ctx.recorded_time(&deadline, occurrence, until).await?)
            }
            None => None,
        };
        let take = |memory: &mut Memory| {
            memory.waits.take_signal(|signal| match waitpoint {
                true => signal.waitpoint.as_deref() == Some(&name),
                false => signal.waitpoint.is_none() && signal.name == name,
            })
        };
        let now = ctx.now();
        let came = match until {
            Some(until) if until <= now => take(&mut ctx.memory()),
            Some(until) => tokio::select! {
                biased;
                signal = ctx.wait(Wait::Signal(condition, reason), take) => Some(signal),
                () = ctx.wait(Wait::Time(until), |_| None) => None,
            },
            None => Some(ctx.wait(Wait::Signal(condition, reason), take).await),
        };
        let result = match came {
            Some(signal) => ctx.payload_of(signal).await?,
            None => Payload { content_type: NOTHING.into(), bytes: vec![] },
        };
        let recorded = ctx.record(&name, occurrence, "signal", result).await?;
        Ok(Some(recorded).filter(|recorded| recorded.content_type != NOTHING))
    }
}

impl<T: FromInput + 'static> IntoFuture for SignalWait<T> {
    type Output = Result<T, Error>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let came = self.receive(None).await?;
            T::from_input(came.unwrap_or_default())
        })
    }
}

/// A wait for people's approval: await it.
#[must_use = "nobody is asked until this is awaited"]
pub struct ApprovalWait {
    ctx: Ctx,
    key: String,
    occurrence: u32,
    approvers: u32,
    rejections: u32,
    role: Option<String>,
}

/// What people answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Decision {
    /// Whether enough of them approved.
    pub approved: bool,
    /// What each of them said, by name; the last word counts.
    pub answers: Vec<(String, Approval)>,
}

impl ApprovalWait {
    /// So many different people must approve.
    pub fn by(mut self, approvers: u32) -> Self {
        self.approvers = approvers;
        self
    }

    /// People of that role.
    pub fn role(mut self, role: impl Into<String>) -> Self {
        self.role = Some(role.into());
        self
    }

    /// So many rejections settle it; one by default, and with 0 none does.
    pub fn rejections(mut self, rejections: u32) -> Self {
        self.rejections = rejections;
        self
    }

    async fn decide(self) -> Result<Decision, Error> {
        let Self { ctx, key, occurrence, approvers, rejections, role } = self;
        if let Some(recorded) = ctx.recorded(&key, occurrence, "approval")? {
            return Decision::from_input(recorded);
        }
        let condition = Condition::Approval { waitpoint: key.clone(), approvers, rejections, role };
        let all = |memory: &mut Memory| {
            let signals = memory.waits.take_signals(|signal| {
                signal.waitpoint.as_deref() == Some(&key) && signal.approval.is_some()
            });
            (!signals.is_empty()).then_some(signals)
        };
        let wait = Wait::Signal(condition, SuspendReason::WaitingForApproval);
        let signals = ctx.wait(wait, all).await;
        let mut answers = Vec::<(String, Approval)>::new();
        for signal in signals {
            let Some(approval) = signal.approval else { continue };
            answers.retain(|(who, _)| *who != signal.source);
            answers.push((signal.source, approval));
        }
        let yes = answers.iter().filter(|(_, approval)| approval.approved).count();
        let approved = u32::try_from(yes).is_ok_and(|yes| yes >= approvers);
        let decision = Decision { approved, answers }.into_output()?;
        Decision::from_input(ctx.record(&key, occurrence, "approval", decision).await?)
    }
}

impl IntoFuture for ApprovalWait {
    type Output = Result<Decision, Error>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.decide())
    }
}

impl Ctx {
    /// What a signal brought, wherever it is.
    async fn payload_of(&self, signal: SignalView) -> Result<Payload, Error> {
        if let Some(payload) = signal.payload {
            return Ok(payload);
        }
        let list = ListSignals {
            namespace: self.here(),
            after: signal.seq - 1,
            limit: 1,
            ..ListSignals::new(self.id())
        };
        let found = self.0.calls.ask(list).await?.signals.pop();
        Ok(found.and_then(|signal| signal.payload).unwrap_or_default())
    }
}
