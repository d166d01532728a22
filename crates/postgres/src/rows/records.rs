//! Rows to write, as one value: an array of the row type of their table.
//!
//! An array for each column would be simpler to bind, and makes the server go through a set of its
//! own for each of them: with thirty columns that costs more than writing the rows.

use std::error::Error;

use bytes::BytesMut;
use tokio_postgres::types::{Format, IsNull, Kind, ToSql, Type, to_sql_checked};
use uuid::Uuid;

/// Rows of one table, in its columns' order.
#[derive(Debug)]
pub(crate) struct Records {
    columns: i32,
    rows: i32,
    bytes: Vec<u8>,
}

impl Records {
    /// No rows, of a table with so many columns.
    pub(crate) fn new(columns: i32) -> Self {
        Self { columns, rows: 0, bytes: Vec::new() }
    }

    /// Adds a row, whose columns are put one after the other.
    pub(crate) fn row(&mut self) -> Record<'_> {
        self.rows += 1;
        let start = self.bytes.len();
        self.bytes.extend([0; 4]);
        self.bytes.extend(self.columns.to_be_bytes());
        Record { bytes: &mut self.bytes, start }
    }
}

/// A row that is being written; complete when it is dropped.
pub(crate) struct Record<'a> {
    bytes: &'a mut Vec<u8>,
    start: usize,
}

impl Record<'_> {
    pub(crate) fn put<T: Value>(&mut self, value: T) -> &mut Self {
        self.bytes.extend(T::TYPE.oid().to_be_bytes());
        let start = self.bytes.len();
        self.bytes.extend([0; 4]);
        let length = match value.write(self.bytes) {
            IsNull::Yes => -1,
            IsNull::No => length_since(self.bytes, start),
        };
        self.bytes[start..start + 4].copy_from_slice(&length.to_be_bytes());
        self
    }
}

impl Drop for Record<'_> {
    fn drop(&mut self) {
        let length = length_since(self.bytes, self.start);
        self.bytes[self.start..self.start + 4].copy_from_slice(&length.to_be_bytes());
    }
}

/// How much follows the length at this place. The protocol has no room for more than fits.
fn length_since(bytes: &[u8], start: usize) -> i32 {
    i32::try_from(bytes.len() - start - 4).unwrap_or(i32::MAX)
}

/// What a column may hold.
pub(crate) trait Value {
    const TYPE: Type;

    fn write(self, bytes: &mut Vec<u8>) -> IsNull;
}

macro_rules! values {
    ($($rust:ty as $sql:ident, $value:ident => $bytes:expr;)*) => {$(
        impl Value for $rust {
            const TYPE: Type = Type::$sql;

            fn write(self, bytes: &mut Vec<u8>) -> IsNull {
                let $value = self;
                bytes.extend_from_slice($bytes);
                IsNull::No
            }
        }
    )*};
}

values! {
    bool as BOOL, value => &[u8::from(value)];
    i32 as INT4, value => &value.to_be_bytes();
    i64 as INT8, value => &value.to_be_bytes();
    Uuid as UUID, value => value.as_bytes();
    &str as TEXT, value => value.as_bytes();
    &[u8] as BYTEA, value => value;
}

impl<T: Value> Value for Option<T> {
    const TYPE: Type = T::TYPE;

    fn write(self, bytes: &mut Vec<u8>) -> IsNull {
        self.map_or(IsNull::Yes, |value| value.write(bytes))
    }
}

impl ToSql for Records {
    fn to_sql(
        &self,
        ty: &Type,
        out: &mut BytesMut,
    ) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        let Kind::Array(row) = ty.kind() else { return Err("rows are bound as an array".into()) };
        let dimensions = i32::from(self.rows > 0);
        out.extend_from_slice(&dimensions.to_be_bytes());
        let has_nulls = 0_i32;
        out.extend_from_slice(&has_nulls.to_be_bytes());
        out.extend_from_slice(&row.oid().to_be_bytes());
        if self.rows > 0 {
            let first = 1_i32;
            out.extend_from_slice(&self.rows.to_be_bytes());
            out.extend_from_slice(&first.to_be_bytes());
        }
        out.extend_from_slice(&self.bytes);
        Ok(IsNull::No)
    }

    fn accepts(ty: &Type) -> bool {
        matches!(ty.kind(), Kind::Array(row) if matches!(row.kind(), Kind::Composite(_)))
    }

    fn encode_format(&self, _: &Type) -> Format {
        Format::Binary
    }

    to_sql_checked!();
}
