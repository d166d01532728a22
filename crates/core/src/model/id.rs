use std::fmt;
use std::str::FromStr;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;
use uuid::Uuid;

/// The name of the namespace and of the lane that are meant when none is given.
pub const DEFAULT_NAME: &str = "default";

/// For the `namespace` of a request that leaves it out.
pub(crate) fn default_name() -> String {
    DEFAULT_NAME.to_owned()
}

macro_rules! uuids {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub Uuid);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl FromStr for $name {
            type Err = uuid::Error;

            fn from_str(text: &str) -> Result<Self, uuid::Error> {
                text.parse().map(Self)
            }
        }
    )*};
}

uuids! {
    /// Names an execution, within its namespace, for as long as it is kept.
    ExecutionId,
    /// Names a flow, within its namespace, for as long as it is kept.
    FlowId,
    /// Names an edge that was staged by itself, within its flow.
    EdgeId,
    /// Names a waitpoint.
    WaitpointId,
    /// Names a signal.
    SignalId,
}

/// An id that follows from another and some words: the same every time, and next to ids of the
/// same moment in every index.
pub(crate) fn derived(from: Uuid, words: &[&str]) -> Uuid {
    let mut hash = Sha256::new();
    hash.update(from.as_bytes());
    for word in words {
        hash.update([0]);
        hash.update(word.as_bytes());
    }
    let digest = hash.finalize();
    let mut bytes = *from.as_bytes();
    bytes[6..].copy_from_slice(&digest[..10]);
    uuid::Builder::from_bytes(bytes)
        .with_variant(uuid::Variant::RFC4122)
        .with_version(uuid::Version::SortRand)
        .into_uuid()
}

macro_rules! row_ids {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub i64);
    )*};
}

row_ids! {
    /// An execution's row in its store: grows with every submission, never reused.
    RowId,
    /// A namespace's row.
    NamespaceId,
    /// A lane's row.
    LaneId,
    /// The row of an interned (kind, required capabilities) pair.
    RouteId,
    /// A chore's row.
    ChoreId,
    /// A flow's row.
    FlowRow,
    /// A request's row in the inbox.
    RequestId,
    /// The row of a budget or quota.
    LimitRow,
    /// The row of a gate, which work passes one at a time.
    GateRow,
}

impl LimitRow {
    /// What stands where there is no limit: concurrency keys bring their own.
    pub const KEYS: Self = Self(0);
}

/// The fence: raised by every change of ownership of an execution.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Epoch(pub u64);

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// What only the holder of a lease knows; compared in constant time, never shown by `Debug`.
#[derive(Clone, Copy)]
pub struct Secret([u8; 16]);

impl Secret {
    /// A secret of these bytes.
    pub const fn new(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// The bytes, for a store to save.
    pub const fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }
}

impl PartialEq for Secret {
    fn eq(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

impl Eq for Secret {}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

impl Serialize for Secret {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&URL_SAFE_NO_PAD.encode(self.0))
    }
}

impl<'de> Deserialize<'de> for Secret {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        let mut bytes = [0; 16];
        match URL_SAFE_NO_PAD.decode_slice(text.as_bytes(), &mut bytes) {
            Ok(16) => Ok(Self(bytes)),
            _ => Err(de::Error::custom("not a lease secret")),
        }
    }
}

/// What a worker presents with every write: which lease it holds, and the proof that it does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeaseToken {
    /// The execution leased.
    pub execution: ExecutionId,
    /// The fence the lease was given.
    pub epoch: Epoch,
    /// Known to the holder only.
    pub secret: Secret,
}

impl fmt::Display for LeaseToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.execution, self.epoch)
    }
}

/// A place in the event log: everything up to and including it has been seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cursor(pub i64);

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for Cursor {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.parse() {
            Ok(number) if number >= 0 => Ok(Self(number)),
            _ => Err(format!("`{text}` is not an event cursor")),
        }
    }
}

// As text, because a JSON number loses precision in many clients.
impl Serialize for Cursor {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Cursor {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        text.parse().map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_not_shown_by_debug() {
        assert_eq!(format!("{:?}", Secret::new([7; 16])), "Secret(…)");
    }

    #[test]
    fn a_secret_survives_a_round_trip_through_json() {
        let secret = Secret::new(*b"0123456789abcdef");
        let json = serde_json::to_string(&secret).unwrap();
        assert_eq!(serde_json::from_str::<Secret>(&json).unwrap(), secret);
        assert!(serde_json::from_str::<Secret>("\"short\"").is_err());
    }
}
