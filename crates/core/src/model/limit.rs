//! Budgets and quotas: what work may use, and how much of it at once.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{
    Check, GateRow, LaneId, LimitRow, Limits, NamespaceId, RowId, Timestamp, duration_ms,
    option_duration_ms,
};

/// Amounts by dimension.
pub type Amounts = BTreeMap<String, u64>;

/// A budget or a quota as a store keeps it.
#[derive(Clone, Debug, PartialEq)]
pub struct Limit {
    /// Its row.
    pub row: LimitRow,
    /// Where it belongs.
    pub namespace: NamespaceId,
    /// Its name, among those of its sort.
    pub name: String,
    /// What it allows.
    pub terms: LimitTerms,
    /// What it applies to, apart from executions and flows that name it.
    pub places: Vec<LimitPlace>,
    /// When it was made.
    pub created_at: Timestamp,
}

impl Limit {
    /// Its terms, if it is a budget.
    pub fn budget(&self) -> Option<&BudgetTerms> {
        match &self.terms {
            LimitTerms::Budget(terms) => Some(terms),
            LimitTerms::Quota(_) => None,
        }
    }

    /// Its terms, if it is a quota.
    pub fn quota(&self) -> Option<&QuotaTerms> {
        match &self.terms {
            LimitTerms::Quota(terms) => Some(terms),
            LimitTerms::Budget(_) => None,
        }
    }

    /// Which of the two it is.
    pub fn sort(&self) -> LimitSort {
        match &self.terms {
            LimitTerms::Budget(_) => LimitSort::Budget,
            LimitTerms::Quota(_) => LimitSort::Quota,
        }
    }
}

/// Which of the two a limit is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LimitSort {
    /// How much may be used up.
    Budget,
    /// How much may go on.
    Quota,
}

impl LimitSort {
    /// The number a store saves.
    pub const fn code(self) -> i64 {
        match self {
            Self::Budget => 0,
            Self::Quota => 1,
        }
    }

    /// The noun.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Budget => "budget",
            Self::Quota => "quota",
        }
    }
}

/// What a limit allows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LimitTerms {
    /// So much in all, or in each period.
    Budget(BudgetTerms),
    /// So much at once, or in each window.
    Quota(QuotaTerms),
}

/// What a limit applies to, whoever submits it and when.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LimitPlace {
    /// All work of its namespace.
    Namespace,
    /// The work in a lane.
    Lane(String),
    /// The work of a kind.
    Kind(String),
}

impl LimitPlace {
    /// In words.
    pub(crate) fn words(&self) -> String {
        match self {
            Self::Namespace => "its namespace".to_owned(),
            Self::Lane(name) => format!("lane `{name}`"),
            Self::Kind(name) => format!("kind `{name}`"),
        }
    }
}

/// What a budget allows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BudgetTerms {
    /// What is counted, and how much of it there may be.
    pub dimensions: BTreeMap<String, Allowance>,
    /// After how long it begins anew; never when absent.
    #[serde(rename = "period_ms", with = "option_duration_ms")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub period: Option<Duration>,
    /// A moment at which a period begins, from which all others follow: 1970 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub aligned_to: Option<Timestamp>,
    /// What happens when more is asked for than is left.
    #[serde(default)]
    pub on_breach: OnBreach,
    /// How long workers may take to stop, where a breach stops them.
    #[serde(rename = "grace_ms", with = "duration_ms", default = "default_grace")]
    pub grace: Duration,
}

impl Default for BudgetTerms {
    fn default() -> Self {
        Self {
            dimensions: BTreeMap::new(),
            period: None,
            aligned_to: None,
            on_breach: OnBreach::default(),
            grace: default_grace(),
        }
    }
}

fn default_grace() -> Duration {
    Duration::from_secs(30)
}

/// How much there may be of a dimension. Without limits it is only counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Allowance {
    /// Never more than this.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hard: Option<u64>,
    /// More than this is told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub soft: Option<u64>,
}

/// What happens when more of a budget is asked for than is left.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnBreach {
    /// No more work is begun under it.
    #[default]
    Block,
    /// The same, and what runs is asked to stop, and goes on when there is more.
    Pause,
    /// The same as to block, and what has never begun is cancelled.
    CancelPending,
    /// The same as to block, and all work is cancelled.
    CancelAll,
    /// It is told, and nothing else.
    Warn,
}

impl BudgetTerms {
    /// A budget of these dimensions, which never begins anew and blocks work when it is used up.
    pub fn new<D: Into<String>>(dimensions: impl IntoIterator<Item = (D, Allowance)>) -> Self {
        let dimensions = dimensions.into_iter().map(|(name, allowance)| (name.into(), allowance));
        Self { dimensions: dimensions.collect(), ..Self::default() }
    }

    /// The period a moment lies in: when it began, and when the next one begins.
    pub fn period_at(&self, now: Timestamp) -> (Timestamp, Option<Timestamp>) {
        let Some(period) = self.period else { return (Timestamp::default(), None) };
        let length = i64::try_from(period.as_millis()).unwrap_or(i64::MAX).max(1);
        let origin = self.aligned_to.unwrap_or_default().as_millis();
        let into = (now.as_millis() - origin).rem_euclid(length);
        let began = now.as_millis() - into;
        (Timestamp::from_millis(began), Some(Timestamp::from_millis(began.saturating_add(length))))
    }

    /// Whether work that will probably need so much may begin while nothing is used.
    pub(crate) fn could_admit(&self, estimate: &Amounts) -> bool {
        let needs = |dimension: &str| estimate.get(dimension).copied().unwrap_or(0).max(1);
        let fits = |(name, allowance): (&String, &Allowance)| {
            allowance.hard.is_none_or(|hard| needs(name) <= hard)
        };
        self.on_breach == OnBreach::Warn || self.dimensions.iter().all(fits)
    }

    pub(crate) fn check(&self, check: &mut Check) {
        let count = self.dimensions.len();
        check.that((1..=Limits::DIMENSIONS).contains(&count), "dimensions", || {
            format!("a budget has 1 to {} dimensions, not {count}", Limits::DIMENSIONS)
        });
        for (name, Allowance { hard, soft }) in self.dimensions.iter().take(Limits::DIMENSIONS) {
            check.name("dimensions", name);
            for (which, amount) in [("hard", hard), ("soft", soft)] {
                if let Some(amount) = amount {
                    check.amount(&format!("dimensions.{name}.{which}"), *amount);
                }
            }
            check.that(
                soft.is_none_or(|soft| hard.is_none_or(|hard| soft <= hard)),
                &format!("dimensions.{name}.soft"),
                || "is above the hard limit, so that it would never be told".into(),
            );
        }
        if let Some(period) = self.period {
            check.duration("period_ms", period, Duration::from_secs(1), Limits::DURATION_MAX);
        }
        check.that(self.aligned_to.is_none() || self.period.is_some(), "aligned_to", || {
            "only periods are aligned; set `period_ms` too".into()
        });
        check.duration("grace_ms", self.grace, Duration::ZERO, Limits::DURATION_MAX);
    }
}

/// What a quota allows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct QuotaTerms {
    /// How many executions may begin in a window.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<RateTerms>,
    /// How many may be owned at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<u32>,
    /// The tag whose value tells whom it applies to: each value has the quota for itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by_tag: Option<String>,
}

/// How many executions may begin in a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RateTerms {
    /// How many.
    pub limit: u64,
    /// In each span of that length, wherever it begins.
    #[serde(rename = "window_ms", with = "duration_ms")]
    pub window: Duration,
}

impl QuotaTerms {
    pub(crate) fn check(&self, check: &mut Check) {
        check.that(self.rate.is_some() || self.concurrency.is_some(), "rate", || {
            "a quota has a rate, a concurrency or both".into()
        });
        if let Some(RateTerms { limit, window }) = self.rate {
            check.that((1..=Limits::RATE).contains(&limit), "rate.limit", || {
                format!("must be 1 to {}, not {limit}", Limits::RATE)
            });
            check.duration("rate.window_ms", window, Duration::from_millis(1), Limits::WINDOW_MAX);
        }
        check.that(self.concurrency != Some(0), "concurrency", || {
            "must be at least 1; pause the lane to stop it".into()
        });
        if let Some(tag) = &self.by_tag {
            check.name("by_tag", tag);
        }
    }
}

/// The budgets and quotas that work is under.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LimitUses {
    /// The budgets.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub budgets: Vec<BudgetUse>,
    /// The quotas.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub quotas: Vec<QuotaUse>,
}

/// A budget that work is under.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BudgetUse {
    /// Which budget.
    pub budget: String,
    /// What one execution will probably need: put by for it while a worker has it.
    #[serde(default, skip_serializing_if = "Amounts::is_empty")]
    pub estimate: Amounts,
}

/// A quota that work is under.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QuotaUse {
    /// Which quota.
    pub quota: String,
    /// Whom it applies to, instead of what a tag says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
}

/// How many executions of the same key may be owned at once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConcurrencyKey {
    /// What they have in common.
    pub key: String,
    /// How many.
    #[serde(default = "one")]
    pub limit: u32,
}

fn one() -> u32 {
    1
}

impl BudgetUse {
    /// A budget of which nothing is put by.
    pub fn new(budget: impl Into<String>) -> Self {
        Self { budget: budget.into(), estimate: Amounts::new() }
    }

    /// Puts so much by.
    #[must_use]
    pub fn estimate(mut self, dimension: impl Into<String>, amount: u64) -> Self {
        self.estimate.insert(dimension.into(), amount);
        self
    }
}

impl QuotaUse {
    /// A quota for all alike, or by tag.
    pub fn new(quota: impl Into<String>) -> Self {
        Self { quota: quota.into(), key: None }
    }
}

impl ConcurrencyKey {
    /// One at a time.
    pub fn new(key: impl Into<String>) -> Self {
        Self { key: key.into(), limit: one() }
    }
}

impl LimitUses {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.budgets.is_empty() && self.quotas.is_empty()
    }

    /// Adds what is not here yet.
    pub fn add(&mut self, others: &Self) {
        add_budgets(&mut self.budgets, &others.budgets);
        add_quotas(&mut self.quotas, &others.quotas);
    }

    /// Removes a limit; says whether it was here.
    pub fn remove(&mut self, sort: LimitSort, name: &str) -> bool {
        let before = (self.budgets.len(), self.quotas.len());
        match sort {
            LimitSort::Budget => self.budgets.retain(|one| one.budget != name),
            LimitSort::Quota => self.quotas.retain(|one| one.quota != name),
        }
        before != (self.budgets.len(), self.quotas.len())
    }
}

/// Adds the budgets that are not here yet.
pub(crate) fn add_budgets(own: &mut Vec<BudgetUse>, others: &[BudgetUse]) {
    for other in others {
        if own.iter().all(|one| one.budget != other.budget) {
            own.push(other.clone());
        }
    }
}

/// Adds the quotas that are not here yet.
pub(crate) fn add_quotas(own: &mut Vec<QuotaUse>, others: &[QuotaUse]) {
    for other in others {
        if own.iter().all(|one| one.quota != other.quota) {
            own.push(other.clone());
        }
    }
}

/// Checks the limits a policy or a call names.
pub(crate) fn check_uses(
    check: &mut Check,
    prefix: &str,
    budgets: &[BudgetUse],
    quotas: &[QuotaUse],
) {
    let field = |name: &str| format!("{prefix}{name}");
    check.at_most(&field("budgets"), budgets.len(), Limits::USES);
    for (index, one) in budgets.iter().enumerate().take(Limits::USES) {
        check.name(&field("budgets"), &one.budget);
        check.that(
            budgets[..index].iter().all(|other| other.budget != one.budget),
            &field("budgets"),
            || format!("`{}` is named twice", one.budget),
        );
        check.amounts(&field("budgets.estimate"), &one.estimate);
    }
    check.at_most(&field("quotas"), quotas.len(), Limits::USES);
    for (index, one) in quotas.iter().enumerate().take(Limits::USES) {
        check.name(&field("quotas"), &one.quota);
        check.that(
            quotas[..index].iter().all(|other| other.quota != one.quota),
            &field("quotas"),
            || format!("`{}` is named twice", one.quota),
        );
        if let Some(key) = &one.key {
            check.key(&field("quotas.key"), key);
        }
    }
}

/// The limits of all work of a namespace, and of that of some kinds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct NamespaceLimits {
    /// Of all work.
    #[serde(skip_serializing_if = "LimitUses::is_empty")]
    pub all: LimitUses,
    /// By kind.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub kinds: BTreeMap<String, LimitUses>,
}

impl NamespaceLimits {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty() && self.kinds.is_empty()
    }
}

/// Where work passes a limit, one at a time: a budget has one gate, a quota one for each key.
#[derive(Clone, Debug, PartialEq)]
pub struct Gate {
    /// Its row.
    pub row: GateRow,
    /// Where it belongs.
    pub namespace: NamespaceId,
    /// Its limit; [`LimitRow::KEYS`] for those of concurrency keys, which have none.
    pub limit: LimitRow,
    /// Whom it is for; empty when for all.
    pub key: String,
    /// What has passed, and what waits.
    pub course: GateCourse,
    /// From when on the row says nothing that a new one would not say, unless it changes.
    pub idle_at: Option<Timestamp>,
}

impl Gate {
    /// Whether nothing has passed it and nothing has waited before it, as far as it knows.
    pub(crate) fn is_new(&self) -> bool {
        self.idle_at.is_none() && self.course == GateCourse::default()
    }
}

/// What has passed a gate, and what waits before it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct GateCourse {
    /// How many executions wait.
    #[serde(skip_serializing_if = "is_zero")]
    pub waiting: u64,
    /// When the clock looks after them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wake_at: Option<Timestamp>,
    /// How many executions that passed are owned.
    #[serde(skip_serializing_if = "is_zero")]
    pub active: u64,
    /// How many have passed, where that is counted.
    #[serde(skip_serializing_if = "is_zero")]
    pub passed: u64,
    /// The number of the first one of those that passed last, together.
    #[serde(skip_serializing_if = "is_zero")]
    pub last_first: u64,
    /// When they passed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_at: Option<Timestamp>,
    /// How much of a budget is used up.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub budget: Option<BudgetCourse>,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// Executions that passed a gate in the same moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Passage {
    /// The number of the first of them.
    pub first: u64,
    /// The number of the last of them.
    pub last: u64,
    /// When they passed.
    pub at: Timestamp,
}

/// How much of a budget is used up.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct BudgetCourse {
    /// 0, and one more whenever it begins anew.
    pub turn: u64,
    /// When that began.
    pub since: Timestamp,
    /// When it begins anew.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_reset_at: Option<Timestamp>,
    /// By dimension.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub usage: BTreeMap<String, Usage>,
    /// The breach that still bites.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub breach: Option<Breach>,
    /// The last one there was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_breach: Option<Breach>,
    /// How often more was asked for than was left.
    #[serde(skip_serializing_if = "is_zero")]
    pub breaches: u64,
    /// How often a soft limit was passed.
    #[serde(skip_serializing_if = "is_zero")]
    pub soft_breaches: u64,
}

/// How much of a dimension is used up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// What was spent since the budget last began anew.
    pub spent: u64,
    /// What is put by for executions that workers have.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub reserved: u64,
}

/// More was asked for than was left.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Breach {
    /// When.
    pub at: Timestamp,
    /// Of what.
    pub dimension: String,
    /// How much was asked for.
    pub asked: u64,
}

/// An execution under a limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Use {
    /// The execution.
    pub execution: RowId,
    /// The limit.
    pub limit: LimitRow,
    /// Whether the execution is not over.
    pub open: bool,
    /// The gate it has passed and not come back through.
    pub gate: Option<GateRow>,
    /// Its part of it.
    pub share: Share,
}

/// What an execution has of a limit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Share {
    /// Whether the execution names the limit itself.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub named: bool,
    /// What of a budget is put by for it.
    #[serde(skip_serializing_if = "Amounts::is_empty")]
    pub reserved: Amounts,
    /// What it has spent in that turn of the budget.
    #[serde(skip_serializing_if = "Amounts::is_empty")]
    pub spent: Amounts,
    /// Which turn that was.
    #[serde(skip_serializing_if = "is_zero")]
    pub turn: u64,
    /// What it has spent in all.
    #[serde(skip_serializing_if = "Amounts::is_empty")]
    pub total: Amounts,
}

/// How work of different keys takes turns in a lane.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct FairTerms {
    /// The tag whose value is the key of an execution that names none itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by_tag: Option<String>,
    /// How much more often than others (1) work of a key has its turn.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub weights: BTreeMap<String, u32>,
}

impl FairTerms {
    /// How far apart work of a key is.
    pub(crate) fn stride(&self, key: &str) -> i64 {
        let weight = self.weights.get(key).copied().unwrap_or(1).max(1);
        Turn::STRIDE / i64::from(weight)
    }

    pub(crate) fn check(&self, check: &mut Check) {
        if let Some(tag) = &self.by_tag {
            check.name("fairness.by_tag", tag);
        }
        check.at_most("fairness.weights", self.weights.len(), Limits::WEIGHTS);
        for (key, weight) in self.weights.iter().take(Limits::WEIGHTS) {
            check.key("fairness.weights", key);
            check.that((1..=Limits::WEIGHT).contains(weight), "fairness.weights", || {
                format!("a weight is 1 to {}, not {weight}", Limits::WEIGHT)
            });
        }
    }
}

/// When a key has its next turn in a lane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Turn {
    /// The lane.
    pub lane: LaneId,
    /// Among work of this priority.
    pub priority: i32,
    /// The key.
    pub key: String,
    /// Not before this moment of the lane's course. Ranks are moments of it.
    pub next: i64,
}

impl Turn {
    /// How far apart work of a key of weight 1 is. No rank is ever above as many of these as there
    /// are rows.
    pub const STRIDE: i64 = 1_000_000;

    /// The key that stands for the lane itself: its turn is how far the lane has come. No other
    /// key has such a character.
    pub const NOW: &str = "\u{1f}";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn periods_are_aligned_and_a_moment_lies_in_just_one() {
        let mut terms =
            BudgetTerms { period: Some(Duration::from_secs(60)), ..BudgetTerms::default() };
        let at = Timestamp::from_millis;
        assert_eq!(terms.period_at(at(59_999)), (at(0), Some(at(60_000))));
        assert_eq!(terms.period_at(at(60_000)), (at(60_000), Some(at(120_000))));
        terms.aligned_to = Some(at(600_010));
        assert_eq!(terms.period_at(at(60_009)), (at(10), Some(at(60_010))));
        assert_eq!(terms.period_at(at(60_010)), (at(60_010), Some(at(120_010))));
    }
}
