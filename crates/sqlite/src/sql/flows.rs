/// What `rows::flows::from_row` reads, in its order.
macro_rules! select {
    ($rest:literal) => {
        concat!(
            "
    SELECT
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
        flow_terms.kind,
        flow_terms.created_at,
        flow_terms.parent,
        flow_terms.fingerprint,
        flow_terms.terms,
        flow_terms.tags",
            $rest
        )
    };
}

pub(crate) const BY_ROW: &str = select!(
    "
    FROM flows CROSS JOIN flow_terms ON flow_terms.flow = flows.id
    WHERE flows.id = ?1"
);

pub(crate) const BY_UUID: &str = select!(
    "
    FROM flows INDEXED BY flows_by_uuid CROSS JOIN flow_terms ON flow_terms.flow = flows.id
    WHERE flows.uuid = ?1 AND flows.namespace = ?2"
);

/// The newest of a namespace below a row.
pub(crate) const LIST: &str = select!(
    "
    FROM flows INDEXED BY flows_of_namespace
        CROSS JOIN flow_terms ON flow_terms.flow = flows.id
    WHERE flows.namespace = ?1 AND flows.id < ?2
    ORDER BY flows.id DESC
    LIMIT ?3"
);

pub(crate) const IS_GATED: &str = "
    SELECT held OR state = 2
    FROM flows
    WHERE id = ?1";

pub(crate) const ADD: &str = "
    INSERT INTO flows (
        id, state, held, since, run, deadline_at, nodes, edges, completed, failed, cancelled,
        expired, skipped, unhandled, unsettled, closing, uuid, namespace
    )
    VALUES (
        ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10,
        ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18
    )";

pub(crate) const ADD_TERMS: &str = "
    INSERT INTO flow_terms (flow, kind, created_at, parent, fingerprint, terms, tags)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";

pub(crate) const SAVE: &str = "
    UPDATE flows SET
        state = ?2,
        held = ?3,
        since = ?4,
        run = ?5,
        deadline_at = ?6,
        nodes = ?7,
        edges = ?8,
        completed = ?9,
        failed = ?10,
        cancelled = ?11,
        expired = ?12,
        skipped = ?13,
        unhandled = ?14,
        unsettled = ?15,
        closing = ?16
    WHERE id = ?1";

pub(crate) const SAVE_TAGS: &str = "
    UPDATE flow_terms SET
        tags = ?2
    WHERE flow = ?1";

pub(crate) const SAVE_TERMS: &str = "
    UPDATE flow_terms SET
        terms = ?2
    WHERE flow = ?1";

pub(crate) const REMOVE: &str = "
    DELETE FROM flows
    WHERE id = ?1";

pub(crate) const REMOVE_TERMS: &str = "
    DELETE FROM flow_terms
    WHERE flow = ?1";
