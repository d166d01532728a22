//! What waits, what came, and who answered.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::command::{Context, Query};
use crate::event::default_page;
use crate::lease::load;
use crate::model::{
    Approval, Check, Condition, Execution, ExecutionId, Fingerprint, Limits, Payload, Result,
    Signal, SignalId, SuspendReason, Suspension, SuspensionEnd, SuspensionTerms, Tally, Timestamp,
    TokenTrace, Waitpoint, WaitpointId, WaitpointState, default_name,
};
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
pub(super) fn received(
    read: &mut dyn Read,
    cx: &Context,
    execution: &Execution,
    suspension: Suspension,
) -> Result<Resumption> {
    let mut room = cx.limits().batch_bytes;
    let resumption = resumption_of(read, execution, suspension, &mut room)?;
    resumption
        .ok_or_else(|| crate::model::Error::bug("a suspension of an active execution is open"))
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
    let more = taken.len() > Limits::PAGE;
    taken.truncate(Limits::PAGE);
    let signals = with_payloads(read, taken, room)?;
    Ok(Some(Resumption { suspension: number, key, end, signals, more }))
}

/// Signals with their payloads, as far as there is room for these.
fn with_payloads(
    read: &mut dyn Read,
    signals: Vec<Signal>,
    room: &mut usize,
) -> Result<Vec<SignalView>> {
    let Some(execution) = signals.first().map(|signal| signal.execution) else {
        return Ok(vec![]);
    };
    let mut fits = Vec::new();
    for signal in &signals {
        let size = usize::try_from(signal.facts.size).unwrap_or(usize::MAX);
        match room.checked_sub(size) {
            Some(left) => {
                *room = left;
                fits.push(signal.seq);
            }
            None => break,
        }
    }
    let mut payloads = read.signal_payloads(execution, &fits)?.into_iter();
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
        let more = signals.len() > limit;
        signals.truncate(limit);
        let next = signals.last().map(|last| last.seq).filter(|_| more);
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
                    Err(crate::model::Error::not_found("suspension", place))
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

fn check_page(limit: usize) -> Result<()> {
    let mut check = Check::default();
    check.page("limit", limit);
    check.finish()
}

/// Lists an execution's suspensions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ListSuspensions {
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

impl ListSuspensions {
    /// The first page.
    pub fn new(execution: ExecutionId) -> Self {
        Self { namespace: default_name(), execution, after: 0, limit: default_page() }
    }
}

/// A suspension as a reader sees it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SuspensionView {
    /// 1, 2, 3 … over all runs.
    pub number: u32,
    /// The run it belongs to.
    pub run: u32,
    /// Names it among those of the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// What was asked for.
    #[serde(flatten)]
    pub terms: SuspensionTerms,
    /// What is still waited for, in words; absent when it is over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits_for: Option<String>,
    /// When it was passed on to an operator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub escalated_at: Option<Timestamp>,
    /// How it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<SuspensionEnd>,
}

/// A page of suspensions.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SuspensionPage {
    /// The suspensions, the first one first.
    pub suspensions: Vec<SuspensionView>,
    /// Read on after this one; absent at the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<u32>,
}

impl Query for ListSuspensions {
    const NAME: &'static str = "list_suspensions";
    type Output = SuspensionPage;

    fn run(&self, read: &mut dyn Read, _: &Context) -> Result<SuspensionPage> {
        check_page(self.limit)?;
        let execution = load(read, &self.namespace, self.execution)?;
        let mut found = read.suspensions(execution.row, self.after, self.limit + 1)?;
        let more = found.len() > self.limit;
        found.truncate(self.limit);
        let next = found.last().map(|last| last.number).filter(|_| more);
        let view = |Suspension { number, run, key, terms, course, .. }| {
            let waits = course.end.is_none().then(|| course.tally.tell(&terms.condition));
            let (escalated_at, end) = (course.escalated_at, course.end);
            SuspensionView { number, run, key, terms, waits_for: waits, escalated_at, end }
        };
        Ok(SuspensionPage { suspensions: found.into_iter().map(view).collect(), next })
    }
}

/// A waitpoint as a reader sees it. Its token is not shown: only its fingerprint.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WaitpointView {
    /// Its name for everyone.
    pub id: WaitpointId,
    /// The execution.
    pub execution: ExecutionId,
    /// Which handler that has.
    pub kind: String,
    /// What conditions call it.
    pub key: String,
    /// 1, 2, 3 … among the execution's.
    pub seq: u32,
    /// What it is doing.
    #[serde(flatten)]
    pub state: WaitpointState,
    /// The signing key of its token.
    pub kid: String,
    /// By which its token can be recognised.
    pub fingerprint: Fingerprint,
    /// When it was created.
    pub created_at: Timestamp,
    /// When it closes by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
    /// Why the execution waits, if it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<SuspendReason>,
    /// What those who are to answer should know.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// When the suspension times out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_at: Option<Timestamp>,
    /// The names of signals that are waited for there; none means any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<String>,
    /// The approvals that are asked for there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub approvals: Vec<ApprovalAsked>,
}

/// An approval that is asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApprovalAsked {
    /// How many different people must approve.
    pub approvers: u32,
    /// How many rejections settle it as well; with 0 none does.
    pub rejections: u32,
    /// The role they must have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
    /// Who has spoken, and whether they approve.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub verdicts: BTreeMap<String, bool>,
}

/// The approvals a condition asks for at a waitpoint, with what was said so far.
fn asked(condition: &Condition, tally: &Tally, at: &str, found: &mut Vec<ApprovalAsked>) {
    match (condition, tally) {
        (
            Condition::Approval { waitpoint, approvers, rejections, role },
            Tally::Verdicts(verdicts),
        ) if waitpoint == at => found.push(ApprovalAsked {
            approvers: *approvers,
            rejections: *rejections,
            role: role.clone(),
            verdicts: verdicts.clone(),
        }),
        (Condition::All { of } | Condition::Any { of }, Tally::Parts(parts)) => {
            of.iter().zip(parts).for_each(|(part, tally)| asked(part, tally, at, found));
        }
        _ => {}
    }
}

/// Turns rows into views, and reads what belongs to one execution only once in a row.
#[derive(Default)]
struct Viewer {
    execution: Option<Execution>,
    suspension: Option<Suspension>,
}

impl Viewer {
    fn view(&mut self, read: &mut dyn Read, waitpoint: Waitpoint) -> Result<Option<WaitpointView>> {
        if self.execution.as_ref().is_none_or(|known| known.row != waitpoint.execution) {
            self.execution = read.execution(waitpoint.execution)?;
            self.suspension = None;
        }
        let Some(execution) = &self.execution else { return Ok(None) };
        if let WaitpointState::Active { suspension: number, .. } = waitpoint.state
            && self.suspension.as_ref().is_none_or(|known| known.number != number)
        {
            self.suspension = read.suspension(execution.row, Some(number))?;
        }
        let active = matches!(waitpoint.state, WaitpointState::Active { .. });
        let suspension = self.suspension.as_ref().filter(|_| active);
        let terms = suspension.map(|suspension| &suspension.terms);
        let mut approvals = Vec::new();
        let mut names = Vec::new();
        if let Some(Suspension { terms, course, .. }) = suspension {
            asked(&terms.condition, &course.tally, &waitpoint.key, &mut approvals);
            let wanted = terms.condition.names_at(Some(&waitpoint.key));
            names = wanted.into_iter().map(str::to_owned).collect();
        }
        let routes = read.routes(execution.namespace)?;
        let kind = routes.get(execution.route).map(|route| route.kind.clone());
        Ok(Some(WaitpointView {
            id: waitpoint.id,
            execution: execution.id,
            kind: kind.unwrap_or_default(),
            reason: terms.map(|terms| terms.reason),
            note: terms.and_then(|terms| terms.note.clone()),
            timeout_at: terms.and_then(|terms| terms.timeout_at),
            names,
            approvals,
            key: waitpoint.key,
            seq: waitpoint.seq,
            state: waitpoint.state,
            kid: waitpoint.kid,
            fingerprint: waitpoint.fingerprint,
            created_at: waitpoint.created_at,
            expires_at: waitpoint.expires_at,
        }))
    }
}

/// Lists an execution's waitpoints.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ListWaitpoints {
    /// Where the execution belongs.
    #[serde(default = "default_name")]
    pub namespace: String,
    /// Which execution.
    pub execution: ExecutionId,
    /// Closed ones too.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub closed: bool,
    /// Read on after this one.
    #[serde(default)]
    pub after: u32,
    /// How many at most.
    #[serde(default = "default_page")]
    pub limit: usize,
}

impl ListWaitpoints {
    /// The open ones.
    pub fn new(execution: ExecutionId) -> Self {
        Self {
            namespace: default_name(),
            execution,
            closed: false,
            after: 0,
            limit: default_page(),
        }
    }
}

/// A page of waitpoints.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WaitpointPage {
    /// The waitpoints, the first one first.
    pub waitpoints: Vec<WaitpointView>,
    /// Read on after this one; absent at the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<u32>,
}

impl Query for ListWaitpoints {
    const NAME: &'static str = "list_waitpoints";
    type Output = WaitpointPage;

    fn run(&self, read: &mut dyn Read, _: &Context) -> Result<WaitpointPage> {
        check_page(self.limit)?;
        let execution = load(read, &self.namespace, self.execution)?;
        let mut found = match self.closed {
            true => read.waitpoints(execution.row, self.after, self.limit + 1)?,
            false => {
                let mut open = read.open_waitpoints(execution.row)?;
                open.retain(|one| one.seq > self.after);
                open
            }
        };
        let more = found.len() > self.limit;
        found.truncate(self.limit);
        let next = found.last().map(|last| last.seq).filter(|_| more);
        let mut viewer = Viewer::default();
        let mut waitpoints = Vec::with_capacity(found.len());
        for waitpoint in found {
            waitpoints.extend(viewer.view(read, waitpoint)?);
        }
        Ok(WaitpointPage { waitpoints, next })
    }
}

/// Lists the open waitpoints of a namespace, the oldest first: what people and systems outside are
/// asked for. What is left out does not matter.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ListInbox {
    /// Which namespace.
    #[serde(default = "default_name")]
    pub namespace: String,
    /// With this key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// Only where approval is asked for.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub approvals: bool,
    /// Where someone of this role may approve.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
    /// Read on after this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<WaitpointId>,
    /// How many at most.
    #[serde(default = "default_page")]
    pub limit: usize,
}

impl Default for ListInbox {
    fn default() -> Self {
        Self {
            namespace: default_name(),
            key: None,
            approvals: false,
            role: None,
            after: None,
            limit: default_page(),
        }
    }
}

/// A page of the inbox.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct InboxPage {
    /// What matched. May be fewer than asked for although there is more: a page looks at a bounded
    /// number of waitpoints.
    pub waitpoints: Vec<WaitpointView>,
    /// Read on after this one; absent at the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<WaitpointId>,
}

impl Query for ListInbox {
    const NAME: &'static str = "list_inbox";
    type Output = InboxPage;

    fn run(&self, read: &mut dyn Read, _: &Context) -> Result<InboxPage> {
        check_page(self.limit)?;
        let Some(namespace) = read.namespace(&self.namespace)? else {
            return Ok(InboxPage::default());
        };
        // Filters by role look at more than they show.
        let looks = if self.approvals || self.role.is_some() { Limits::PAGE } else { self.limit };
        let found = read.inbox(namespace.id, self.key.as_deref(), self.after, looks + 1)?;
        let more = found.len() > looks;
        let mut page = InboxPage::default();
        let mut viewer = Viewer::default();
        for waitpoint in found.into_iter().take(looks) {
            if page.waitpoints.len() == self.limit {
                return Ok(page);
            }
            page.next = Some(waitpoint.id);
            page.waitpoints.extend(viewer.view(read, waitpoint)?.filter(|one| self.wants(one)));
        }
        page.next = page.next.filter(|_| more);
        Ok(page)
    }
}

impl ListInbox {
    fn wants(&self, waitpoint: &WaitpointView) -> bool {
        let may = |asked: &ApprovalAsked| match (&self.role, &asked.role) {
            (Some(has), Some(needs)) => has == needs,
            _ => true,
        };
        let filters = self.approvals || self.role.is_some();
        !filters || waitpoint.approvals.iter().any(may)
    }
}
