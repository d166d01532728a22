pub(crate) const DUE: &str = "
    SELECT id, kind, due_at
    FROM chores INDEXED BY chores_by_due
    WHERE due_at <= ?1
    ORDER BY due_at, id
    LIMIT ?2";

pub(crate) const FIND: &str = "
    SELECT id, kind, due_at
    FROM chores INDEXED BY chores_by_kind
    WHERE kind = ?1
    ORDER BY id
    LIMIT 1";

pub(crate) const ADD: &str = "
    INSERT INTO chores (kind, due_at)
    VALUES (?1, ?2)";

pub(crate) const SAVE: &str = "
    UPDATE chores SET
        kind = ?2,
        due_at = ?3
    WHERE id = ?1";

pub(crate) const DROP: &str = "
    DELETE FROM chores
    WHERE id = ?1";
