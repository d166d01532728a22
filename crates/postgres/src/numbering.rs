//! How events get their cursors.
//!
//! A follower asks for what comes after the last cursor it saw, so an event may never appear
//! before a cursor that was already seen. An id drawn while a transaction runs does not do: a
//! transaction that drew a low one may commit last. So the events of a transaction are written
//! without cursors, as a batch with an id, and a pass of its own numbers what is committed:
//!
//! - One pass runs at a time, in any process, under an advisory lock that goes with its
//!   transaction. Its second statement sees everything the pass before has committed, so cursors
//!   grow without gaps and a committed cursor is below every later one. Nothing is lost: a batch
//!   that commits late is numbered late.
//! - A pass numbers in the order of the ids. An effect draws its id after its cause was committed,
//!   because the rule that wrote it saw the cause; so the cause has the lower id, and a pass that
//!   sees the effect also sees the cause. Events of one batch keep their order.
//! - A pass touches only committed rows. Someone's open transaction, here or in another database,
//!   holds back its own events and nobody else's.
//!
//! A pass is sent as a whole, so that the server finishes it even if whoever sent it stands still.
//! It also moves the floor of the clock up to the newest event, and tells all who listen.

use everloom_core::ExecutionId;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Row, Statement};

use crate::error::Result;
use crate::link::{Link, Step, params};
use crate::sql;
use crate::target::Target;

/// How many batches one pass numbers at most.
const SLICE: i64 = 10_000;

/// What the channel was told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Message {
    /// There are new cursors, all for what this process wrote.
    NumberedOf(i64),
    /// There are new cursors.
    Numbered,
    /// This process has appended to the streams of these executions.
    Streams(i64, Vec<ExecutionId>),
    /// It comes from a transaction that nobody's store has committed.
    Other,
}

impl Message {
    /// How many executions one message names: the server takes less than 8000 bytes.
    pub(crate) const STREAMS: usize = 200;

    pub(crate) fn parse(text: &str) -> Self {
        if let Some(rest) = text.strip_prefix("numbered") {
            return match rest.trim_start().parse() {
                Ok(source) => Self::NumberedOf(source),
                Err(_) => Self::Numbered,
            };
        }
        Self::parse_streams(text).unwrap_or(Self::Other)
    }

    fn parse_streams(text: &str) -> Option<Self> {
        let mut words = text.strip_prefix("streams ")?.split(' ');
        let source = words.next()?.parse().ok()?;
        let ids = words.map(str::parse).collect::<std::result::Result<_, _>>().ok()?;
        Some(Self::Streams(source, ids))
    }

    /// What to tell of streams.
    pub(crate) fn of_streams(source: i64, ids: &[ExecutionId]) -> String {
        ids.iter().fold(format!("streams {source}"), |text, id| format!("{text} {id}"))
    }
}

fn lock_name(target: &Target) -> String {
    format!("everloom/{}", target.schema)
}

/// Numbers what is committed.
pub(crate) fn number(link: &mut Link) -> Result<()> {
    let (lock, channel) = (lock_name(link.target()), link.target().channel());
    loop {
        let answers = link.run(&[
            Step::Plain(sql::BEGIN_WRITE),
            Step::Prepared(sql::batches::LOCK, params![lock.clone()]),
            Step::Prepared(sql::batches::NUMBER, params![SLICE, channel.clone()]),
            Step::Plain(sql::COMMIT),
        ])?;
        if !is_full(&answers[2]) {
            return Ok(());
        }
    }
}

/// Numbers on a connection that does nothing else.
pub(crate) struct Numberer<'a> {
    client: &'a Client,
    lock: Statement,
    number: Statement,
    lock_name: String,
    channel: String,
}

impl<'a> Numberer<'a> {
    pub(crate) async fn prepare(
        client: &'a Client,
        target: &Target,
    ) -> std::result::Result<Self, tokio_postgres::Error> {
        Ok(Self {
            client,
            lock: client.prepare(sql::batches::LOCK).await?,
            number: client.prepare(sql::batches::NUMBER).await?,
            lock_name: lock_name(target),
            channel: target.channel(),
        })
    }

    /// Numbers what is committed.
    pub(crate) async fn run(&self) -> std::result::Result<(), tokio_postgres::Error> {
        let lock: [&(dyn ToSql + Sync); 1] = [&self.lock_name];
        let number: [&(dyn ToSql + Sync); 2] = [&SLICE, &self.channel];
        loop {
            let (begun, locked, numbered, committed) = tokio::join!(
                biased;
                self.client.batch_execute(sql::BEGIN_WRITE),
                self.client.query(&self.lock, &lock),
                self.client.query(&self.number, &number),
                self.client.batch_execute(sql::COMMIT),
            );
            begun?;
            locked?;
            let numbered = numbered?;
            committed?;
            if !is_full(&numbered) {
                return Ok(());
            }
        }
    }
}

/// Whether a pass that returned this may have left something.
fn is_full(numbered: &[Row]) -> bool {
    numbered.first().is_some_and(|row| row.get::<_, i64>(0) >= SLICE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_read_as_they_are_told() {
        let id: ExecutionId = "018f0000-0000-7000-8000-000000000001".parse().unwrap();
        let ids = vec![id; Message::STREAMS];
        let told = Message::of_streams(i64::MIN, &ids);
        assert!(told.len() < 8_000, "{}", told.len());
        assert_eq!(Message::parse(&told), Message::Streams(i64::MIN, ids));
        assert_eq!(Message::parse("numbered"), Message::Numbered);
        assert_eq!(Message::parse("numbered -7"), Message::NumberedOf(-7));
        for other in ["", "submitted", "streams", "streams x", "streams 1 x"] {
            assert_eq!(Message::parse(other), Message::Other);
        }
    }
}
