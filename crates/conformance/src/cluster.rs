//! A PostgreSQL server of a test's own, for tests that restart it or change how it lets people in.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// A server that is gone when this is dropped, or when the process ends in whatever way.
pub struct Cluster {
    /// A shell beside the server, which ends with its input, and the server with it.
    shell: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    url: String,
}

impl Cluster {
    /// Starts a server with the script that also starts the one all other tests share.
    pub fn start() -> Self {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/with-postgres");
        let mut shell = Command::new(script)
            .arg("sh")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the script starts");
        let input = shell.stdin.take();
        let output = BufReader::new(shell.stdout.take().expect("its output is piped"));
        let mut cluster = Self { shell, input, output, url: String::new() };
        cluster.url = cluster.run("echo \"$EVERLOOM_TEST_POSTGRES\"");
        cluster
    }

    /// The database of the server's owner.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The address to reach the server at: host and port.
    pub fn address(&self) -> &str {
        let (_, rest) = self.url.split_once('@').expect("the URL names a user");
        rest.split_once('/').expect("the URL names a database").0
    }

    /// Tells `pg_ctl` to do something, such as `restart -m fast`, and waits for it.
    pub fn ctl(&mut self, what: &str) {
        let command = format!("\"$EVERLOOM_TEST_POSTGRES_CTL\" {what} >&2 && echo done");
        assert_eq!(self.run(&command), "done", "pg_ctl {what}");
    }

    /// Runs a command of the shell that says one line.
    fn run(&mut self, command: &str) -> String {
        let input = self.input.as_mut().expect("the shell takes commands until the end");
        writeln!(input, "{command} || echo failed").expect("the shell lives");
        let mut line = String::new();
        self.output.read_line(&mut line).expect("the shell answers");
        line.trim_end().to_owned()
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        drop(self.input.take());
        let _ = self.shell.wait();
    }
}
