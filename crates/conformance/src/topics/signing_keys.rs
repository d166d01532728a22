//! The key ring: which secrets sign tokens, and how long those they have signed are good.

use std::time::Duration;

use everloom_core::*;
use serde_json::{Value, json};

use super::tokens::{not_valid, parts};
use crate::Lab;
use crate::fixtures::*;
use crate::mail_lab::*;
use crate::waiting::*;

const SECRET: [u8; 32] = [0xa7; 32];
const OTHER: [u8; 32] = [0x5c; 32];

fn seed(kid: &str, secret: [u8; 32]) -> SeedSigningKey {
    let secret = SigningSecret::new(secret);
    SeedSigningKey { namespace: ns(), kid: kid.into(), secret }
}

fn rotate(kid: &str, secret: [u8; 32]) -> RotateSigningKey {
    let secret = Some(SigningSecret::new(secret));
    RotateSigningKey { kid: Some(kid.into()), secret, ..RotateSigningKey::default() }
}

fn rotate_to(kid: &str) -> RotateSigningKey {
    RotateSigningKey { kid: Some(kid.into()), ..RotateSigningKey::default() }
}

fn with_grace(grace: Duration) -> RotateSigningKey {
    RotateSigningKey { grace: Some(grace), ..RotateSigningKey::default() }
}

fn revoke(kid: &str) -> RevokeSigningKey {
    RevokeSigningKey { namespace: ns(), kid: kid.into() }
}

fn key(lab: &mut Lab, kid: &str) -> SigningKeyView {
    let found = keys(lab).into_iter().find(|key| key.kid == kid);
    found.unwrap_or_else(|| panic!("there is a key {kid}"))
}

fn kids(lab: &mut Lab) -> Vec<String> {
    keys(lab).into_iter().map(|key| key.kid).collect()
}

/// The key that a new token is signed with.
fn signer(lab: &mut Lab) -> String {
    parts(waiting(lab, Condition::at("a")).token("a"))[0].clone()
}

/// An execution that takes any number of signals at `a`, and whose token is of that key.
fn listening(lab: &mut Lab, kid: &str) -> Waiting {
    let one = waiting(lab, Condition::all([Condition::at("a"), Condition::Operator]));
    assert_eq!(parts(one.token("a"))[0], kid);
    one
}

fn is_good(lab: &mut Lab, one: &Waiting) -> bool {
    match lab.apply(one.bearing("a", "x")) {
        Ok(_) => true,
        Err(error) => {
            assert_eq!(error, not_valid());
            false
        }
    }
}

fn happened(lab: &mut Lab) -> Vec<(EventKind, Value)> {
    use EventKind::{KeyAdded, KeyRetired, KeyRevoked};
    let events = lab.events(of_kinds([KeyAdded, KeyRetired, KeyRevoked]));
    events.into_iter().map(|event| (event.kind, event.data.unwrap_or_default())).collect()
}

pub fn the_first_token_makes_a_key(lab: &mut Lab) {
    let leased = lab.lease(work());
    wait(lab, &leased, Condition::Operator);
    assert_eq!(keys(lab), []);
    let leased = lab.lease(work());
    let ticket = pending(lab, &leased, "a");
    let [key] = &keys(lab)[..] else { panic!("one key") };
    assert_eq!(parts(&ticket.token)[0], key.kid);
    assert_eq!((key.state, key.verifies), (KeyState::Active, true));
    assert_eq!((key.created_at, key.open_waitpoints), (lab.now(), 1));
    assert_eq!(happened(lab), [(EventKind::KeyAdded, json!({ "kid": key.kid }))]);
    assert_eq!(signer(lab), key.kid);
    assert_eq!(kids(lab).len(), 1);
}

pub fn two_that_need_a_key_at_once_share_it(lab: &mut Lab) {
    let leases = [lab.lease(work()), lab.lease(work())];
    let mut calls = leases.map(|leased| lab.call(suspend(&leased, Condition::at("a"))));
    let [one, two] = &mut calls;
    lab.batch(&mut [one, two]);
    for call in calls {
        let SuspendOutcome::Suspended { waitpoints, .. } = call.into_answer().unwrap() else {
            panic!("it waits");
        };
        assert_eq!(parts(&waitpoints[0].token)[0], kids(lab)[0]);
    }
    assert_eq!(kids(lab).len(), 1);
}

pub fn a_seeded_key_signs(lab: &mut Lab) {
    let seeded = lab.ok(seed("mine", SECRET));
    assert_eq!(seeded, SeedOutcome::Seeded { kid: "mine".into() });
    assert_eq!(signer(lab), "mine");
    assert_eq!(kids(lab), ["mine"]);
    assert_eq!(happened(lab), [(EventKind::KeyAdded, json!({ "kid": "mine" }))]);
}

pub fn seeding_again_tells_whether_the_secret_is_the_same(lab: &mut Lab) {
    lab.ok(seed("mine", SECRET));
    let before = lab.snapshot();
    for (secret, same_secret) in [(SECRET, true), (OTHER, false)] {
        let kid = "mine".to_owned();
        assert_eq!(lab.ok(seed("mine", secret)), SeedOutcome::AlreadySeeded { kid, same_secret });
    }
    assert_eq!(lab.snapshot(), before);
    assert_eq!(signer(lab), "mine");
}

pub fn seeding_beside_a_key_that_signs_is_refused(lab: &mut Lab) {
    let made = signer(lab);
    let error = lab.refused(seed("mine", SECRET));
    assert_eq!(error.code(), Code::WrongState);
    assert!(error.message().contains(&made), "{error}");
    lab.ok(rotate("mine", SECRET));
    assert_eq!(lab.refused(seed("another", SECRET)).code(), Code::WrongState);
    assert_eq!(signer(lab), "mine");
}

pub fn a_key_can_be_seeded_after_the_one_that_signed_was_revoked(lab: &mut Lab) {
    lab.ok(seed("bad", SECRET));
    lab.ok(revoke("bad"));
    let again = lab.ok(seed("bad", SECRET));
    assert_eq!(again, SeedOutcome::AlreadySeeded { kid: "bad".into(), same_secret: false });
    assert_eq!(lab.ok(seed("good", OTHER)), SeedOutcome::Seeded { kid: "good".into() });
    assert_eq!(signer(lab), "good");
}

pub fn a_secret_is_64_hexadecimal_digits(lab: &mut Lab) {
    let read = |secret: &Value| {
        let seed = json!({ "kid": "k", "secret": secret });
        serde_json::from_value::<SeedSigningKey>(seed).map(drop).map_err(|error| error.to_string())
    };
    let digits = "0123456789abcdefABCDEF0123456789".repeat(2);
    assert!(read(&json!(digits)).is_ok());
    for bad in [
        json!(""),
        json!("a7"),
        json!("a7".repeat(31)),
        json!("a7".repeat(33)),
        json!("a7".repeat(16)),
        json!("a".repeat(63)),
        json!("a".repeat(65)),
        json!("g7".repeat(32)),
        json!(" a".repeat(32)),
        json!("+a".repeat(32)),
        json!("ä".repeat(32)),
        json!(format!("0x{}", "a7".repeat(31))),
        json!(vec![7; 32]),
        json!(null),
    ] {
        assert!(read(&bad).is_err(), "{bad}");
        if let Some(text) = bad.as_str().filter(|text| text.len() > 2) {
            assert!(!read(&bad).unwrap_err().contains(text), "the error tells the secret");
        }
        let rotate = json!({ "kid": "k", "secret": bad });
        let refused = serde_json::from_value::<RotateSigningKey>(rotate).is_err();
        assert_eq!(refused, !bad.is_null(), "{bad}: a rotation may draw one");
    }
    assert_eq!(keys(lab), []);
}

pub fn the_name_of_a_key_fits_into_a_token(lab: &mut Lab) {
    for bad in ["", "a.b", "a:b", "a b", "ä", "a/b", "a\n", &"k".repeat(33)] {
        for error in [lab.refused(seed(bad, SECRET)), lab.refused(rotate(bad, SECRET))] {
            assert_eq!((error.code(), error.field()), (Code::InvalidInput, Some("kid")), "{bad}");
        }
    }
    for good in ["k", "-", "_", "0", &"K".repeat(32)] {
        lab.ok(rotate(good, SECRET));
        assert_eq!(signer(lab), good);
    }
    let too_long = with_grace(Limits::DURATION_MAX + ms(1));
    assert_eq!(lab.refused(too_long).field(), Some("grace_ms"));
    let nowhere = RotateSigningKey { namespace: "not a name".into(), ..rotate_to("k2") };
    assert_eq!(lab.refused(nowhere).field(), Some("namespace"));
    let nowhere = SeedSigningKey { namespace: String::new(), ..seed("k2", SECRET) };
    assert_eq!(lab.refused(nowhere).field(), Some("namespace"));
}

pub fn a_rotation_lets_a_new_key_sign(lab: &mut Lab) {
    let rotated = |kid: &str, previous: Option<&str>| {
        let previous = previous.map(str::to_owned);
        RotateOutcome::Rotated { kid: kid.into(), previous }
    };
    assert_eq!(lab.ok(rotate("a", SECRET)), rotated("a", None));
    assert_eq!(signer(lab), "a");
    assert_eq!(lab.ok(rotate("b", OTHER)), rotated("b", Some("a")));
    assert_eq!(signer(lab), "b");
    let since = lab.now();
    assert_eq!(key(lab, "a").state, KeyState::Retiring { since, until: None });
    assert_eq!(key(lab, "b").state, KeyState::Active);
}

pub fn a_repeated_rotation_does_nothing(lab: &mut Lab) {
    lab.ok(rotate("a", SECRET));
    lab.ok(rotate_to("b"));
    let before = lab.snapshot();
    assert_eq!(lab.ok(rotate_to("b")), RotateOutcome::Noop { kid: "b".into() });
    assert_eq!(lab.snapshot(), before);
    lab.ok(rotate("c", OTHER));
    let before = lab.snapshot();
    for again in [rotate("c", OTHER), rotate_to("c")] {
        let again = RotateSigningKey { grace: Some(secs(1)), ..again };
        assert_eq!(lab.ok(again), RotateOutcome::Noop { kid: "c".into() });
    }
    assert_eq!(lab.snapshot(), before);
}

pub fn a_rotation_to_the_name_of_another_key_is_a_conflict(lab: &mut Lab) {
    lab.ok(rotate("retired", SECRET));
    lab.ok(rotate("revoked", SECRET));
    lab.ok(rotate("active", SECRET));
    lab.ok(revoke("revoked"));
    for again in [
        rotate("active", OTHER),
        rotate("retired", SECRET),
        rotate("retired", OTHER),
        rotate_to("retired"),
        rotate("revoked", SECRET),
        rotate_to("revoked"),
    ] {
        let error = lab.refused(again.clone());
        let expected = (Code::RotationConflict, Some("kid"));
        assert_eq!((error.code(), error.field()), expected, "{again:?}");
    }
    assert_eq!(signer(lab), "active");
}

pub fn names_and_secrets_are_made_up_when_absent(lab: &mut Lab) {
    lab.ok(rotate("k2", SECRET));
    for _ in 0..3 {
        lab.ok(RotateSigningKey::default());
    }
    lab.ok(rotate("k7", OTHER));
    lab.ok(revoke("k7"));
    lab.ok(RotateSigningKey::default());
    let all = keys(lab);
    let mut names: Vec<_> = all.iter().map(|key| key.kid.clone()).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), 6);
    let mut secrets: Vec<_> = all.into_iter().filter_map(|key| key.fingerprint).collect();
    secrets.sort_unstable();
    secrets.dedup();
    assert_eq!(secrets.len(), 5, "one was revoked");
}

pub fn an_old_token_is_good_until_its_waitpoint_closes(lab: &mut Lab) {
    lab.ok(seed("a", SECRET));
    let one = listening(lab, "a");
    let other = waiting(lab, Condition::at("a"));
    lab.ok(rotate_to("b"));
    let new = listening(lab, "b");
    lab.advance(days(300));
    assert!(is_good(lab, &one));
    assert!(is_good(lab, &new));
    assert!(key(lab, "a").verifies);
    lab.ok(other.bearing("a", "x"));
    assert_eq!(key(lab, "a").open_waitpoints, 1);
    lab.ok(Resume::new(one.id));
    assert_eq!(closed(lab, one.bearing("a", "x")), "resumed");
    let old = key(lab, "a");
    assert_eq!((old.open_waitpoints, old.verifies), (0, false));
    assert!(is_good(lab, &new));
}

pub fn with_a_grace_old_tokens_are_good_until_exactly_then(lab: &mut Lab) {
    lab.ok(seed("a", SECRET));
    let one = listening(lab, "a");
    let over = waiting(lab, Condition::at("a"));
    lab.ok(keyed("k", over.bearing("a", "x")));
    lab.ok(with_grace(secs(60)));
    let until = lab.now() + secs(60);
    assert_eq!(key(lab, "a").state, KeyState::Retiring { since: lab.now(), until: Some(until) });
    lab.pass(ms(59_999));
    assert!(is_good(lab, &one));
    assert_eq!(closed(lab, over.bearing("a", "x")), "satisfied");
    assert!(key(lab, "a").verifies);
    lab.pass(ms(1));
    assert!(!is_good(lab, &one));
    assert!(!key(lab, "a").verifies);
    // Whoever comes too late does not even learn what became of it.
    assert_eq!(lab.refused(over.bearing("a", "x")), not_valid());
    assert_eq!(lab.refused(keyed("k", over.bearing("a", "x"))), not_valid());
    assert_eq!(effect(lab, one.signal("a", "x", "ann")), ignored(Offered::NothingNew));
}

pub fn without_any_grace_old_tokens_are_worthless_at_once(lab: &mut Lab) {
    let one = listening(lab, "k1");
    lab.ok(with_grace(Duration::ZERO));
    assert!(!is_good(lab, &one));
    let two = listening(lab, "k2");
    assert!(is_good(lab, &two));
}

pub fn each_old_key_has_its_own_time(lab: &mut Lab) {
    lab.ok(seed("a", SECRET));
    let first = listening(lab, "a");
    lab.ok(RotateSigningKey { grace: Some(secs(100)), ..rotate_to("b") });
    let second = listening(lab, "b");
    lab.pass(secs(10));
    lab.ok(RotateSigningKey { grace: Some(secs(10)), ..rotate_to("c") });
    let third = listening(lab, "c");
    let good = |lab: &mut Lab| [&first, &second, &third].map(|one| is_good(lab, one));
    assert_eq!(good(lab), [true, true, true]);
    lab.pass(secs(10));
    assert_eq!(good(lab), [true, false, true]);
    lab.ok(rotate_to("d"));
    let fourth = listening(lab, "d");
    lab.pass(ms(79_999));
    assert_eq!(good(lab), [true, false, true]);
    lab.pass(ms(1));
    assert_eq!(good(lab), [false, false, true]);
    assert!(is_good(lab, &fourth));
    assert_eq!(kids(lab), ["a", "b", "c", "d"]);
}

pub fn a_revoked_key_is_worthless_at_once(lab: &mut Lab) {
    lab.ok(seed("a", SECRET));
    let one = listening(lab, "a");
    let over = waiting(lab, Condition::at("a"));
    lab.ok(over.bearing("a", "x"));
    lab.ok(rotate_to("b"));
    let two = listening(lab, "b");
    let revoked = lab.ok(revoke("a"));
    assert_eq!(revoked, KeyRevoked { repeated: false, open_waitpoints: 1 });
    assert_eq!((is_good(lab, &one), is_good(lab, &two)), (false, true));
    assert_eq!(lab.refused(over.bearing("a", "x")), not_valid());
    let view = key(lab, "a");
    assert_eq!(view.state, KeyState::Revoked { since: lab.now() });
    assert_eq!((view.verifies, view.fingerprint), (false, None));
    let before = lab.snapshot();
    let again = lab.ok(revoke("a"));
    assert_eq!(again, KeyRevoked { repeated: true, open_waitpoints: 1 });
    assert_eq!(lab.snapshot(), before);
    // Its waitpoint stays open for those who need no token.
    assert_eq!(effect(lab, one.signal("a", "x", "ann")), Effect::Recorded);
}

pub fn only_a_key_of_the_ring_can_be_revoked(lab: &mut Lab) {
    assert_eq!(lab.refused(revoke("k1")).code(), Code::NotFound);
    signer(lab);
    assert_eq!(lab.refused(revoke("k9")).code(), Code::NotFound);
    let there = RevokeSigningKey { namespace: "there".into(), ..revoke("k1") };
    assert_eq!(lab.refused(there).code(), Code::NotFound);
}

pub fn after_the_signing_key_was_revoked_another_is_made(lab: &mut Lab) {
    lab.ok(seed("a", SECRET));
    let one = listening(lab, "a");
    lab.ok(revoke("a"));
    assert_eq!(keys(lab).iter().filter(|key| key.state == KeyState::Active).count(), 0);
    let made = signer(lab);
    assert_ne!(made, "a");
    assert_eq!(key(lab, &made).state, KeyState::Active);
    assert!(!is_good(lab, &one));
    let outcome = lab.ok(rotate_to("b"));
    assert_eq!(outcome, RotateOutcome::Rotated { kid: "b".into(), previous: Some(made) });
}

pub fn a_rotation_after_a_revocation_has_no_previous_key(lab: &mut Lab) {
    lab.ok(seed("a", SECRET));
    lab.ok(revoke("a"));
    let outcome = lab.ok(rotate_to("b"));
    assert_eq!(outcome, RotateOutcome::Rotated { kid: "b".into(), previous: None });
    let since = lab.now();
    assert_eq!(key(lab, "a").state, KeyState::Revoked { since });
}

/// Both ways in which the tokens of the key that signs become worthless.
const ENDS: [fn(&mut Lab, &str); 2] = [
    |lab, kid| lab.run(revoke(kid)),
    |lab, _| {
        lab.run(with_grace(secs(1)));
        lab.pass(secs(1));
    },
];

pub fn a_waitpoint_whose_token_is_worthless_gets_a_new_one(lab: &mut Lab) {
    for end in ENDS {
        let leased = lab.lease(work());
        let old = pending(lab, &leased, "x");
        end(lab, &parts(&old.token)[0]);
        let new = lab.ok(create_waitpoint(&leased, "x"));
        assert!(new.repeated);
        assert_eq!((new.ticket.id, &new.ticket.key), (old.id, &old.key));
        assert_ne!(parts(&new.ticket.token)[0], parts(&old.token)[0]);
        let signal = |token: &Token| bearing(token, leased.id(), "early");
        assert_eq!(lab.refused(signal(&old.token)), not_valid());
        assert_eq!(effect(lab, signal(&new.ticket.token)), Effect::Buffered);
        // The new one is what reads show, and what is handed out from then on.
        let view = &lab.waitpoints(leased.id())[0];
        assert_eq!(view.kid, parts(&new.ticket.token)[0]);
        assert_eq!(pending(lab, &leased, "x"), new.ticket);
        let one = wait(lab, &leased, Condition::count(2, Distinct::Signals, ["x"]));
        assert_eq!(one.tickets, std::slice::from_ref(&new.ticket));
        // Whoever asks again after the lease has ended gets it too.
        end(lab, &view.kid);
        let again = wait(lab, &leased, Condition::count(2, Distinct::Signals, ["x"]));
        assert_eq!(lab.refused(one.bearing("x", "late")), not_valid());
        assert_eq!(effect(lab, again.bearing("x", "late")), RESUMED);
    }
}

pub fn suspending_on_a_waitpoint_whose_key_was_revoked_gives_a_new_token(lab: &mut Lab) {
    lab.ok(seed("a", SECRET));
    let leased = lab.lease(work());
    let old = pending(lab, &leased, "x");
    lab.ok(revoke("a"));
    let one = wait(lab, &leased, Condition::at("x"));
    assert_eq!(one.ticket("x").id, old.id);
    assert_eq!(lab.refused(bearing(&old.token, one.id, "x")), not_valid());
    assert_eq!(key(lab, "a").open_waitpoints, 0);
    assert_eq!(effect(lab, one.bearing("x", "x")), RESUMED);
}

pub fn the_list_tells_what_each_key_is_good_for(lab: &mut Lab) {
    let beginning = lab.now();
    lab.ok(seed("old", SECRET));
    listening(lab, "old");
    listening(lab, "old");
    lab.pass(secs(1));
    lab.ok(RotateSigningKey { grace: Some(secs(9)), ..rotate_to("new") });
    listening(lab, "new");
    let [new, old] = &keys(lab)[..] else { panic!("two keys, by name") };
    assert_eq!((new.kid.as_str(), old.kid.as_str()), ("new", "old"));
    assert_eq!((new.created_at, old.created_at), (lab.now(), beginning));
    assert_eq!((new.open_waitpoints, old.open_waitpoints), (1, 2));
    assert_eq!((new.verifies, old.verifies), (true, true));
    let (since, until) = (lab.now(), Some(lab.now() + secs(9)));
    assert_eq!((new.state, old.state), (KeyState::Active, KeyState::Retiring { since, until }));
    // The beginning of the secret's SHA-256, which whoever brought it can compute.
    assert_eq!(old.fingerprint.as_deref(), Some("377e15efdc9e493f"));
    assert_ne!(new.fingerprint, old.fingerprint);
    let nowhere = ListSigningKeys { namespace: "nowhere".into() };
    assert_eq!(lab.see(nowhere), SigningKeys { keys: vec![] });
}

pub fn a_secret_is_told_to_nobody(lab: &mut Lab) {
    let mut told = format!("{:?} {:?}", seed("a", SECRET), rotate("b", OTHER));
    let mut tell = |outcome: Value| told += &outcome.to_string();
    tell(json!(lab.ok(seed("a", SECRET))));
    tell(json!(lab.ok(seed("a", OTHER))));
    tell(json!(lab.refused(seed("b", OTHER))));
    let one = listening(lab, "a");
    tell(json!(lab.ok(rotate("b", OTHER))));
    tell(json!(lab.ok(rotate("b", OTHER))));
    tell(json!(lab.refused(rotate("b", SECRET))));
    tell(json!(one.tickets));
    lab.ok(one.bearing("a", "x"));
    tell(json!(lab.ok(revoke("a"))));
    told += &all_that_is_told(lab);
    let told = told.to_lowercase();
    for byte in [SECRET[0], OTHER[0]] {
        // Neither as hexadecimal digits, nor as a list of numbers, nor as text.
        assert!(!told.contains(&format!("{byte:02x}").repeat(4)));
        assert!(!told.contains(&format!("{byte}, {byte}, {byte}")));
        assert!(!told.contains(&format!("{byte},{byte},{byte}")));
    }
}

pub fn the_keys_of_namespaces_are_apart(lab: &mut Lab) {
    let there = || "there".to_owned();
    lab.ok(seed("a", SECRET));
    lab.ok(SeedSigningKey { namespace: there(), ..seed("a", OTHER) });
    lab.ok(SeedSigningKey { namespace: "third".into(), ..seed("mine", SECRET) });
    let here = listening(lab, "a");
    lab.ok(RotateSigningKey { namespace: there(), ..rotate_to("b") });
    lab.ok(RevokeSigningKey { namespace: there(), kid: "a".into() });
    assert!(is_good(lab, &here));
    assert_eq!(kids(lab), ["a"]);
    let theirs = lab.see(ListSigningKeys { namespace: there() }).keys;
    let theirs: Vec<_> = theirs.into_iter().map(|key| (key.kid, key.open_waitpoints)).collect();
    assert_eq!(theirs, [("a".to_owned(), 0), ("b".to_owned(), 0)]);
    let events =
        lab.events(EventFilter { kinds: vec![EventKind::KeyAdded], ..in_namespace("third") });
    assert_eq!(events.len(), 1);
    assert_eq!(events[0].data, Some(json!({ "kid": "mine" })));
}

pub fn the_log_tells_what_becomes_of_keys(lab: &mut Lab) {
    use EventKind::{KeyAdded, KeyRetired, KeyRevoked};
    lab.ok(seed("a", SECRET));
    lab.ok(rotate_to("b"));
    lab.ok(RotateSigningKey { grace: Some(secs(7)), ..rotate_to("c") });
    lab.ok(revoke("b"));
    lab.ok(revoke("b"));
    lab.ok(revoke("c"));
    let until = lab.now() + secs(7);
    assert_eq!(
        happened(lab),
        [
            (KeyAdded, json!({ "kid": "a" })),
            (KeyRetired, json!({ "kid": "a", "until": null })),
            (KeyAdded, json!({ "kid": "b" })),
            (KeyRetired, json!({ "kid": "b", "until": until })),
            (KeyAdded, json!({ "kid": "c" })),
            (KeyRevoked, json!({ "kid": "b" })),
            (KeyRevoked, json!({ "kid": "c" })),
        ]
    );
}

pub fn a_ring_has_room_for_a_thousand_keys(lab: &mut Lab) {
    for _ in 0..Limits::SIGNING_KEYS / 100 {
        let mut calls: Vec<_> = (0..100).map(|_| lab.call(with_grace(Duration::ZERO))).collect();
        let mut jobs: Vec<_> = calls.iter_mut().map(|call| call as &mut dyn Job).collect();
        lab.batch(&mut jobs);
        assert!(calls.into_iter().all(|call| call.into_answer().is_ok()));
    }
    let all = keys(lab);
    assert_eq!(all.len(), Limits::SIGNING_KEYS);
    // What is of no more use is erased on the way.
    assert_eq!(all.iter().filter(|key| key.fingerprint.is_some()).count(), 2);
    let active = all.iter().find(|key| key.state == KeyState::Active).expect("one signs");
    assert_eq!(lab.apply(RotateSigningKey::default()).unwrap_err().code(), Code::TooLarge);
    assert_eq!(lab.apply(rotate("more", SECRET)).unwrap_err().code(), Code::TooLarge);
    assert_eq!(signer(lab), active.kid);
    lab.ok(revoke(&active.kid));
    assert_eq!(lab.apply(seed("more", SECRET)).unwrap_err().code(), Code::TooLarge);
}

pub fn keys_survive_a_restart(lab: &mut Lab) {
    lab.ok(seed("a", SECRET));
    let one = listening(lab, "a");
    lab.ok(RotateSigningKey { grace: Some(secs(60)), ..rotate_to("b") });
    lab.ok(rotate_to("c"));
    lab.ok(revoke("b"));
    let before = keys(lab);
    lab.reopen();
    assert_eq!(keys(lab), before);
    assert!(is_good(lab, &one));
    assert_eq!(signer(lab), "c");
    let same = SeedOutcome::AlreadySeeded { kid: "a".into(), same_secret: true };
    assert_eq!(lab.ok(seed("a", SECRET)), same);
    lab.pass(secs(60));
    lab.reopen();
    assert!(!is_good(lab, &one));
}
