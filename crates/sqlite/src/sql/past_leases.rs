pub(crate) const FIND: &str = "
    SELECT execution, epoch, attempt, run, worker, secret, claimed_at, ended_at, how
    FROM past_leases
    WHERE execution = ?1 AND epoch = ?2";

pub(crate) const AFTER: &str = "
    SELECT execution, epoch, attempt, run, worker, secret, claimed_at, ended_at, how
    FROM past_leases
    WHERE execution = ?1 AND epoch > ?2
    ORDER BY epoch
    LIMIT ?3";

pub(crate) const ADD: &str = "
    INSERT INTO past_leases (
        execution, epoch, attempt, run, worker, secret, claimed_at, ended_at, how
    )
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)";

pub(crate) const DROP_ALL: &str = "
    DELETE FROM past_leases
    WHERE execution = ?1";
