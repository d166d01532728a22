pub(crate) const BY_NAME: &str = "
    SELECT execution, seq, name, occurrence, facts
    FROM steps INDEXED BY steps_by_name
    WHERE execution = ?1 AND name = ?2 AND occurrence = ?3";

pub(crate) const LAST_SEQ: &str = "
    SELECT seq
    FROM steps
    WHERE execution = ?1
    ORDER BY seq DESC
    LIMIT 1";

pub(crate) const AFTER: &str = "
    SELECT execution, seq, name, occurrence, facts
    FROM steps
    WHERE execution = ?1 AND seq > ?2
    ORDER BY seq
    LIMIT ?3";

pub(crate) const RESULT: &str = "
    SELECT payloads.content_type, payloads.bytes
    FROM steps LEFT JOIN payloads ON payloads.id = steps.result
    WHERE steps.execution = ?1 AND steps.seq = ?2";

pub(crate) const ADD: &str = "
    INSERT INTO steps (execution, seq, name, occurrence, facts, result)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6)";

pub(crate) const DROP_RESULTS: &str = "
    DELETE FROM payloads
    WHERE id IN (
        SELECT result
        FROM steps
        WHERE execution = ?1 AND seq >= ?2 AND result IS NOT NULL
    )";

pub(crate) const DROP_FROM: &str = "
    DELETE FROM steps
    WHERE execution = ?1 AND seq >= ?2";
