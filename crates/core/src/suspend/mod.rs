//! Waiting for a signal, a callback or a person, and holding nothing meanwhile.
//!
//! An execution that waits is [`Suspended`]; beside it lie its suspensions with their conditions,
//! the waitpoints where signals can be delivered, and the signals themselves. A signal that comes
//! before anything waits for it is kept. Whatever ends a suspension goes through [`resume`] or
//! [`ended`], which close what belonged to it.

mod approve;
mod begin;
mod deliver;
mod keys;
mod read;
mod resume;
mod token;
mod waitpoint;

pub use approve::{Approve, Reject};
pub use begin::{Suspend, SuspendOutcome};
pub use deliver::{DeliverSignal, Delivered, Effect, SignalTo};
pub use keys::{
    KeyRevoked, ListSigningKeys, RevokeSigningKey, RotateOutcome, RotateSigningKey, SeedOutcome,
    SeedSigningKey, SigningKeyView, SigningKeys,
};
pub(crate) use read::resumption;
pub use read::{
    ApprovalAsked, InboxPage, ListInbox, ListSignals, ListSuspensions, ListWaitpoints,
    ObserveSignals, Resumption, SignalPage, SignalView, SuspensionPage, SuspensionView,
    WaitpointPage, WaitpointView,
};
pub use resume::{Resume, Resumed};
pub(crate) use resume::{ended, time_out};
pub use token::Token;
pub(crate) use waitpoint::expire;
pub use waitpoint::{
    CloseWaitpoint, CloseWaitpointOutcome, CreateWaitpoint, CreatedWaitpoint, Ticket, WaitpointName,
};

use crate::model::{Error, Execution, Result, Suspended, Suspension};
use crate::store::Read;

/// The suspension an execution is in.
fn current(
    read: &mut dyn Read,
    execution: &Execution,
    suspended: &Suspended,
) -> Result<Suspension> {
    numbered(read, execution, suspended.number)
}

fn numbered(read: &mut dyn Read, execution: &Execution, number: u32) -> Result<Suspension> {
    let found = read.suspension(execution.row, Some(number))?;
    found.ok_or_else(|| Error::bug("a suspended execution has no suspension"))
}

/// What a suspended execution waits for, in sentences.
pub(crate) fn what_for(
    read: &mut dyn Read,
    execution: &Execution,
    suspended: &Suspended,
) -> Result<Vec<String>> {
    let Suspension { terms, course, .. } = current(read, execution, suspended)?;
    let mut told = vec![format!("It waits for {}.", course.tally.tell(&terms.condition))];
    told.extend(terms.note.map(|note| format!("Its worker says: {note}")));
    let passed_on =
        |at| format!("Its time was over at {at}: an operator has to resume or cancel it.");
    told.extend(course.escalated_at.map(passed_on));
    Ok(told)
}
