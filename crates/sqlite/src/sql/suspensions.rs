pub(crate) const BY_NUMBER: &str = "
    SELECT execution, number, run, key, terms, course
    FROM suspensions
    WHERE execution = ?1 AND number = ?2";

pub(crate) const LAST: &str = "
    SELECT execution, number, run, key, terms, course
    FROM suspensions
    WHERE execution = ?1
    ORDER BY number DESC
    LIMIT 1";

pub(crate) const BY_KEY: &str = "
    SELECT execution, number, run, key, terms, course
    FROM suspensions INDEXED BY suspensions_by_key
    WHERE execution = ?1 AND run = ?2 AND key = ?3";

pub(crate) const AFTER: &str = "
    SELECT execution, number, run, key, terms, course
    FROM suspensions
    WHERE execution = ?1 AND number > ?2
    ORDER BY number
    LIMIT ?3";

pub(crate) const ADD: &str = "
    INSERT INTO suspensions (execution, number, run, key, terms, course)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6)";

pub(crate) const SAVE: &str = "
    UPDATE suspensions SET
        course = ?3
    WHERE execution = ?1 AND number = ?2";

pub(crate) const DROP_ALL: &str = "
    DELETE FROM suspensions
    WHERE execution = ?1";
