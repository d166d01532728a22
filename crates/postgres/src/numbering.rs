//! How events get their cursors.
//!
//! A follower asks for what comes after the last cursor it saw, so an event may never appear
//! before a cursor that was already seen. An id drawn while a transaction runs does not do: a
//! transaction that drew a low one may commit last. So events are written without a cursor, and a
//! pass of its own numbers what is committed:
//!
//! - One pass runs at a time, in any process, under an advisory lock that goes with its
//!   transaction. Its second statement sees everything the pass before has committed, so cursors
//!   grow without gaps and a committed cursor is below every later one. Nothing is lost: an event
//!   that commits late is numbered late.
//! - A pass numbers in the order of the ids. An effect draws its id after its cause was committed,
//!   because the rule that wrote it saw the cause; so the cause has the lower id, and a pass that
//!   sees the effect also sees the cause. Events of one transaction keep their order.
//! - A pass touches only committed rows. Someone's open transaction, here or in another database,
//!   holds back its own events and nobody else's.
//!
//! A pass is one script, so that the server finishes it even if whoever sent it stands still. It
//! also moves the floor of the clock up to the newest event, and tells all who listen.

use crate::error::Result;
use crate::link::Link;
use crate::target::Target;

/// How many events one pass numbers at most.
const SLICE: usize = 10_000;

/// What a pass tells the channel.
pub(crate) const NUMBERED: &str = "numbered";

/// The script of a pass; returns how many events it has numbered.
pub(crate) fn script(target: &Target) -> String {
    let (schema, channel) = (&target.schema, target.channel());
    format!(
        "SELECT pg_advisory_xact_lock(hashtextextended('everloom/{schema}', 2));
         WITH new AS MATERIALIZED (
             SELECT id, (SELECT last_cursor FROM meta WHERE id = 1) + row_number() OVER (ORDER BY id) AS cursor
             FROM (
                 SELECT id
                 FROM events
                 WHERE cursor IS NULL
                 ORDER BY id
                 LIMIT {SLICE}
             ) AS committed
         ),
         numbered AS (
             UPDATE events SET cursor = new.cursor
             FROM new
             WHERE events.id = new.id
             RETURNING new.cursor, events.at
         ),
         newest AS (
             SELECT count(*) AS events, max(cursor) AS cursor, max(at) AS at
             FROM numbered
         ),
         moved AS (
             UPDATE meta SET
                 last_cursor = newest.cursor,
                 last_now = greatest(last_now, newest.at)
             FROM newest
             WHERE id = 1 AND newest.events > 0
             RETURNING newest.events
         )
         SELECT events, pg_notify('{channel}', '{NUMBERED}')
         FROM moved"
    )
}

/// Numbers what is committed.
pub(crate) fn number(link: &mut Link) -> Result<()> {
    let script = script(&link.target().clone());
    while is_full(link.script(&script)?.as_deref()) {}
    Ok(())
}

/// Whether a pass that returned this may have left something.
pub(crate) fn is_full(numbered: Option<&str>) -> bool {
    numbered.and_then(|text| text.parse().ok()).is_some_and(|events: usize| events >= SLICE)
}
