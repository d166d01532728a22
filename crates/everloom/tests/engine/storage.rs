//! What a file can do to an engine, and what the engine makes of it.

use std::time::Duration;

use crate::common::{Scratch, count};
use everloom::{Claim, Code, Engine, EventFilter, EventKind, From, NewExecution, Payload, Status};

async fn refusal(url: &str) -> everloom::Error {
    Engine::open(url).await.expect_err("it can not be opened")
}

#[tokio::test]
async fn a_file_that_is_not_a_database_is_refused_and_left_alone() {
    let scratch = Scratch::new();
    let words = "not a database, but long enough to look like one. ".repeat(100);
    std::fs::write(&scratch.file, &words).unwrap();
    let error = refusal(scratch.url()).await;
    assert_eq!(error.code(), Code::NotADatabase);
    assert!(error.message().contains(scratch.url()), "{error}");
    assert_eq!(std::fs::read_to_string(&scratch.file).unwrap(), words);
}

#[tokio::test]
async fn a_file_of_a_newer_schema_is_refused() {
    let scratch = Scratch::new();
    scratch.engine().await.close(Duration::from_secs(5)).await;
    let file = rusqlite::Connection::open(&scratch.file).unwrap();
    file.pragma_update(None, "user_version", 9999).unwrap();
    drop(file);
    assert_eq!(refusal(scratch.url()).await.code(), Code::SchemaTooNew);
}

#[tokio::test]
async fn a_store_this_version_does_not_have_is_refused_by_name() {
    let error = refusal("mysql://localhost/db").await;
    assert_eq!((error.code(), error.field()), (Code::Unsupported, Some("url")));
}

#[tokio::test]
async fn a_full_disk_refuses_writes_and_the_engine_goes_on_serving() {
    let scratch = Scratch::new();
    let engine = Engine::options().max_pages(200).open(scratch.url()).await.unwrap();
    let large = || NewExecution::new("work").input(Payload::bytes(vec![1; 20_000]));
    let mut accepted = Vec::new();
    let error = loop {
        match engine.submit_one(large()).await {
            Ok(submitted) => accepted.push(submitted.id()),
            Err(error) => break error,
        }
    };
    assert_eq!(error.code(), Code::StorageFull);
    assert!(error.is_retryable());
    assert_eq!(count(&engine, Status::Waiting).await, accepted.len() as u64);
    assert_eq!(engine.input(accepted[0]).await.unwrap().bytes.len(), 20_000);

    // Removing makes room, and writing goes on without a restart.
    let mut freed = 0;
    for id in &accepted {
        if engine.cancel(*id).await.is_ok() && engine.delete(*id).await.is_ok() {
            freed += 1;
        }
    }
    assert!(freed > 0, "nothing could be removed from a full file");
    engine.submit_one(large()).await.unwrap();
}

#[tokio::test]
async fn a_batch_shared_with_one_that_does_not_fit_is_answered_alike_and_nothing_is_half_done() {
    let scratch = Scratch::new();
    let engine = Engine::options().max_pages(120).inline(false).open(scratch.url()).await.unwrap();
    let mut calls = tokio::task::JoinSet::new();
    for number in 0..60 {
        let engine = engine.clone();
        let input = Payload::bytes(vec![1; if number % 2 == 0 { 10 } else { 30_000 }]);
        calls.spawn(async move { engine.submit_one(NewExecution::new("work").input(input)).await });
    }
    let mut accepted = 0;
    while let Some(answer) = calls.join_next().await {
        match answer.unwrap() {
            Ok(_) => accepted += 1,
            Err(error) => assert_eq!(error.code(), Code::StorageFull),
        }
    }
    assert_eq!(count(&engine, Status::Waiting).await, accepted);
}

#[tokio::test]
async fn a_file_without_a_write_ahead_log_serves_as_well() {
    let scratch = Scratch::new();
    let engine = Engine::options().wal(false).open(scratch.url()).await.unwrap();
    let id = engine.submit_one(NewExecution::new("work")).await.unwrap().id();
    let lease = engine.claim(Claim::new("worker")).await.unwrap().leases.remove(0).lease;
    engine.complete(&lease, Payload::default()).await.unwrap();
    assert_eq!(engine.wait(id).await.unwrap().status, Status::Completed);
    assert!(!scratch.beside("test.db-wal").exists());
}

#[tokio::test]
async fn an_old_or_missing_schema_is_refused_when_migrating_is_off() {
    let scratch = Scratch::new();
    let error = Engine::options().migrate(false).open(scratch.url()).await.unwrap_err();
    assert_eq!(error.code(), Code::MigrationNeeded);
    assert!(!scratch.file.exists());
}

#[tokio::test]
async fn the_same_file_opened_twice_is_one_engine() {
    let scratch = Scratch::new();
    let one = scratch.engine().await;
    let url = format!("sqlite://{}", scratch.url());
    let two = Engine::open(&url).await.unwrap();
    let waiting = tokio::spawn({
        let claim = Claim { wait: Duration::from_secs(4), ..Claim::new("worker") };
        async move { two.claim(claim).await }
    });
    one.submit_one(NewExecution::new("work")).await.unwrap();
    assert_eq!(waiting.await.unwrap().unwrap().leases.len(), 1);
    one.close(Duration::from_secs(5)).await;
    // A closed engine is not handed out again.
    let again = scratch.engine().await;
    assert_eq!(count(&again, Status::Active).await, 1);
}

#[tokio::test]
async fn databases_in_memory_are_one_per_name_and_process() {
    let one = Engine::open("file:shared?mode=memory&cache=shared").await.unwrap();
    let same = Engine::open("file:shared?mode=memory&cache=shared").await.unwrap();
    let other = Engine::open("file:other?mode=memory&cache=shared").await.unwrap();
    one.submit_one(NewExecution::new("work")).await.unwrap();
    assert_eq!(count(&same, Status::Waiting).await, 1);
    assert_eq!(count(&other, Status::Waiting).await, 0);
    assert_eq!(same.about().await.unwrap().store.unwrap().store, "sqlite");
}

#[tokio::test]
async fn everything_is_there_after_a_restart_and_a_cursor_goes_on() {
    let scratch = Scratch::new();
    let engine = scratch.engine().await;
    let kinds = vec![EventKind::Submitted];
    let filter = || EventFilter { kinds: kinds.clone(), ..EventFilter::default() };
    let mut events = engine.subscribe(filter(), From::Oldest).await.unwrap();
    let first = engine.submit_one(NewExecution::new("work").key("one")).await.unwrap();
    assert_eq!(events.next().await.unwrap().unwrap().execution, Some(first.id()));
    let seen = events.cursor();
    let second = engine.submit_one(NewExecution::new("work")).await.unwrap();
    drop(events);
    engine.close(Duration::from_secs(5)).await;

    let engine = scratch.engine().await;
    let mut events = engine.subscribe(filter(), From::After(seen)).await.unwrap();
    assert_eq!(events.next().await.unwrap().unwrap().execution, Some(second.id()));
    let again = engine.submit_one(NewExecution::new("work").key("one")).await.unwrap();
    assert_eq!((again.id(), again.is_duplicate()), (first.id(), true));
}

#[tokio::test]
async fn a_backup_made_under_load_is_a_whole_database() {
    let scratch = Scratch::new();
    let engine = scratch.engine().await;
    let input = Payload::bytes(vec![7; 2000]);
    let batch = vec![NewExecution::new("work").input(input.clone()); 1000];
    engine.submit_batch(batch).await.unwrap();
    let load = tokio::spawn({
        let engine = engine.clone();
        async move {
            loop {
                engine.submit_one(NewExecution::new("late")).await.unwrap();
            }
        }
    });
    let copy = scratch.beside("copy.db");
    let mut steps = 0;
    engine.backup_with(&copy, |_| steps += 1).await.unwrap();
    load.abort();
    assert!(steps > 1, "the copy was made in one go");

    let copied = Engine::open(crate::common::text(&copy)).await.unwrap();
    assert!(count(&copied, Status::Waiting).await >= 1000);
    let file = rusqlite::Connection::open(&copy).unwrap();
    let verdict: String = file.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(verdict, "ok");
    let error = engine.backup_to(&copy).await.unwrap_err();
    assert_eq!(error.code(), Code::InUse);
}

#[tokio::test]
async fn a_backup_whose_caller_leaves_is_abandoned() {
    let scratch = Scratch::new();
    let engine = scratch.engine().await;
    let input = Payload::bytes(vec![7; 4000]);
    engine.submit_batch(vec![NewExecution::new("work").input(input); 1000]).await.unwrap();
    let copy = scratch.beside("copy.db");
    let (step, mut stepped) = tokio::sync::mpsc::unbounded_channel();
    let begun = tokio::spawn({
        let (engine, copy) = (engine.clone(), copy.clone());
        async move { engine.backup_with(copy, |done| step.send(done).unwrap()).await }
    });
    let first = stepped.recv().await.unwrap();
    assert!(!first.is_complete());
    begun.abort();
    assert!(begun.await.unwrap_err().is_cancelled());
    // The name is free again at once: what there was of the copy is gone.
    engine.backup_to(&copy).await.unwrap();
}
