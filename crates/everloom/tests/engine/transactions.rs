//! Submissions in a program's own transaction reach the workers of other processes.

use std::process::Child;
use std::time::Duration;

use everloom::postgres::tokio_postgres::{self, Client, NoTls};
use everloom::sqlite::rusqlite::{Connection, TransactionBehavior};
use everloom::{Claim, Code, Engine, NewExecution, Status, postgres, sqlite};

use crate::common::{Scratch, another_process, count, postgres_url, until};

const ROUNDS: i64 = 6;

/// Makes the database, where nothing is due in time.
async fn prepare(url: &str) {
    let options = Engine::options().sweep_every(Duration::from_secs(3600));
    options.open(url).await.unwrap().close(Duration::from_secs(5)).await;
}

async fn connect(url: &str) -> (Client, String) {
    let (server, schema) = url.split_once("?schema=").unwrap();
    let (client, connection) = tokio_postgres::connect(server, NoTls).await.unwrap();
    tokio::spawn(connection);
    (client, schema.to_owned())
}

/// A worker that was not told in time has left with an error.
fn expect_no_failure(worker: &mut Child) {
    let left = worker.try_wait().unwrap();
    assert!(left.is_none_or(|status| status.success()), "the worker was not told");
}

fn work() -> NewExecution {
    NewExecution::new("work")
}

#[tokio::test]
async fn a_worker_of_another_process_hears_of_a_commit_on_postgres_although_it_does_not_poll() {
    let url = postgres_url();
    prepare(&url).await;
    let settings = [("EVERLOOM_TEST_FILE", url.as_str()), ("EVERLOOM_TEST_ROUNDS", "6")];
    let mut worker = another_process("patient", &settings);
    // No engine here: this process is only a program with a connection.
    let (mut client, schema) = connect(&url).await;
    let submitter = postgres::Submitter::default().schema(&schema);
    let completed = format!("SELECT count(*) FROM {schema}.executions WHERE state = 10");
    for round in 0..ROUNDS {
        let mut tx = client.transaction().await.unwrap();
        if round % 2 == 0 {
            submitter.submit(&mut tx, work()).await.unwrap();
        } else {
            tx.execute(&format!("SELECT {schema}.submit('work')"), &[]).await.unwrap();
        }
        tx.commit().await.unwrap();
        let (client, completed) = (&client, &completed);
        until(|| {
            expect_no_failure(&mut worker);
            async move { client.query_one(completed, &[]).await.unwrap().get::<_, i64>(0) > round }
        })
        .await;
    }
    assert!(worker.wait().unwrap().success());
}

#[tokio::test]
async fn a_worker_of_another_process_hears_of_a_commit_on_sqlite() {
    let scratch = Scratch::new();
    prepare(scratch.url()).await;
    let settings = [("EVERLOOM_TEST_FILE", scratch.url()), ("EVERLOOM_TEST_ROUNDS", "6")];
    let mut worker = another_process("patient", &settings);
    let mut conn = Connection::open(&scratch.file).unwrap();
    conn.busy_timeout(Duration::from_secs(30)).unwrap();
    for round in 0..ROUNDS {
        let tx = conn.transaction_with_behavior(TransactionBehavior::Immediate).unwrap();
        if round % 2 == 0 {
            sqlite::submit(&tx, work()).unwrap();
        } else {
            tx.execute("INSERT INTO inbox (kind) VALUES ('work')", []).unwrap();
        }
        tx.commit().unwrap();
        let conn = &conn;
        until(|| {
            expect_no_failure(&mut worker);
            let completed = "SELECT count(*) FROM executions WHERE state = 10";
            async move { conn.query_row(completed, [], |row| row.get::<_, i64>(0)).unwrap() > round }
        })
        .await;
    }
    assert!(worker.wait().unwrap().success());
}

#[tokio::test]
async fn an_operator_sees_what_the_inbox_refused_and_tries_it_again() {
    let scratch = Scratch::new();
    let engine = scratch.engine().await;
    engine.submit_one(work()).await.unwrap();
    engine.drain_lane("default").await.unwrap();
    let conn = Connection::open(&scratch.file).unwrap();
    conn.execute_batch("INSERT INTO inbox (kind) VALUES ('work'), ('work')").unwrap();
    until(async || engine.request_counts().await.unwrap().refused == 2).await;
    let refused = engine.refused_requests(None).await.unwrap().requests;
    assert!(refused.iter().all(|one| one.refusal.code == Code::WrongState));
    engine.resume_lane("default").await.unwrap();
    engine.retry_request(refused[0].request).await.unwrap();
    engine.delete_request(refused[1].request).await.unwrap();
    until(async || count(&engine, Status::Waiting).await == 2).await;
    let counts = engine.request_counts().await.unwrap();
    assert_eq!((counts.waiting, counts.refused), (0, 0));
    assert_eq!(engine.claim(Claim { max: 9, ..Claim::new("w") }).await.unwrap().leases.len(), 2);
}
