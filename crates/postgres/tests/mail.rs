//! What lies beside an execution that waits: every question, asked of this store and of the
//! in-memory one over the same rows, within transactions and after them.

mod common;
#[path = "common/deeds.rs"]
mod deeds;

use std::fmt::Debug;

use common::Schema;
use deeds::{Deed, Dice, Stopped, answers, at, deed, transact};
use everloom_core::*;
use uuid::Uuid;

fn suspension(row: RowId, number: u32, run: u32, dice: &mut Dice) -> Suspension {
    let condition = Condition::all([Condition::at("a"), Condition::approval("b", 2)]);
    let tally = Tally::new(&condition);
    let terms = SuspensionTerms {
        reason: SuspendReason::WaitingForApproval,
        note: Some("please \"look\" \u{0}".into()),
        condition,
        waitpoints: vec![],
        timeout_at: Some(at(70)),
        on_timeout: OnTimeout::Resume,
        attempt: 2,
        began_at: at(5),
    };
    let course = SuspensionCourse { tally, escalated_at: None, end: None };
    let key = dice.toss().then(|| format!("key{number}"));
    Suspension { execution: row, number, run, key, terms, course }
}

fn waitpoint(row: RowId, seq: u32, dice: &mut Dice) -> Waitpoint {
    Waitpoint {
        id: WaitpointId(Uuid::from_u128((u128::from(dice.roll(1 << 30)) << 64) | u128::from(seq))),
        namespace: NamespaceId(1),
        execution: row,
        seq,
        key: format!("w{}", seq % 3),
        kid: format!("k{}", dice.roll(2)),
        fingerprint: Fingerprint([seq.to_be_bytes()[3]; 8]),
        created_at: at(4),
        expires_at: dice.toss().then(|| at(50)),
        state: WaitpointState::Pending,
        borne: 0,
    }
}

fn signal(row: RowId, seq: u32, run: u32, dice: &mut Dice) -> Signal {
    let facts = SignalFacts {
        at: at(6),
        name: "go".into(),
        source: "ann".into(),
        waitpoint: None,
        correlation: Some("order 7".into()),
        token: Some(TokenTrace { kid: "k1".into(), fingerprint: Fingerprint([1; 8]) }),
        approval: None,
        size: 3,
    };
    Signal {
        execution: row,
        seq,
        id: SignalId(Uuid::from_u128(seq.into())),
        waitpoint: dice.toss().then(|| WaitpointId(Uuid::from_u128(7))),
        key: dice.toss().then(|| format!("/key{seq}")),
        run,
        facts,
        taken: dice.toss().then(|| taken(dice)),
    }
}

fn taken(dice: &mut Dice) -> TakenSignal {
    TakenSignal { suspension: 1 + dice.roll(3), counted: dice.toss() }
}

fn step(row: RowId, seq: u32) -> Step {
    let facts = StepFacts { kind: "run".into(), at: at(7), attempt: 1, run: 1, size: 3 };
    Step { execution: row, seq, name: format!("s{}", seq / 2), occurrence: seq % 2, facts }
}

/// Payloads of every sort: nothing, JSON, bytes with a type of their own, a type without bytes.
fn payload(number: u32) -> Payload {
    match number % 4 {
        0 => Payload::default(),
        1 => Payload::json(&number).unwrap(),
        2 => Payload { content_type: "text/x; q=\"ä\"".into(), bytes: b"\0a\0\xff\0".to_vec() },
        _ => Payload { content_type: "text/plain".into(), bytes: vec![] },
    }
}

/// What a payload is, with its bytes.
fn shown(payloads: Vec<Payload>) -> Vec<(String, Vec<u8>)> {
    payloads.into_iter().map(|one| (one.content_type.into_owned(), one.bytes)).collect()
}

fn closed() -> WaitpointState {
    let why = CloseReason::ByHand { by: "ops".into(), reason: Some("no".into()) };
    WaitpointState::Closed { at: at(9), why }
}

/// Any question about an execution.
fn question(row: RowId, dice: &mut Dice) -> Deed {
    let (number, limit) = (dice.roll(8), 1 + dice.roll(6) as usize);
    let text = format!("key{number}");
    match dice.roll(21) {
        0 => deed(move |tx| tx.suspension(row, None)),
        1 => deed(move |tx| tx.suspension(row, Some(number))),
        2 => deed(move |tx| tx.suspension_by_key(row, 1 + number % 2, &text)),
        3 => deed(move |tx| tx.suspensions(row, number, limit)),
        4 => deed(move |tx| {
            let all = tx.waitpoints(row, 0, 99)?;
            all.into_iter().map(|one| tx.waitpoint(row, one.id)).collect::<Result<Vec<_>>>()
        }),
        5 => deed(move |tx| tx.open_waitpoints(row)),
        6 => deed(move |tx| tx.last_waitpoint(row)),
        7 => deed(move |tx| tx.waitpoints(row, number, limit)),
        8 => deed(move |tx| tx.inbox(NamespaceId(1), None, None, limit)),
        9 => deed(move |tx| tx.inbox(NamespaceId(1), Some("w1"), None, 99)),
        10 => deed(move |tx| tx.count_signed(NamespaceId(1), "k1")),
        11 => deed(move |tx| tx.last_signal(row)),
        12 => deed(move |tx| tx.signal_by_key(row, &format!("/{text}"))),
        13 => deed(move |tx| tx.kept_signals(row, 1 + number % 3)),
        14 => deed(move |tx| tx.taken_signals(row, 1 + number % 3, number / 2, limit)),
        15 => deed(move |tx| tx.signals(row, number, limit)),
        16 => deed(move |tx| {
            let seqs: Vec<u32> = tx.signals(row, 0, 99)?.iter().map(|one| one.seq).rev().collect();
            Ok(shown(tx.signal_payloads(row, &seqs)?))
        }),
        17 => deed(move |tx| tx.step(row, &format!("s{}", number / 2), number % 2)),
        18 => deed(move |tx| tx.last_step(row)),
        19 => deed(move |tx| {
            let steps = tx.steps(row, number, limit)?;
            let seqs: Vec<u32> = steps.iter().map(|one| one.seq).collect();
            Ok((steps, shown(tx.step_results(row, &seqs)?)))
        }),
        _ => deed(move |tx| tx.signing_keys(NamespaceId(1))),
    }
}

/// Any change beside an execution, as it stands in `tx`.
fn change(tx: &mut dyn Tx, row: RowId, dice: &mut Dice) -> Deed {
    let run = tx.execution(row).unwrap().expect("it is there").run;
    match dice.roll(11) {
        0 => {
            let last = tx.suspension(row, None).unwrap().map_or(0, |last| last.number);
            let new = suspension(row, last + 1, run, dice);
            with_mail(row, move |tx| tx.add_suspension(&new))
        }
        1 => {
            let by = EndedBy::Operator { by: "ops".into(), reason: None };
            let end = Some(SuspensionEnd { at: at(8), by });
            let which = 1 + dice.roll(5);
            deed(move |tx| {
                let Some(mut one) = tx.suspension(row, Some(which))? else { return Ok(()) };
                one.course.end = end.clone();
                tx.save_suspension(&one)
            })
        }
        2 | 3 => {
            let new = waitpoint(row, tx.last_waitpoint(row).unwrap() + 1, dice);
            with_mail(row, move |tx| tx.add_waitpoint(&new))
        }
        4 => {
            let state = if dice.toss() { closed() } else { WaitpointState::Pending };
            let (after, kid) = (dice.roll(6), format!("k{}", dice.roll(2)));
            deed(move |tx| {
                let Some(mut one) = tx.waitpoints(row, after, 1)?.pop() else { return Ok(()) };
                (one.state, one.kid) = (state.clone(), kid.clone());
                tx.save_waitpoint(&one)
            })
        }
        5 => {
            let new = signal(row, tx.last_signal(row).unwrap() + 1, run, dice);
            let payload = payload(new.seq);
            with_mail(row, move |tx| tx.add_signal(&new, &payload))
        }
        6 => {
            let (run, taken) = (1 + dice.roll(run), Some(taken(dice)));
            deed(move |tx| {
                let kept = tx.kept_signals(row, run)?.into_iter().next();
                kept.map_or(Ok(()), |one| tx.save_signal(&Signal { taken, ..one }))
            })
        }
        7 | 8 => {
            let seq = tx.last_step(row).unwrap() + 1;
            with_steps(row, move |tx| tx.add_step(&step(row, seq), &payload(seq + 1)))
        }
        9 => {
            let from = dice.roll(6);
            deed(move |tx| {
                let before = tx.steps(row, 0, 99)?;
                tx.drop_steps(row, from)?;
                let named = before.iter().map(|one| tx.step(row, &one.name, one.occurrence));
                let named = named.collect::<Result<Vec<_>>>()?;
                Ok((named, tx.last_step(row)?, tx.steps(row, 1, 3)?))
            })
        }
        _ => {
            let key = SigningKey {
                namespace: NamespaceId(1),
                kid: format!("k{}", dice.roll(3)),
                secret: dice.toss().then(|| SigningSecret::new([3; 32])),
                created_at: at(dice.roll(9).into()),
                state: KeyState::Retiring { since: at(3), until: Some(at(9)) },
            };
            deed(move |tx| tx.put_signing_key(&key))
        }
    }
}

/// Adds mail to an execution that says so.
fn with_mail(row: RowId, add: impl Fn(&mut dyn Tx) -> Result<()> + 'static) -> Deed {
    deed(move |tx| {
        let mut execution = tx.execution(row)?.expect("it is there");
        execution.beside.mail = true;
        tx.save(&execution)?;
        add(tx)
    })
}

fn with_steps(row: RowId, add: impl Fn(&mut dyn Tx) -> Result<()> + 'static) -> Deed {
    deed(move |tx| {
        let mut execution = tx.execution(row)?.expect("it is there");
        execution.beside.steps = true;
        tx.save(&execution)?;
        add(tx)
    })
}

/// Begins the next run of an execution.
fn next_run(row: RowId) -> Deed {
    deed(move |tx| {
        let mut execution = tx.execution(row)?.expect("it is there");
        execution.run += 1;
        tx.save(&execution)
    })
}

/// All that a snapshot says about some executions.
fn told(store: &mut dyn Store, rows: &[RowId]) -> Vec<String> {
    let mut read = store.read().unwrap();
    let mut told = Vec::new();
    let mut tell = |one: &dyn Debug| told.push(format!("{one:?}"));
    for row in rows.iter().copied() {
        tell(&read.suspension(row, None).unwrap());
        tell(&read.suspensions(row, 1, 3).unwrap());
        tell(&read.open_waitpoints(row).unwrap());
        tell(&(read.last_waitpoint(row).unwrap(), read.last_signal(row).unwrap()));
        let waitpoints = read.waitpoints(row, 0, 99).unwrap();
        for one in &waitpoints {
            tell(&read.waitpoint(row, one.id).unwrap());
            tell(&read.waitpoint(RowId(row.0 + 1), one.id).unwrap());
            tell(&read.inbox(one.namespace, None, Some(one.id), 2).unwrap());
        }
        tell(&waitpoints);
        let signals = read.signals(row, 0, 99).unwrap();
        let seqs: Vec<u32> = signals.iter().rev().map(|one| one.seq).collect();
        tell(&(signals, shown(read.signal_payloads(row, &seqs).unwrap())));
        for number in 0..9 {
            tell(&read.suspension(row, Some(number)).unwrap());
            tell(&read.suspension_by_key(row, 1, &format!("key{number}")).unwrap());
            tell(&read.signal_by_key(row, &format!("/key{number}")).unwrap());
            tell(&read.kept_signals(row, number).unwrap());
            tell(&read.taken_signals(row, number, 0, 2).unwrap());
            tell(&read.taken_signals(row, 1, number, 2).unwrap());
            tell(&read.step(row, &format!("s{number}"), number % 2).unwrap());
        }
        let steps = read.steps(row, 0, 99).unwrap();
        let seqs: Vec<u32> = steps.iter().map(|one| one.seq).collect();
        tell(&(steps, shown(read.step_results(row, &seqs).unwrap())));
        tell(&(read.last_step(row).unwrap(), read.steps(row, 2, 2).unwrap()));
    }
    for kid in ["k0", "k1", "none"] {
        tell(&read.count_signed(NamespaceId(1), kid).unwrap());
    }
    tell(&read.inbox(NamespaceId(1), None, None, 99).unwrap());
    tell(&read.inbox(NamespaceId(1), Some("w1"), None, 2).unwrap());
    tell(&read.signing_keys(NamespaceId(1)).unwrap());
    told
}

/// Submits some executions, which have the same rows in every store.
fn submit(store: &mut dyn Store, count: usize) -> Vec<Execution> {
    let executions: Vec<_> = (0..count).map(|_| NewExecution::new("work")).collect();
    let mut call =
        Call::new(Submit { namespace: "default".into(), executions }, Seed::from_number(7));
    run_batch(store, &mut [&mut call], &Settings::default(), &Stopped);
    let ids: Vec<_> = call.into_answer().unwrap().executions.iter().map(Submission::id).collect();
    let found = store.read().unwrap().find(NamespaceId(1), &ids).unwrap();
    found.into_iter().flatten().collect()
}

#[test]
fn whatever_happens_beside_executions_this_store_tells_what_the_one_in_memory_tells() {
    let schema = Schema::new("mail");
    let (mut memory, mut store) = (MemoryStore::new(), schema.open());
    let rows: Vec<RowId> = submit(&mut memory, 3).iter().map(|one| one.row).collect();
    assert_eq!(rows, submit(&mut store, 3).iter().map(|one| one.row).collect::<Vec<_>>());
    let seed = std::env::var("EVERLOOM_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    let mut dice = Dice(seed);
    for round in 0..200 {
        let (mut deeds, mut expected) = (Vec::new(), Vec::new());
        let mut tx = memory.begin().unwrap();
        for _ in 0..=dice.roll(12) {
            let row = rows[dice.roll(3) as usize];
            let next = match dice.roll(20) {
                0 => next_run(row),
                1..=8 => change(&mut *tx, row, &mut dice),
                _ => question(row, &mut dice),
            };
            expected.push(next(&mut *tx).unwrap());
            deeds.push(next);
        }
        let now = tx.last_now().unwrap();
        tx.commit(now).unwrap();
        let found = transact(&mut store, |tx| answers(tx, &deeds));
        assert_eq!(found, expected, "in transaction {round}; EVERLOOM_SEED={seed}");
        if round % 10 == 0 {
            for (found, expected) in told(&mut store, &rows).iter().zip(told(&mut memory, &rows)) {
                assert_eq!(*found, expected, "after transaction {round}; EVERLOOM_SEED={seed}");
            }
        }
    }
}
