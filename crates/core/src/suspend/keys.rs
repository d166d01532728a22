//! The key ring: which secrets sign tokens, and for how long those they have signed are good.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::json;
use sha2::{Digest, Sha256};

use crate::command::{Command, Context, Query};
use crate::event::{EventKind, NewEvent};
use crate::model::{
    Check, Code, Error, KeyState, Limits, NamespaceId, Result, SigningKey, SigningSecret,
    Timestamp, default_name, option_duration_ms,
};
use crate::namespace;
use crate::store::{Read, Tx};

/// Brings a secret of one's own before the first token is signed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SeedSigningKey {
    /// Whose tokens it signs.
    #[serde(default = "default_name")]
    pub namespace: String,
    /// Its name: 1 to 32 of `A-Za-z0-9_-`.
    pub kid: String,
    /// 64 hexadecimal digits.
    pub secret: SigningSecret,
}

/// What became of a seed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum SeedOutcome {
    /// It signs from now on.
    Seeded {
        /// Its name.
        kid: String,
    },
    /// The ring has a key of that name.
    AlreadySeeded {
        /// Its name.
        kid: String,
        /// Whether with the same secret.
        same_secret: bool,
    },
}

impl Command for SeedSigningKey {
    const NAME: &'static str = "seed_signing_key";
    type Output = SeedOutcome;

    fn apply(&self, tx: &mut dyn Tx, cx: &Context) -> Result<SeedOutcome> {
        let mut check = Check::default();
        check.name("namespace", &self.namespace);
        check_kid(&mut check, &self.kid);
        check.finish()?;
        let keys = ring(tx, &self.namespace)?;
        let kid = self.kid.clone();
        if let Some(known) = keys.iter().find(|key| key.kid == kid) {
            let same_secret = known.secret.as_ref() == Some(&self.secret);
            return Ok(SeedOutcome::AlreadySeeded { kid, same_secret });
        }
        if let Some(active) = active(&keys) {
            return Err(Error::new(
                Code::WrongState,
                format!("the key `{}` signs already; rotate to `{kid}` instead", active.kid),
            ));
        }
        check_room(&keys)?;
        let namespace = namespace::used(tx, &self.namespace)?;
        add(tx, cx, namespace.id, kid.clone(), self.secret.clone())?;
        Ok(SeedOutcome::Seeded { kid })
    }
}

/// Lets a new key sign. The old one still verifies for a while.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RotateSigningKey {
    /// Whose tokens it signs.
    #[serde(default = "default_name")]
    pub namespace: String,
    /// The name of the new key; made up when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kid: Option<String>,
    /// Its secret, 64 hexadecimal digits; drawn when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<SigningSecret>,
    /// How long the old key's tokens are good; until the last of its waitpoints closes when absent.
    #[serde(rename = "grace_ms", with = "option_duration_ms")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grace: Option<Duration>,
}

impl Default for RotateSigningKey {
    fn default() -> Self {
        Self { namespace: default_name(), kid: None, secret: None, grace: None }
    }
}

/// What became of a rotation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum RotateOutcome {
    /// The new key signs.
    Rotated {
        /// Its name.
        kid: String,
        /// The key that signed before.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        previous: Option<String>,
    },
    /// That key signs already, with that secret if one was given.
    Noop {
        /// Its name.
        kid: String,
    },
}

impl Command for RotateSigningKey {
    const NAME: &'static str = "rotate_signing_key";
    type Output = RotateOutcome;

    fn apply(&self, tx: &mut dyn Tx, cx: &Context) -> Result<RotateOutcome> {
        let mut check = Check::default();
        check.name("namespace", &self.namespace);
        if let Some(kid) = &self.kid {
            check_kid(&mut check, kid);
        }
        if let Some(grace) = self.grace {
            check.duration("grace_ms", grace, Duration::ZERO, Limits::DURATION_MAX);
        }
        check.finish()?;
        let keys = ring(tx, &self.namespace)?;
        let kid = self.kid.clone().unwrap_or_else(|| free_name(&keys));
        if let Some(known) = keys.iter().find(|key| key.kid == kid) {
            let same = self.secret.is_none() || known.secret == self.secret;
            return match same && known.state == KeyState::Active {
                true => Ok(RotateOutcome::Noop { kid }),
                false => Err(Error::new(
                    Code::RotationConflict,
                    format!("`{kid}` is the name of another key or of one that was used before; choose a new name"),
                )
                .with_field("kid")),
            };
        }
        check_room(&keys)?;
        let previous = active(&keys).map(|key| key.kid.clone());
        for key in &keys {
            self.retire(tx, cx, key)?;
        }
        let namespace = namespace::used(tx, &self.namespace)?;
        let secret = self.secret.clone().unwrap_or_else(|| cx.signing_secret());
        add(tx, cx, namespace.id, kid.clone(), secret)?;
        Ok(RotateOutcome::Rotated { kid, previous })
    }
}

impl RotateSigningKey {
    /// Lets the key that signed verify on, and erases the secrets of those whose time is over.
    fn retire(&self, tx: &mut dyn Tx, cx: &Context, key: &SigningKey) -> Result<()> {
        match key.state {
            KeyState::Active => {
                let until = self.grace.map(|grace| cx.now + grace);
                let state = KeyState::Retiring { since: cx.now, until };
                tx.put_signing_key(&SigningKey { state, ..key.clone() })?;
                let data = json!({ "kid": key.kid, "until": until });
                log(tx, cx, key.namespace, EventKind::KeyRetired, data)
            }
            KeyState::Retiring { .. } if key.verifies(cx.now).is_none() && key.secret.is_some() => {
                tx.put_signing_key(&SigningKey { secret: None, ..key.clone() })
            }
            KeyState::Retiring { .. } | KeyState::Revoked { .. } => Ok(()),
        }
    }
}

/// Ends a key at once: no token it has signed is good any more. Its waitpoints stay open for
/// those who need no token, and creating one again gives it a new token.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RevokeSigningKey {
    /// Whose tokens it signed.
    #[serde(default = "default_name")]
    pub namespace: String,
    /// Its name.
    pub kid: String,
}

/// The key is revoked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyRevoked {
    /// Whether an earlier call had done it.
    pub repeated: bool,
    /// How many open waitpoints have lost their token.
    pub open_waitpoints: u64,
}

impl Command for RevokeSigningKey {
    const NAME: &'static str = "revoke_signing_key";
    type Output = KeyRevoked;

    fn apply(&self, tx: &mut dyn Tx, cx: &Context) -> Result<KeyRevoked> {
        let key = ring(tx, &self.namespace)?.into_iter().find(|key| key.kid == self.kid);
        let key = key.ok_or_else(|| {
            let place = format!("`{}` in namespace `{}`", self.kid, self.namespace);
            Error::not_found("signing key", place)
        })?;
        let open_waitpoints = tx.count_signed(key.namespace, &key.kid)?;
        if matches!(key.state, KeyState::Revoked { .. }) {
            return Ok(KeyRevoked { repeated: true, open_waitpoints });
        }
        let state = KeyState::Revoked { since: cx.now };
        tx.put_signing_key(&SigningKey { secret: None, state, ..key.clone() })?;
        log(tx, cx, key.namespace, EventKind::KeyRevoked, json!({ "kid": key.kid }))?;
        Ok(KeyRevoked { repeated: false, open_waitpoints })
    }
}

/// Lists a namespace's signing keys; their secrets never leave.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ListSigningKeys {
    /// Which namespace.
    #[serde(default = "default_name")]
    pub namespace: String,
}

/// A namespace's signing keys.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SigningKeys {
    /// By name.
    pub keys: Vec<SigningKeyView>,
}

/// A signing key as a reader sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SigningKeyView {
    /// Its name.
    pub kid: String,
    /// What it is good for.
    #[serde(flatten)]
    pub state: KeyState,
    /// Whether its tokens are good now.
    pub verifies: bool,
    /// When it was made or brought.
    pub created_at: Timestamp,
    /// How many open waitpoints have a token of it.
    pub open_waitpoints: u64,
    /// By which those who know the secret can recognise it; erased with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fingerprint: Option<String>,
}

impl Query for ListSigningKeys {
    const NAME: &'static str = "list_signing_keys";
    type Output = SigningKeys;

    fn run(&self, read: &mut dyn Read, cx: &Context) -> Result<SigningKeys> {
        let mut keys = Vec::new();
        for key in ring(read, &self.namespace)? {
            let open_waitpoints = read.count_signed(key.namespace, &key.kid)?;
            let over =
                matches!(key.state, KeyState::Retiring { until: None, .. }) && open_waitpoints == 0;
            keys.push(SigningKeyView {
                verifies: key.verifies(cx.now).is_some() && !over,
                fingerprint: key.secret.as_ref().map(fingerprint),
                state: key.state,
                created_at: key.created_at,
                open_waitpoints,
                kid: key.kid,
            });
        }
        Ok(SigningKeys { keys })
    }
}

/// The keys of the namespace of that name.
pub(super) fn ring(read: &mut dyn Read, namespace: &str) -> Result<Vec<SigningKey>> {
    match read.namespace(namespace)? {
        Some(namespace) => read.signing_keys(namespace.id),
        None => Ok(vec![]),
    }
}

fn fingerprint(secret: &SigningSecret) -> String {
    let digest = Sha256::digest(secret.as_bytes());
    digest[..8].iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The key that signs now; made when there is none.
pub(super) fn signing_key(
    tx: &mut dyn Tx,
    cx: &Context,
    namespace: NamespaceId,
) -> Result<SigningKey> {
    let keys = tx.signing_keys(namespace)?;
    match active(&keys) {
        Some(key) => Ok(key.clone()),
        None => add(tx, cx, namespace, free_name(&keys), cx.signing_secret()),
    }
}

/// The secret by which a waitpoint's token was signed, if that key still verifies.
pub(super) fn secret_of(
    read: &mut dyn Read,
    cx: &Context,
    namespace: NamespaceId,
    kid: &str,
) -> Result<Option<SigningSecret>> {
    let keys = read.signing_keys(namespace)?;
    let key = keys.iter().find(|key| key.kid == kid);
    Ok(key.and_then(|key| key.verifies(cx.now)).cloned())
}

fn active(keys: &[SigningKey]) -> Option<&SigningKey> {
    keys.iter().find(|key| key.state == KeyState::Active)
}

fn add(
    tx: &mut dyn Tx,
    cx: &Context,
    namespace: NamespaceId,
    kid: String,
    secret: SigningSecret,
) -> Result<SigningKey> {
    let data = json!({ "kid": kid });
    let secret = Some(secret);
    let key = SigningKey { namespace, kid, secret, created_at: cx.now, state: KeyState::Active };
    tx.put_signing_key(&key)?;
    log(tx, cx, namespace, EventKind::KeyAdded, data)?;
    Ok(key)
}

fn log(
    tx: &mut dyn Tx,
    cx: &Context,
    namespace: NamespaceId,
    kind: EventKind,
    data: serde_json::Value,
) -> Result<()> {
    tx.add_event(&NewEvent { data: Some(data), ..NewEvent::new(kind, cx.now, namespace) })
}

fn free_name(keys: &[SigningKey]) -> String {
    let mut names = (keys.len() + 1..).map(|number| format!("k{number}"));
    let free = names.find(|name| keys.iter().all(|key| key.kid != *name));
    free.unwrap_or_default()
}

/// Refuses more keys than a namespace may have.
fn check_room(keys: &[SigningKey]) -> Result<()> {
    match keys.len() < Limits::SIGNING_KEYS {
        true => Ok(()),
        false => Err(Error::new(
            Code::TooLarge,
            format!("a namespace has at most {} signing keys", Limits::SIGNING_KEYS),
        )),
    }
}

fn check_kid(check: &mut Check, kid: &str) {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"_-".contains(&byte);
    let good = (1..=Limits::KID).contains(&kid.len()) && kid.bytes().all(allowed);
    check.that(good, "kid", || format!("must be 1 to {} of A-Z a-z 0-9 _ -", Limits::KID));
}
