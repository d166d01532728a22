//! Executions that wait, in the lab: short ways to make them, to answer them and to look at
//! everything that lies beside them.

use everloom_core::*;

use crate::fixtures::*;
use crate::{Lab, Snapshot};

/// An execution that waits, and the tokens by which it can be answered.
#[derive(Clone, Debug)]
pub struct Waiting {
    /// The execution.
    pub id: ExecutionId,
    /// Its waitpoints, in the order its condition names them.
    pub tickets: Vec<Ticket>,
}

/// Suspends a leased execution that has to wait.
#[track_caller]
pub fn suspend(lab: &mut Lab, leased: &Leased, condition: Condition) -> Waiting {
    match lab.ok(Suspend::new(leased.lease.clone(), condition)) {
        SuspendOutcome::Suspended { waitpoints, .. } => {
            Waiting { id: leased.id(), tickets: waitpoints }
        }
        other => panic!("not suspended: {other:?}"),
    }
}

/// A new execution that waits for a condition.
#[track_caller]
pub fn waiting(lab: &mut Lab, condition: Condition) -> Waiting {
    let leased = lab.lease(work());
    suspend(lab, &leased, condition)
}

/// Creates a waitpoint for which nothing waits yet.
pub fn create(leased: &Leased, key: &str) -> CreateWaitpoint {
    let lease = leased.lease.clone();
    CreateWaitpoint { namespace: ns(), lease, key: Some(key.to_owned()), expires_in: None }
}

/// Creates a waitpoint for which nothing waits yet, and hands out its token.
#[track_caller]
pub fn pending(lab: &mut Lab, leased: &Leased, key: &str) -> Ticket {
    lab.ok(create(leased, key)).ticket
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

/// Everything there is to see, with what lies beside executions.
#[derive(Debug, PartialEq)]
pub struct Everything {
    snapshot: Snapshot,
    mail: Vec<Mail>,
    keys: Vec<SigningKeys>,
    inboxes: Vec<InboxPage>,
}

/// What lies beside one execution.
#[derive(Debug, PartialEq)]
struct Mail {
    waitpoints: Vec<WaitpointView>,
    signals: Vec<SignalView>,
    suspensions: Vec<SuspensionView>,
    told: Explanation,
}

/// Everything there is to see now.
#[track_caller]
pub fn everything(lab: &mut Lab) -> Everything {
    let namespaces = lab.see(ListNamespaces { after: None, limit: Limits::PAGE }).namespaces;
    let (mut mail, mut keys, mut inboxes) = (vec![], vec![], vec![]);
    for NamespaceView { namespace, .. } in namespaces {
        let list = ListExecutions { namespace: namespace.clone(), ..ListExecutions::default() };
        for execution in lab.list(list) {
            mail.push(mail_of(lab, &namespace, execution.id));
        }
        let inbox = ListInbox { namespace: namespace.clone(), ..ListInbox::default() };
        inboxes.push(lab.see(inbox));
        keys.push(lab.see(ListSigningKeys { namespace }));
    }
    Everything { snapshot: lab.snapshot(), mail, keys, inboxes }
}

fn mail_of(lab: &mut Lab, namespace: &str, execution: ExecutionId) -> Mail {
    let (namespace, limit) = (namespace.to_owned(), Limits::PAGE);
    Mail {
        waitpoints: lab
            .see(ListWaitpoints {
                namespace: namespace.clone(),
                closed: true,
                limit,
                ..ListWaitpoints::new(execution)
            })
            .waitpoints,
        signals: lab
            .see(ListSignals { namespace: namespace.clone(), execution, after: 0, limit })
            .signals,
        suspensions: lab
            .see(ListSuspensions { namespace: namespace.clone(), execution, after: 0, limit })
            .suspensions,
        told: lab.see(Explain { namespace, execution }),
    }
}

/// Everything there is to read, as text, to look for what must not be there.
#[track_caller]
pub fn all_that_is_told(lab: &mut Lab) -> String {
    let seen = everything(lab);
    let mut text = format!("{seen:?}");
    for event in lab.events(EventFilter::default()) {
        text += &serde_json::to_string(&event).expect("an event has a JSON form");
    }
    for Mail { waitpoints, signals, suspensions, told } in &seen.mail {
        let json = serde_json::to_string(&(waitpoints, signals, suspensions, told));
        text += &json.expect("a view has a JSON form");
    }
    text + &serde_json::to_string(&(&seen.keys, &seen.inboxes)).expect("a view has a JSON form")
}

/// Runs a command that is refused, and checks that nothing has changed, also beside executions.
#[track_caller]
pub fn refused<C: Command>(lab: &mut Lab, command: C) -> Error {
    let before = everything(lab);
    let error = lab.refused(command);
    assert_eq!(everything(lab), before, "{} was refused and changed something", C::NAME);
    error
}

/// Runs a command that is refused because the waitpoint takes no more, and tells why that is.
#[track_caller]
pub fn closed<C: Command>(lab: &mut Lab, command: C) -> String {
    let error = refused(lab, command);
    assert_eq!(error.code(), Code::Closed, "{error}");
    let why = error.details().and_then(|details| details["why"].as_str());
    why.expect("it says why").to_owned()
}

/// An execution's signals: all that ever came.
#[track_caller]
pub fn signals(lab: &mut Lab, execution: ExecutionId) -> Vec<SignalView> {
    lab.see(ListSignals { namespace: ns(), execution, after: 0, limit: Limits::PAGE }).signals
}

/// An execution's waitpoints, closed ones too.
#[track_caller]
pub fn waitpoints(lab: &mut Lab, execution: ExecutionId) -> Vec<WaitpointView> {
    lab.see(ListWaitpoints { closed: true, ..ListWaitpoints::new(execution) }).waitpoints
}

/// The signing keys of the default namespace.
#[track_caller]
pub fn keys(lab: &mut Lab) -> Vec<SigningKeyView> {
    lab.see(ListSigningKeys { namespace: ns() }).keys
}

/// What is left of a condition, in words.
#[track_caller]
pub fn waits_for(lab: &mut Lab, execution: ExecutionId) -> Option<String> {
    let all = ListSuspensions { namespace: ns(), execution, after: 0, limit: Limits::PAGE };
    lab.see(all).suspensions.pop().expect("it was suspended").waits_for
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
