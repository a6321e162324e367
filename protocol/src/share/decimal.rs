//! Decimals of few places, as people and JSON write them.
//!
//! Takes text or a JSON number and the rule that it must keep, gives millionths; and back. Computes in integers.

use std::fmt;

use serde::Serializer;
use serde::de::{self, Visitor};

use super::{MILLION, ShareError};

/// What sets the two kinds of decimal apart.
pub(super) struct Rule {
    expected: &'static str,
    places: usize,
    /// Millionths of the whole in one unit: a percent has ten thousand.
    unit: u32,
    lowest: u32,
}

pub(super) const SHARE: Rule = Rule {
    expected: "a number from 0 to 1 with at most 6 decimal places",
    places: 6,
    unit: MILLION,
    lowest: 0,
};

pub(super) const PERCENT: Rule = Rule {
    expected: "a number above 0 and up to 100 with at most 4 decimal places",
    places: 4,
    unit: 10_000,
    lowest: 1,
};

impl Rule {
    /// Reads plain decimal digits: no sign, exponent, or second spelling of the point.
    pub(super) fn parse(&self, text: &str) -> Result<u32, ShareError> {
        self.millionths(text)
            .filter(|parsed| (self.lowest..=MILLION).contains(parsed))
            .ok_or_else(|| self.refuses(text.to_owned()))
    }

    fn millionths(&self, text: &str) -> Option<u32> {
        let (whole, fraction) = match text.split_once('.') {
            Some((_, "")) => return None,
            Some(parts) => parts,
            None => (text, ""),
        };
        let digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
        if whole.is_empty() || !digits(whole) || !digits(fraction) || fraction.len() > self.places {
            return None;
        }
        let fraction: u32 = format!("{fraction:0<width$}", width = self.places)
            .parse()
            .ok()?;
        whole
            .parse::<u32>()
            .ok()?
            .checked_mul(self.unit)?
            .checked_add(fraction)
    }

    pub(super) fn refuses(&self, found: String) -> ShareError {
        ShareError {
            expected: self.expected,
            found,
        }
    }

    /// Writes that many millionths, without trailing zeros.
    pub(super) fn text(&self, millionths: u32) -> String {
        let (whole, fraction) = (millionths / self.unit, millionths % self.unit);
        if fraction == 0 {
            return whole.to_string();
        }
        format!("{whole}.{fraction:0places$}", places = self.places)
            .trim_end_matches('0')
            .to_owned()
    }

    /// Writes that many millionths as a number; a whole one without a point. The quotient of others is the double
    /// nearest to a decimal of few digits, so its shortest text is that decimal.
    pub(super) fn serialize<S: Serializer>(
        &self,
        millionths: u32,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        if millionths.is_multiple_of(self.unit) {
            serializer.serialize_u32(millionths / self.unit)
        } else {
            serializer.serialize_f64(f64::from(millionths) / f64::from(self.unit))
        }
    }
}

/// Reads a number by its shortest decimal, which is what its writer meant.
pub(super) struct Number(pub(super) &'static Rule);

impl Visitor<'_> for Number {
    type Value = u32;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.0.expected)
    }

    fn visit_f64<E: de::Error>(self, number: f64) -> Result<u32, E> {
        self.0.parse(&number.to_string()).map_err(E::custom)
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<u32, E> {
        self.0.parse(&number.to_string()).map_err(E::custom)
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<u32, E> {
        self.0.parse(&number.to_string()).map_err(E::custom)
    }
}
