pub(crate) const ADD: &str = "
    INSERT INTO tags (namespace, key, value, execution)
    VALUES (?1, ?2, ?3, ?4)";

pub(crate) const DROP: &str = "
    DELETE FROM tags
    WHERE namespace = ?1 AND key = ?2 AND value = ?3 AND execution = ?4";
