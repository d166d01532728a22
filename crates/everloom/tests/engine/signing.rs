//! Signing keys that several engines share: nobody trusts what it remembers of them.

use everloom::{
    Claim, Code, Condition, DeliverSignal, Distinct, Engine, ExecutionId, KeyState, NewExecution,
    RotateSigningKey, SignalTo, Suspend, SuspendOutcome, Ticket, Token,
};
use tokio::task::JoinSet;

use crate::common::{Scratch, postgres_url};

/// How many executions each engine suspends at once.
const EACH: usize = 20;

/// Waits for more signals than ever come, so that its token can be tried again and again.
async fn suspend(engine: &Engine) -> (ExecutionId, Ticket) {
    let claim = Claim::new("w");
    let leased = engine.claim(claim).await.unwrap().leases.remove(0);
    let condition = Condition::count(1000, Distinct::Signals, ["go"]);
    let id = leased.id();
    let outcome = engine.suspend(Suspend::new(leased.lease, condition)).await.unwrap();
    let SuspendOutcome::Suspended { mut waitpoints, .. } = outcome else { panic!("it waits") };
    (id, waitpoints.remove(0))
}

async fn is_good(engine: &Engine, id: ExecutionId, token: &Token) -> bool {
    let to = SignalTo::Token(token.clone());
    match engine.deliver_signal(DeliverSignal { to, ..DeliverSignal::new(id, "x") }).await {
        Ok(_) => true,
        Err(error) => {
            assert_eq!(error.code(), Code::InvalidToken, "{error}");
            false
        }
    }
}

fn kid(ticket: &Ticket) -> &str {
    ticket.token.as_str().split('.').next().unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn engines_that_need_a_key_at_the_same_time_make_one() {
    let scratch = Scratch::new();
    for url in [scratch.url(), &postgres_url()] {
        let engines = [Engine::open(url).await.unwrap(), Engine::open(url).await.unwrap()];
        engines[0].submit_batch(vec![NewExecution::new("work"); 2 * EACH]).await.unwrap();
        let mut suspending = JoinSet::new();
        for number in 0..2 * EACH {
            let engine = engines[number % 2].clone();
            suspending.spawn(async move { suspend(&engine).await });
        }
        let suspended = suspending.join_all().await;
        let keys = engines[1].signing_keys().await.unwrap().keys;
        assert_eq!(keys.len(), 1);
        for (id, ticket) in suspended {
            assert_eq!(kid(&ticket), keys[0].kid);
            assert!(is_good(&engines[0], id, &ticket.token).await);
            assert!(is_good(&engines[1], id, &ticket.token).await);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_one_engine_does_to_a_key_holds_for_all_at_once() {
    let scratch = Scratch::new();
    for url in [scratch.url(), &postgres_url()] {
        let (here, there) = (Engine::open(url).await.unwrap(), Engine::open(url).await.unwrap());
        here.submit_batch(vec![NewExecution::new("work"); 3]).await.unwrap();
        let (id, first) = suspend(&here).await;
        assert!(is_good(&here, id, &first.token).await && is_good(&there, id, &first.token).await);
        let rotate = RotateSigningKey { kid: Some("new".into()), ..RotateSigningKey::default() };
        there.rotate_signing_key(rotate).await.unwrap();
        let (other, second) = suspend(&here).await;
        assert_eq!(kid(&second), "new");
        assert!(is_good(&here, id, &first.token).await && is_good(&there, id, &first.token).await);
        there.revoke_signing_key(kid(&first)).await.unwrap();
        assert!(!is_good(&here, id, &first.token).await);
        assert!(is_good(&here, other, &second.token).await);
        here.revoke_signing_key("new").await.unwrap();
        assert!(!is_good(&there, other, &second.token).await);
        let (_, third) = suspend(&there).await;
        let keys = here.signing_keys().await.unwrap().keys;
        let active: Vec<_> = keys.iter().filter(|key| key.state == KeyState::Active).collect();
        assert_eq!(active.len(), 1);
        assert_eq!(active[0].kid, kid(&third));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rotations_at_the_same_time_leave_one_key_that_signs() {
    let scratch = Scratch::new();
    for url in [scratch.url(), &postgres_url()] {
        let engines = [Engine::open(url).await.unwrap(), Engine::open(url).await.unwrap()];
        engines[0].submit_batch(vec![NewExecution::new("work"); 2 * EACH]).await.unwrap();
        let mut rotating = JoinSet::new();
        for number in 0..2 * EACH {
            let engine = engines[number % 2].clone();
            rotating.spawn(async move {
                engine.rotate_signing_key(RotateSigningKey::default()).await.unwrap();
                suspend(&engine).await
            });
        }
        let suspended = rotating.join_all().await;
        let keys = engines[0].signing_keys().await.unwrap().keys;
        assert_eq!(keys.len(), 2 * EACH);
        assert_eq!(keys.iter().filter(|key| key.state == KeyState::Active).count(), 1);
        for (id, ticket) in suspended {
            assert!(is_good(&engines[0], id, &ticket.token).await, "{}", kid(&ticket));
        }
    }
}
