//! What lies beside an execution that waits.

use everloom_core::{
    Condition, EndedBy, Execution, Fingerprint, KeyState, NamespaceId, OnTimeout, Payload, RowId,
    Signal, SignalFacts, SignalId, SigningKey, SigningSecret, State, Step, StepFacts,
    SuspendReason, Suspended, Suspension, SuspensionCourse, SuspensionEnd, SuspensionTerms,
    TakenSignal, Tally, Timestamp, Transaction, Waitpoint, WaitpointId, WaitpointState,
};
use uuid::Uuid;

use super::{Queue, at};

/// An execution that is suspended, not yet inserted.
pub(crate) fn suspended(queue: Queue, row: RowId, until: Option<Timestamp>) -> Execution {
    let mut execution = queue.waiting(row);
    execution.state = State::Suspended(Suspended {
        number: 1,
        reason: SuspendReason::WaitingForApproval,
        until,
        on_timeout: OnTimeout::Escalate,
    });
    execution.beside.mail = true;
    execution
}

pub(crate) fn suspension(execution: RowId, number: u32) -> Suspension {
    let condition = Condition::all([Condition::at("a"), Condition::approval("b", 2)]);
    let tally = Tally::new(&condition);
    let terms = SuspensionTerms {
        reason: SuspendReason::WaitingForApproval,
        note: Some("please look".into()),
        condition,
        waitpoints: vec![waitpoint_id(execution, 1), waitpoint_id(execution, 2)],
        timeout_at: Some(at(70)),
        on_timeout: OnTimeout::Resume,
        attempt: 2,
        began_at: at(5),
    };
    let course = SuspensionCourse { tally, escalated_at: None, end: None };
    Suspension { execution, number, run: 1, key: None, terms, course }
}

pub(crate) fn over(suspension: &Suspension) -> Suspension {
    let end = SuspensionEnd { at: at(9), by: EndedBy::Timeout };
    let course = SuspensionCourse { end: Some(end), ..suspension.course.clone() };
    Suspension { course, ..suspension.clone() }
}

/// The name of an execution's waitpoint: by name they come in another order than by number.
pub(crate) fn waitpoint_id(execution: RowId, seq: u32) -> WaitpointId {
    let row = u128::from(execution.0.unsigned_abs());
    WaitpointId(Uuid::from_u128((u128::from(u32::MAX - seq) << 64) | row))
}

pub(crate) fn waitpoint(namespace: NamespaceId, execution: RowId, seq: u32) -> Waitpoint {
    Waitpoint {
        id: waitpoint_id(execution, seq),
        namespace,
        execution,
        seq,
        key: format!("w{seq}"),
        kid: "k1".into(),
        fingerprint: Fingerprint([seq.to_be_bytes()[3]; 8]),
        created_at: at(4),
        expires_at: None,
        state: WaitpointState::Pending,
        borne: 0,
    }
}

pub(crate) fn signal(execution: RowId, seq: u32) -> Signal {
    let facts = SignalFacts {
        at: at(6),
        name: "go".into(),
        source: "ann".into(),
        waitpoint: None,
        correlation: None,
        token: None,
        approval: None,
        size: 3,
    };
    Signal {
        execution,
        seq,
        id: SignalId(Uuid::from_u128(u128::from(seq))),
        waitpoint: None,
        key: None,
        run: 1,
        facts,
        taken: None,
    }
}

pub(crate) fn taken(signal: Signal, suspension: u32) -> Signal {
    let counted = signal.seq.is_multiple_of(2);
    Signal { taken: Some(TakenSignal { suspension, counted }), ..signal }
}

pub(crate) fn step(execution: RowId, seq: u32) -> Step {
    let facts = StepFacts { kind: "run".into(), at: at(7), attempt: 1, run: 1, size: 3 };
    Step { execution, seq, name: format!("s{}", seq / 2), occurrence: seq % 2, facts }
}

pub(crate) fn signing_key(namespace: NamespaceId, kid: &str) -> SigningKey {
    SigningKey {
        namespace,
        kid: kid.into(),
        secret: Some(SigningSecret::new([3; 32])),
        created_at: at(2),
        state: KeyState::Active,
    }
}

/// Payloads of every sort: nothing, JSON, bytes with a type of their own, a type without bytes.
pub(crate) fn payload(number: u32) -> Payload {
    match number % 4 {
        0 => Payload::default(),
        1 => Payload::json(&number).unwrap(),
        2 => Payload { content_type: "text/x; q=\"ä\"".into(), bytes: b"\0a\0\xff\0".to_vec() },
        _ => Payload { content_type: "text/plain".into(), bytes: vec![] },
    }
}

/// Inserts a suspended execution with one suspension, one waitpoint that it waits for, and a signal
/// it has taken.
pub(crate) fn add_suspended(
    tx: &mut dyn Transaction,
    queue: Queue,
    until: Option<Timestamp>,
) -> RowId {
    let row = tx.new_row().unwrap();
    tx.insert(&suspended(queue, row, until), &Payload::default(), None).unwrap();
    tx.add_suspension(&suspension(row, 1)).unwrap();
    let state = WaitpointState::Active { suspension: 1, since: at(5) };
    tx.add_waitpoint(&Waitpoint { state, ..waitpoint(queue.namespace, row, 1) }).unwrap();
    tx.add_signal(&taken(signal(row, 1), 1), &payload(1)).unwrap();
    row
}
