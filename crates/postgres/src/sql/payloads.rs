pub(crate) const INPUT: &str = "
    SELECT execution, content_type, bytes, fingerprint
    FROM inputs
    WHERE execution = ANY ($1)";

pub(crate) const ADD_INPUT: &str = "
    INSERT INTO inputs (execution, content_type, bytes, fingerprint)
    SELECT *
    FROM unnest($1::bigint[], $2::text[], $3::bytea[], $4::bytea[])";

pub(crate) const DROP_INPUT: &str = "
    DELETE FROM inputs
    WHERE execution = ANY ($1)";

pub(crate) const RESULT: &str = "
    SELECT execution, content_type, bytes
    FROM results
    WHERE execution = ANY ($1)";

pub(crate) const PUT_RESULT: &str = "
    INSERT INTO results (execution, content_type, bytes)
    SELECT *
    FROM unnest($1::bigint[], $2::text[], $3::bytea[])
    ON CONFLICT (execution) DO UPDATE SET
        content_type = excluded.content_type,
        bytes = excluded.bytes";

pub(crate) const DROP_RESULT: &str = "
    DELETE FROM results
    WHERE execution = ANY ($1)";
