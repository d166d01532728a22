//! What a budget has left, without any store.

use crate::model::{Amounts, Breach, BudgetCourse, BudgetTerms, OnBreach, Timestamp, Usage};

impl BudgetCourse {
    /// A budget of which nothing is used.
    pub(super) fn begin(terms: &BudgetTerms, now: Timestamp) -> Self {
        let (since, next_reset_at) = terms.period_at(now);
        let since = if next_reset_at.is_some() { since } else { now };
        Self { since, next_reset_at, ..Self::default() }
    }

    /// Begins anew if a period is over, however many are; says whether it did.
    pub(super) fn roll(&mut self, terms: &BudgetTerms, now: Timestamp) -> bool {
        let over = self.next_reset_at.is_some_and(|at| at <= now);
        if over {
            self.reset(now);
            (self.since, self.next_reset_at) = terms.period_at(now);
        }
        over
    }

    /// Begins anew. What is put by belongs to those who have it, and stays.
    pub(super) fn reset(&mut self, now: Timestamp) {
        self.turn += 1;
        self.since = now;
        self.breach = None;
        for usage in self.usage.values_mut() {
            usage.spent = 0;
        }
        self.usage.retain(|_, usage| usage.reserved > 0);
    }

    /// Goes by other terms from now on.
    pub(super) fn revise(&mut self, terms: &BudgetTerms, now: Timestamp) {
        self.next_reset_at = terms.period_at(now).1;
        // What is used of a dimension that is gone counts again if that comes back.
        self.forgive(terms);
    }

    /// Lets a breach no longer bite if there is something left again.
    pub(super) fn forgive(&mut self, terms: &BudgetTerms) {
        let left = |breach: &Breach| self.free(terms, &breach.dimension);
        if self.breach.as_ref().is_some_and(|breach| left(breach).is_none_or(|left| left > 0)) {
            self.breach = None;
        }
    }

    /// What is used of a dimension.
    pub(super) fn of(&self, dimension: &str) -> Usage {
        self.usage.get(dimension).copied().unwrap_or_default()
    }

    /// What is left of a dimension, if it has a limit.
    pub(super) fn free(&self, terms: &BudgetTerms, dimension: &str) -> Option<u64> {
        let hard = terms.dimensions.get(dimension)?.hard?;
        let Usage { spent, reserved } = self.of(dimension);
        Some(hard.saturating_sub(spent).saturating_sub(reserved))
    }

    /// Whether work that will probably need so much may begin: nothing is used up, and what it
    /// needs is left; or nothing is done about it if not.
    pub(super) fn admits(&self, terms: &BudgetTerms, estimate: &Amounts) -> bool {
        let needs = |dimension: &str| estimate.get(dimension).copied().unwrap_or(0).max(1);
        if terms.on_breach == OnBreach::Warn {
            return true;
        }
        self.breach.is_none()
            && terms.dimensions.keys().all(|dimension| {
                self.free(terms, dimension).is_none_or(|free| needs(dimension) <= free)
            })
    }

    /// Puts amounts by; those of dimensions that do not exist any more are nothing.
    pub(super) fn reserve(&mut self, terms: &BudgetTerms, amounts: &Amounts) -> Amounts {
        let known = amounts.iter().filter(|(name, _)| terms.dimensions.contains_key(*name));
        let amounts: Amounts = known.map(|(name, amount)| (name.clone(), *amount)).collect();
        for (dimension, amount) in &amounts {
            self.usage.entry(dimension.clone()).or_default().reserved += amount;
        }
        amounts
    }

    /// Gives back what was put by.
    pub(super) fn unreserve(&mut self, amounts: &Amounts) {
        for (dimension, amount) in amounts {
            if let Some(usage) = self.usage.get_mut(dimension) {
                usage.reserved = usage.reserved.saturating_sub(*amount);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::model::Allowance;

    fn terms(hard: u64) -> BudgetTerms {
        let allowance = Allowance { hard: Some(hard), soft: None };
        BudgetTerms {
            dimensions: [("tokens".to_owned(), allowance)].into(),
            period: Some(Duration::from_secs(1)),
            ..BudgetTerms::default()
        }
    }

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millis(millis)
    }

    fn amounts(tokens: u64) -> Amounts {
        [("tokens".to_owned(), tokens)].into()
    }

    #[test]
    fn missed_periods_are_one_new_beginning() {
        let terms = terms(10);
        let mut course = BudgetCourse::begin(&terms, at(100));
        course.usage.insert("tokens".into(), Usage { spent: 7, reserved: 2 });
        assert!(!course.roll(&terms, at(999)));
        assert!(course.roll(&terms, at(5_500)));
        assert_eq!((course.turn, course.since), (1, at(5_000)));
        assert_eq!(course.next_reset_at, Some(at(6_000)));
        assert_eq!(course.of("tokens"), Usage { spent: 0, reserved: 2 });
    }

    #[test]
    fn work_begins_only_while_something_is_left_for_it() {
        let terms = terms(10);
        let mut course = BudgetCourse::begin(&terms, at(0));
        assert!(course.admits(&terms, &amounts(10)) && !course.admits(&terms, &amounts(11)));
        let put_by = course.reserve(&terms, &amounts(10));
        assert!(!course.admits(&terms, &Amounts::new()));
        course.unreserve(&put_by);
        assert!(course.admits(&terms, &Amounts::new()));
    }
}
