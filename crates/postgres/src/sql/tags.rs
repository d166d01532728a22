pub(crate) const ADD: &str = "
    INSERT INTO tags (namespace, key, value, execution)
    SELECT *
    FROM unnest($1::bigint[], $2::text[], $3::text[], $4::bigint[])";

pub(crate) const DROP: &str = "
    DELETE FROM tags
    USING unnest($1::bigint[], $2::text[], $3::text[], $4::bigint[])
        AS old (namespace, key, value, execution)
    WHERE tags.namespace = old.namespace AND tags.key = old.key AND tags.value = old.value
        AND tags.execution = old.execution";
