use std::fmt;
use std::ops::Add;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// An instant with millisecond precision, as the store's clock told it.
///
/// Leaves the process as RFC 3339 text in UTC.
///
/// ```
/// # use everloom_core::Timestamp;
/// let at: Timestamp = "2030-01-01T00:00:00Z".parse().unwrap();
/// assert_eq!(at.to_string(), "2030-01-01T00:00:00.000Z");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(i64);

impl Timestamp {
    /// The latest instant that can be written in every time zone, at the end of the year 9999.
    pub const MAX: Self = Self(253_402_207_200_000);

    /// The instant `millis` milliseconds after 1970-01-01T00:00:00Z.
    pub const fn from_millis(millis: i64) -> Self {
        Self(millis)
    }

    /// Milliseconds since 1970-01-01T00:00:00Z.
    pub const fn as_millis(self) -> i64 {
        self.0
    }

    /// How long after `earlier` this instant lies; zero when it does not.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }

    /// The instant `duration` before this one.
    pub fn before(self, duration: Duration) -> Self {
        Self(self.0.saturating_sub(millis(duration)))
    }
}

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

impl Add<Duration> for Timestamp {
    type Output = Self;

    fn add(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(millis(duration))).min(Self::MAX)
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match jiff::Timestamp::from_millisecond(self.0) {
            Ok(at) => write!(f, "{at:.3}"),
            Err(_) => write!(f, "{}ms", self.0),
        }
    }
}

impl FromStr for Timestamp {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        text.parse::<jiff::Timestamp>().map(|at| Self(at.as_millisecond())).map_err(|_| {
            format!("`{text}` is not an RFC 3339 instant such as 2030-01-31T12:00:00Z")
        })
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        text.parse().map_err(de::Error::custom)
    }
}

/// Serialises a [`Duration`] as whole milliseconds; for fields whose outer name ends in `_ms`.
pub mod duration_ms {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serializer};

    /// Writes whole milliseconds.
    pub fn serialize<S: Serializer>(value: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(u64::try_from(value.as_millis()).unwrap_or(u64::MAX))
    }

    /// Reads whole milliseconds.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
        u64::deserialize(deserializer).map(Duration::from_millis)
    }
}

/// As [`duration_ms`], for an optional duration.
pub mod option_duration_ms {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serializer};

    /// Writes whole milliseconds, or null.
    pub fn serialize<S: Serializer>(
        value: &Option<Duration>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        match value {
            Some(value) => super::duration_ms::serialize(value, serializer),
            None => serializer.serialize_none(),
        }
    }

    /// Reads whole milliseconds, or null.
    pub fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Duration>, D::Error> {
        Ok(Option::<u64>::deserialize(deserializer)?.map(Duration::from_millis))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adding_never_passes_the_last_writable_instant() {
        assert_eq!(Timestamp(0) + Duration::MAX, Timestamp::MAX);
        assert_eq!(Timestamp::MAX.to_string(), "9999-12-30T22:00:00.000Z");
    }

    #[test]
    fn an_instant_survives_a_round_trip_through_json() {
        let at = Timestamp(1_763_000_000_123);
        let json = serde_json::to_string(&at).unwrap();
        assert_eq!(serde_json::from_str::<Timestamp>(&json).unwrap(), at);
    }
}
