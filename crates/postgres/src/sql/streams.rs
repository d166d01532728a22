/// Of executions by id that have one, and of executions in some rows ($3).
pub(crate) const OF: &str = "
    SELECT streams.execution, streams.state
    FROM unnest($1::bigint[], $2::uuid[]) AS wanted (namespace, uuid)
    JOIN executions ON executions.uuid = wanted.uuid AND executions.namespace = wanted.namespace
    JOIN streams ON streams.execution = executions.id
    WHERE executions.beside & 8 <> 0
    UNION ALL
    SELECT streams.execution, streams.state
    FROM streams
    WHERE streams.execution = ANY ($3)";

pub(crate) const FIND: &str = "
    SELECT execution, state
    FROM streams
    WHERE execution = $1";

pub(crate) const PUT: &str = "
    INSERT INTO streams (execution, state)
    SELECT *
    FROM unnest($1::bigint[], $2::text[])
    ON CONFLICT (execution) DO UPDATE SET
        state = excluded.state";

pub(crate) const DROP_ALL: &str = "
    DELETE FROM streams
    WHERE execution = ANY ($1)";
