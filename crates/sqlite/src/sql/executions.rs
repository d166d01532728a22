/// What `rows::executions::from_row` reads, in its order.
macro_rules! columns {
    () => {
        "
        id,
        uuid,
        namespace,
        lane,
        route,
        priority,
        rank,
        state,
        held,
        since,
        until,
        deadline_at,
        created_at,
        started_at,
        epoch,
        attempt,
        retries,
        reclaims,
        run,
        worker,
        secret,
        ttl_ms,
        detail,
        policy,
        tags,
        created_by,
        progress,
        key,
        beside,
        parent,
        flow,
        flow_uuid,
        node,
        gate"
    };
}

macro_rules! select {
    ($rest:literal) => {
        concat!("SELECT", columns!(), $rest)
    };
}

pub(crate) const INSERT: &str = concat!(
    "INSERT INTO executions (",
    columns!(),
    ",
        due_at
    )
    VALUES (
        ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10,
        ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20,
        ?21, ?22, ?23, ?24, ?25, ?26, ?27, ?28, ?29, ?30,
        ?31, ?32, ?33, ?34, ?35
    )"
);

/// Everything that may change but the tags and the place in a flow.
pub(crate) const SAVE: &str = "
    UPDATE executions SET
        priority = ?2,
        rank = ?3,
        state = ?4,
        held = ?5,
        since = ?6,
        until = ?7,
        deadline_at = ?8,
        started_at = ?9,
        epoch = ?10,
        attempt = ?11,
        retries = ?12,
        reclaims = ?13,
        run = ?14,
        worker = ?15,
        secret = ?16,
        ttl_ms = ?17,
        detail = ?18,
        progress = ?19,
        due_at = ?20,
        beside = ?21,
        gate = ?22
    WHERE id = ?1";

pub(crate) const TAGS: &str = "
    SELECT tags
    FROM executions
    WHERE id = ?1";

pub(crate) const SAVE_TAGS: &str = "
    UPDATE executions SET
        tags = ?2
    WHERE id = ?1";

pub(crate) const SAVE_POLICY: &str = "
    UPDATE executions SET
        policy = ?2
    WHERE id = ?1";

pub(crate) const REMOVE: &str = "
    DELETE FROM executions
    WHERE id = ?1";

pub(crate) const BY_ROW: &str = select!(
    "
    FROM executions
    WHERE id = ?1"
);

pub(crate) const FIND: &str = select!(
    "
    FROM executions
    WHERE uuid = ?1 AND namespace = ?2"
);

/// The first ready row of the first route above one.
pub(crate) const NEXT_HEAD: &str = "
    SELECT route, priority, rank, id
    FROM executions INDEXED BY ready
    WHERE lane = ?1 AND route > ?2 AND state <= 1 AND held = 0
    ORDER BY route, priority DESC, rank, id
    LIMIT 1";

/// The first ready row of a route.
pub(crate) const HEAD: &str = "
    SELECT priority, rank, id
    FROM executions INDEXED BY ready
    WHERE lane = ?1 AND route = ?2 AND state <= 1 AND held = 0
    ORDER BY priority DESC, rank, id
    LIMIT 1";

/// The ready rows of a route from one on that have its priority.
pub(crate) const READY_FROM: &str = select!(
    "
    FROM executions INDEXED BY ready
    WHERE lane = ?1 AND route = ?2 AND state <= 1 AND held = 0
        AND priority = ?3 AND rank >= ?4 AND (rank > ?4 OR id >= ?5)
    ORDER BY rank, id"
);

/// The ready rows of a route that have a lower priority.
pub(crate) const READY_BELOW: &str = select!(
    "
    FROM executions INDEXED BY ready
    WHERE lane = ?1 AND route = ?2 AND state <= 1 AND held = 0
        AND priority < ?3
    ORDER BY priority DESC, rank, id"
);

/// The first route of a lane after one of which something waits before a gate. Apart from the next
/// lane, because a comparison of both at once goes through all that waits in the lane.
pub(crate) const NEXT_LIMITED_ROUTE: &str = "
    SELECT lane, route
    FROM executions INDEXED BY limited
    WHERE gate = ?1 AND lane = ?2 AND route > ?3
    ORDER BY route
    LIMIT 1";

/// The first lane after one of which something waits before a gate, and its first route.
pub(crate) const NEXT_LIMITED_LANE: &str = "
    SELECT lane, route
    FROM executions INDEXED BY limited
    WHERE gate = ?1 AND lane > ?2
    ORDER BY lane, route
    LIMIT 1";

/// What waits of a lane and route before a gate.
pub(crate) const LIMITED: &str = select!(
    "
    FROM executions INDEXED BY limited
    WHERE gate = ?1 AND lane = ?2 AND route = ?3
    ORDER BY priority DESC, rank, id
    LIMIT ?4"
);

pub(crate) const DUE: &str = select!(
    "
    FROM executions INDEXED BY due
    WHERE due_at <= ?1 AND state < 10
    ORDER BY due_at, id
    LIMIT ?2"
);

pub(crate) const RETIRED: &str = select!(
    "
    FROM executions INDEXED BY retired
    WHERE due_at <= ?1 AND state >= 10
    ORDER BY due_at, id
    LIMIT ?2"
);

pub(crate) const OWNED_BY: &str = select!(
    "
    FROM executions INDEXED BY owned
    WHERE worker = ?1 AND namespace = ?2 AND since <= ?3
    ORDER BY id
    LIMIT ?4"
);

pub(crate) const COUNT_OWNED: &str = "
    SELECT count(*)
    FROM executions INDEXED BY owned
    WHERE worker IS NOT NULL AND lane = ?1";

pub(crate) const COUNTS: &str = "
    SELECT state, held > 0, count(*)
    FROM executions
    WHERE namespace = ?1 AND (?2 IS NULL OR lane = ?2)
    GROUP BY 1, 2
    ORDER BY 1, 2";

/// One that is over is kept as long as its flow is.
pub(crate) const SAVE_MEMBER: &str = "
    UPDATE executions SET
        flow = ?2,
        flow_uuid = ?3,
        node = ?4,
        due_at = CASE WHEN state < 10 THEN due_at END
    WHERE id = ?1";

pub(crate) const MEMBER: &str = select!(
    "
    FROM executions INDEXED BY members
    WHERE flow = ?1 AND node = ?2"
);

pub(crate) const MEMBERS: &str = select!(
    "
    FROM executions INDEXED BY members
    WHERE flow = ?1 AND node > ?2
    ORDER BY node
    LIMIT ?3"
);

pub(crate) const COUNT_MEMBERS: &str = "
    SELECT state, started_at IS NOT NULL, count(*)
    FROM executions INDEXED BY members
    WHERE flow = ?1
    GROUP BY 1, 2
    ORDER BY 1, 2";

pub(crate) const CHILDREN: &str = select!(
    "
    FROM executions INDEXED BY children
    WHERE parent = ?1 AND state < 10 AND id > ?2
    ORDER BY id
    LIMIT ?3"
);

pub(crate) const OLDEST_READY: &str = "
    SELECT min(since)
    FROM executions INDEXED BY ready
    WHERE lane = ?1 AND state <= 1 AND held = 0";

/// A lease never outlives the moment its execution is due, so the index bounds what is looked at.
pub(crate) const EXPIRED_LEASES: &str = select!(
    "
    FROM executions INDEXED BY due
    WHERE due_at <= ?2 AND state < 10 AND state = 4
        AND namespace = ?1 AND until <= ?2
        AND (until, uuid) > (?3, ?4)
    ORDER BY until, uuid
    LIMIT ?5"
);

/// The newest below a row.
pub(crate) const LIST: &str = select!(
    "
    FROM executions
    WHERE id < ?1
    ORDER BY id DESC
    LIMIT ?2"
);

/// The newest below a row that have a tag.
pub(crate) const LIST_TAGGED: &str = select!(
    "
    FROM executions
    WHERE id IN (
        SELECT execution
        FROM tags
        WHERE namespace = ?3 AND key = ?4 AND value = ?5 AND execution < ?1
        ORDER BY execution DESC
        LIMIT ?2
    )
    ORDER BY id DESC"
);

/// The newest below a row that a worker has.
pub(crate) const LIST_OWNED: &str = select!(
    "
    FROM executions INDEXED BY owned
    WHERE worker = ?4 AND namespace = ?3 AND id < ?1
    ORDER BY id DESC
    LIMIT ?2"
);

/// The newest below a row in up to four states above 10, each from its own end of the index.
pub(crate) const LIST_TROUBLED: &str = select!(
    "
    FROM executions
    WHERE id IN (
        SELECT id FROM (
            SELECT id
            FROM executions INDEXED BY troubled
            WHERE namespace = ?3 AND state = ?4 AND state > 10 AND id < ?1
            ORDER BY id DESC
            LIMIT ?2
        )
        UNION ALL
        SELECT id FROM (
            SELECT id
            FROM executions INDEXED BY troubled
            WHERE namespace = ?3 AND state = ?5 AND state > 10 AND id < ?1
            ORDER BY id DESC
            LIMIT ?2
        )
        UNION ALL
        SELECT id FROM (
            SELECT id
            FROM executions INDEXED BY troubled
            WHERE namespace = ?3 AND state = ?6 AND state > 10 AND id < ?1
            ORDER BY id DESC
            LIMIT ?2
        )
        UNION ALL
        SELECT id FROM (
            SELECT id
            FROM executions INDEXED BY troubled
            WHERE namespace = ?3 AND state = ?7 AND state > 10 AND id < ?1
            ORDER BY id DESC
            LIMIT ?2
        )
    )
    ORDER BY id DESC
    LIMIT ?2"
);
