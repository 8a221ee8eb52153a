//! Money: a whole number of hundredths.
//!
//! A whole number because every target adds it exactly, those too that apply `$inc` themselves:
//! BSON's Decimal128 would be exact on the server, but not every client can add it. In JSON it is a
//! number with at most two decimals, read and written as text, so that no sum ever passes through
//! floating point.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de, ser};
use serde_json::value::RawValue;

/// An amount or a balance, in hundredths. Balances may be negative: accounts may be overdrawn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Money(pub(super) i64);

impl Money {
    /// The largest amount that is read: far below where a sum of as many operations as are allowed
    /// would overflow.
    pub(super) const LARGEST: Self = Self(100_000_000_000);
}

impl fmt::Display for Money {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.0 < 0 { "-" } else { "" };
        let hundredths = self.0.unsigned_abs();
        write!(f, "{sign}{}", hundredths / 100)?;
        match hundredths % 100 {
            0 => Ok(()),
            rest => write!(f, ".{rest:02}"),
        }
    }
}

impl FromStr for Money {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text} is no amount: a number with at most two decimals is expected");
        let (sign, digits) = text.strip_prefix('-').map_or((1, text), |digits| (-1, digits));
        let (whole, decimals) = digits.split_once('.').unwrap_or((digits, "0"));
        let all_digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
        let significant = decimals.trim_end_matches('0');
        if !all_digits(whole) || !all_digits(decimals) || significant.len() > 2 {
            return Err(wrong());
        }
        let hundredths = format!("{whole}{significant:0<2}").parse::<i64>().map_err(|_| wrong())?;
        Ok(Self(sign * hundredths))
    }
}

impl Serialize for Money {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        RawValue::from_string(self.to_string()).map_err(ser::Error::custom)?.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Money {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Box::<RawValue>::deserialize(deserializer)?.get().parse().map_err(de::Error::custom)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;

    #[test]
    fn an_amount_is_read_and_written_exactly() {
        for (text, hundredths) in [
            ("0", 0),
            ("30000000", 3_000_000_000),
            ("237011721.61", 23_701_172_161),
            ("-189567348", -18_956_734_800),
            ("-0.05", -5),
            ("92233720368547758.07", i64::MAX),
        ] {
            assert_eq!(text.parse(), Ok(Money(hundredths)), "{text}");
            assert_eq!(Money(hundredths).to_string(), text);
            assert_eq!(serde_json::to_string(&Money(hundredths)).unwrap(), text);
            assert_eq!(serde_json::from_str::<Money>(text).unwrap(), Money(hundredths));
        }
        assert_eq!("170000.0".parse(), Ok(Money(17_000_000)));
        assert_eq!("0.50".parse(), "0.5".parse::<Money>());
    }

    #[test]
    fn what_is_no_amount_is_refused() {
        for text in ["", "-", ".5", "5.", "1e3", "0.001", "\"5\"", "--1", "92233720368547758.08"] {
            assert!(text.parse::<Money>().is_err(), "{text}");
        }
    }
}
