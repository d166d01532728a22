pub(crate) const FIND: &str = "
    SELECT id, namespace, limit_id, key, course, idle_at
    FROM gates
    WHERE limit_id = ?1 AND key = ?2 AND namespace = ?3";

pub(crate) const BY_ID: &str = "
    SELECT id, namespace, limit_id, key, course, idle_at
    FROM gates
    WHERE id = ?1";

pub(crate) const FIRST: &str = "
    SELECT id, namespace, limit_id, key, course, idle_at
    FROM gates
    WHERE limit_id = ?1
    ORDER BY key, namespace
    LIMIT ?2";

pub(crate) const AFTER: &str = "
    SELECT id, namespace, limit_id, key, course, idle_at
    FROM gates
    WHERE limit_id = ?1 AND key > ?3
    ORDER BY key, namespace
    LIMIT ?2";

pub(crate) const ADD: &str = "
    INSERT INTO gates (namespace, limit_id, key, course)
    VALUES (?1, ?2, ?3, ?4)";

pub(crate) const SAVE: &str = "
    UPDATE gates SET
        course = ?2,
        idle_at = ?3
    WHERE id = ?1";

pub(crate) const DROP_PASSAGES_OF_LIMIT: &str = "
    DELETE FROM passages
    WHERE gate IN (
        SELECT id
        FROM gates
        WHERE limit_id = ?1
    )";

pub(crate) const DROP_OF_LIMIT: &str = "
    DELETE FROM gates
    WHERE limit_id = ?1";

pub(crate) const TRIM_PASSAGES: &str = "
    DELETE FROM passages
    WHERE gate IN (
        SELECT id
        FROM gates INDEXED BY gates_idle
        WHERE idle_at <= ?1
        ORDER BY idle_at, id
        LIMIT ?2
    )";

pub(crate) const TRIM: &str = "
    DELETE FROM gates
    WHERE id IN (
        SELECT id
        FROM gates INDEXED BY gates_idle
        WHERE idle_at <= ?1
        ORDER BY idle_at, id
        LIMIT ?2
    )";
