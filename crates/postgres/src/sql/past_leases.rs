macro_rules! select {
    ($rest:literal) => {
        concat!(
            "
    SELECT past_leases.execution, past_leases.epoch, attempt, run, worker, secret, claimed_at,
        ended_at, how",
            $rest
        )
    };
}

pub(crate) const FIND: &str = select!(
    "
    FROM unnest($1::bigint[], $2::bigint[]) AS wanted (execution, epoch)
    JOIN past_leases ON past_leases.execution = wanted.execution
        AND past_leases.epoch = wanted.epoch"
);

pub(crate) const OF: &str = select!(
    "
    FROM past_leases
    WHERE execution = ANY ($1)
    ORDER BY execution, epoch"
);

pub(crate) const AFTER: &str = select!(
    "
    FROM past_leases
    WHERE execution = $1 AND epoch > $2
    ORDER BY epoch
    LIMIT $3"
);

pub(crate) const ADD: &str = "
    INSERT INTO past_leases
    SELECT *
    FROM unnest($1::past_leases[])";

pub(crate) const DROP_ALL: &str = "
    DELETE FROM past_leases
    WHERE execution = ANY ($1)";
