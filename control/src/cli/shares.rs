//! Shares as people write them.
//!
//! Takes `0.05` or `5%`, gives a share from 0 to 1. Pure.

use bc_protocol::share::Share;

/// Why a text is no share.
#[derive(Debug, PartialEq, thiserror::Error)]
#[error(
    "expected a share from 0 to 1 like 0.05, or a percentage like 5%, with at most 6 decimal places as a share"
)]
pub(super) struct NoShare;

/// A share of nodes.
pub(super) fn share(text: &str) -> Result<Share, NoShare> {
    let text = text.trim();
    let share = match text.strip_suffix('%') {
        Some(percent) => a_hundredth(percent.trim()).ok_or(NoShare)?,
        None => text.to_owned(),
    };
    share.parse().map_err(|_| NoShare)
}

/// The number with its point moved, so that no digit is lost.
fn a_hundredth(number: &str) -> Option<String> {
    let (whole, part) = number.split_once('.').unwrap_or((number, ""));
    let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || !is_number(whole) || !is_number(part) {
        return None;
    }
    let digits = format!("{whole:0>3}");
    let (whole, moved) = digits.split_at_checked(digits.len().checked_sub(2)?)?;
    let part = format!("{moved}{part}");
    Some(
        format!("{whole}.{}", part.trim_end_matches('0'))
            .trim_end_matches('.')
            .to_owned(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_and_percentages_are_the_same() {
        for (text, share) in [
            ("0.05", "0.05"),
            ("5%", "0.05"),
            ("5 %", "0.05"),
            ("50%", "0.5"),
            ("100%", "1"),
            ("0%", "0"),
            ("12.5%", "0.125"),
            ("0.0001%", "0.000001"),
        ] {
            assert_eq!(super::share(text), Ok(share.parse().unwrap()), "{text}");
        }
        for text in ["5", "101%", "", "%", "-5%", "5%%", "half", "0.00001%"] {
            assert_eq!(super::share(text), Err(NoShare), "{text}");
        }
    }
}
