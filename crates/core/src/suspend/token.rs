//! Tokens: who bears one may deliver signals to one waitpoint, until that closes.
//!
//! A token reads `kid.waitpoint.expiry.mac`. The MAC covers the rest of it, the namespace and the
//! execution, so a token is worth nothing beside another execution, and is checked before anything
//! is looked up.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit, Mac};
use serde::{Deserialize, Serialize};
use sha2::Sha256;
use uuid::Uuid;

use super::keys::ring;
use crate::command::Context;
use crate::model::{
    Code, Error, ExecutionId, Fingerprint, Result, SigningSecret, Timestamp, TokenTrace, Waitpoint,
    WaitpointId,
};
use crate::store::Read;

/// Authorises its bearer to deliver signals to one waitpoint. Safe to put into a URL; not shown by
/// `Debug`, because whoever knows it can use it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Token(String);

impl Token {
    /// A token as it was handed in: it need not be a good one.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text to hand out.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kid = self.0.split('.').next().unwrap_or_default();
        write!(f, "Token({kid}.…)")
    }
}

/// Signs the token of a waitpoint.
pub(super) fn sign(
    secret: &SigningSecret,
    namespace: &str,
    execution: ExecutionId,
    waitpoint: &Waitpoint,
) -> (Token, Fingerprint) {
    let expiry = waitpoint.expires_at.map_or(0, Timestamp::as_millis);
    let id = URL_SAFE_NO_PAD.encode(waitpoint.id.0);
    let head = format!("{}.{id}.{expiry}", waitpoint.kid);
    let mac = mac(secret, namespace, execution, &head).finalize().into_bytes();
    let mut fingerprint = [0; 8];
    fingerprint.copy_from_slice(&mac[..8]);
    (Token(format!("{head}.{}", URL_SAFE_NO_PAD.encode(mac))), Fingerprint(fingerprint))
}

fn mac(
    secret: &SigningSecret,
    namespace: &str,
    execution: ExecutionId,
    head: &str,
) -> Hmac<Sha256> {
    let mut mac =
        Hmac::<Sha256>::new_from_slice(secret.as_bytes()).expect("HMAC takes keys of any length");
    mac.update(b"everloom waitpoint token\0");
    mac.update(namespace.as_bytes());
    mac.update(b"\0");
    mac.update(execution.0.as_bytes());
    mac.update(head.as_bytes());
    mac
}

/// What a token that was signed here says.
pub(super) struct Verified {
    pub(super) waitpoint: WaitpointId,
    pub(super) trace: TokenTrace,
}

impl Verified {
    /// Checks that it is the token the waitpoint was given: a key that no longer signs verifies
    /// what it has signed, and whoever has got hold of its secret can make no more of it.
    pub(super) fn expect_token_of(&self, waitpoint: &Waitpoint) -> Result<()> {
        let TokenTrace { kid, fingerprint } = &self.trace;
        match (kid, fingerprint) == (&waitpoint.kid, &waitpoint.fingerprint) {
            true => Ok(()),
            false => Err(invalid()),
        }
    }
}

/// Checks a token. A bad one learns nothing but that.
pub(super) fn verify(
    read: &mut dyn Read,
    cx: &Context,
    namespace: &str,
    execution: ExecutionId,
    token: &Token,
) -> Result<Verified> {
    let Some(parts) = Parts::read(&token.0) else { return Err(invalid()) };
    let keys = ring(read, namespace)?;
    let key = keys.iter().find(|key| key.kid == parts.kid);
    // A key that does not exist takes as long as one that does.
    let nobody = SigningSecret::new([0; 32]);
    let secret = key.and_then(|key| key.verifies(cx.now));
    let expected = mac(secret.unwrap_or(&nobody), namespace, execution, parts.head);
    match expected.verify_slice(&parts.mac).is_ok() && secret.is_some() {
        true => {
            let mut fingerprint = [0; 8];
            fingerprint.copy_from_slice(&parts.mac[..8]);
            let trace =
                TokenTrace { kid: parts.kid.to_owned(), fingerprint: Fingerprint(fingerprint) };
            Ok(Verified { waitpoint: parts.waitpoint, trace })
        }
        false => Err(invalid()),
    }
}

fn invalid() -> Error {
    Error::new(
        Code::InvalidToken,
        "the token is not valid for this execution; use it unchanged and with the execution it \
         was made for",
    )
}

struct Parts<'a> {
    head: &'a str,
    kid: &'a str,
    waitpoint: WaitpointId,
    mac: [u8; 32],
}

impl<'a> Parts<'a> {
    fn read(text: &'a str) -> Option<Self> {
        let (head, mac_text) = text.rsplit_once('.')?;
        let mut parts = head.split('.');
        let (kid, id, expiry) = (parts.next()?, parts.next()?, parts.next()?);
        if parts.next().is_some() || expiry.parse::<i64>().is_err() {
            return None;
        }
        let mut bytes = [0; 16];
        let mut mac = [0; 32];
        let id = URL_SAFE_NO_PAD.decode_slice(id, &mut bytes).ok()?;
        let length = URL_SAFE_NO_PAD.decode_slice(mac_text, &mut mac).ok()?;
        let waitpoint = WaitpointId(Uuid::from_bytes(bytes));
        ((id, length) == (16, 32)).then_some(Self { head, kid, waitpoint, mac })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{NamespaceId, RowId, WaitpointState};

    fn waitpoint() -> Waitpoint {
        Waitpoint {
            id: WaitpointId(Uuid::from_u128(7)),
            namespace: NamespaceId(1),
            execution: RowId(1),
            seq: 1,
            key: "a".into(),
            kid: "k1".into(),
            fingerprint: Fingerprint([0; 8]),
            created_at: Timestamp::default(),
            expires_at: Some(Timestamp::from_millis(1_900_000_000_000)),
            state: WaitpointState::Pending,
            borne: 0,
        }
    }

    #[test]
    fn a_token_reads_as_documented_and_is_safe_in_a_url() {
        let secret = SigningSecret::new([9; 32]);
        let (token, fingerprint) =
            sign(&secret, "ns", ExecutionId(Uuid::from_u128(1)), &waitpoint());
        let parts: Vec<_> = token.as_str().split('.').collect();
        assert_eq!(parts[..3], ["k1", "AAAAAAAAAAAAAAAAAAAABw", "1900000000000"]);
        assert_eq!(parts.len(), 4);
        let safe = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        assert!(token.as_str().bytes().all(safe), "{}", token.as_str());
        let read = Parts::read(token.as_str()).unwrap();
        assert_eq!((read.waitpoint, &read.mac[..8]), (waitpoint().id, &fingerprint.0[..]));
    }

    #[test]
    fn the_mac_depends_on_every_part_and_on_whose_it_is() {
        let sign_for = |secret: u8, namespace: &str, execution, change: fn(&mut Waitpoint)| {
            let mut waitpoint = waitpoint();
            change(&mut waitpoint);
            let execution = ExecutionId(Uuid::from_u128(execution));
            sign(&SigningSecret::new([secret; 32]), namespace, execution, &waitpoint).1
        };
        let sign_with = |secret, execution, change| sign_for(secret, "ns", execution, change);
        let base = sign_with(9, 1, |_| {});
        for other in [
            sign_with(8, 1, |_| {}),
            sign_with(9, 2, |_| {}),
            sign_for(9, "n", 1, |_| {}),
            sign_with(9, 1, |waitpoint| waitpoint.kid = "k2".into()),
            sign_with(9, 1, |waitpoint| waitpoint.id = WaitpointId(Uuid::from_u128(8))),
            sign_with(9, 1, |waitpoint| waitpoint.expires_at = None),
        ] {
            assert_ne!(base, other);
        }
        assert_eq!(base, sign_with(9, 1, |_| {}));
    }

    #[test]
    fn a_token_is_not_shown_by_debug() {
        assert_eq!(format!("{:?}", Token::new("k1.a.0.secret")), "Token(k1.…)");
    }

    #[test]
    fn what_does_not_look_like_a_token_is_none() {
        let mac = "A".repeat(43);
        let id = "A".repeat(22);
        assert!(Parts::read(&format!("k.{id}.0.{mac}")).is_some());
        for bad in [
            "".to_owned(),
            "....".to_owned(),
            format!("k.{id}.0"),
            format!("k.{id}.0.{mac}A"),
            format!("k.{id}.0.{mac}."),
            format!("k.{id}.0.x.{mac}"),
            format!("k.{id}.x.{mac}"),
            format!("k.{id}A.0.{mac}"),
            format!("k.{id}.0.{}", "A".repeat(42)),
        ] {
            assert!(Parts::read(&bad).is_none(), "{bad}");
        }
    }
}
