//! A connection that is lost while it commits: what became of the commit is found out.

mod common;

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use common::{Admin, Schema, run, submit};
use everloom_postgres::{Options, PgStore};

/// Stands between a store and its server, and once, when told to, swallows the answer to a commit
/// and hangs up.
struct Proxy {
    port: u16,
    armed: Arc<AtomicBool>,
}

impl Proxy {
    fn start(server: String) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = listener.local_addr().expect("an address").port();
        let armed = Arc::new(AtomicBool::new(false));
        let arm = Arc::clone(&armed);
        std::thread::spawn(move || {
            for client in listener.incoming() {
                let client = client.expect("a connection");
                let server = TcpStream::connect(&server).expect("the server");
                relay_answers(&server, &client);
                let armed = Arc::clone(&arm);
                std::thread::spawn(move || relay_questions(client, server, &armed));
            }
        });
        Self { port, armed }
    }
}

fn relay_answers(server: &TcpStream, client: &TcpStream) {
    let (mut from, mut to) = (server.try_clone().unwrap(), client.try_clone().unwrap());
    std::thread::spawn(move || {
        let _ = std::io::copy(&mut from, &mut to);
        let _ = to.shutdown(Shutdown::Both);
    });
}

fn relay_questions(mut client: TcpStream, mut server: TcpStream, armed: &AtomicBool) {
    let mut buffer = [0; 65536];
    while let Ok(read @ 1..) = client.read(&mut buffer) {
        let commits = buffer[..read].windows(7).any(|bytes| bytes == b"COMMIT\0");
        if commits && armed.swap(false, Ordering::AcqRel) {
            let _ = client.shutdown(Shutdown::Both);
        }
        if server.write_all(&buffer[..read]).is_err() {
            break;
        }
    }
    // The server has read everything before it learns that nobody listens.
    let _ = server.shutdown(Shutdown::Write);
}

fn executions(schema: &Schema) -> i64 {
    Admin::new().number(&format!("SELECT count(*) FROM {}.executions", schema.name))
}

#[test]
fn a_commit_whose_answer_is_lost_is_not_repeated() {
    let schema = Schema::new("answer");
    let (user, rest) = schema.url.split_once('@').expect("a user");
    let (server, rest) = rest.split_once('/').expect("a database");
    let proxy = Proxy::start(server.to_owned());
    let url = format!("{user}@127.0.0.1:{}/{rest}&sslmode=disable", proxy.port);
    let mut store = PgStore::open(&url, &Options::default()).expect("it opens");
    run(&mut store, submit(1)).expect("it is submitted");
    proxy.armed.store(true, Ordering::Release);
    run(&mut store, submit(1)).expect("it is known to be submitted");
    assert!(!proxy.armed.load(Ordering::Acquire), "no answer was lost");
    assert_eq!(executions(&schema), 2);
}

#[test]
fn a_commit_that_is_cut_off_is_made_again() {
    let schema = Schema::new("cut");
    let mut store = schema.open();
    run(&mut store, submit(1)).expect("it is submitted");
    let admin = Admin::new();
    admin.run(&format!(
        "CREATE FUNCTION {0}.linger() RETURNS trigger LANGUAGE plpgsql AS
             'BEGIN PERFORM pg_sleep(0.5); RETURN NULL; END';
         CREATE CONSTRAINT TRIGGER linger AFTER UPDATE ON {0}.committers
             DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION {0}.linger()",
        schema.name
    ));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let admin = Admin::new();
            let cut = format!(
                "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
                 WHERE application_name = '{}' AND wait_event = 'PgSleep'",
                schema.name
            );
            while admin.number(&cut) == 0 {
                std::thread::yield_now();
            }
        });
        run(&mut store, submit(1)).expect("it is submitted in the end");
    });
    assert_eq!(executions(&schema), 2);
}
