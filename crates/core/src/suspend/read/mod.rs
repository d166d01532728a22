//! What waits, what came, and who answered.

mod inbox;
mod signals;
mod suspensions;
mod waitpoints;

pub use inbox::{InboxPage, ListInbox};
pub(super) use signals::received;
pub(crate) use signals::resumption;
pub use signals::{ListSignals, ObserveSignals, Resumption, SignalPage, SignalView};
pub use suspensions::{ListSuspensions, SuspensionPage, SuspensionView};
pub use waitpoints::{ApprovalAsked, ListWaitpoints, WaitpointPage, WaitpointView};
