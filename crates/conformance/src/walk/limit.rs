//! Budgets, quotas and keys, at random, and what must always be so about them.

use std::collections::BTreeMap;

use everloom_core::*;

use super::check::{Seen, owned};
use super::{KINDS, LANES, Walk};
use crate::fixtures::*;
use crate::limit_lab::*;

const QUOTAS: [&str; 3] = ["once", "often", "each"];
const BUDGETS: [&str; 3] = ["pauses", "begins", "cancels"];
const KEYS: [&str; 2] = ["k0", "k1"];

/// A limit that owned work has passed, and for which key.
pub(super) type Passed = (LimitName, String);

fn quota_named(name: &str) -> LimitName {
    LimitName::Quota(name.to_owned())
}

fn budget_of(name: &str) -> LimitName {
    LimitName::Budget(name.to_owned())
}

impl Walk<'_> {
    /// Makes the limits that the walk is about.
    pub(super) fn make_limits(&mut self) {
        for name in QUOTAS {
            let terms = self.quota_terms(name);
            self.lab.ok(CreateQuota::new(name, terms));
        }
        for name in BUDGETS {
            let terms = self.budget_terms(name, 20);
            self.lab.ok(CreateBudget::new(name, terms));
        }
    }

    fn quota_terms(&mut self, name: &str) -> QuotaTerms {
        let most = 1 + u32::try_from(self.random.below(3)).unwrap_or(0);
        match name {
            "once" => at_once(most),
            "often" => in_each(u64::from(most) + 1, secs(1 + self.random.below(10))),
            _ => {
                let tag = self.random.one_of(&["a", "none"]);
                by_tag(tag, QuotaTerms { concurrency: Some(most), ..in_each(4, secs(5)) })
            }
        }
    }

    fn budget_terms(&mut self, name: &str, hard: u64) -> BudgetTerms {
        let terms = dimensions([("tokens", Some(hard), Some(hard / 2)), ("calls", None, None)]);
        let terms = BudgetTerms { grace: ms(self.random.below(1000)), ..terms };
        match name {
            "pauses" => on_breach(OnBreach::Pause, terms),
            "begins" => each(secs(30), terms),
            _ => on_breach(OnBreach::CancelPending, each(secs(120), terms)),
        }
    }

    /// The limits that new work names.
    pub(super) fn limits(&mut self) -> Policy {
        let random = &mut self.random;
        let mut policy = Policy::default();
        for name in QUOTAS {
            if random.percent(15) {
                let key = random.percent(20).then(|| random.one_of(&KEYS).to_owned());
                policy.quotas.push(QuotaUse { key, ..quota(name) });
            }
        }
        for name in BUDGETS {
            // To be paused takes more luck than anything else.
            if random.percent(if name == "pauses" { 30 } else { 15 }) {
                policy.budgets.push(budget(name, random.below(6)));
            }
        }
        policy.concurrency_key = random.percent(10).then(|| ConcurrencyKey {
            key: random.one_of(&KEYS).to_owned(),
            limit: 1 + u32::try_from(random.below(2)).unwrap_or(0),
        });
        policy
    }

    /// Spends, or changes what a limit allows or applies to.
    pub(super) fn change_limits(&mut self) {
        match self.random.below(20) {
            0..=7 => self.spend(),
            8..=9 => {
                let name = self.random.one_of(&QUOTAS);
                let terms = self.quota_terms(name);
                self.apply(UpdateQuota { quota: name.to_owned(), ..update(terms) });
            }
            10..=11 => {
                let name = self.random.one_of(&BUDGETS);
                // What was spent stays below the limit as long as that is not lowered under it.
                let hard = self.lab.used_of(name).0 + self.random.below(20);
                let terms = self.budget_terms(name, hard);
                self.apply(UpdateBudget { budget: name.to_owned(), ..revise(terms) });
            }
            12..=14 => {
                let breached = BUDGETS.map(|name| self.lab.budget_named(name).breach.is_some());
                let index = breached.iter().position(|breached| *breached).unwrap_or(0);
                self.apply(ResetBudget { budget: BUDGETS[index].to_owned(), ..reset() });
            }
            15 => {
                let id = self.any_in(|_| true);
                let budget = self.random.one_of(&BUDGETS).to_owned();
                self.apply(ReleaseBudget { budget, ..give_back(id) });
            }
            16..=17 => self.attach(),
            _ => self.detach(),
        }
    }

    fn spend(&mut self) {
        let most = self.random.one_of(&[8, 8, 50]);
        let amount = 1 + self.random.below(most);
        let mut call = match (self.leases.is_empty(), self.random.percent(80)) {
            (false, true) => {
                let lease = self.lease();
                let current = self.seen.get(&lease.id()).map(|view| view.epoch);
                self.stale = (current != Some(lease.lease.epoch)).then(|| lease.id());
                spend(&lease, amount)
            }
            _ => Spend { budgets: names([self.random.one_of(&BUDGETS)]), ..spend_of_b(amount) },
        };
        call.key = self.random.percent(10).then(|| format!("{amount}"));
        self.apply(call);
    }

    /// Does the next thing after which work that runs under a budget is paused.
    pub(super) fn breach_what_pauses(&mut self) {
        let name = BUDGETS[0];
        let runs = |view: &ExecutionView| {
            view.status == Status::Active
                && view.policy.budgets.iter().any(|one| one.budget == name)
        };
        if !self.seen.values().any(runs) {
            return self.act();
        }
        match (self.lab.budget_named(name).breach, self.random.percent(50)) {
            (None, _) => drop(self.apply(Spend { budgets: names([name]), ..spend_of_b(1000) })),
            (Some(_), true) => drop(self.apply(Tick::default())),
            (Some(_), false) => {
                self.lab.pass(ms(self.random.below(1000)));
                self.apply(Tick::default());
            }
        }
    }

    fn limit_and_place(&mut self) -> (LimitName, AttachTo) {
        let limit = match self.random.percent(50) {
            true => quota_named(self.random.one_of(&QUOTAS)),
            false => budget_of(self.random.one_of(&BUDGETS)),
        };
        let flow = (!self.flows.is_empty()).then(|| self.random.one_of(&self.flows));
        let place = match self.random.below(8) {
            0 => AttachTo::Namespace,
            1 => AttachTo::Lane(self.random.one_of(&LANES).to_owned()),
            2 => AttachTo::Kind(self.random.one_of(&KINDS).to_owned()),
            3 if flow.is_some() => flow.map_or(AttachTo::Namespace, AttachTo::Flow),
            _ => AttachTo::Execution(self.any_in(|status| !status.is_terminal())),
        };
        (limit, place)
    }

    fn attach(&mut self) {
        let (limit, to) = self.limit_and_place();
        self.apply(AttachLimit { limit, ..attach(to) });
    }

    /// Takes something out that is in, if there is any: else everything would soon be limited.
    fn detach(&mut self) {
        let (limit, from) = self.limit_and_place();
        let known = match &limit {
            LimitName::Quota(name) => self.lab.quota(name).attached_to,
            LimitName::Budget(name) => self.lab.budget_named(name).attached_to,
        };
        let from = match known.first().cloned() {
            Some(LimitPlace::Namespace) => AttachTo::Namespace,
            Some(LimitPlace::Lane(name)) => AttachTo::Lane(name),
            Some(LimitPlace::Kind(name)) => AttachTo::Kind(name),
            None => from,
        };
        self.apply(DetachLimit { limit, ..detach(from) });
    }

    /// Notes which limits work has passed that found an owner.
    pub(super) fn note_passed(
        &mut self,
        before: Option<&ExecutionView>,
        after: &ExecutionView,
        news: &[Event],
    ) {
        if !owned(after.status) {
            self.passed.remove(&after.id);
            return;
        }
        let redeemed = before.is_some_and(|before| before.status == Status::Granted);
        let moves = news.iter().filter(|event| super::check::cause(event, after.status).is_some());
        let same = redeemed && moves.count() == 1;
        let taken = news.iter().any(|event| {
            event.kind == EventKind::Granted || event.kind == EventKind::Claimed && !same
        });
        if taken {
            let passed = self.under(after);
            self.fresh.extend(passed.iter().cloned());
            self.passed.insert(after.id, passed);
        }
    }

    /// The limits work is under now.
    fn under(&mut self, view: &ExecutionView) -> Vec<Passed> {
        let mut uses =
            LimitUses { budgets: view.policy.budgets.clone(), quotas: view.policy.quotas.clone() };
        uses.add(&self.lab.lane(&view.lane).limits);
        let all = self.lab.see(ListNamespaces { after: None, limit: Limits::PAGE }).namespaces;
        let limits = all.into_iter().find(|one| one.namespace == ns()).map(|one| one.limits);
        let limits = limits.unwrap_or_default();
        if let Some(of_kind) = limits.kinds.get(&view.kind) {
            uses.add(of_kind);
        }
        uses.add(&limits.all);
        let budgets = uses.budgets.iter().map(|one| (budget_of(&one.budget), String::new()));
        let mut passed: Vec<_> = budgets.collect();
        for one in &uses.quotas {
            let tag = self.lab.quota(&one.quota).terms.by_tag;
            let tagged = tag.and_then(|tag| view.tags.get(&tag).cloned());
            let key = one.key.clone().or(tagged).unwrap_or_default();
            passed.push((quota_named(&one.quota), key));
        }
        passed
    }

    /// Every gate knows who has passed it and who waits before it.
    pub(super) fn check_limits(&mut self, now: &Seen) {
        let mut active = BTreeMap::<(String, String), u64>::new();
        let named = |limit: &LimitName| match limit {
            LimitName::Budget(name) => format!("budget {name}"),
            LimitName::Quota(name) => format!("quota {name}"),
        };
        for (limit, key) in self.passed.values().flatten() {
            *active.entry((named(limit), key.clone())).or_default() += 1;
        }
        let fresh = std::mem::take(&mut self.fresh);
        let waiting = |by: &LimitedBy| {
            now.values().filter(|view| view.limited_by.as_ref() == Some(by)).count() as u64
        };
        for name in QUOTAS {
            let status = self.lab.quota(name);
            let blocked = status.keys.iter().map(|key| key.blocked).sum::<u64>();
            assert_eq!(blocked, waiting(&by_quota(name)), "what waits for quota {name}");
            for key in status.keys {
                let place = (named(&quota_named(name)), key.key.clone());
                assert_eq!(key.active, active.remove(&place).unwrap_or(0), "{place:?}");
                let passed = fresh.contains(&(quota_named(name), key.key));
                let most = status.terms.concurrency.map_or(u64::MAX, u64::from);
                assert!(!passed || key.active <= most, "more than {most} of quota {name}");
            }
        }
        for name in BUDGETS {
            let status = self.lab.budget_named(name);
            assert_eq!(status.blocked, waiting(&by_budget(name)), "what waits for budget {name}");
            let place = (named(&budget_of(name)), String::new());
            assert_eq!(status.active, active.remove(&place).unwrap_or(0), "budget {name}");
            let usage = status.usage["tokens"];
            assert!(Some(usage.spent) <= usage.hard, "budget {name} has {usage:?}");
            if self.steps.is_multiple_of(50) {
                assert_eq!(usage.reserved, self.put_by(name, now), "put by in budget {name}");
            }
        }
        assert!(active.is_empty(), "nobody knows of {active:?}");
        for key in KEYS {
            let limits = now.values().filter(|view| owned(view.status)).filter_map(|view| {
                let own = view.policy.concurrency_key.as_ref().filter(|own| own.key == key)?;
                Some(own.limit as usize)
            });
            let limits: Vec<_> = limits.collect();
            assert!(limits.len() <= limits.iter().copied().max().unwrap_or(0), "{key}: {limits:?}");
        }
    }

    /// What is put by for all executions together.
    fn put_by(&mut self, budget: &str, now: &Seen) -> u64 {
        let mut sum = 0;
        for view in now.values() {
            let entries = self.lab.ledger(view.id).into_iter().filter(|one| one.budget == budget);
            sum += entries.filter_map(|one| one.reserved.get("tokens").copied()).sum::<u64>();
        }
        sum
    }

    /// Runs everything that can be run: nothing waits for a limit for ever.
    pub(super) fn drain_limits(&mut self) {
        for name in BUDGETS {
            let terms = self.budget_terms(name, 1000);
            self.lab.ok(UpdateBudget { budget: name.to_owned(), ..revise(terms) });
            self.lab.ok(ResetBudget { budget: name.to_owned(), ..reset() });
        }
        let mut rounds = 0;
        loop {
            self.lab.advance(secs(10));
            let all =
                self.lab.list(ListExecutions { limit: Limits::PAGE, ..ListExecutions::default() });
            let waits = [Status::Waiting, Status::Resumable, Status::RateLimited];
            let left: Vec<_> =
                all.iter().filter(|view| waits.contains(&view.status) && !view.held).collect();
            if left.is_empty() {
                break;
            }
            rounds += 1;
            assert!(
                rounds < 500,
                "{} waits for ever: {:?}",
                left[0].id,
                self.lab.explain(left[0].id)
            );
            let capabilities = super::CAPABILITIES.map(str::to_owned).into();
            for lease in self.lab.claims(Claim { capabilities, ..from_lanes(LANES) }) {
                // The end of one may have ended others.
                let _ = self.lab.apply(complete(&lease));
            }
        }
        for name in QUOTAS {
            let keys = self.lab.quota(name).keys;
            assert!(keys.iter().all(|key| (key.active, key.blocked) == (0, 0)), "{name}: {keys:?}");
        }
        for name in BUDGETS {
            let status = self.lab.budget_named(name);
            let usage = status.usage["tokens"];
            assert_eq!((status.active, status.blocked, usage.reserved), (0, 0, 0), "{name}");
        }
    }
}
