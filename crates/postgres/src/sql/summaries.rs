use super::streams::streaming;

pub(crate) const ALONG: &str = streaming!(
    "
    SELECT summaries.execution, summaries.first_at, summaries.updated_at, summaries.document
    FROM streaming
    JOIN summaries ON summaries.execution = streaming.execution"
);

pub(crate) const OF: &str = "
    SELECT execution, first_at, updated_at, document
    FROM summaries
    WHERE execution = ANY ($1)";

pub(crate) const PUT: &str = "
    INSERT INTO summaries (execution, first_at, updated_at, document)
    SELECT *
    FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bytea[])
    ON CONFLICT (execution) DO UPDATE SET
        first_at = excluded.first_at,
        updated_at = excluded.updated_at,
        document = excluded.document";

pub(crate) const DROP_ALL: &str = "
    DELETE FROM summaries
    WHERE execution = ANY ($1)";
