//! Waitpoints: created, closed, expired.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::json;

use super::keys::{secret_of, signing_key};
use super::resume::time_out_if_hopeless;
use super::token::{Token, sign};
use crate::cancel::operator;
use crate::chore::{ChoreKind, Slice};
use crate::command::{Command, Context};
use crate::event::{EventKind, log};
use crate::lease::{fence, load};
use crate::model::{
    Check, CloseReason, Code, Error, Execution, ExecutionId, Fingerprint, LeaseToken, Limits,
    Result, RowId, SigningKey, State, Timestamp, Waitpoint, WaitpointId, WaitpointState,
    default_name, option_duration_ms,
};
use crate::store::{Read, Tx};

/// Creates a place for signals before the execution waits for them, so that its token can be
/// handed out early. What comes meanwhile is kept for the suspension that names its key.
///
/// Creating an open one again returns it, with the same token: a retried handler hands out what
/// it handed out before.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CreateWaitpoint {
    /// Where the execution belongs.
    #[serde(default = "default_name")]
    pub namespace: String,
    /// The lease.
    pub lease: LeaseToken,
    /// What conditions will call it; made up when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// After how long it closes by itself; with the execution when absent.
    #[serde(rename = "expires_in_ms", with = "option_duration_ms")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_in: Option<Duration>,
}

impl CreateWaitpoint {
    /// One of that key, which closes with the execution at the latest.
    pub fn new(lease: LeaseToken, key: impl Into<String>) -> Self {
        Self { namespace: default_name(), lease, key: Some(key.into()), expires_in: None }
    }
}

/// A waitpoint and the right to use it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ticket {
    /// The waitpoint.
    pub id: WaitpointId,
    /// What conditions call it.
    pub key: String,
    /// What its bearer presents to deliver signals.
    pub token: Token,
    /// When it closes by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
}

/// The waitpoint exists.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CreatedWaitpoint {
    /// The waitpoint and its token.
    #[serde(flatten)]
    pub ticket: Ticket,
    /// Whether an earlier call had created it.
    pub repeated: bool,
}

impl Command for CreateWaitpoint {
    const NAME: &'static str = "create_waitpoint";
    type Output = CreatedWaitpoint;

    fn apply(&self, tx: &mut dyn Tx, cx: &Context) -> Result<CreatedWaitpoint> {
        let mut check = Check::default();
        if let Some(key) = &self.key {
            check.name("key", key);
        }
        if let Some(expires_in) = self.expires_in {
            let least = Duration::from_millis(1);
            check.duration("expires_in_ms", expires_in, least, Limits::DURATION_MAX);
        }
        check.finish()?;
        let mut execution = fence(tx, cx, &self.namespace, &self.lease)?.live(&self.lease)?;
        let mut open = open_waitpoints(tx, &execution)?;
        let known = open.iter_mut().find(|one| Some(&one.key) == self.key.as_ref());
        if let Some(known) = known.filter(|known| !has_expired(known, cx)) {
            let ticket = reissue(tx, cx, &execution, known)?;
            return Ok(CreatedWaitpoint { ticket, repeated: true });
        }
        check_room(tx, &execution, open.len(), 1)?;
        if let Some(known) = open.iter_mut().find(|one| Some(&one.key) == self.key.as_ref()) {
            close(tx, cx, &execution, known, CloseReason::Expired)?;
        }
        let signer = signing_key(tx, cx, execution.namespace)?;
        let expires_at = self.expires_in.map(|expires_in| cx.now + expires_in);
        let key = self.key.clone();
        let new = New { key, expires_at, state: WaitpointState::Pending };
        let (_, ticket) = add(tx, cx, &mut execution, &signer, new)?;
        tx.save(&execution)?;
        Ok(CreatedWaitpoint { ticket, repeated: false })
    }
}

/// The open waitpoints of an execution, if it can have any.
pub(super) fn open_waitpoints(
    read: &mut dyn Read,
    execution: &Execution,
) -> Result<Vec<Waitpoint>> {
    match execution.beside.mail {
        true => read.open_waitpoints(execution.row),
        false => Ok(vec![]),
    }
}

/// Whether a waitpoint's time is over, although the clock has not closed it yet.
pub(super) fn has_expired(waitpoint: &Waitpoint, cx: &Context) -> bool {
    waitpoint.expires_at.is_some_and(|at| at <= cx.now)
}

/// Refuses more waitpoints than an execution may have.
pub(super) fn check_room(
    read: &mut dyn Read,
    execution: &Execution,
    open: usize,
    new: usize,
) -> Result<()> {
    if open + new > Limits::OPEN_WAITPOINTS {
        return Err(Error::new(
            Code::TooLarge,
            format!("an execution has at most {} open waitpoints", Limits::OPEN_WAITPOINTS),
        ));
    }
    let last = match execution.beside.mail {
        true => read.last_waitpoint(execution.row)?,
        false => 0,
    };
    match last as usize + new > Limits::WAITPOINTS {
        true => Err(Error::new(
            Code::TooLarge,
            format!("an execution has at most {} waitpoints in its life", Limits::WAITPOINTS),
        )),
        false => Ok(()),
    }
}

/// A waitpoint to be.
pub(super) struct New {
    pub(super) key: Option<String>,
    pub(super) expires_at: Option<Timestamp>,
    pub(super) state: WaitpointState,
}

/// Creates a waitpoint. The caller saves the execution.
pub(super) fn add(
    tx: &mut dyn Tx,
    cx: &Context,
    execution: &mut Execution,
    signer: &SigningKey,
    New { key, expires_at, state }: New,
) -> Result<(Waitpoint, Ticket)> {
    let id = cx.waitpoint_id();
    let last = match execution.beside.mail {
        true => tx.last_waitpoint(execution.row)?,
        false => 0,
    };
    let mut waitpoint = Waitpoint {
        id,
        namespace: execution.namespace,
        execution: execution.row,
        seq: last + 1,
        key: key.unwrap_or_else(|| format!("wp:{id}")),
        kid: signer.kid.clone(),
        fingerprint: Fingerprint([0; 8]),
        created_at: cx.now,
        expires_at,
        state,
        borne: 0,
    };
    let secret = signer.secret.as_ref().ok_or_else(|| Error::bug("a key signs without secret"))?;
    let namespace = tx.namespace_by_id(execution.namespace)?;
    let (token, fingerprint) = sign(secret, &namespace.name, execution.id, &waitpoint);
    waitpoint.fingerprint = fingerprint;
    execution.beside.mail = true;
    tx.add_waitpoint(&waitpoint)?;
    if let Some(at) = expires_at {
        tx.add_chore(&expiry(&waitpoint), at)?;
    }
    let data = json!({
        "waitpoint": id,
        "key": waitpoint.key,
        "kid": waitpoint.kid,
        "fingerprint": fingerprint,
        "expires_at": expires_at,
    });
    log(tx, cx, execution, EventKind::WaitpointCreated, None, Some(data))?;
    let ticket = ticket(&waitpoint, token);
    Ok((waitpoint, ticket))
}

/// The token of a waitpoint once more, if its signing key is still good.
fn same_ticket(
    read: &mut dyn Read,
    cx: &Context,
    execution: &Execution,
    waitpoint: &Waitpoint,
) -> Result<Option<Ticket>> {
    let secret = secret_of(read, cx, waitpoint.namespace, &waitpoint.kid)?;
    let namespace = read.namespace_by_id(execution.namespace)?;
    let token = |secret| sign(&secret, &namespace.name, execution.id, waitpoint).0;
    Ok(secret.map(|secret| ticket(waitpoint, token(secret))))
}

fn ticket(waitpoint: &Waitpoint, token: Token) -> Ticket {
    let Waitpoint { id, key, expires_at, .. } = waitpoint;
    Ticket { id: *id, key: key.clone(), token, expires_at: *expires_at }
}

/// The token of a waitpoint that may have closed once more.
pub(super) fn reissued(
    tx: &mut dyn Tx,
    cx: &Context,
    execution: &Execution,
    id: WaitpointId,
) -> Result<Option<Ticket>> {
    match tx.waitpoint(execution.row, id)? {
        Some(mut open) if open.is_open() => reissue(tx, cx, execution, &mut open).map(Some),
        Some(closed) => same_ticket(tx, cx, execution, &closed),
        None => Ok(None),
    }
}

/// The token of an open waitpoint once more. One whose signing key is no longer good gets a new
/// one.
pub(super) fn reissue(
    tx: &mut dyn Tx,
    cx: &Context,
    execution: &Execution,
    waitpoint: &mut Waitpoint,
) -> Result<Ticket> {
    if let Some(same) = same_ticket(tx, cx, execution, waitpoint)? {
        return Ok(same);
    }
    let signer = signing_key(tx, cx, waitpoint.namespace)?;
    let secret = signer.secret.as_ref().ok_or_else(|| Error::bug("a key signs without secret"))?;
    waitpoint.kid = signer.kid.clone();
    let namespace = tx.namespace_by_id(execution.namespace)?;
    let (token, fingerprint) = sign(secret, &namespace.name, execution.id, waitpoint);
    waitpoint.fingerprint = fingerprint;
    tx.save_waitpoint(waitpoint)?;
    Ok(ticket(waitpoint, token))
}

/// Closes an open waitpoint.
pub(super) fn close(
    tx: &mut dyn Tx,
    cx: &Context,
    execution: &Execution,
    waitpoint: &mut Waitpoint,
    why: CloseReason,
) -> Result<()> {
    if waitpoint.expires_at.is_some()
        && why != CloseReason::Expired
        && let Some(chore) = tx.find_chore(&expiry(waitpoint))?
    {
        tx.drop_chore(chore.id)?;
    }
    let data = json!({ "waitpoint": waitpoint.id, "key": waitpoint.key, "why": why.as_str() });
    waitpoint.state = WaitpointState::Closed { at: cx.now, why };
    tx.save_waitpoint(waitpoint)?;
    log(tx, cx, execution, EventKind::WaitpointClosed, None, Some(data))
}

fn expiry(waitpoint: &Waitpoint) -> ChoreKind {
    ChoreKind::ExpireWaitpoint { execution: waitpoint.execution, waitpoint: waitpoint.id }
}

/// Closes a waitpoint whose time is over.
pub(crate) fn expire(tx: &mut dyn Tx, cx: &Context, row: RowId, id: WaitpointId) -> Result<Slice> {
    if let Some(mut execution) = tx.execution(row)?
        && let Some(mut waitpoint) = tx.waitpoint(row, id)?.filter(Waitpoint::is_open)
    {
        close(tx, cx, &execution, &mut waitpoint, CloseReason::Expired)?;
        time_out_if_hopeless(tx, cx, &mut execution)?;
    }
    Ok(Slice::Done)
}

/// Names a waitpoint of an execution.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WaitpointName {
    /// The open one with that key.
    Key(String),
    /// The one with that id.
    Id(WaitpointId),
}

impl WaitpointName {
    /// That waitpoint, open or, if it is named by its id, closed.
    pub(super) fn find(&self, read: &mut dyn Read, execution: &Execution) -> Result<Waitpoint> {
        let found = match self {
            _ if !execution.beside.mail => None,
            Self::Id(id) => read.waitpoint(execution.row, *id)?,
            Self::Key(key) => {
                read.open_waitpoints(execution.row)?.into_iter().find(|one| one.key == *key)
            }
        };
        found.ok_or_else(|| match self {
            Self::Key(key) => {
                Error::not_found("open waitpoint", format!("`{key}` of execution {}", execution.id))
            }
            Self::Id(id) => {
                Error::not_found("waitpoint", format!("{id} of execution {}", execution.id))
            }
        })
    }
}

/// Closes a waitpoint: signals to it are refused from then on. A suspension that can not be
/// satisfied without it is treated as if its time were over.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CloseWaitpoint {
    /// Where the execution belongs.
    #[serde(default = "default_name")]
    pub namespace: String,
    /// Which execution.
    pub execution: ExecutionId,
    /// Which of its waitpoints.
    pub waitpoint: WaitpointName,
    /// Who asks.
    #[serde(default = "operator")]
    pub by: String,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl CloseWaitpoint {
    /// An operator's closing.
    pub fn new(execution: ExecutionId, waitpoint: WaitpointName) -> Self {
        Self { namespace: default_name(), execution, waitpoint, by: operator(), reason: None }
    }
}

/// The waitpoint is closed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum CloseWaitpointOutcome {
    /// By this call.
    Closed,
    /// It was closed before.
    AlreadyClosed {
        /// Since when.
        at: Timestamp,
        /// Why.
        #[serde(flatten)]
        why: CloseReason,
    },
}

impl Command for CloseWaitpoint {
    const NAME: &'static str = "close_waitpoint";
    type Output = CloseWaitpointOutcome;

    fn apply(&self, tx: &mut dyn Tx, cx: &Context) -> Result<CloseWaitpointOutcome> {
        let mut check = Check::default();
        check.name("by", &self.by);
        if let Some(reason) = &self.reason {
            check.text("reason", reason);
        }
        check.finish()?;
        let mut execution = load(tx, &self.namespace, self.execution)?;
        let mut waitpoint = self.waitpoint.find(tx, &execution)?;
        if let WaitpointState::Closed { at, why } = waitpoint.state {
            return Ok(CloseWaitpointOutcome::AlreadyClosed { at, why });
        }
        let why = CloseReason::ByHand { by: self.by.clone(), reason: self.reason.clone() };
        close(tx, cx, &execution, &mut waitpoint, why)?;
        if matches!(execution.state, State::Suspended(_)) {
            time_out_if_hopeless(tx, cx, &mut execution)?;
        }
        Ok(CloseWaitpointOutcome::Closed)
    }
}
