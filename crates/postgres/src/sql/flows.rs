/// What `rows::flows::from_row` reads, in its order: the columns of the table.
macro_rules! columns {
    () => {
        "
        flows.id,
        flows.uuid,
        flows.namespace,
        flows.state,
        flows.held,
        flows.since,
        flows.run,
        flows.deadline_at,
        flows.nodes,
        flows.edges,
        flows.completed,
        flows.failed,
        flows.cancelled,
        flows.expired,
        flows.skipped,
        flows.unhandled,
        flows.unsettled,
        flows.closing,
        flows.kind,
        flows.created_at,
        flows.parent,
        flows.fingerprint,
        flows.terms,
        flows.tags"
    };
}

macro_rules! select {
    ($($rest:literal),*) => {
        concat!("
    SELECT", columns!(), $($rest),*)
    };
}

/// Flows of some executions, in some rows, and by name. The sum keeps the planner from looking
/// through all flows of a namespace.
macro_rules! find {
    ($lock:literal) => {
        select!(
            "
    FROM (
        SELECT executions.flow AS id
        FROM unnest($1::bigint[], $2::uuid[]) AS wanted (namespace, uuid)
        JOIN executions
            ON executions.uuid = wanted.uuid AND executions.namespace = wanted.namespace
        WHERE executions.flow IS NOT NULL
        UNION
        SELECT unnest($3::bigint[])
        UNION
        SELECT flows.id
        FROM unnest($4::bigint[], $5::uuid[]) AS wanted (namespace, uuid)
        JOIN flows ON flows.uuid = wanted.uuid AND flows.namespace + 0 = wanted.namespace
    ) AS wanted
    JOIN flows ON flows.id = wanted.id
    ORDER BY flows.id",
            $lock
        )
    };
}

pub(crate) const FIND: &str = find!("");
pub(crate) const LOCK: &str = find!(" FOR UPDATE OF flows");
pub(crate) const LOCK_NOWAIT: &str = find!(" FOR UPDATE OF flows NOWAIT");

pub(crate) const BY_UUID: &str = select!(
    "
    FROM flows
    WHERE uuid = $1 AND namespace + 0 = $2"
);

pub(crate) const BY_ROW: &str = select!(
    "
    FROM flows
    WHERE id = $1"
);

/// The newest of a namespace below a row.
pub(crate) const LIST: &str = select!(
    "
    FROM flows
    WHERE namespace = $1 AND id < $2
    ORDER BY id DESC
    LIMIT $3"
);

pub(crate) const GATES: &str = "
    SELECT id, held OR state = 2
    FROM flows
    WHERE id = ANY ($1)";

pub(crate) const NEW_ROWS: &str = "
    SELECT nextval('flow_rows')
    FROM generate_series(1, $1::bigint)";

pub(crate) const INSERT: &str = "
    INSERT INTO flows
    SELECT *
    FROM unnest($1::flows[])";

/// Everything that may change but the terms.
pub(crate) const SAVE: &str = "
    UPDATE flows SET
        state = new.state,
        held = new.held,
        since = new.since,
        run = new.run,
        deadline_at = new.deadline_at,
        nodes = new.nodes,
        edges = new.edges,
        completed = new.completed,
        failed = new.failed,
        cancelled = new.cancelled,
        expired = new.expired,
        skipped = new.skipped,
        unhandled = new.unhandled,
        unsettled = new.unsettled,
        closing = new.closing,
        tags = new.tags
    FROM unnest($1::flows[]) AS new
    WHERE flows.id = new.id";

pub(crate) const SAVE_TERMS: &str = "
    UPDATE flows SET
        terms = new.terms
    FROM unnest($1::bigint[], $2::text[]) AS new (id, terms)
    WHERE flows.id = new.id";

pub(crate) const REMOVE: &str = "
    DELETE FROM flows
    WHERE id = ANY ($1)";
