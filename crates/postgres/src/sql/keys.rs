pub(crate) const FIND: &str = "
    SELECT keys.namespace, keys.key, execution, flow, fingerprint, expires_at
    FROM unnest($1::bigint[], $2::text[]) AS wanted (namespace, key)
    JOIN keys ON keys.namespace = wanted.namespace AND keys.key = wanted.key";

/// Fails when another transaction was first.
pub(crate) const ADD: &str = "
    INSERT INTO keys (namespace, key, execution, flow, fingerprint, expires_at)
    SELECT *
    FROM unnest($1::bigint[], $2::text[], $3::uuid[], $4::uuid[], $5::bytea[], $6::bigint[])";

/// Leaves out what is not as it was read any more.
pub(crate) const SAVE: &str = "
    UPDATE keys SET
        execution = new.execution,
        flow = new.flow,
        fingerprint = new.fingerprint,
        expires_at = new.expires_at
    FROM unnest(
        $1::bigint[], $2::text[], $3::uuid[], $4::uuid[], $5::bytea[], $6::bigint[], $7::uuid[],
        $8::uuid[], $9::bigint[]
    ) AS new (
        namespace, key, execution, flow, fingerprint, expires_at, old_execution, old_flow,
        old_expires_at
    )
    WHERE keys.namespace = new.namespace AND keys.key = new.key
        AND keys.execution IS NOT DISTINCT FROM new.old_execution
        AND keys.flow IS NOT DISTINCT FROM new.old_flow
        AND keys.expires_at IS NOT DISTINCT FROM new.old_expires_at
    RETURNING 1";

/// Leaves out what is not as it was read any more.
pub(crate) const DROP: &str = "
    DELETE FROM keys
    USING unnest($1::bigint[], $2::text[], $3::uuid[], $4::uuid[], $5::bigint[])
        AS old (namespace, key, execution, flow, expires_at)
    WHERE keys.namespace = old.namespace AND keys.key = old.key
        AND keys.execution IS NOT DISTINCT FROM old.execution
        AND keys.flow IS NOT DISTINCT FROM old.flow
        AND keys.expires_at IS NOT DISTINCT FROM old.expires_at
    RETURNING 1";

pub(crate) const TRIM: &str = "
    WITH expired AS MATERIALIZED (
        SELECT namespace, key
        FROM keys
        WHERE expires_at <= $1
        ORDER BY expires_at
        LIMIT $2
        FOR UPDATE SKIP LOCKED
    )
    DELETE FROM keys
    USING expired
    WHERE keys.namespace = expired.namespace AND keys.key = expired.key
    RETURNING 1";
