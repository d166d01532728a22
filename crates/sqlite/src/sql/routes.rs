/// In the order in which they were interned: the index ends in the row's id.
pub(crate) const AFTER: &str = "
    SELECT id, kind, capabilities
    FROM routes INDEXED BY routes_of_namespace
    WHERE namespace = ?1 AND id > ?2
    ORDER BY id";

pub(crate) const ADD: &str = "
    INSERT INTO routes (namespace, kind, capabilities)
    VALUES (?1, ?2, ?3)";
