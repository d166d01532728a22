pub(crate) const BY_NAME: &str = "
    SELECT id, namespace, name, terms, places, created_at
    FROM limits
    WHERE namespace = ?1 AND sort = ?2 AND name = ?3";

pub(crate) const BY_ID: &str = "
    SELECT id, namespace, name, terms, places, created_at
    FROM limits
    WHERE id = ?1";

pub(crate) const AFTER: &str = "
    SELECT id, namespace, name, terms, places, created_at
    FROM limits
    WHERE namespace = ?1 AND sort = ?2 AND name > ?3
    ORDER BY name
    LIMIT ?4";

/// Gives out an id.
pub(crate) const NEXT_ID: &str = "
    UPDATE sqlite_sequence SET
        seq = seq + 1
    WHERE name = 'limits'
    RETURNING seq";

pub(crate) const PUT: &str = "
    INSERT INTO limits (id, namespace, sort, name, terms, places, created_at)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
    ON CONFLICT (id) DO UPDATE SET
        namespace = excluded.namespace,
        sort = excluded.sort,
        name = excluded.name,
        terms = excluded.terms,
        places = excluded.places,
        created_at = excluded.created_at";

pub(crate) const REMOVE: &str = "
    DELETE FROM limits
    WHERE id = ?1";
