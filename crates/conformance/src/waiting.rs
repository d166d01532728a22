//! Executions that wait, in the lab, with those who answer them.

use everloom_core::*;
use serde_json::{Value, json};

use crate::Lab;
use crate::fixtures::*;
use crate::mail_lab::*;

/// An execution that waits, and the tokens by which it can be answered.
#[derive(Clone, Debug)]
pub struct Waiting {
    /// The execution.
    pub id: ExecutionId,
    /// Its waitpoints, in the order its condition names them.
    pub tickets: Vec<Ticket>,
}

/// Suspends a leased execution, which has to wait.
#[track_caller]
pub fn wait(lab: &mut Lab, leased: &Leased, condition: Condition) -> Waiting {
    Waiting { id: leased.id(), tickets: lab.suspend(suspend(leased, condition)) }
}

/// A new execution that waits for a condition.
#[track_caller]
pub fn waiting(lab: &mut Lab, condition: Condition) -> Waiting {
    let (id, tickets) = lab.suspended(condition);
    Waiting { id, tickets }
}

/// Creates a waitpoint for which nothing waits yet, and hands out its token.
#[track_caller]
pub fn pending(lab: &mut Lab, leased: &Leased, key: &str) -> Ticket {
    lab.ok(create_waitpoint(leased, key)).ticket
}

/// A place named with authority: the open waitpoint of that key.
pub fn at(key: &str) -> SignalTo {
    SignalTo::Waitpoint(WaitpointName::Key(key.to_owned()))
}

/// A signal by whoever bears a token.
pub fn bearing(token: &Token, execution: ExecutionId, name: &str) -> DeliverSignal {
    DeliverSignal { to: SignalTo::Token(token.clone()), ..DeliverSignal::new(execution, name) }
}

impl Waiting {
    /// The waitpoint of that key.
    #[track_caller]
    pub fn ticket(&self, key: &str) -> &Ticket {
        self.tickets.iter().find(|one| one.key == key).expect("it waits there")
    }

    /// The token of the waitpoint of that key.
    #[track_caller]
    pub fn token(&self, key: &str) -> &Token {
        &self.ticket(key).token
    }

    /// A signal with the token of the waitpoint of that key.
    #[track_caller]
    pub fn bearing(&self, key: &str, name: &str) -> DeliverSignal {
        bearing(self.token(key), self.id, name)
    }

    /// A signal with authority, to the waitpoint of that key.
    pub fn signal(&self, key: &str, name: &str, source: &str) -> DeliverSignal {
        let source = Some(source.to_owned());
        DeliverSignal { to: at(key), source, ..DeliverSignal::new(self.id, name) }
    }

    /// Approval at the waitpoint of that key.
    pub fn approve(&self, key: &str, by: &str) -> Approve {
        Approve::new(self.id, at(key), Some(by))
    }

    /// Rejection at the waitpoint of that key.
    pub fn reject(&self, key: &str, by: &str) -> Reject {
        Reject::new(self.id, at(key), Some(by))
    }
}

/// Everything there is to read, as text, to look for what must not be there.
#[track_caller]
pub fn all_that_is_told(lab: &mut Lab) -> String {
    let mut text = format!("{:?}", lab.snapshot());
    let mut tell = |value: Value| text += &value.to_string();
    for event in lab.events(EventFilter::default()) {
        tell(json!(event));
    }
    for NamespaceView { namespace, .. } in
        lab.see(ListNamespaces { after: None, limit: Limits::PAGE }).namespaces
    {
        let name = || namespace.clone();
        tell(json!(lab.see(ListSigningKeys { namespace: name() })));
        tell(json!(lab.see(ListInbox { namespace: name(), ..ListInbox::default() })));
        for view in lab.list(ListExecutions { namespace: name(), ..ListExecutions::default() }) {
            let (namespace, execution) = (name(), view.id);
            let waitpoints = ListWaitpoints { closed: true, ..list_waitpoints(execution) };
            tell(json!(lab.see(ListWaitpoints { namespace: name(), ..waitpoints })));
            tell(json!(lab.see(ListSignals { namespace: name(), ..list_signals(execution) })));
            let observe = ObserveSignals::new(execution);
            tell(json!(lab.see(ObserveSignals { namespace: name(), ..observe })));
            let suspensions = list_suspensions(execution);
            tell(json!(lab.see(ListSuspensions { namespace: name(), ..suspensions })));
            tell(json!(lab.see(Explain { namespace, execution })));
            tell(json!(view));
        }
    }
    text
}

/// Runs a command that is refused because the waitpoint takes no more, and tells why that is.
#[track_caller]
pub fn closed<C: Command>(lab: &mut Lab, command: C) -> String {
    why_closed(&lab.refused(command))
}

/// The signing keys of the default namespace.
#[track_caller]
pub fn keys(lab: &mut Lab) -> Vec<SigningKeyView> {
    lab.see(ListSigningKeys { namespace: ns() }).keys
}

/// What is left of a condition, in words.
#[track_caller]
pub fn waits_for(lab: &mut Lab, execution: ExecutionId) -> Option<String> {
    lab.suspensions(execution).pop().expect("it was suspended").waits_for
}

/// What became of a signal that was not refused.
#[track_caller]
pub fn effect<C: Command<Output = Delivered>>(lab: &mut Lab, command: C) -> Effect {
    lab.ok(command).effect
}

/// A signal that let an execution go on.
pub const RESUMED: Effect = Effect::Resumed { status: Status::Resumable };

/// A signal that a condition did not heed.
pub const fn ignored(why: Offered) -> Effect {
    Effect::Ignored { why }
}
