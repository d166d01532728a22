pub(crate) const INPUT: &str = "
    SELECT content_type, bytes
    FROM inputs
    WHERE execution = ?1";

pub(crate) const FINGERPRINT: &str = "
    SELECT fingerprint
    FROM inputs
    WHERE execution = ?1";

pub(crate) const ADD_INPUT: &str = "
    INSERT INTO inputs (execution, content_type, bytes, fingerprint)
    VALUES (?1, ?2, ?3, ?4)";

pub(crate) const DROP_INPUT: &str = "
    DELETE FROM inputs
    WHERE execution = ?1";

pub(crate) const RESULT: &str = "
    SELECT content_type, bytes
    FROM results
    WHERE execution = ?1";

pub(crate) const PUT_RESULT: &str = "
    INSERT OR REPLACE INTO results (execution, content_type, bytes)
    VALUES (?1, ?2, ?3)";

pub(crate) const DROP_RESULT: &str = "
    DELETE FROM results
    WHERE execution = ?1";

pub(crate) const ADD: &str = "
    INSERT INTO payloads (content_type, bytes)
    VALUES (?1, ?2)";
