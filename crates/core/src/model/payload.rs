use std::borrow::Cow;
use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// Opaque bytes with a content type: inputs and results. Stored and returned unchanged.
///
/// ```
/// # use everloom_core::Payload;
/// let input = Payload::json(&serde_json::json!({ "order": 7 })).unwrap();
/// assert_eq!(input.content_type, "application/json");
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Payload {
    /// What the bytes are, as a media type.
    pub content_type: Cow<'static, str>,
    /// The bytes.
    pub bytes: Vec<u8>,
}

impl Payload {
    /// The content type of [`Payload::json`].
    pub const JSON: &'static str = "application/json";
    /// The content type of bytes about which nothing is known.
    pub const BYTES: &'static str = "application/octet-stream";

    /// Bytes of an unknown kind.
    pub fn bytes(bytes: impl Into<Vec<u8>>) -> Self {
        Self { content_type: Cow::Borrowed(Self::BYTES), bytes: bytes.into() }
    }

    /// The JSON text of a value.
    pub fn json<T: Serialize + ?Sized>(value: &T) -> serde_json::Result<Self> {
        let bytes = serde_json::to_vec(value)?;
        Ok(Self { content_type: Cow::Borrowed(Self::JSON), bytes })
    }

    /// Reads the bytes as the JSON text of a value.
    pub fn to<T: de::DeserializeOwned>(&self) -> serde_json::Result<T> {
        serde_json::from_slice(&self.bytes)
    }

    /// Whether there is nothing to store.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty() && self.content_type == Self::BYTES
    }
}

impl Default for Payload {
    fn default() -> Self {
        Self::bytes([])
    }
}

impl fmt::Debug for Payload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Payload({}, {} bytes)", self.content_type, self.bytes.len())
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Wire<'a> {
    #[serde(borrow, default = "bytes_type")]
    content_type: Cow<'a, str>,
    #[serde(borrow, default)]
    base64: Cow<'a, str>,
}

fn bytes_type<'a>() -> Cow<'a, str> {
    Cow::Borrowed(Payload::BYTES)
}

impl Serialize for Payload {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Wire {
            content_type: Cow::Borrowed(&self.content_type),
            base64: Cow::Owned(STANDARD.encode(&self.bytes)),
        }
        .serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Payload {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let wire = Wire::deserialize(deserializer)?;
        let bytes = STANDARD
            .decode(wire.base64.as_bytes())
            .map_err(|_| de::Error::custom("`base64` is not base64 text"))?;
        Ok(Self { content_type: Cow::Owned(wire.content_type.into_owned()), bytes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_stay_bytes_through_json() {
        let payload =
            Payload { content_type: "image/png".into(), bytes: (0..=255).collect::<Vec<u8>>() };
        let json = serde_json::to_string(&payload).unwrap();
        assert_eq!(serde_json::from_str::<Payload>(&json).unwrap(), payload);
    }
}
