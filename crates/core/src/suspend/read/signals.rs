//! The signals that came to an execution.

use serde::{Deserialize, Serialize};

use crate::command::{Context, Query};
use crate::event::default_page;
use crate::lease::load;
use crate::model::{
    Approval, Error, Execution, ExecutionId, Limits, Payload, Result, Signal, SignalId, Suspension,
    SuspensionEnd, Timestamp, TokenTrace, default_name,
};
use crate::page::{check_page, cut, fitting};
use crate::store::Read;

/// A signal as a reader sees it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SignalView {
    /// Its name for everyone.
    pub id: SignalId,
    /// 1, 2, 3 … among the execution's.
    pub seq: u32,
    /// When it came.
    pub at: Timestamp,
    /// Its name.
    pub name: String,
    /// Who sent it.
    pub source: String,
    /// The key of the waitpoint it came to; none if it came to the execution itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waitpoint: Option<String>,
    /// What connects it with others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub correlation: Option<String>,
    /// The token it was sent with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<TokenTrace>,
    /// What it says about an approval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval: Option<Approval>,
    /// The suspension that took it; none while it is kept for one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suspension: Option<u32>,
    /// Whether it brought that suspension's condition on.
    pub counted: bool,
    /// Bytes of its payload.
    pub size: u64,
    /// Its payload; absent when the answer would have become too large, then a page that begins
    /// with it has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload: Option<Payload>,
}

/// Why an execution goes on, and what came while it waited.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Resumption {
    /// Which of its suspensions is over.
    pub suspension: u32,
    /// The key it was suspended under.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// What ended it.
    #[serde(flatten)]
    pub end: SuspensionEnd,
    /// The signals it took, in the order they came.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub signals: Vec<SignalView>,
    /// Whether it took more than these: [`ObserveSignals`] has the rest.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub more: bool,
}

/// Why an execution that is being claimed goes on, as far as the answer has room.
pub(crate) fn resumption(
    read: &mut dyn Read,
    execution: &Execution,
    room: &mut usize,
) -> Result<Option<Resumption>> {
    if !execution.beside.mail {
        return Ok(None);
    }
    let last = read.suspension(execution.row, None)?;
    let last = last.filter(|last| last.run == execution.run && last.course.end.is_some());
    last.map(|last| resumption_of(read, execution, last, room)).transpose().map(Option::flatten)
}

/// What came in a suspension that is over.
pub(in crate::suspend) fn received(
    read: &mut dyn Read,
    cx: &Context,
    execution: &Execution,
    suspension: Suspension,
) -> Result<Resumption> {
    let mut room = cx.limits().batch_bytes;
    let resumption = resumption_of(read, execution, suspension, &mut room)?;
    resumption.ok_or_else(|| Error::bug("a suspension of an active execution is open"))
}

fn resumption_of(
    read: &mut dyn Read,
    execution: &Execution,
    suspension: Suspension,
    room: &mut usize,
) -> Result<Option<Resumption>> {
    let Suspension { number, key, course, .. } = suspension;
    let Some(end) = course.end else { return Ok(None) };
    let mut taken = read.taken_signals(execution.row, number, 0, Limits::PAGE + 1)?;
    let more = cut(&mut taken, Limits::PAGE, |_| ()).is_some();
    let signals = with_payloads(read, taken, room)?;
    Ok(Some(Resumption { suspension: number, key, end, signals, more }))
}

/// Signals with their payloads, as far as there is room for these.
fn with_payloads(
    read: &mut dyn Read,
    signals: Vec<Signal>,
    room: &mut usize,
) -> Result<Vec<SignalView>> {
    let fit = fitting(signals.iter().map(|signal| signal.facts.size), room);
    let seqs: Vec<u32> = signals[..fit].iter().map(|signal| signal.seq).collect();
    let mut payloads = match signals.first() {
        Some(first) if fit > 0 => read.signal_payloads(first.execution, &seqs)?,
        _ => vec![],
    }
    .into_iter();
    Ok(signals.into_iter().map(|signal| view(signal, payloads.next())).collect())
}

fn view(signal: Signal, payload: Option<Payload>) -> SignalView {
    let Signal { seq, id, facts, taken, .. } = signal;
    SignalView {
        id,
        seq,
        at: facts.at,
        name: facts.name,
        source: facts.source,
        waitpoint: facts.waitpoint,
        correlation: facts.correlation,
        token: facts.token,
        approval: facts.approval,
        suspension: taken.map(|taken| taken.suspension),
        counted: taken.is_some_and(|taken| taken.counted),
        size: facts.size,
        payload,
    }
}

/// Reads the signals that one of an execution's suspensions has taken: its last one's when none
/// is named.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ObserveSignals {
    /// Where the execution belongs.
    #[serde(default = "default_name")]
    pub namespace: String,
    /// Which execution.
    pub execution: ExecutionId,
    /// Which of its suspensions; the last one when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suspension: Option<u32>,
    /// Read on after this one.
    #[serde(default)]
    pub after: u32,
    /// How many at most.
    #[serde(default = "default_page")]
    pub limit: usize,
}

impl ObserveSignals {
    /// What the last suspension has taken.
    pub fn new(execution: ExecutionId) -> Self {
        Self {
            namespace: default_name(),
            execution,
            suspension: None,
            after: 0,
            limit: default_page(),
        }
    }
}

/// A page of signals.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SignalPage {
    /// The signals, in the order they came.
    pub signals: Vec<SignalView>,
    /// Read on after this one; absent at the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<u32>,
}

impl SignalPage {
    fn of(
        read: &mut dyn Read,
        cx: &Context,
        mut signals: Vec<Signal>,
        limit: usize,
    ) -> Result<Self> {
        let next = cut(&mut signals, limit, |last| last.seq);
        let mut room = cx.limits().batch_bytes;
        Ok(Self { signals: with_payloads(read, signals, &mut room)?, next })
    }
}

impl Query for ObserveSignals {
    const NAME: &'static str = "observe_signals";
    type Output = SignalPage;

    fn run(&self, read: &mut dyn Read, cx: &Context) -> Result<SignalPage> {
        check_page(self.limit)?;
        let execution = load(read, &self.namespace, self.execution)?;
        if !execution.beside.mail {
            return Ok(SignalPage::default());
        }
        let Some(suspension) = read.suspension(execution.row, self.suspension)? else {
            return match self.suspension {
                None => Ok(SignalPage::default()),
                Some(number) => {
                    let place = format!("{number} of execution {}", execution.id);
                    Err(Error::not_found("suspension", place))
                }
            };
        };
        let (number, limit) = (suspension.number, self.limit + 1);
        let taken = read.taken_signals(execution.row, number, self.after, limit)?;
        SignalPage::of(read, cx, taken, self.limit)
    }
}

/// Lists everything that was ever delivered to an execution: what suspensions took, what they
/// ignored, and what is kept.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ListSignals {
    /// Where the execution belongs.
    #[serde(default = "default_name")]
    pub namespace: String,
    /// Which execution.
    pub execution: ExecutionId,
    /// Read on after this one.
    #[serde(default)]
    pub after: u32,
    /// How many at most.
    #[serde(default = "default_page")]
    pub limit: usize,
}

impl ListSignals {
    /// The first page.
    pub fn new(execution: ExecutionId) -> Self {
        Self { namespace: default_name(), execution, after: 0, limit: default_page() }
    }
}

impl Query for ListSignals {
    const NAME: &'static str = "list_signals";
    type Output = SignalPage;

    fn run(&self, read: &mut dyn Read, cx: &Context) -> Result<SignalPage> {
        check_page(self.limit)?;
        let execution = load(read, &self.namespace, self.execution)?;
        let signals = read.signals(execution.row, self.after, self.limit + 1)?;
        SignalPage::of(read, cx, signals, self.limit)
    }
}
