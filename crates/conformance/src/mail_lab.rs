//! Waiting for signals in the lab: short ways to suspend, to deliver and to look.

use everloom_core::*;

use crate::Lab;
use crate::fixtures::*;

/// Ends a lease and waits for a condition.
pub fn suspend(leased: &Leased, condition: Condition) -> Suspend {
    Suspend::new(leased.lease.clone(), condition)
}

/// The same under a key.
pub fn suspend_as(leased: &Leased, key: &str, condition: Condition) -> Suspend {
    Suspend { key: Some(key.to_owned()), ..suspend(leased, condition) }
}

/// Creates a place for signals before something waits for them.
pub fn create_waitpoint(leased: &Leased, key: &str) -> CreateWaitpoint {
    let (lease, key) = (leased.lease.clone(), Some(key.to_owned()));
    CreateWaitpoint { namespace: ns(), lease, key, expires_in: None }
}

/// A signal to the execution itself.
pub fn signal(execution: ExecutionId, name: &str) -> DeliverSignal {
    DeliverSignal::new(execution, name)
}

/// A signal to a waitpoint, with authority.
pub fn signal_at(execution: ExecutionId, key: &str, name: &str) -> DeliverSignal {
    let to = SignalTo::Waitpoint(WaitpointName::Key(key.to_owned()));
    DeliverSignal { to, ..signal(execution, name) }
}

/// A signal to a waitpoint, open or closed, with authority.
pub fn signal_to(execution: ExecutionId, waitpoint: WaitpointId, name: &str) -> DeliverSignal {
    let to = SignalTo::Waitpoint(WaitpointName::Id(waitpoint));
    DeliverSignal { to, ..signal(execution, name) }
}

/// A signal by whoever bears a token.
pub fn signal_by(execution: ExecutionId, ticket: &Ticket, name: &str) -> DeliverSignal {
    DeliverSignal { to: SignalTo::Token(ticket.token.clone()), ..signal(execution, name) }
}

/// The same signal from that sender.
pub fn from(source: &str, signal: DeliverSignal) -> DeliverSignal {
    DeliverSignal { source: Some(source.to_owned()), ..signal }
}

/// The same signal under an idempotency key.
pub fn keyed(key: &str, signal: DeliverSignal) -> DeliverSignal {
    DeliverSignal { key: Some(key.to_owned()), ..signal }
}

/// The same signal with something to say.
pub fn saying(text: &str, signal: DeliverSignal) -> DeliverSignal {
    DeliverSignal { payload: Payload::bytes(text.to_owned()), ..signal }
}

/// Closes a waitpoint that is open.
pub fn close_waitpoint(execution: ExecutionId, key: &str) -> CloseWaitpoint {
    CloseWaitpoint {
        namespace: ns(),
        execution,
        waitpoint: WaitpointName::Key(key.to_owned()),
        by: "ops".to_owned(),
        reason: None,
    }
}

/// Closes a waitpoint, open or closed.
pub fn close_waitpoint_by_id(execution: ExecutionId, waitpoint: WaitpointId) -> CloseWaitpoint {
    CloseWaitpoint { waitpoint: WaitpointName::Id(waitpoint), ..close_waitpoint(execution, "") }
}

/// Records what came of a step.
pub fn record_step(leased: &Leased, name: &str, result: &str) -> RecordStep {
    RecordStep {
        namespace: ns(),
        lease: leased.lease.clone(),
        name: name.to_owned(),
        occurrence: 0,
        kind: "step".to_owned(),
        result: Payload::bytes(result.to_owned()),
    }
}

/// Lists an execution's suspensions.
pub fn list_suspensions(execution: ExecutionId) -> ListSuspensions {
    ListSuspensions { namespace: ns(), execution, after: 0, limit: Limits::PAGE }
}

/// Lists an execution's open waitpoints.
pub fn list_waitpoints(execution: ExecutionId) -> ListWaitpoints {
    ListWaitpoints { limit: Limits::PAGE, ..ListWaitpoints::new(execution) }
}

/// Lists all signals an execution ever had.
pub fn list_signals(execution: ExecutionId) -> ListSignals {
    ListSignals { namespace: ns(), execution, after: 0, limit: Limits::PAGE }
}

/// Lists an execution's recorded steps.
pub fn list_steps(execution: ExecutionId) -> ListSteps {
    ListSteps { namespace: ns(), execution, after: 0, limit: Limits::PAGE }
}

/// Why a signal to a closed waitpoint is refused.
#[track_caller]
pub fn why_closed(error: &Error) -> String {
    assert_eq!(error.code(), Code::Closed, "{error}");
    let why = error.details().and_then(|details| details.get("why")?.as_str());
    why.unwrap_or_else(|| panic!("it says why: {error:?}")).to_owned()
}

/// The names and texts of signals: `go:now stay:`.
pub fn told(signals: &[SignalView]) -> String {
    let text = |one: &SignalView| {
        let payload = one.payload.as_ref().map(|payload| payload.bytes.clone());
        String::from_utf8(payload.unwrap_or_default()).expect("behaviours send text")
    };
    let told: Vec<_> = signals.iter().map(|one| format!("{}:{}", one.name, text(one))).collect();
    told.join(" ")
}

impl Lab {
    /// Suspends what a lease is about, and answers with its waitpoints.
    #[track_caller]
    pub fn suspend(&mut self, suspend: Suspend) -> Vec<Ticket> {
        match self.ok(suspend) {
            SuspendOutcome::Suspended { waitpoints, .. } => waitpoints,
            other => panic!("not suspended: {other:?}"),
        }
    }

    /// Makes a call that does not suspend, because what it wants to wait for has come.
    #[track_caller]
    pub fn already_satisfied(&mut self, suspend: Suspend) -> Resumption {
        match self.ok(suspend) {
            SuspendOutcome::AlreadySatisfied { resumption } => resumption,
            other => panic!("not satisfied already: {other:?}"),
        }
    }

    /// Submits an execution, leases it and suspends it.
    #[track_caller]
    pub fn suspended(&mut self, condition: Condition) -> (ExecutionId, Vec<Ticket>) {
        let lease = self.lease(work());
        (lease.id(), self.suspend(suspend(&lease, condition)))
    }

    /// What a signal does.
    #[track_caller]
    pub fn deliver(&mut self, signal: DeliverSignal) -> Effect {
        self.ok(signal).effect
    }

    /// Leases an execution that goes on, and tells why it does.
    #[track_caller]
    pub fn resumption(&mut self, id: ExecutionId) -> (Leased, Resumption) {
        let lease = self.take(id);
        let resumption = lease.resumption.clone().expect("it was suspended");
        (lease, resumption)
    }

    /// An execution's suspensions.
    #[track_caller]
    pub fn suspensions(&mut self, id: ExecutionId) -> Vec<SuspensionView> {
        self.see(list_suspensions(id)).suspensions
    }

    /// An execution's waitpoints, open and closed.
    #[track_caller]
    pub fn waitpoints(&mut self, id: ExecutionId) -> Vec<WaitpointView> {
        self.see(ListWaitpoints { closed: true, ..list_waitpoints(id) }).waitpoints
    }

    /// What an execution's waitpoints are doing, in one line: `a:satisfied b:pending`.
    #[track_caller]
    pub fn doors(&mut self, id: ExecutionId) -> String {
        let state = |state: &WaitpointState| match state {
            WaitpointState::Pending => "pending",
            WaitpointState::Active { .. } => "active",
            WaitpointState::Closed { why, .. } => why.as_str(),
        };
        let told: Vec<_> = self
            .waitpoints(id)
            .iter()
            .map(|one| format!("{}:{}", one.key, state(&one.state)))
            .collect();
        told.join(" ")
    }

    /// All signals an execution ever had.
    #[track_caller]
    pub fn signals(&mut self, id: ExecutionId) -> Vec<SignalView> {
        self.see(list_signals(id)).signals
    }

    /// An execution's recorded steps.
    #[track_caller]
    pub fn steps(&mut self, id: ExecutionId) -> Vec<StepView> {
        self.see(list_steps(id)).steps
    }
}
