macro_rules! select {
    ($($rest:literal),*) => {
        concat!(
            "
    SELECT lanes.id, lanes.namespace, lanes.name, mode, max_active, active, defaults, limits,
        fairness, course",
            $($rest),*
        )
    };
}

macro_rules! by_name {
    ($lock:literal) => {
        select!(
            "
    FROM unnest($1::bigint[], $2::text[]) AS wanted (namespace, name)
    JOIN lanes ON lanes.namespace = wanted.namespace AND lanes.name = wanted.name
    ORDER BY lanes.id",
            $lock
        )
    };
}

macro_rules! by_id {
    ($lock:literal) => {
        select!(
            "
    FROM lanes
    WHERE id = ANY ($1)
    ORDER BY id",
            $lock
        )
    };
}

pub(crate) const BY_NAME: &str = by_name!("");
pub(crate) const SHARE_BY_NAME: &str = by_name!(" FOR SHARE OF lanes");
pub(crate) const SHARE_BY_NAME_NOWAIT: &str = by_name!(" FOR SHARE OF lanes NOWAIT");

pub(crate) const BY_ID: &str = by_id!("");
pub(crate) const SHARE_BY_ID: &str = by_id!(" FOR SHARE");
pub(crate) const SHARE_BY_ID_NOWAIT: &str = by_id!(" FOR SHARE NOWAIT");
pub(crate) const LOCK: &str = by_id!(" FOR UPDATE");
pub(crate) const LOCK_NOWAIT: &str = by_id!(" FOR UPDATE NOWAIT");

pub(crate) const AFTER: &str = select!(
    "
    FROM lanes
    WHERE namespace = $1 AND name > $2
    ORDER BY name
    LIMIT $3"
);

pub(crate) const ADD: &str = "
    INSERT INTO lanes (namespace, name, mode, active)
    SELECT namespace, name, 0, 0
    FROM unnest($1::bigint[], $2::text[]) AS new (namespace, name)
    ON CONFLICT (namespace, name) DO NOTHING";

pub(crate) const SAVE: &str = "
    UPDATE lanes SET
        mode = new.mode,
        max_active = new.max_active,
        active = new.active,
        defaults = new.defaults,
        limits = new.limits,
        fairness = new.fairness,
        course = new.course
    FROM unnest(
        $1::bigint[], $2::integer[], $3::bigint[], $4::bigint[], $5::text[], $6::text[],
        $7::text[], $8::bigint[]
    ) AS new (id, mode, max_active, active, defaults, limits, fairness, course)
    WHERE lanes.id = new.id";
