//! Short forms of ids.
//!
//! Takes the ids of one table, gives each as much of its beginning as tells it from the others: the command line takes
//! that for the whole. Ids that are made of times begin alike and are short anyway; they stay whole.

use std::collections::BTreeSet;

use super::cell::{Cell, Kind};

/// What is behind the prefix of an id that is a digest, and long.
const LONG_CHARS: usize = 52;

/// As much as is shown at least: what is made tomorrow should begin differently, too.
const SHOWN_LEAST: usize = 12;

/// Shortens the long ids of a table.
pub(super) fn shorten(rows: &mut [Vec<Cell>]) {
    let long = |cell: &&mut Cell| cell.kind == Kind::Id && tail(&cell.text).is_some();
    let ids: BTreeSet<String> = rows
        .iter_mut()
        .flatten()
        .filter(long)
        .map(|cell| cell.text.clone())
        .collect();
    let shown = enough(&ids);
    for cell in rows.iter_mut().flatten().filter(long) {
        let prefix = cell.text.len().saturating_sub(LONG_CHARS);
        // An id is plain ASCII, so that every place is one between letters.
        cell.text.truncate(prefix.saturating_add(shown));
    }
}

/// How many characters tell all of these apart: neighbours in their order have most in common.
fn enough(ids: &BTreeSet<String>) -> usize {
    let pairs = ids.iter().zip(ids.iter().skip(1));
    let alike = pairs.filter_map(|(one, other)| Some(common(tail(one)?, tail(other)?)));
    alike
        .map(|common| common.saturating_add(1))
        .max()
        .unwrap_or(0)
        .clamp(SHOWN_LEAST, LONG_CHARS)
}

fn common(one: &str, other: &str) -> usize {
    one.bytes()
        .zip(other.bytes())
        .take_while(|(one, other)| one == other)
        .count()
}

/// What stands behind the prefix, if it is long.
fn tail(id: &str) -> Option<&str> {
    let (_, tail) = id.split_once('_')?;
    let is_long = tail.len() == LONG_CHARS && tail.bytes().all(|byte| byte.is_ascii_alphanumeric());
    is_long.then_some(tail)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shortened(ids: &[&str]) -> Vec<String> {
        let mut rows: Vec<Vec<Cell>> = ids.iter().map(|id| vec![Cell::id(id)]).collect();
        shorten(&mut rows);
        rows.into_iter().flatten().map(|cell| cell.text).collect()
    }

    #[test]
    fn a_digest_is_shown_as_far_as_it_tells_the_thing() {
        let one = format!("rollout_{}{}", "a".repeat(14), "0".repeat(38));
        let other = format!("rollout_{}{}", "a".repeat(13), "1".repeat(39));
        let third = format!("rollout_b{}", "0".repeat(51));
        assert_eq!(
            shortened(&[&one, &other, &one, &third]),
            [
                "rollout_aaaaaaaaaaaaaa",
                "rollout_aaaaaaaaaaaaa1",
                "rollout_aaaaaaaaaaaaaa",
                "rollout_b0000000000000"
            ]
        );
        assert_eq!(shortened(&[&third]), ["rollout_b00000000000"]);
    }

    #[test]
    fn what_is_short_or_no_id_stays_whole() {
        let ulid = format!("node_{}", "0".repeat(26));
        let letters = format!("rollout_{}", "é".repeat(26));
        assert_eq!(shortened(&[&ulid, &letters, "-"]), [&ulid, &letters, "-"]);
    }
}
