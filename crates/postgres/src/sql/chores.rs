macro_rules! select {
    ($($rest:literal),*) => {
        concat!("SELECT id, kind, due_at FROM chores", $($rest),*)
    };
}

pub(crate) const DUE: &str = select!(" WHERE due_at <= $1 ORDER BY due_at, id LIMIT $2");

/// Another process may be at work on what is skipped.
pub(crate) const LOCK_DUE: &str =
    select!(" WHERE due_at <= $1 ORDER BY due_at, id LIMIT $2 FOR UPDATE SKIP LOCKED");

pub(crate) const FIND: &str = select!(" WHERE kind = $1");

pub(crate) const FIND_ALL: &str = select!(" WHERE kind = ANY ($1)");
pub(crate) const LOCK: &str = select!(" WHERE kind = ANY ($1) ORDER BY id FOR UPDATE");
pub(crate) const LOCK_NOWAIT: &str =
    select!(" WHERE kind = ANY ($1) ORDER BY id FOR UPDATE NOWAIT");

pub(crate) const NEXT_DUE: &str = "
    SELECT due_at, id
    FROM chores
    ORDER BY due_at
    LIMIT $1";

pub(crate) const ADD: &str = "
    INSERT INTO chores (kind, due_at)
    SELECT kind, due_at
    FROM unnest($1::text[], $2::bigint[]) WITH ORDINALITY AS new (kind, due_at, place)
    ORDER BY place";

pub(crate) const SAVE: &str = "
    UPDATE chores SET
        kind = new.kind,
        due_at = new.due_at
    FROM unnest($1::bigint[], $2::text[], $3::bigint[]) AS new (id, kind, due_at)
    WHERE chores.id = new.id";

pub(crate) const DROP: &str = "
    DELETE FROM chores
    WHERE id = ANY ($1)";
