use std::borrow::Cow;

use everloom_core::{Payload, RowId};
use tokio_postgres::Row;

use super::Columns;
use crate::error::Result;
use crate::exchange::{Inserted, Place};
use crate::link::{Step, params};
use crate::sql::payloads as sql;

/// A content type as it is stored: the two common ones cost next to nothing.
pub(super) fn stored(content_type: &str) -> Option<&str> {
    match content_type {
        Payload::BYTES => None,
        Payload::JSON => Some(""),
        other => Some(other),
    }
}

/// A payload, if there are bytes.
pub(super) fn optional(columns: &mut Columns<'_>) -> Result<Option<Payload>> {
    let content_type = match columns.take::<Option<&str>>()? {
        None => Cow::Borrowed(Payload::BYTES),
        Some("") => Cow::Borrowed(Payload::JSON),
        Some(other) => Cow::Owned(other.to_owned()),
    };
    let bytes = columns.take::<Option<&[u8]>>()?;
    Ok(bytes.map(|bytes| Payload { content_type, bytes: bytes.to_vec() }))
}

/// An empty input has no row, and no bytes when it is joined.
fn payload(columns: &mut Columns<'_>) -> Result<Payload> {
    Ok(optional(columns)?.unwrap_or_default())
}

/// An input with the fingerprint its execution was inserted with.
pub(crate) type Input = (Payload, Option<[u8; 16]>);

pub(crate) fn input(columns: &mut Columns<'_>) -> Result<Input> {
    Ok((payload(columns)?, columns.bytes()?))
}

pub(crate) fn input_from_row(row: &Row) -> Result<(RowId, Input)> {
    let mut columns = Columns::of(row);
    Ok((RowId(columns.take()?), input(&mut columns)?))
}

/// What is numbered within an execution, with its payload.
pub(crate) fn numbered_from_row(row: &Row) -> Result<(Place, Payload)> {
    let mut columns = Columns::of(row);
    Ok(((RowId(columns.take()?), columns.count()?), payload(&mut columns)?))
}

pub(crate) fn result_from_row(row: &Row) -> Result<(RowId, Payload)> {
    let mut columns = Columns::of(row);
    Ok((RowId(columns.take()?), payload(&mut columns)?))
}

/// Nothing if all inputs are empty and without a fingerprint.
pub(crate) fn add_inputs(inserted: &[Inserted]) -> Option<Step> {
    let kept: Vec<&Inserted> =
        inserted.iter().filter(|new| !new.input.is_empty() || new.fingerprint.is_some()).collect();
    if kept.is_empty() {
        return None;
    }
    let rows: Vec<i64> = kept.iter().map(|new| new.execution.row.0).collect();
    let types: Vec<Option<String>> =
        kept.iter().map(|new| stored(&new.input.content_type).map(str::to_owned)).collect();
    let bytes: Vec<Vec<u8>> = kept.iter().map(|new| new.input.bytes.clone()).collect();
    let fingerprints: Vec<Option<Vec<u8>>> =
        kept.iter().map(|new| new.fingerprint.map(|bytes| bytes.to_vec())).collect();
    Some(Step::Prepared(sql::ADD_INPUT, params![rows, types, bytes, fingerprints]))
}

pub(crate) fn put_results(results: &[(RowId, Payload)]) -> Step {
    let rows: Vec<i64> = results.iter().map(|(row, _)| row.0).collect();
    let types: Vec<Option<String>> =
        results.iter().map(|(_, one)| stored(&one.content_type).map(str::to_owned)).collect();
    let bytes: Vec<Vec<u8>> = results.iter().map(|(_, result)| result.bytes.clone()).collect();
    Step::Prepared(sql::PUT_RESULT, params![rows, types, bytes])
}
