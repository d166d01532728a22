pub(crate) const READ: &str = "
    SELECT
        last_now,
        last_row,
        commits,
        recent,
        last_flow
    FROM meta
    WHERE id = 1";

pub(crate) const WRITE: &str = "
    UPDATE meta SET
        last_now = ?1,
        last_row = ?2,
        commits = ?3,
        recent = ?4,
        last_flow = ?5
    WHERE id = 1";

pub(crate) const NEXT_DUE: &str = "
    SELECT min(due_at) FROM (
        SELECT min(due_at) AS due_at
        FROM executions INDEXED BY due
        WHERE due_at IS NOT NULL AND state < 10
        UNION ALL
        SELECT min(due_at) FROM workers
        UNION ALL
        SELECT min(due_at) FROM chores
    )";
