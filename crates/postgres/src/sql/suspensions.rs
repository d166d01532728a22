/// What `rows::suspensions::from_row` reads, in its order: the columns of the table.
macro_rules! columns {
    () => {
        "
        suspensions.execution,
        suspensions.number,
        suspensions.run,
        suspensions.key,
        suspensions.terms,
        suspensions.course"
    };
}

macro_rules! select {
    ($rest:literal) => {
        concat!(
            "
    SELECT",
            columns!(),
            $rest
        )
    };
}

pub(super) use columns;

pub(crate) const FIND: &str = select!(
    "
    FROM unnest($1::bigint[], $2::bigint[]) AS wanted (execution, number)
    JOIN suspensions ON suspensions.execution = wanted.execution
        AND suspensions.number = wanted.number"
);

pub(crate) const LAST: &str = select!(
    "
    FROM suspensions
    WHERE execution = $1
    ORDER BY number DESC
    LIMIT 1"
);

pub(crate) const BY_KEY: &str = select!(
    "
    FROM unnest($1::bigint[], $2::bigint[], $3::text[]) AS wanted (execution, run, key)
    JOIN suspensions ON suspensions.execution = wanted.execution
        AND suspensions.run = wanted.run AND suspensions.key = wanted.key"
);

pub(crate) const PAGES: &str = select!(
    "
    FROM unnest($1::bigint[], $2::bigint[], $3::bigint[]) AS pages (execution, after, most)
    CROSS JOIN LATERAL (
        SELECT *
        FROM suspensions
        WHERE suspensions.execution = pages.execution AND suspensions.number > pages.after
        ORDER BY suspensions.number
        LIMIT pages.most
    ) AS suspensions
    ORDER BY suspensions.execution, suspensions.number"
);

pub(crate) const ADD: &str = "
    INSERT INTO suspensions
    SELECT *
    FROM unnest($1::suspensions[])";

/// Everything that may change.
pub(crate) const SAVE: &str = "
    UPDATE suspensions SET
        course = new.course
    FROM unnest($1::bigint[], $2::bigint[], $3::text[]) AS new (execution, number, course)
    WHERE suspensions.execution = new.execution AND suspensions.number = new.number";

pub(crate) const DROP_ALL: &str = "
    DELETE FROM suspensions
    WHERE execution = ANY ($1)";
