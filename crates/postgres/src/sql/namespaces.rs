pub(crate) const BY_NAME: &str = "
    SELECT id, name, defaults, limits
    FROM namespaces
    WHERE name = ANY ($1)";

pub(crate) const BY_ID: &str = "
    SELECT id, name, defaults, limits
    FROM namespaces
    WHERE id = ANY ($1)";

pub(crate) const AFTER: &str = "
    SELECT id, name, defaults, limits
    FROM namespaces
    WHERE name > $1
    ORDER BY name
    LIMIT $2";

/// Held until the commit, so that routes become visible in the order of their ids, and limits are
/// changed by one at a time.
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

pub(crate) const SAVE_LIMITS: &str = "
    UPDATE namespaces SET
        limits = new.limits
    FROM unnest($1::bigint[], $2::text[]) AS new (id, limits)
    WHERE namespaces.id = new.id";
