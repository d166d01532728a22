//! Keys are not locked by their rows: who makes the first one of a namespace would have none to
//! lock.

macro_rules! lock {
    ($lock:literal) => {
        concat!(
            "
    SELECT ",
            $lock,
            "(hashtextextended('everloom/' || current_schema() || '/' || namespace, 3))
    FROM unnest($1::bigint[]) AS wanted (namespace)"
        )
    };
}

pub(crate) const SHARE: &str = lock!("pg_advisory_xact_lock_shared");
pub(crate) const LOCK: &str = lock!("pg_advisory_xact_lock");

/// Says of each whether it could be had at once.
pub(crate) const TRY_SHARE: &str = lock!("pg_try_advisory_xact_lock_shared");
pub(crate) const TRY_LOCK: &str = lock!("pg_try_advisory_xact_lock");

pub(crate) const OF: &str = "
    SELECT namespace, kid, secret, created_at, state
    FROM signing_keys
    WHERE namespace = ANY ($1)
    ORDER BY namespace, kid";

pub(crate) const PUT: &str = "
    INSERT INTO signing_keys
    SELECT *
    FROM unnest($1::signing_keys[])
    ON CONFLICT (namespace, kid) DO UPDATE SET
        secret = excluded.secret,
        created_at = excluded.created_at,
        state = excluded.state";
