//! Keys that sign the tokens of waitpoints.

use std::borrow::Cow;
use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use subtle::ConstantTimeEq;

use super::{NamespaceId, Timestamp};

/// A signing secret: 32 bytes, compared in constant time, never shown by `Debug` and never part
/// of an answer. Its text form, for those who bring their own, is 64 hexadecimal digits.
#[derive(Clone)]
pub struct SigningSecret([u8; 32]);

impl SigningSecret {
    /// A secret of these bytes.
    pub const fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The bytes, for a store to save.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl PartialEq for SigningSecret {
    fn eq(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

impl Eq for SigningSecret {}

impl fmt::Debug for SigningSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SigningSecret(…)")
    }
}

impl Serialize for SigningSecret {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let hex: String = self.0.iter().map(|byte| format!("{byte:02x}")).collect();
        serializer.serialize_str(&hex)
    }
}

impl<'de> Deserialize<'de> for SigningSecret {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<'de, str>::deserialize(deserializer)?;
        let mut bytes = [0; 32];
        from_hex(&text, &mut bytes)
            .then_some(Self(bytes))
            .ok_or_else(|| de::Error::custom("a signing secret is 64 hexadecimal digits"))
    }
}

/// Reads exactly as many bytes from hexadecimal digits; says whether it could.
pub(super) fn from_hex(text: &str, bytes: &mut [u8]) -> bool {
    let text = text.as_bytes();
    text.len() == 2 * bytes.len()
        && text.chunks_exact(2).zip(bytes).all(|(pair, byte)| {
            let digit = |at: usize| char::from(pair[at]).to_digit(16);
            let value = digit(0).zip(digit(1)).map(|(high, low)| high * 16 + low);
            value.and_then(|value| u8::try_from(value).ok()).map(|value| *byte = value).is_some()
        })
}

/// A key that signs tokens, or did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SigningKey {
    /// Where it belongs.
    pub namespace: NamespaceId,
    /// Its name, which its tokens begin with.
    pub kid: String,
    /// What it signs with; erased when it is of no more use.
    pub secret: Option<SigningSecret>,
    /// When it was made or brought.
    pub created_at: Timestamp,
    /// What it is good for.
    pub state: KeyState,
}

/// What a signing key is good for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum KeyState {
    /// It signs and verifies.
    Active,
    /// It verifies what it has signed.
    Retiring {
        /// Since when.
        since: Timestamp,
        /// Until when; as long as one of its waitpoints is open if absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        until: Option<Timestamp>,
    },
    /// It does nothing any more.
    Revoked {
        /// Since when.
        since: Timestamp,
    },
}

impl SigningKey {
    /// The secret, if the key verifies tokens by then.
    pub(crate) fn verifies(&self, now: Timestamp) -> Option<&SigningSecret> {
        let good = match self.state {
            KeyState::Active => true,
            KeyState::Retiring { until, .. } => until.is_none_or(|until| now < until),
            KeyState::Revoked { .. } => false,
        };
        self.secret.as_ref().filter(|_| good)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signing_secret_is_64_hexadecimal_digits_and_not_shown() {
        let text = format!("\"{}\"", "0f".repeat(32));
        let secret: SigningSecret = serde_json::from_str(&text).unwrap();
        assert_eq!(secret.as_bytes(), &[15; 32]);
        assert_eq!(serde_json::to_string(&secret).unwrap(), text);
        assert_eq!(format!("{secret:?}"), "SigningSecret(…)");
        for bad in ["", "0f", &"0f".repeat(31), &"0f".repeat(33), &"zz".repeat(32)] {
            assert!(serde_json::from_str::<SigningSecret>(&format!("\"{bad}\"")).is_err(), "{bad}");
        }
    }
}
