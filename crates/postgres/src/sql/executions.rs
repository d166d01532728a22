/// What `rows::executions::from_row` reads, in its order.
macro_rules! columns {
    () => {
        "
        executions.id,
        executions.uuid,
        executions.namespace,
        executions.lane,
        executions.route,
        executions.priority,
        executions.rank,
        executions.state,
        executions.held,
        executions.since,
        executions.until,
        executions.deadline_at,
        executions.created_at,
        executions.started_at,
        executions.epoch,
        executions.attempt,
        executions.retries,
        executions.reclaims,
        executions.run,
        executions.worker,
        executions.secret,
        executions.ttl_ms,
        executions.gate,
        executions.detail,
        executions.policy,
        executions.tags,
        executions.created_by,
        executions.progress,
        executions.key,
        executions.gated,
        executions.beside,
        executions.parent,
        executions.flow,
        executions.flow_uuid,
        executions.node"
    };
}

macro_rules! select {
    ($($rest:literal),*) => {
        concat!("
    SELECT", columns!(), $($rest),*)
    };
}

pub(super) use columns;

/// Executions with their inputs, with whether their flows are held or being closed, and with the
/// edges into them that bind results.
macro_rules! select_whole {
    ($($rest:literal),*) => {
        concat!("
    SELECT", columns!(), ",
        inputs.content_type,
        inputs.bytes,
        inputs.fingerprint,
        flows.held OR flows.state = 2,
        CASE WHEN executions.beside & 1 <> 0 OR executions.flow IS NOT NULL THEN (
            SELECT json_agg(
                json_build_array(source, ordinal, edges.flow, condition, applied, bind, uuid)
                ORDER BY source, ordinal
            )::text
            FROM edges
            WHERE target = executions.id AND bind IS NOT NULL
        ) END", $($rest),*)
    };
}

pub(crate) const INSERT: &str = "
    INSERT INTO executions
    SELECT *
    FROM unnest($1::executions[])";

/// Everything that may change but the tags, the policy and the place in a flow.
pub(crate) const SAVE: &str = "
    UPDATE executions SET
        priority = new.priority,
        rank = new.rank,
        state = new.state,
        held = new.held,
        since = new.since,
        until = new.until,
        deadline_at = new.deadline_at,
        started_at = new.started_at,
        epoch = new.epoch,
        attempt = new.attempt,
        retries = new.retries,
        reclaims = new.reclaims,
        run = new.run,
        worker = new.worker,
        secret = new.secret,
        ttl_ms = new.ttl_ms,
        detail = new.detail,
        progress = new.progress,
        due_at = new.due_at,
        gated = new.gated,
        beside = new.beside,
        gate = new.gate
    FROM unnest($1::executions[]) AS new
    WHERE executions.id = new.id";

pub(crate) const SAVE_TAGS: &str = "
    UPDATE executions SET
        tags = new.tags
    FROM unnest($1::bigint[], $2::text[]) AS new (id, tags)
    WHERE executions.id = new.id";

pub(crate) const SAVE_POLICY: &str = "
    UPDATE executions SET
        policy = new.policy
    FROM unnest($1::bigint[], $2::text[]) AS new (id, policy)
    WHERE executions.id = new.id";

pub(crate) const SAVE_MEMBER: &str = "
    UPDATE executions SET
        flow = new.flow,
        flow_uuid = new.flow_uuid,
        node = new.node
    FROM unnest($1::bigint[], $2::bigint[], $3::uuid[], $4::text[])
        AS new (id, flow, flow_uuid, node)
    WHERE executions.id = new.id";

pub(crate) const REMOVE: &str = "
    DELETE FROM executions
    WHERE id = ANY ($1)";

pub(crate) const NEW_ROWS: &str = "
    SELECT nextval('execution_rows')
    FROM generate_series(1, $1::bigint)";

macro_rules! find {
    ($lock:literal) => {
        select!(
            "
    FROM unnest($1::bigint[], $2::uuid[]) AS wanted (namespace, uuid)
    JOIN executions ON executions.uuid = wanted.uuid AND executions.namespace = wanted.namespace
    ORDER BY executions.id",
            $lock
        )
    };
}

pub(crate) const FIND: &str = find!("");
pub(crate) const LOCK: &str = find!(" FOR UPDATE OF executions");
pub(crate) const LOCK_NOWAIT: &str = find!(" FOR UPDATE OF executions NOWAIT");

pub(crate) const CLAIMABLE: &str = select!(
    "
    FROM unnest($2::bigint[]) AS wanted (route)
    CROSS JOIN LATERAL (
        SELECT *
        FROM executions
        WHERE lane = $1 AND route = wanted.route AND state <= 1 AND NOT held AND NOT gated
        ORDER BY priority DESC, rank, id
        LIMIT $3
    ) AS executions
    ORDER BY executions.priority DESC, executions.rank, executions.id
    LIMIT $3"
);

/// Locks no more than it returns, and walks on over what others have locked.
pub(crate) const CLAIM_ROUTE: &str = select_whole!(
    "
    FROM executions
    LEFT JOIN inputs ON inputs.execution = executions.id
    LEFT JOIN flows ON flows.id = executions.flow
    WHERE lane = $1 AND route = $2 AND executions.state <= 1 AND NOT executions.held
        AND NOT executions.gated
    ORDER BY executions.priority DESC, executions.rank, executions.id
    LIMIT $3
    FOR UPDATE OF executions SKIP LOCKED"
);

/// As [`CLAIM_ROUTE`] over several routes: from each come as many candidates as may be wanted and
/// a reserve ($4) for those that others have locked.
pub(crate) const CLAIM_ROUTES: &str = select_whole!(
    "
    FROM (
        SELECT ready.id, ready.priority, ready.rank
        FROM unnest($2::bigint[]) AS wanted (route)
        CROSS JOIN LATERAL (
            SELECT id, priority, rank
            FROM executions
            WHERE lane = $1 AND route = wanted.route AND state <= 1 AND NOT held AND NOT gated
            ORDER BY priority DESC, rank, id
            LIMIT $4
        ) AS ready
        ORDER BY ready.priority DESC, ready.rank, ready.id
    ) AS candidates
    JOIN executions ON executions.id = candidates.id
    LEFT JOIN inputs ON inputs.execution = executions.id
    LEFT JOIN flows ON flows.id = executions.flow
    WHERE executions.lane = $1 AND executions.state <= 1 AND NOT executions.held
        AND NOT executions.gated
    ORDER BY candidates.priority DESC, candidates.rank, candidates.id
    LIMIT $3
    FOR UPDATE OF executions SKIP LOCKED"
);

/// How many may be claimed, locked or not, up to $3.
pub(crate) const COUNT_READY: &str = "
    SELECT count(*)
    FROM (
        SELECT
        FROM executions
        WHERE lane = $1 AND route = ANY ($2) AND state <= 1 AND NOT held AND NOT gated
        LIMIT $3
    ) AS ready";

macro_rules! due {
    ($lock:literal) => {
        select!(
            "
    FROM executions
    WHERE due_at <= $1 AND state < 10
    ORDER BY due_at, id
    LIMIT $2",
            $lock
        )
    };
}

pub(crate) const DUE: &str = due!("");
pub(crate) const LOCK_DUE: &str = due!(" FOR UPDATE SKIP LOCKED");

macro_rules! retired {
    ($lock:literal) => {
        select!(
            "
    FROM executions
    WHERE due_at <= $1 AND state >= 10
    ORDER BY due_at, id
    LIMIT $2",
            $lock
        )
    };
}

pub(crate) const RETIRED: &str = retired!("");
pub(crate) const LOCK_RETIRED: &str = retired!(" FOR UPDATE SKIP LOCKED");

pub(crate) const OWNED_BY: &str = select!(
    "
    FROM executions
    WHERE worker = $1 AND namespace = $2 AND since <= $3
    ORDER BY id
    LIMIT $4"
);

/// What was owned longest comes first.
pub(crate) const LOCK_OWNED: &str = select!(
    "
    FROM executions
    WHERE worker = $1 AND namespace = $2
    ORDER BY since, id
    LIMIT $3
    FOR UPDATE SKIP LOCKED"
);

pub(crate) const NEXT_DUE: &str = "
    SELECT due_at, id
    FROM executions
    WHERE due_at IS NOT NULL AND state < 10
    ORDER BY due_at, id
    LIMIT $1";

pub(crate) const COUNT_OWNED: &str = "
    SELECT lane, count(*)
    FROM executions
    WHERE worker IS NOT NULL AND lane = ANY ($1)
    GROUP BY lane";

pub(crate) const COUNTS: &str = "
    SELECT state, held OR gated, count(*)
    FROM executions
    WHERE namespace = $1 AND ($2::bigint IS NULL OR lane = $2)
    GROUP BY 1, 2
    ORDER BY 1, 2";

pub(crate) const OLDEST_READY: &str = "
    SELECT min(since)
    FROM executions
    WHERE lane = $1 AND state <= 1 AND NOT held AND NOT gated";

/// A lease never outlives the moment its execution is due, so the index bounds what is looked at.
/// The offset keeps the planner from choosing another one.
pub(crate) const EXPIRED_LEASES: &str = select!(
    "
    FROM (
        SELECT *
        FROM executions
        WHERE due_at <= $2 AND state < 10
        OFFSET 0
    ) AS executions
    WHERE state = 4 AND namespace = $1 AND until <= $2
        AND ($3::bigint IS NULL OR (until, uuid) > ($3, $4::uuid))
    ORDER BY until, uuid
    LIMIT $5"
);

/// The newest below a row.
pub(crate) const LIST: &str = select!(
    "
    FROM executions
    WHERE id < $1
    ORDER BY id DESC
    LIMIT $2"
);

/// The newest below a row that have a tag.
pub(crate) const LIST_TAGGED: &str = select!(
    "
    FROM (
        SELECT execution
        FROM tags
        WHERE namespace = $3 AND key = $4 AND value = $5 AND execution < $1
        ORDER BY execution DESC
        LIMIT $2
    ) AS tagged
    JOIN executions ON executions.id = tagged.execution
    ORDER BY executions.id DESC"
);

/// The newest below a row that a worker has.
pub(crate) const LIST_OWNED: &str = select!(
    "
    FROM executions
    WHERE worker = $4 AND namespace = $3 AND id < $1
    ORDER BY id DESC
    LIMIT $2"
);

/// The newest below a row in some states above 10, each from its own end of the index.
pub(crate) const LIST_TROUBLED: &str = select!(
    "
    FROM unnest($4::integer[]) AS wanted (state)
    CROSS JOIN LATERAL (
        SELECT *
        FROM executions
        WHERE namespace = $3 AND state = wanted.state AND state > 10 AND id < $1
        ORDER BY id DESC
        LIMIT $2
    ) AS executions
    ORDER BY executions.id DESC
    LIMIT $2"
);

/// What waits before some gates: of every lane and route that is there the first ones, as many as
/// wanted, whatever else waits. Queues are found by leaping from one to the next; the offsets keep the
/// planner from going through all that waits, or through all executions.
///
/// Waits for what others have locked, and does not skip it: whoever opens a gate and finds nobody to
/// free may be the last one to look for long.
macro_rules! limited {
    ($lock:literal) => {
        select!(
            "
    FROM (
        SELECT wanted.gate, heads.id
        FROM unnest($1::bigint[], $2::bigint[]) AS wanted (gate, most)
        CROSS JOIN LATERAL (
            WITH RECURSIVE queues (lane, route) AS (
                (
                    SELECT lane, route
                    FROM executions
                    WHERE gate = wanted.gate
                    ORDER BY lane, route
                    LIMIT 1
                )
                UNION ALL
                SELECT next.lane, next.route
                FROM queues
                CROSS JOIN LATERAL (
                    SELECT lane, route
                    FROM executions
                    WHERE gate = wanted.gate AND (lane, route) > (queues.lane, queues.route)
                    ORDER BY lane, route
                    LIMIT 1
                ) AS next
            )
            SELECT lane, route
            FROM queues
            OFFSET 0
        ) AS queues
        CROSS JOIN LATERAL (
            SELECT id
            FROM executions
            WHERE gate = wanted.gate AND lane = queues.lane AND route = queues.route
            ORDER BY priority DESC, rank, id
            LIMIT wanted.most
        ) AS heads
        ORDER BY heads.id
        OFFSET 0
    ) AS heads
    CROSS JOIN LATERAL (
        SELECT *
        FROM executions
        WHERE id = heads.id AND gate = heads.gate
        OFFSET 0",
            $lock,
            "
    ) AS executions"
        )
    };
}

pub(crate) const LIMITED: &str = limited!("");
pub(crate) const LOCK_LIMITED: &str = limited!(" FOR UPDATE");
pub(crate) const LOCK_LIMITED_NOWAIT: &str = limited!(" FOR UPDATE NOWAIT");
