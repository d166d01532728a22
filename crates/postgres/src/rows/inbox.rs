use std::borrow::Cow;

use everloom_core::{
    Code, ExecutionId, NewRequest, Payload, Refusal, Request, RequestCounts, RequestId, Timestamp,
};
use tokio_postgres::Row;
use uuid::Uuid;

use super::Columns;
use crate::error::Result;
use crate::link::{Step, params};
use crate::sql::inbox as sql;

pub(crate) fn from_row(row: &Row) -> Result<Request> {
    let mut columns = Columns::of(row);
    let id = RequestId(columns.take()?);
    let kind = columns.take()?;
    let bytes = columns.take::<Option<Vec<u8>>>()?.unwrap_or_default();
    let content_type: Option<String> = columns.take()?;
    let content_type = content_type.map_or(Cow::Borrowed(Payload::BYTES), Cow::Owned);
    let options = columns.take::<Option<String>>()?.unwrap_or_default();
    let execution = columns.take::<Option<Uuid>>()?.map(ExecutionId);
    let new = NewRequest { kind, input: Payload { content_type, bytes }, options, execution };
    Ok(Request { id, new, refusal: refusal(&mut columns)? })
}

fn refusal(columns: &mut Columns<'_>) -> Result<Option<Refusal>> {
    let Some(at) = columns.optional_time()? else { return Ok(None) };
    let code = columns.take::<Option<&str>>()?.and_then(Code::parse);
    let message = columns.take::<Option<String>>()?.unwrap_or_default();
    Ok(Some(Refusal { at, code: code.unwrap_or(Code::Internal), message }))
}

pub(crate) fn counts_from_row(row: &Row) -> Result<RequestCounts> {
    let mut columns = Columns::of(row);
    Ok(RequestCounts { waiting: columns.count()?, refused: columns.count()? })
}

pub(crate) fn add(new: &[NewRequest]) -> Step {
    let kinds: Vec<String> = new.iter().map(|new| new.kind.clone()).collect();
    let inputs: Vec<Vec<u8>> = new.iter().map(|new| new.input.bytes.clone()).collect();
    let types: Vec<String> = new.iter().map(|new| new.input.content_type.to_string()).collect();
    let options: Vec<String> = new.iter().map(|new| new.options.clone()).collect();
    let executions: Vec<Option<Uuid>> =
        new.iter().map(|new| new.execution.map(|id| id.0)).collect();
    Step::Prepared(sql::ADD, params![kinds, inputs, types, options, executions])
}

pub(crate) fn save(requests: &[Request]) -> Step {
    let refusals = || requests.iter().map(|request| request.refusal.as_ref());
    let ids: Vec<i64> = requests.iter().map(|request| request.id.0).collect();
    let at: Vec<Option<i64>> =
        refusals().map(|one| one.map(|one| one.at).map(Timestamp::as_millis)).collect();
    let codes: Vec<Option<&'static str>> =
        refusals().map(|one| one.map(|one| one.code.as_str())).collect();
    let messages: Vec<Option<String>> =
        refusals().map(|one| one.map(|one| one.message.clone())).collect();
    Step::Prepared(sql::SAVE, params![ids, at, codes, messages])
}

pub(crate) fn remove(ids: &[RequestId]) -> Step {
    let ids: Vec<i64> = ids.iter().map(|id| id.0).collect();
    Step::Prepared(sql::DROP, params![ids])
}
