pub(crate) const BY_NAME: &str = "
    SELECT id, name, defaults, limits
    FROM namespaces
    WHERE name = ?1";

pub(crate) const BY_ID: &str = "
    SELECT id, name, defaults, limits
    FROM namespaces
    WHERE id = ?1";

pub(crate) const AFTER: &str = "
    SELECT id, name, defaults, limits
    FROM namespaces
    WHERE name > ?1
    ORDER BY name
    LIMIT ?2";

pub(crate) const PUT: &str = "
    INSERT INTO namespaces (name, defaults)
    VALUES (?1, ?2)
    ON CONFLICT (name) DO UPDATE SET defaults = excluded.defaults";

pub(crate) const SAVE_LIMITS: &str = "
    UPDATE namespaces SET
        limits = ?2
    WHERE id = ?1";
