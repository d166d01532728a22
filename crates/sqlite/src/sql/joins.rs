pub(crate) const FIND: &str = "
    SELECT need, rest, otherwise, sources, met, unmet, verdict, began_need, began_rest
    FROM joins
    WHERE target = ?1";

pub(crate) const PUT: &str = "
    INSERT OR REPLACE INTO joins (
        target, need, rest, otherwise, sources, met, unmet, verdict, began_need, began_rest
    )
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)";

pub(crate) const DROP: &str = "
    DELETE FROM joins
    WHERE target = ?1";
