//! Tokens: what is one, and what is none.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use everloom_core::*;
use hmac::{Hmac, KeyInit, Mac};
use serde_json::json;
use sha2::Sha256;

use crate::Lab;
use crate::fixtures::*;
use crate::mail_lab::*;
use crate::waiting::*;

const THERE: &str = "there";

/// Delivers with tokens that are not good: all get the same answer, and nothing changes.
#[track_caller]
pub(super) fn refuse_all(
    lab: &mut Lab,
    execution: ExecutionId,
    tokens: impl IntoIterator<Item = String>,
) {
    let before = lab.snapshot();
    let tokens: Vec<_> = tokens.into_iter().map(Token::new).collect();
    answer_alike(lab, &tokens, |token| bearing(token, execution, "go"));
    answer_alike(lab, &tokens, |token| keyed("k", bearing(token, execution, "go")));
    let to = |token: &Token| SignalTo::Token(token.clone());
    answer_alike(lab, &tokens, |token| Approve::new(execution, to(token), None));
    answer_alike(lab, &tokens, |token| Reject::new(execution, to(token), None));
    assert_eq!(lab.snapshot(), before, "a token that is not good changed something");
}

/// Makes a call with each of these tokens, many in one transaction.
#[track_caller]
fn answer_alike<C: Command>(lab: &mut Lab, tokens: &[Token], call: impl Fn(&Token) -> C) {
    for tokens in tokens.chunks(Limits::BATCH) {
        let mut calls: Vec<_> = tokens.iter().map(|token| lab.call(call(token))).collect();
        let mut jobs: Vec<_> = calls.iter_mut().map(|call| call as &mut dyn Job).collect();
        lab.batch(&mut jobs);
        for (token, call) in tokens.iter().zip(calls) {
            let refusal = call.into_answer().err();
            assert_eq!(refusal, Some(not_valid()), "{}", token.as_str());
        }
    }
}

/// All that whoever comes with a bad token is told.
pub(super) fn not_valid() -> Error {
    Error::new(
        Code::InvalidToken,
        "the token is not valid for this execution; use it unchanged and with the execution it \
         was made for",
    )
}

pub(super) fn parts(token: &Token) -> Vec<String> {
    token.as_str().split('.').map(str::to_owned).collect()
}

/// A token by its documented form, made without the engine.
fn forge(secret: &[u8; 32], kid: &str, execution: ExecutionId, of: WaitpointId) -> String {
    let head = format!("{kid}.{}.0", URL_SAFE_NO_PAD.encode(of.0));
    let mut mac = Hmac::<Sha256>::new_from_slice(secret).expect("any length will do");
    mac.update(b"everloom waitpoint token\0default\0");
    mac.update(execution.0.as_bytes());
    mac.update(head.as_bytes());
    format!("{head}.{}", URL_SAFE_NO_PAD.encode(mac.finalize().into_bytes()))
}

fn seed(kid: &str, secret: [u8; 32]) -> SeedSigningKey {
    let secret = SigningSecret::new(secret);
    SeedSigningKey { namespace: ns(), kid: kid.into(), secret }
}

pub fn a_good_token_delivers_to_its_waitpoint(lab: &mut Lab) {
    let leased = lab.lease(work());
    let early = pending(lab, &leased, "a");
    assert_eq!(effect(lab, bearing(&early.token, leased.id(), "x")), Effect::Buffered);
    let both = Condition::all([Condition::at("b").named("go"), Condition::at("c")]);
    let one = wait(lab, &leased, both);
    assert_eq!(effect(lab, one.bearing("b", "x")), ignored(Offered::OtherName));
    assert_eq!(effect(lab, one.bearing("b", "go")), Effect::Recorded);
    assert_eq!(effect(lab, one.bearing("c", "x")), RESUMED);
    assert_eq!(lab.status(one.id), Status::Resumable);
    let came: Vec<_> = lab.signals(one.id).into_iter().map(|one| one.waitpoint).collect();
    assert_eq!(came, ["a", "b", "b", "c"].map(|key| Some(key.to_owned())));
}

pub fn a_token_may_be_used_until_its_waitpoint_closes(lab: &mut Lab) {
    let one = waiting(lab, Condition::count(3, Distinct::Signals, ["a"]));
    assert_eq!(effect(lab, one.bearing("a", "x")), Effect::Recorded);
    assert_eq!(effect(lab, one.bearing("a", "x")), Effect::Recorded);
    assert_eq!(effect(lab, one.bearing("a", "x")), RESUMED);
    assert_eq!(closed(lab, one.bearing("a", "x")), "satisfied");
}

pub fn a_token_is_good_at_its_own_waitpoint_only(lab: &mut Lab) {
    let one = waiting(lab, Condition::all(["a", "b"].map(Condition::at)));
    assert_eq!(effect(lab, one.bearing("a", "x")), Effect::Recorded);
    assert_eq!(effect(lab, one.bearing("a", "x")), ignored(Offered::NothingNew));
    assert_eq!(lab.status(one.id), Status::Suspended);
    assert_eq!(effect(lab, one.bearing("b", "x")), RESUMED);
}

pub fn a_token_with_any_character_changed_is_not_valid(lab: &mut Lab) {
    let leased = lab.lease(work());
    let mortal = CreateWaitpoint { expires_in: Some(hours(1)), ..create_waitpoint(&leased, "b") };
    let mortal = lab.ok(mortal).ticket.token;
    let one = wait(lab, &leased, Condition::at("a"));
    for token in [one.token("a"), &mortal] {
        let text = token.as_str();
        let changed = (0..text.len()).flat_map(|place| {
            let with = move |new: char| {
                let new = format!("{}{new}{}", &text[..place], &text[place + 1..]);
                (new != text).then_some(new)
            };
            ['A', 'B', '0', '1', '9', '_', '.', '=', ' ', '\0'].into_iter().filter_map(with)
        });
        refuse_all(lab, one.id, changed);
        let flipped = text.char_indices().filter(|(_, char)| char.is_ascii_alphabetic());
        let flipped = flipped.map(|(place, char)| {
            let other = (char as u8 ^ 0x20) as char;
            format!("{}{other}{}", &text[..place], &text[place + 1..])
        });
        refuse_all(lab, one.id, flipped.collect::<Vec<_>>());
    }
    assert_eq!(effect(lab, one.bearing("a", "x")), RESUMED);
}

pub fn a_token_with_something_left_out_or_added_is_not_valid(lab: &mut Lab) {
    let one = waiting(lab, Condition::at("a"));
    let text = one.token("a").as_str().to_owned();
    let shorter =
        (0..text.len()).flat_map(|place| [&text[..place], &text[place + 1..]]).map(str::to_owned);
    refuse_all(lab, one.id, shorter);
    let less = (0..text.len()).map(|place| format!("{}{}", &text[..place], &text[place + 1..]));
    refuse_all(lab, one.id, less);
    let more = (0..=text.len()).map(|place| format!("{}A{}", &text[..place], &text[place..]));
    refuse_all(lab, one.id, more);
    let [kid, id, expiry, mac] = &parts(one.token("a"))[..] else { panic!("four parts") };
    let told_otherwise = [
        format!("{kid}.{id}.+{expiry}.{mac}"),
        format!("{kid}.{id}.0{expiry}.{mac}"),
        format!("{kid}.{id}.-{expiry}.{mac}"),
        format!("{kid}.{id}.{}.{mac}", i64::MAX),
        format!("{kid}.{id}=.{expiry}.{mac}"),
        format!("{kid}.{id}.{expiry}.{mac}="),
        format!("{kid}.{id}.{expiry}.{mac}.{mac}"),
        format!("{kid}.{id}.{expiry}..{mac}"),
        format!("{kid}..{expiry}.{mac}"),
        format!(".{id}.{expiry}.{mac}"),
        format!("{id}.{kid}.{expiry}.{mac}"),
        format!("{kid}:{id}:{expiry}:{mac}"),
        format!("{kid}.{id}.{expiry}"),
        format!(" {text}"),
        format!("{text}\n"),
        text.to_uppercase(),
        text.to_lowercase(),
        text.chars().rev().collect(),
    ];
    refuse_all(lab, one.id, told_otherwise);
}

pub fn what_was_never_a_token_is_not_valid(lab: &mut Lab) {
    let one = waiting(lab, Condition::at("a"));
    let id = parts(one.token("a"))[1].clone();
    let nothing = "A".repeat(43);
    let never = [
        String::new(),
        ".".into(),
        "...".into(),
        "....".into(),
        "null".into(),
        "token:a".into(),
        "k1".into(),
        "äöü.ß.→.🦀".into(),
        "\0\0\0\0".into(),
        one.ticket("a").id.to_string(),
        format!("{}.{}.0.{nothing}", "k1", "A".repeat(22)),
        format!("k1.{id}.0.{nothing}"),
        format!("{}.{id}.0.{nothing}", "k".repeat(100_000)),
        format!("k1.{}.0.{nothing}", "A".repeat(100_000)),
        format!("k1.{id}.{}.{nothing}", "1".repeat(100_000)),
        format!("k1.{id}.0.{}", "A".repeat(1_000_000)),
        ".".repeat(100_000),
    ];
    refuse_all(lab, one.id, never);
}

pub fn a_token_is_not_valid_for_another_execution(lab: &mut Lab) {
    let one = waiting(lab, Condition::at("a"));
    let other = waiting(lab, Condition::at("a"));
    let good = one.token("a").as_str().to_owned();
    let alone = lab.submit(work());
    for elsewhere in [other.id, alone, id(404)] {
        refuse_all(lab, elsewhere, [good.clone()]);
    }
    assert_eq!(effect(lab, one.bearing("a", "x")), RESUMED);
    assert_eq!(lab.status(other.id), Status::Suspended);
    refuse_all(lab, other.id, [good]);
}

pub fn a_token_is_not_valid_in_another_namespace(lab: &mut Lab) {
    // Both have an execution of the same id, and sign with the same key.
    lab.ok(seed("k", [7; 32]));
    lab.ok(SeedSigningKey { namespace: THERE.into(), ..seed("k", [7; 32]) });
    let leased = lab.lease(work().id(id(1)));
    let one = wait(lab, &leased, Condition::at("a"));
    lab.ok(Submit { namespace: THERE.into(), executions: vec![work().id(id(1))] });
    let claim = Claim { namespace: THERE.into(), ..Claim::new("w") };
    let theirs = lab.claims(claim).remove(0);
    lab.ok(Suspend { namespace: THERE.into(), ..suspend(&theirs, Condition::at("a")) });
    for namespace in [THERE, "nowhere", "not a name", ""] {
        let astray = DeliverSignal { namespace: namespace.into(), ..one.bearing("a", "x") };
        assert_eq!(lab.refused(astray), not_valid(), "{namespace}");
    }
    assert_eq!(effect(lab, one.bearing("a", "x")), RESUMED);
}

pub fn parts_of_two_tokens_do_not_make_one(lab: &mut Lab) {
    let leased = lab.lease(work());
    let mortal = CreateWaitpoint { expires_in: Some(hours(1)), ..create_waitpoint(&leased, "a") };
    lab.ok(mortal);
    let one = wait(lab, &leased, Condition::any(["a", "b"].map(Condition::at)));
    lab.ok(RotateSigningKey::default());
    let other = waiting(lab, Condition::at("c"));
    let [a, b, c] = [one.token("a"), one.token("b"), other.token("c")].map(parts);
    let good = [&a, &b, &c].map(|parts| parts.join("."));
    let mut mixed = Vec::new();
    for choice in 0..81 {
        let from =
            |place: u32| [&a, &b, &c][choice / 3_usize.pow(place) % 3][place as usize].clone();
        let token = (0..4).map(from).collect::<Vec<_>>().join(".");
        if !good.contains(&token) {
            mixed.push(token);
        }
    }
    refuse_all(lab, one.id, mixed.clone());
    refuse_all(lab, other.id, mixed);
}

pub fn a_token_by_a_key_that_is_not_in_the_ring_is_not_valid(lab: &mut Lab) {
    lab.ok(seed("ours", [7; 32]));
    let one = waiting(lab, Condition::at("a"));
    let other = waiting(lab, Condition::at("a"));
    let (of, elsewhere) = (one.ticket("a").id, other.ticket("a").id);
    assert_eq!(one.token("a").as_str(), forge(&[7; 32], "ours", one.id, of));
    let stranger = [
        forge(&[8; 32], "ours", one.id, of),
        forge(&[7; 32], "theirs", one.id, of),
        forge(&[0; 32], "theirs", one.id, of),
        forge(&[0; 32], "ours", one.id, of),
        forge(&[7; 32], "OURS", one.id, of),
        forge(&[7; 32], "", one.id, of),
        forge(&[7; 32], "ours", id(1), of),
        forge(&[0; 32], "theirs", one.id, elsewhere),
        forge(&[0; 32], "", one.id, elsewhere),
    ];
    refuse_all(lab, one.id, stranger.clone());
    lab.ok(RevokeSigningKey { namespace: ns(), kid: "ours".into() });
    refuse_all(lab, one.id, stranger);
    refuse_all(lab, one.id, [of, elsewhere].map(|of| forge(&[7; 32], "ours", one.id, of)));
    refuse_all(lab, one.id, [of, elsewhere].map(|of| forge(&[0; 32], "ours", one.id, of)));
}

pub fn a_key_that_no_longer_signs_makes_no_new_tokens(lab: &mut Lab) {
    lab.ok(seed("old", [7; 32]));
    let before = waiting(lab, Condition::at("a"));
    let new = RotateSigningKey::default();
    lab.ok(new);
    let after = waiting(lab, Condition::at("a"));
    // Whoever has the old secret can make what looks like a token of it.
    refuse_all(lab, after.id, [forge(&[7; 32], "old", after.id, after.ticket("a").id)]);
    let mortal = lab.lease(work());
    let create = CreateWaitpoint { expires_in: Some(secs(5)), ..create_waitpoint(&mortal, "a") };
    let ticket = lab.ok(create).ticket;
    refuse_all(lab, mortal.id(), [forge(&[7; 32], "old", mortal.id(), ticket.id)]);
    assert_eq!(effect(lab, before.bearing("a", "x")), RESUMED);
}

pub fn a_token_is_safe_in_a_url_and_begins_with_its_key(lab: &mut Lab) {
    let kid = format!("My_key-{}", "x".repeat(25));
    lab.ok(seed(&kid, [3; 32]));
    let one = waiting(lab, Condition::at("a"));
    let text = one.token("a").as_str();
    let safe = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    assert!(text.bytes().all(safe), "{text}");
    assert!(text.starts_with(&format!("{kid}.")), "{text}");
    assert_eq!(parts(one.token("a")).len(), 4);
    assert!(text.len() < 128, "{text}");
    assert_eq!(effect(lab, one.bearing("a", "x")), RESUMED);
}

pub fn a_token_is_told_to_nobody_but_its_holder(lab: &mut Lab) {
    let leased = lab.lease(work());
    let early = pending(lab, &leased, "a");
    lab.ok(bearing(&early.token, leased.id(), "early"));
    let condition = Condition::all([Condition::at("a").named("go"), Condition::approval("b", 1)]);
    let one = wait(lab, &leased, condition);
    let mut told = all_that_is_told(lab);
    lab.ok(one.bearing("a", "go"));
    let to = SignalTo::Token(one.token("b").clone());
    let approve = Approve::new(one.id, to, None);
    told += &format!("{approve:?}");
    lab.ok(approve);
    let resumed = lab.take(one.id);
    told += &format!("{resumed:?}{}", serde_json::to_string(&resumed).unwrap());
    let other = wait(lab, &resumed, Condition::at("c"));
    told += &lab.refused(one.bearing("a", "go")).to_string();
    told += &format!("{:?}", lab.apply(one.bearing("a", "go")));
    told += &all_that_is_told(lab);
    told += &format!("{one:?} {other:?} {early:?} {:?}", one.bearing("a", "x"));
    for ticket in one.tickets.iter().chain(&other.tickets) {
        let mac = parts(&ticket.token)[3].clone();
        assert!(!told.contains(&mac), "{mac} was told");
        let bytes = URL_SAFE_NO_PAD.decode(&mac).unwrap();
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        assert!(told.contains(&hex[..16]), "the fingerprint is told");
        assert!(!told.contains(&hex[..17]), "more than the fingerprint was told");
    }
}

pub fn reads_show_by_which_key_and_fingerprint_a_token_is_known(lab: &mut Lab) {
    let one = waiting(lab, Condition::at("a"));
    let [kid, _, _, mac] = &parts(one.token("a"))[..] else { panic!("four parts") };
    let bytes = URL_SAFE_NO_PAD.decode(mac).unwrap();
    let fingerprint: String = bytes[..8].iter().map(|byte| format!("{byte:02x}")).collect();
    let inbox = lab.see(ListInbox::default()).waitpoints;
    for view in inbox.into_iter().chain(lab.waitpoints(one.id)) {
        assert_eq!((view.id, &view.kid), (one.ticket("a").id, kid));
        assert_eq!(view.fingerprint.to_string(), fingerprint);
        assert_eq!(serde_json::to_value(&view).unwrap()["fingerprint"], json!(fingerprint));
    }
    lab.ok(one.bearing("a", "x"));
    let trace = lab.signals(one.id)[0].token.clone().expect("it came with a token");
    assert_eq!((&trace.kid, trace.fingerprint.to_string()), (kid, fingerprint.clone()));
    let created = lab.events(of_kinds([EventKind::WaitpointCreated])).remove(0).data.unwrap();
    assert_eq!((&created["kid"], &created["fingerprint"]), (&json!(kid), &json!(fingerprint)));
    let came = lab.events(of_kinds([EventKind::SignalDelivered])).remove(0).data.unwrap();
    assert_eq!(came["token"], json!({ "kid": kid, "fingerprint": fingerprint }));
}
