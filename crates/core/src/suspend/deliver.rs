//! Delivering a signal.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::json;

use super::current;
use super::resume::{Why, resume};
use super::token::{Token, verify};
use super::waitpoint::{WaitpointName, has_expired};
use crate::cancel::{already_terminal, operator};
use crate::command::{Command, Context};
use crate::event::{EventKind, log};
use crate::lease::load;
use crate::model::{
    Approval, Cause, Check, CloseReason, Code, EndedBy, Error, Execution, ExecutionId, Limits,
    Offered, Payload, Result, Signal, SignalFacts, SignalId, State, Status, Suspension,
    TakenSignal, TokenTrace, Waitpoint, WaitpointId, WaitpointState, default_name, duration_ms,
};
use crate::store::{Read, Tx};

/// Delivers a signal to an execution, or to one of its waitpoints.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeliverSignal {
    /// Where the execution belongs.
    #[serde(default = "default_name")]
    pub namespace: String,
    /// Which execution.
    pub execution: ExecutionId,
    /// Where it goes.
    #[serde(default)]
    pub to: SignalTo,
    /// Its name, by which conditions tell signals apart.
    pub name: String,
    /// Who sends it; `operator` when absent. With a token, the token is the sender.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// What it says.
    #[serde(default, skip_serializing_if = "Payload::is_empty")]
    pub payload: Payload,
    /// What connects it with others, for its readers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub correlation: Option<String>,
    /// Delivering again under the same key does nothing, also after the execution has gone on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// After how long the execution goes on, if this signal lets it. Not with a token, whose bearer
    /// answers and decides nothing else.
    #[serde(rename = "resume_delay_ms", with = "duration_ms")]
    #[serde(default, skip_serializing_if = "Duration::is_zero")]
    pub resume_delay: Duration,
}

impl DeliverSignal {
    /// A signal to the execution itself, from an operator and without payload.
    pub fn new(execution: ExecutionId, name: impl Into<String>) -> Self {
        Self {
            namespace: default_name(),
            execution,
            to: SignalTo::Execution,
            name: name.into(),
            source: None,
            payload: Payload::default(),
            correlation: None,
            key: None,
            resume_delay: Duration::ZERO,
        }
    }
}

/// Where a signal goes. Only a token comes from outside; whoever names a place otherwise has the
/// authority to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SignalTo {
    /// To the execution itself.
    #[default]
    Execution,
    /// To the waitpoint the token was made for.
    Token(Token),
    /// To a waitpoint.
    Waitpoint(WaitpointName),
}

/// A signal was delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delivered {
    /// The signal; the first one's, when it is a duplicate.
    pub signal: SignalId,
    /// What it did.
    #[serde(flatten)]
    pub effect: Effect,
}

/// What a signal did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "effect", rename_all = "snake_case")]
pub enum Effect {
    /// The condition is met: the execution goes on.
    Resumed {
        /// The state it is in now.
        status: Status,
    },
    /// It counts, and more is needed.
    Recorded,
    /// It is kept until something waits for it.
    Buffered,
    /// It had come before under the same key.
    Duplicate,
    /// It is on record, and the condition does not heed it.
    Ignored {
        /// Why not.
        why: Offered,
    },
}

impl Command for DeliverSignal {
    const NAME: &'static str = "deliver_signal";
    type Output = Delivered;

    fn apply(&self, tx: &mut dyn Tx, cx: &Context) -> Result<Delivered> {
        let mut check = Check::default();
        check.name("name", &self.name);
        if let Some(source) = &self.source {
            check_source(&mut check, "source", source, &self.to);
        }
        if let Some(correlation) = &self.correlation {
            check.key("correlation", correlation);
        }
        let delivery = Delivery {
            namespace: &self.namespace,
            execution: self.execution,
            to: &self.to,
            name: &self.name,
            source: self.source.as_deref(),
            payload: &self.payload,
            correlation: self.correlation.as_deref(),
            key: self.key.as_deref(),
            resume_delay: self.resume_delay,
            approval: None,
        };
        delivery.apply(tx, cx, check)
    }
}

/// What the sources of those who come with a token begin with.
const BEARER: &str = "token:";

/// Checks a sender's name: nobody can pass for the bearer of a token, and those who come with one
/// can not pass for anyone else.
pub(super) fn check_source(check: &mut Check, field: &str, source: &str, to: &SignalTo) {
    check.name(field, source);
    check.that(!source.starts_with(BEARER), field, || {
        format!("must not begin with `{BEARER}`: that stands for those who come with a token")
    });
    check.that(!matches!(to, SignalTo::Token(_)), field, || {
        "leave it out with a token: the token says who sends it".into()
    });
}

/// A signal of any sort on its way.
pub(super) struct Delivery<'a> {
    pub(super) namespace: &'a str,
    pub(super) execution: ExecutionId,
    pub(super) to: &'a SignalTo,
    pub(super) name: &'a str,
    pub(super) source: Option<&'a str>,
    pub(super) payload: &'a Payload,
    pub(super) correlation: Option<&'a str>,
    pub(super) key: Option<&'a str>,
    pub(super) resume_delay: Duration,
    pub(super) approval: Option<Approval>,
}

/// Where a signal has arrived.
struct Arrival {
    execution: Execution,
    waitpoint: Option<Waitpoint>,
    trace: Option<TokenTrace>,
}

impl Delivery<'_> {
    pub(super) fn apply(
        &self,
        tx: &mut dyn Tx,
        cx: &Context,
        mut check: Check,
    ) -> Result<Delivered> {
        check.payload("payload", self.payload, cx.limits());
        if let Some(key) = self.key {
            check.key("key", key);
        }
        check.duration("resume_delay_ms", self.resume_delay, Duration::ZERO, Limits::DURATION_MAX);
        let by_token = matches!(self.to, SignalTo::Token(_));
        check.that(self.resume_delay.is_zero() || !by_token, "resume_delay_ms", || {
            "leave it out with a token: only callers without one say when the execution goes on"
                .into()
        });
        check.finish()?;
        let mut arrival = self.arrive(tx, cx)?;
        // Asked for together with the key, and looked at after it: a signal that has come is a
        // duplicate also when its waitpoint is gone.
        let named = match self.to {
            SignalTo::Waitpoint(name) => Some(name.find(tx, &arrival.execution)),
            SignalTo::Execution | SignalTo::Token(_) => None,
        };
        let key = self.key.map(|key| scoped(key, &arrival));
        if let Some(key) = key.as_ref().filter(|_| arrival.execution.beside.mail)
            && let Some(first) = tx.signal_by_key(arrival.execution.row, key)?
        {
            return Ok(Delivered { signal: first.id, effect: Effect::Duplicate });
        }
        if let Some(named) = named {
            arrival.waitpoint = Some(named?);
        }
        self.expect_open(cx, &arrival)?;
        let signal = self.signal(tx, cx, &arrival, key)?;
        let suspension = waiting(tx, &arrival)?;
        self.expect_role(&arrival, suspension.as_ref())?;
        self.take(tx, cx, arrival, signal, suspension)
    }

    /// Finds the execution, and the waitpoint of a token after that was found to be good.
    fn arrive(&self, tx: &mut dyn Tx, cx: &Context) -> Result<Arrival> {
        let (waitpoint, trace, execution) = match self.to {
            SignalTo::Execution | SignalTo::Waitpoint(_) => {
                (None, None, load(tx, self.namespace, self.execution)?)
            }
            SignalTo::Token(token) => {
                let good = verify(tx, cx, self.namespace, self.execution, token)?;
                let (execution, waitpoint) = self.bearer(tx, good.waitpoint)?;
                good.expect_token_of(&waitpoint)?;
                (Some(waitpoint), Some(good.trace), execution)
            }
        };
        Ok(Arrival { execution, waitpoint, trace })
    }

    /// What a good token was made for; all of it may have been removed since.
    fn bearer(&self, tx: &mut dyn Tx, id: WaitpointId) -> Result<(Execution, Waitpoint)> {
        let execution = load(tx, self.namespace, self.execution);
        let found = match execution {
            Err(error) if error.code() == Code::NotFound => None,
            execution => {
                let execution = execution?;
                let waitpoint = match execution.beside.mail {
                    true => tx.waitpoint(execution.row, id)?,
                    false => None,
                };
                waitpoint.map(|waitpoint| (execution, waitpoint))
            }
        };
        found.ok_or_else(|| closed("was removed with its execution", "deleted"))
    }

    fn expect_open(&self, cx: &Context, arrival: &Arrival) -> Result<()> {
        match &arrival.waitpoint {
            Some(waitpoint) => match &waitpoint.state {
                WaitpointState::Closed { why, .. } => Err(closed(told(why), why.as_str())),
                _ if has_expired(waitpoint, cx) => {
                    let why = CloseReason::Expired;
                    Err(closed(told(&why), why.as_str()))
                }
                WaitpointState::Pending | WaitpointState::Active { .. } => Ok(()),
            },
            None if arrival.execution.status().is_terminal() => {
                Err(already_terminal(&arrival.execution))
            }
            None => Ok(()),
        }
    }

    fn signal(
        &self,
        tx: &mut dyn Tx,
        cx: &Context,
        arrival: &Arrival,
        key: Option<String>,
    ) -> Result<Signal> {
        let Arrival { execution, waitpoint, trace } = arrival;
        let last = match execution.beside.mail {
            true => tx.last_signal(execution.row)?,
            false => 0,
        };
        if last as usize >= Limits::SIGNALS {
            return Err(Error::new(
                Code::TooLarge,
                format!("execution {} has had {last} signals, as many as it may", execution.id),
            ));
        }
        if let (Some(waitpoint), Some(_)) = (waitpoint, trace)
            && waitpoint.borne >= Limits::TOKEN_SIGNALS
        {
            return Err(Error::new(
                Code::TooLarge,
                format!("{} signals came by this token, as many as may", waitpoint.borne),
            ));
        }
        let source = match (waitpoint, trace) {
            (Some(waitpoint), Some(_)) => format!("{BEARER}{}", waitpoint.id),
            _ => self.source.map_or_else(operator, str::to_owned),
        };
        Ok(Signal {
            execution: execution.row,
            seq: last + 1,
            id: cx.signal_id(),
            waitpoint: waitpoint.as_ref().map(|waitpoint| waitpoint.id),
            key,
            run: execution.run,
            facts: SignalFacts {
                at: cx.now,
                name: self.name.to_owned(),
                source,
                waitpoint: waitpoint.as_ref().map(|waitpoint| waitpoint.key.clone()),
                correlation: self.correlation.map(str::to_owned),
                token: trace.clone(),
                approval: self.approval.clone(),
                size: self.payload.bytes.len() as u64,
            },
            taken: None,
        })
    }

    /// Refuses an approval by someone who is not asked.
    fn expect_role(&self, arrival: &Arrival, suspension: Option<&Suspension>) -> Result<()> {
        let (Some(approval), Some(suspension), Some(waitpoint), None) =
            (&self.approval, suspension, &arrival.waitpoint, &arrival.trace)
        else {
            return Ok(());
        };
        let asked = suspension.terms.condition.roles_at(&waitpoint.key);
        let has = |role: &Option<&str>| {
            role.is_none_or(|role| approval.roles.iter().any(|has| has == role))
        };
        if asked.is_empty() || asked.iter().any(has) {
            return Ok(());
        }
        let asked: Vec<_> = asked.into_iter().flatten().collect();
        Err(Error::new(
            Code::Forbidden,
            format!("`{}` asks for the role {}", waitpoint.key, asked.join(" or ")),
        )
        .with_field("roles"))
    }

    /// Puts the signal on record, and lets the condition see it if something waits for it.
    fn take(
        &self,
        tx: &mut dyn Tx,
        cx: &Context,
        arrival: Arrival,
        mut signal: Signal,
        suspension: Option<Suspension>,
    ) -> Result<Delivered> {
        let Arrival { mut execution, waitpoint, trace } = arrival;
        let id = signal.id;
        let mut effect = Effect::Buffered;
        let mut met = None;
        if let Some(mut suspension) = suspension {
            let condition = &suspension.terms.condition;
            let offered = suspension.course.tally.offer(condition, signal.facts.offer());
            let counted = offered.has_counted();
            if counted || signal.waitpoint.is_some() {
                let number = suspension.number;
                signal.taken = Some(TakenSignal { suspension: number, counted });
                effect = match counted {
                    true => Effect::Recorded,
                    false => Effect::Ignored { why: offered },
                };
            }
            if counted && suspension.course.tally.is_met(condition) {
                met = Some(suspension);
            } else if counted {
                tx.save_suspension(&suspension)?;
            }
        }
        tx.add_signal(&signal, self.payload)?;
        let first = !execution.beside.mail;
        execution.beside.mail = true;
        // A waitpoint that is about to close counts no more.
        if let (Some(mut waitpoint), Some(_), None) = (waitpoint, trace, &met) {
            waitpoint.borne += 1;
            tx.save_waitpoint(&waitpoint)?;
        }
        self.log(tx, cx, &execution, &signal, met.is_some(), effect)?;
        if let Some(suspension) = met {
            let why = Why {
                by: EndedBy::Signal { signal: id },
                close: CloseReason::Satisfied,
                cause: Cause::Signal,
                delay: self.resume_delay,
            };
            resume(tx, cx, &mut execution, suspension, why)?;
            // A member whose flow is being closed ends instead.
            if !execution.status().is_terminal() {
                effect = Effect::Resumed { status: execution.status() };
            }
        } else if first {
            tx.save(&execution)?;
        }
        Ok(Delivered { signal: id, effect })
    }

    fn log(
        &self,
        tx: &mut dyn Tx,
        cx: &Context,
        execution: &Execution,
        signal: &Signal,
        met: bool,
        effect: Effect,
    ) -> Result<()> {
        let SignalFacts { name, source, waitpoint, correlation, token, approval, .. } =
            &signal.facts;
        let effect = match effect {
            _ if met => "resumed",
            Effect::Recorded | Effect::Resumed { .. } => "recorded",
            Effect::Buffered => "buffered",
            Effect::Duplicate => "duplicate",
            Effect::Ignored { .. } => "ignored",
        };
        let data = json!({
            "signal": signal.id,
            "name": name,
            "source": source,
            "waitpoint": waitpoint,
            "correlation": correlation,
            "token": token,
            "approval": approval,
            "suspension": signal.taken.map(|taken| taken.suspension),
            "effect": effect,
        });
        log(tx, cx, execution, EventKind::SignalDelivered, None, Some(data))
    }
}

/// The suspension that hears what arrives here.
fn waiting(read: &mut dyn Read, arrival: &Arrival) -> Result<Option<Suspension>> {
    let State::Suspended(suspended) = &arrival.execution.state else { return Ok(None) };
    let heard = match &arrival.waitpoint {
        None => true,
        Some(waitpoint) => matches!(
            waitpoint.state,
            WaitpointState::Active { suspension, .. } if suspension == suspended.number
        ),
    };
    heard.then(|| current(read, &arrival.execution, suspended)).transpose()
}

/// A key that whoever bears a token can only use among those of its waitpoint.
fn scoped(key: &str, arrival: &Arrival) -> String {
    match (&arrival.waitpoint, &arrival.trace) {
        (Some(waitpoint), Some(_)) => format!("{}/{key}", waitpoint.id),
        _ => format!("/{key}"),
    }
}

fn told(why: &CloseReason) -> &'static str {
    match why {
        CloseReason::Satisfied => "has what it waited for",
        CloseReason::Resumed => "closed when an operator resumed the execution",
        CloseReason::TimedOut => "closed when its time was over",
        CloseReason::Ended => "closed when its execution ended",
        CloseReason::Expired => "has expired",
        CloseReason::ByHand { .. } => "was closed by hand",
    }
}

fn closed(told: &str, why: &str) -> Error {
    Error::new(Code::Closed, format!("the waitpoint {told}; it takes no more signals"))
        .with_details(json!({ "why": why }))
}
