//! What the tests of the engine share.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use everloom::{Engine, Status};

/// A folder for one test, with the database's path in it.
pub(crate) struct Scratch {
    _folder: tempfile::TempDir,
    pub(crate) file: PathBuf,
}

impl Scratch {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let file = folder.path().join("test.db");
        Self { _folder: folder, file }
    }

    pub(crate) fn beside(&self, name: &str) -> PathBuf {
        self.file.with_file_name(name)
    }

    pub(crate) fn url(&self) -> &str {
        text(&self.file)
    }

    pub(crate) async fn engine(&self) -> Engine {
        Engine::open(self.url()).await.expect("a new file opens")
    }
}

pub(crate) fn text(path: &Path) -> &str {
    path.to_str().expect("temporary paths are UTF-8")
}

/// A schema of its own on the server that the tests are given.
pub(crate) fn postgres_url() -> String {
    static SCHEMAS: AtomicUsize = AtomicUsize::new(0);
    let server = std::env::var("EVERLOOM_TEST_POSTGRES")
        .expect("EVERLOOM_TEST_POSTGRES names a server: run this with scripts/with-postgres");
    let number = SCHEMAS.fetch_add(1, Ordering::Relaxed);
    format!("{server}?schema=engine_{}_{number}", std::process::id())
}

/// What a process was told, written down after it was told: it survives the process.
pub(crate) struct Ledger(File);

impl Ledger {
    pub(crate) fn open(path: &str) -> Self {
        Self(OpenOptions::new().create(true).append(true).open(path).unwrap())
    }

    pub(crate) fn note(&mut self, what: &str, name: &str) {
        // One write of a short line: a kill leaves it out or leaves it whole.
        self.0.write_all(format!("{what} {name}\n").as_bytes()).unwrap();
    }

    pub(crate) fn read(path: &Path, what: &str) -> Vec<String> {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        let lines = text.lines().filter_map(|line| line.split_once(' '));
        lines.filter(|(noted, _)| *noted == what).map(|(_, name)| name.to_owned()).collect()
    }
}

/// Starts this test program again to act as another process: see `acts_as_another_process`.
pub(crate) fn another_process(role: &str, settings: &[(&str, &str)]) -> Child {
    Command::new(std::env::current_exe().expect("this program has a path"))
        .args(["--exact", "processes::acts_as_another_process", "--nocapture"])
        .env("EVERLOOM_TEST_ROLE", role)
        .envs(settings.iter().copied())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .expect("this program starts")
}

/// Waits until a condition holds, looking again whenever something may have changed.
pub(crate) async fn until<F: Future<Output = bool>>(mut holds: impl FnMut() -> F) {
    while !holds().await {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

pub(crate) async fn count(engine: &Engine, status: Status) -> u64 {
    engine.counts().await.expect("counting works").of(status)
}
