/// In the order in which they were interned.
pub(crate) const AFTER: &str = "
    SELECT routes.id, routes.namespace, kind, capabilities
    FROM unnest($1::bigint[], $2::bigint[]) AS known (namespace, last)
    JOIN routes ON routes.namespace = known.namespace AND routes.id > known.last
    ORDER BY routes.id";

pub(crate) const ADD: &str = "
    INSERT INTO routes (namespace, kind, capabilities)
    SELECT namespace, kind, capabilities
    FROM unnest($1::bigint[], $2::text[], $3::text[]) AS new (namespace, kind, capabilities)
    ON CONFLICT (namespace, kind, capabilities) DO NOTHING";
