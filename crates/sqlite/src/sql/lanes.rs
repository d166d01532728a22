pub(crate) const BY_NAME: &str = "
    SELECT id, namespace, name, mode, max_active, active, defaults, limits, fairness, course
    FROM lanes
    WHERE namespace = ?1 AND name = ?2";

pub(crate) const BY_ID: &str = "
    SELECT id, namespace, name, mode, max_active, active, defaults, limits, fairness, course
    FROM lanes
    WHERE id = ?1";

pub(crate) const AFTER: &str = "
    SELECT id, namespace, name, mode, max_active, active, defaults, limits, fairness, course
    FROM lanes
    WHERE namespace = ?1 AND name > ?2
    ORDER BY name
    LIMIT ?3";

pub(crate) const ADD: &str = "
    INSERT INTO lanes (namespace, name, mode, active)
    VALUES (?1, ?2, 0, 0)";

pub(crate) const SAVE: &str = "
    UPDATE lanes SET
        mode = ?2,
        max_active = ?3,
        active = ?4,
        defaults = ?5,
        limits = ?6,
        fairness = ?7,
        course = ?8
    WHERE id = ?1";
