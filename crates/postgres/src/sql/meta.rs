pub(crate) const READ: &str = "
    SELECT last_now, last_cursor
    FROM meta
    WHERE id = 1";

/// The clock, and the time of the last commit as far as it is kept.
pub(crate) const NOW: &str = "
    SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint, last_now
    FROM meta
    WHERE id = 1";

pub(crate) const ADVANCE: &str = "
    UPDATE meta SET
        last_now = $1
    WHERE id = 1 AND last_now < $1";

pub(crate) const XID: &str = "SELECT pg_current_xact_id()::text";

pub(crate) const XACT_STATUS: &str = "SELECT pg_xact_status($1::text::xid8)";

pub(crate) const NOTE_COMMIT: &str = "
    INSERT INTO committers (id, commits, at)
    VALUES ($1, $2, $3)
    ON CONFLICT (id) DO UPDATE SET
        commits = excluded.commits,
        at = excluded.at";

pub(crate) const COMMITS: &str = "
    SELECT commits
    FROM committers
    WHERE id = $1";

pub(crate) const FORGET_COMMITTER: &str = "
    DELETE FROM committers
    WHERE id = $1";

/// Those of processes that died and will not ask any more.
pub(crate) const FORGET_OLD_COMMITTERS: &str = "
    DELETE FROM committers
    WHERE at < (extract(epoch FROM clock_timestamp()) * 1000)::bigint - 604800000";

/// Told at the commit.
pub(crate) const NOTIFY: &str = "SELECT pg_notify($1, $2)";

/// Until the end of the transaction.
pub(crate) const SET_SEARCH_PATH: &str = "SELECT set_config('search_path', $1, true)";

pub(crate) const NEXT_DUE: &str = "
    SELECT min(due_at) FROM (
        SELECT min(due_at) AS due_at
        FROM executions
        WHERE due_at IS NOT NULL AND state < 10
        UNION ALL
        SELECT min(due_at) FROM workers
        UNION ALL
        SELECT min(due_at) FROM chores
    ) AS earliest";
