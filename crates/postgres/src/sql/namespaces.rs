pub(crate) const BY_NAME: &str = "
    SELECT id, name, defaults
    FROM namespaces
    WHERE name = ANY ($1)";

pub(crate) const BY_ID: &str = "
    SELECT id, name, defaults
    FROM namespaces
    WHERE id = ANY ($1)";

pub(crate) const AFTER: &str = "
    SELECT id, name, defaults
    FROM namespaces
    WHERE name > $1
    ORDER BY name
    LIMIT $2";

/// Held until the commit, so that routes become visible in the order of their ids.
pub(crate) const LOCK: &str = "
    SELECT id
    FROM namespaces
    WHERE id = ANY ($1)
    ORDER BY id
    FOR NO KEY UPDATE";

pub(crate) const ADD: &str = "
    INSERT INTO namespaces (name)
    SELECT unnest($1::text[])
    ON CONFLICT (name) DO NOTHING";

pub(crate) const SAVE: &str = "
    UPDATE namespaces SET
        defaults = new.defaults
    FROM unnest($1::bigint[], $2::text[]) AS new (id, defaults)
    WHERE namespaces.id = new.id";
