/// Executions by id that have a stream, and executions in some rows ($3).
macro_rules! streaming {
    ($rest:literal) => {
        concat!(
            "
    WITH streaming AS (
        SELECT executions.id AS execution
        FROM unnest($1::bigint[], $2::uuid[]) AS wanted (namespace, uuid)
        JOIN executions
            ON executions.uuid = wanted.uuid AND executions.namespace = wanted.namespace
        WHERE executions.beside & 8 <> 0
        UNION
        SELECT unnest($3::bigint[])
    )",
            $rest
        )
    };
}

pub(super) use streaming;

pub(crate) const OF: &str = streaming!(
    "
    SELECT streams.execution, streams.state
    FROM streaming
    JOIN streams ON streams.execution = streaming.execution"
);

pub(crate) const FIND: &str = "
    SELECT execution, state
    FROM streams
    WHERE execution = $1";

pub(crate) const PUT: &str = "
    INSERT INTO streams (execution, gone, live_gone, state)
    SELECT *
    FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::text[])
    ON CONFLICT (execution) DO UPDATE SET
        gone = excluded.gone,
        live_gone = excluded.live_gone,
        state = excluded.state";

pub(crate) const DROP_ALL: &str = "
    DELETE FROM streams
    WHERE execution = ANY ($1)";
