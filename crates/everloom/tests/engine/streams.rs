//! Streams through the engine: tails that follow across attempts, processes and closings.

use std::path::Path;
use std::time::Duration;

use everloom::{
    Cancel, Claim, Code, Engine, ExecutionId, Failure, FrameMode, FrameView, Leased, Limits,
    Liveness, ManualClock, NewExecution, NewFrame, Payload, Policy, ReadStream, StreamEnd,
    StreamFrom, Tail, TailStream, Timestamp,
};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use tokio::task::JoinSet;

use crate::common::{Ledger, Scratch, another_process, postgres_url, text, until};

/// An engine that only looks when it is told to.
async fn open(url: &str) -> Engine {
    Engine::options().recheck(Duration::from_secs(3600)).open(url).await.unwrap()
}

async fn claim_one(engine: &Engine) -> Leased {
    let claim = Claim { wait: Limits::WAIT_MAX, ..Claim::new("w") };
    engine.claim(claim).await.unwrap().leases.remove(0)
}

async fn begin(engine: &Engine, policy: Policy) -> Leased {
    engine.submit(NewExecution::new("work").policy(policy)).await.unwrap();
    claim_one(engine).await
}

fn keeping(frames: u64) -> Policy {
    Policy { stream_retention: Some(frames), ..Policy::default() }
}

/// Each says its number.
fn frames(numbers: impl Iterator<Item = u64>) -> Vec<NewFrame> {
    numbers.map(|number| NewFrame::new(Payload::bytes(number.to_string()))).collect()
}

fn live(frame: NewFrame, ceiling: u32) -> NewFrame {
    let keep = Liveness { floor: ceiling, ceiling, ..Liveness::default() };
    NewFrame { keep: FrameMode::Live(keep), ..frame }
}

async fn append(engine: &Engine, leased: &Leased, frames: Vec<NewFrame>) {
    engine.append(&leased.lease, frames).await.unwrap();
}

/// The number of the next frame, which says it.
async fn next(tail: &mut Tail) -> u64 {
    let frame = tail.next().await.expect("the stream goes on").unwrap();
    says_its_number(&frame);
    frame.seq
}

fn says_its_number(frame: &FrameView) {
    assert_eq!(frame.payload.bytes, frame.seq.to_string().into_bytes());
}

/// The numbers of all frames up to the end, and what it was.
async fn rest(tail: &mut Tail) -> (Vec<u64>, StreamEnd) {
    let mut seen = Vec::new();
    while let Some(frame) = tail.next().await {
        let frame = frame.unwrap();
        says_its_number(&frame);
        seen.push(frame.seq);
        // It may have come past frames that are not wanted.
        assert!(tail.cursor() >= frame.seq);
    }
    (seen, tail.closed().expect("it has closed").why)
}

fn numbers(from: u64, to: u64) -> Vec<u64> {
    (from..=to).collect()
}

#[tokio::test]
async fn a_tail_replays_and_follows_across_attempts_until_the_stream_closes() {
    let scratch = Scratch::new();
    for url in [scratch.url(), &postgres_url()] {
        let engine = open(url).await;
        let first = begin(&engine, Policy::default()).await;
        append(&engine, &first, frames(1..=700)).await;
        let mut tail = engine.tail_stream(TailStream::new(first.id())).await.unwrap();
        let mut second_only = TailStream::new(first.id());
        second_only.attempt = Some(2);
        let mut second_only = engine.tail_stream(second_only).await.unwrap();
        for number in 1..=700 {
            assert_eq!(next(&mut tail).await, number);
        }
        append(&engine, &first, frames(701..=702)).await;
        assert_eq!((next(&mut tail).await, next(&mut tail).await), (701, 702));
        assert_eq!((tail.closed(), tail.cursor()), (None, 702));

        let broken = Failure::transient("the line is dead");
        engine.fail_with(&first.lease, broken, Some(Duration::ZERO)).await.unwrap();
        let second = claim_one(&engine).await;
        assert_eq!((second.id(), second.attempt), (first.id(), 2));
        append(&engine, &second, frames(703..=703)).await;
        let frame = tail.next().await.unwrap().unwrap();
        assert_eq!((frame.seq, frame.attempt), (703, 2));
        append(&engine, &second, frames(704..=704)).await;
        engine.complete(&second.lease, Payload::default()).await.unwrap();
        assert_eq!(rest(&mut tail).await, (vec![704], StreamEnd::Completed));
        assert!(tail.next().await.is_none());
        assert_eq!(rest(&mut second_only).await, (vec![703, 704], StreamEnd::Completed));

        // Whoever comes later gets the same.
        let mut late = engine.tail_stream(TailStream::new(first.id())).await.unwrap();
        assert_eq!(rest(&mut late).await, (numbers(1, 704), StreamEnd::Completed));
        let resumed = TailStream::new(first.id()).after(699);
        let mut resumed = engine.tail_stream(resumed).await.unwrap();
        assert_eq!(rest(&mut resumed).await, (numbers(700, 704), StreamEnd::Completed));
    }
}

/// Frames of which each is appended only when the one before was seen elsewhere.
const TOLD: u64 = 5;

#[tokio::test]
async fn each_append_of_another_process_wakes_a_tail() {
    let scratch = Scratch::new();
    for (url, ledger) in [(scratch.url(), "sqlite"), (&postgres_url(), "postgres")] {
        let ledger = scratch.beside(ledger);
        let engine = open(url).await;
        let id = engine.submit(NewExecution::new("work")).await.unwrap().id();
        let mut tail = engine.tail_stream(TailStream::new(id)).await.unwrap();
        let settings = [("EVERLOOM_TEST_FILE", url), ("EVERLOOM_TEST_LEDGER", text(&ledger))];
        let mut child = another_process("teller", &settings);
        let mut seen = Ledger::open(text(&ledger));
        for number in 1..=TOLD {
            assert_eq!(next(&mut tail).await, number);
            seen.note("seen", &number.to_string());
        }
        assert_eq!(rest(&mut tail).await, (vec![], StreamEnd::Finished));
        assert!(child.wait().unwrap().success());
    }
}

/// Appends a frame whenever the last one was seen.
pub(crate) async fn teller(url: &str, ledger: &str) {
    let engine = Engine::open(url).await.unwrap();
    let leased = claim_one(&engine).await;
    for number in 1..=TOLD {
        append(&engine, &leased, frames(number..=number)).await;
        until(async || Ledger::read(Path::new(ledger), "seen").len() as u64 >= number).await;
    }
    engine.close_stream(&leased.lease).await.unwrap();
    engine.close(Duration::from_secs(5)).await;
}

#[tokio::test]
async fn a_tail_ends_with_its_stream_and_says_why() {
    let scratch = Scratch::new();
    for url in [scratch.url(), &postgres_url()] {
        let clock = ManualClock::new(Timestamp::from_millis(1_000_000));
        let options = Engine::options().clock(clock.clone()).recheck(Duration::from_secs(3600));
        let engine = options.open(url).await.unwrap();
        for with_frames in [true, false] {
            for why in [
                StreamEnd::Finished,
                StreamEnd::Completed,
                StreamEnd::Failed,
                StreamEnd::Cancelled,
                StreamEnd::Expired,
            ] {
                let deadline = Policy { deadline: Some(DEADLINE), ..Policy::default() };
                let leased = begin(&engine, deadline).await;
                let wanted = TailStream::new(leased.id());
                let mut tail = engine.tail_stream(wanted).await.unwrap();
                let expected = if with_frames { numbers(1, 3) } else { vec![] };
                if with_frames {
                    append(&engine, &leased, frames(1..=3)).await;
                    assert_eq!(next(&mut tail).await, 1);
                }
                let following = tokio::spawn(async move { rest(&mut tail).await });
                end(&engine, &clock, &leased, why).await;
                let remaining = expected.get(1..).unwrap_or_default().to_vec();
                assert_eq!(following.await.unwrap(), (remaining, why));
                let mut late = engine.tail_stream(wanted).await.unwrap();
                assert_eq!(rest(&mut late).await, (expected, why));
            }
        }
    }
}

const DEADLINE: Duration = Duration::from_secs(60);

async fn end(engine: &Engine, clock: &ManualClock, leased: &Leased, why: StreamEnd) {
    let (id, lease) = (leased.id(), &leased.lease);
    match why {
        StreamEnd::Finished => drop(engine.close_stream(lease).await.unwrap()),
        StreamEnd::Completed => drop(engine.complete(lease, Payload::default()).await.unwrap()),
        StreamEnd::Failed => {
            engine.fail(lease, Failure::permanent("no")).await.unwrap();
        }
        StreamEnd::Cancelled => {
            engine.cancel_with(Cancel { force: true, ..Cancel::new(id) }).await.unwrap();
        }
        StreamEnd::Expired => clock.advance(DEADLINE),
        StreamEnd::Skipped => unreachable!("what runs is not skipped"),
    }
}

#[tokio::test]
async fn a_slow_reader_gets_every_durable_frame_and_is_told_of_live_ones_it_missed() {
    let scratch = Scratch::new();
    for url in [scratch.url(), &postgres_url()] {
        let engine = open(url).await;
        let leased = begin(&engine, Policy::default()).await;
        append(&engine, &leased, frames(1..=1)).await;
        let wanted = TailStream::new(leased.id());
        let mut all = engine.tail_stream(wanted).await.unwrap();
        let wanted = TailStream { durable_only: true, ..wanted };
        let mut durable = engine.tail_stream(wanted).await.unwrap();
        assert_eq!((next(&mut all).await, next(&mut durable).await), (1, 1));

        // Nobody polls while these come: two in three are live, and most of those do not stay.
        let is_live = |number: u64| !number.is_multiple_of(3);
        for batch in numbers(2, 9_000).chunks(1000) {
            let sort = |frame: NewFrame, number: u64| match is_live(number) {
                true => live(frame, 50),
                false => frame,
            };
            let frames = frames(batch.iter().copied()).into_iter().zip(batch.iter().copied());
            let frames = frames.map(|(frame, number)| sort(frame, number)).collect();
            append(&engine, &leased, frames).await;
        }
        engine.complete(&leased.lease, Payload::default()).await.unwrap();

        let wanted: Vec<_> = (2..=9_000).filter(|number| !is_live(*number)).collect();
        assert_eq!(rest(&mut durable).await.0, wanted);
        let (seen, _) = rest(&mut all).await;
        assert!(seen.is_sorted_by(|one, next| one < next));
        let (lively, lasting): (Vec<u64>, Vec<u64>) = seen.iter().partition(|seq| is_live(**seq));
        assert_eq!(lasting, wanted);
        assert!(lively.len() >= 50 && lively.ends_with(&[8_996, 8_998, 8_999]), "{lively:?}");
        assert!(all.missed() > 0, "nothing was removed: the test tests nothing");
        assert_eq!(seen.len() as u64 + all.missed(), 8_999);
    }
}

#[tokio::test]
async fn a_reader_behind_what_is_kept_is_told_and_can_begin_again() {
    let scratch = Scratch::new();
    for url in [scratch.url(), &postgres_url()] {
        let engine = open(url).await;
        let leased = begin(&engine, keeping(100)).await;
        append(&engine, &leased, frames(1..=10)).await;
        let mut tail = engine.tail_stream(TailStream::new(leased.id())).await.unwrap();
        for number in (11..=3_000).step_by(10) {
            append(&engine, &leased, frames(number..number + 10)).await;
        }
        // It has these already.
        for number in 1..=10 {
            assert_eq!(next(&mut tail).await, number);
        }
        let expired = tail.next().await.unwrap().unwrap_err();
        assert_eq!((expired.code(), tail.cursor()), (Code::CursorExpired, 10));
        assert!(tail.next().await.is_none());
        assert_eq!(tail.closed(), None);

        engine.complete(&leased.lease, Payload::default()).await.unwrap();
        let mut again = engine.tail_stream(TailStream::new(leased.id())).await.unwrap();
        assert_eq!(rest(&mut again).await, (numbers(2_901, 3_000), StreamEnd::Completed));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fifty_tails_see_every_frame_once() {
    let scratch = Scratch::new();
    for url in [scratch.url(), &postgres_url()] {
        let engine = open(url).await;
        let leased = begin(&engine, keeping(10_000)).await;
        let mut watching = JoinSet::new();
        for number in 0..50 {
            let durable_only = number % 2 == 0;
            let wanted = TailStream { durable_only, ..TailStream::new(leased.id()) };
            let mut tail = engine.tail_stream(wanted).await.unwrap();
            watching.spawn(async move { (durable_only, rest(&mut tail).await, tail.missed()) });
        }
        let is_live = |number: u64| number.is_multiple_of(4);
        for number in 1..=300 {
            let frame = frames(number..=number).remove(0);
            let frame = if is_live(number) { live(frame, 1_000) } else { frame };
            append(&engine, &leased, vec![frame]).await;
        }
        engine.complete(&leased.lease, Payload::default()).await.unwrap();
        while let Some(watched) = watching.join_next().await {
            let (durable_only, (seen, why), missed) = watched.unwrap();
            let wanted = (1..=300).filter(|number| !(durable_only && is_live(*number)));
            assert_eq!(seen, wanted.collect::<Vec<_>>());
            assert_eq!((why, missed), (StreamEnd::Completed, 0));
        }
    }
}

const READERS: usize = 8;
const WRITTEN: u64 = 4_000;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readers_at_random_places_beside_a_writer_see_every_frame_once() {
    let given = std::env::var("EVERLOOM_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = given.unwrap_or_else(|| rand::rng().random());
    println!("EVERLOOM_SEED={seed}");
    let scratch = Scratch::new();
    for url in [scratch.url(), &postgres_url()] {
        let mut random = StdRng::seed_from_u64(seed);
        let engine = open(url).await;
        let leased = begin(&engine, keeping(WRITTEN)).await;
        let mut reading = JoinSet::new();
        for reader in 0..READERS {
            let random = StdRng::seed_from_u64(random.random());
            let (engine, id) = (engine.clone(), leased.id());
            reading.spawn(async move {
                match reader % 2 {
                    0 => read_from_random_places(&engine, id, random).await,
                    _ => tail_from_random_places(&engine, id, random).await,
                }
            });
        }
        let mut last = 0;
        while last < WRITTEN {
            let to = WRITTEN.min(last + random.random_range(1..=40));
            append(&engine, &leased, frames(last + 1..=to)).await;
            last = to;
        }
        engine.complete(&leased.lease, Payload::default()).await.unwrap();
        while let Some(read) = reading.join_next().await {
            read.unwrap();
        }
    }
}

/// Somewhere in what there is so far.
async fn random_place(engine: &Engine, id: ExecutionId, random: &mut StdRng) -> u64 {
    let page = engine.read_stream(ReadStream::new(id)).await.unwrap();
    random.random_range(0..=page.last)
}

/// Reads page by page, each from where the last one ended, until the stream has closed.
async fn read_from_random_places(engine: &Engine, id: ExecutionId, mut random: StdRng) {
    let from = random_place(engine, id, &mut random).await;
    let mut after = from;
    loop {
        let limit = random.random_range(1..=100);
        let read = ReadStream { from: StreamFrom::After(after), limit, ..ReadStream::new(id) };
        let page = engine.read_stream(read).await.unwrap();
        let seen: Vec<_> = page.frames.iter().map(|frame| frame.seq).collect();
        assert_eq!(seen, numbers(after + 1, after + seen.len() as u64));
        page.frames.iter().for_each(says_its_number);
        after = page.next;
        if page.at_end && page.closed.is_some() {
            assert_eq!(after, WRITTEN, "from {from}");
            return;
        }
    }
}

/// Tails for a while, drops the tail and goes on from its cursor, until the stream has closed.
async fn tail_from_random_places(engine: &Engine, id: ExecutionId, mut random: StdRng) {
    let mut after = random_place(engine, id, &mut random).await;
    loop {
        let mut tail = engine.tail_stream(TailStream::new(id).after(after)).await.unwrap();
        for _ in 0..random.random_range(1..600) {
            let Some(frame) = tail.next().await else {
                assert_eq!(after, WRITTEN);
                return;
            };
            let frame = frame.unwrap();
            assert_eq!(frame.seq, after + 1);
            says_its_number(&frame);
            after = tail.cursor();
        }
    }
}
