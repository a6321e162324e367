//! Bars of nodes by state. Pure.
//!
//! Takes counts, gives pieces of a line of a thousand parts. Who is there is seen: no piece of anybody is narrower than
//! the eye, and the pieces fill the line.

use super::show::number_text;
use crate::api::rollout::RowCounts;

/// The length of a whole bar.
pub(super) const WHOLE: u32 = 1000;

/// The least width of somebody.
const LEAST: u32 = 6;

/// The least width of a wave among others: a canary of one in ten thousand is what everybody looks at.
const WAVE_LEAST: u32 = 40;

/// Between waves.
const GAP: u32 = 5;

/// So many of a state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Count {
    /// The state.
    pub word: String,
    /// How many.
    pub nodes: u32,
}

impl Count {
    /// The state, as people read it.
    pub(super) fn name(&self) -> String {
        self.word.replace('-', " ")
    }

    /// How many, as people read it.
    pub(super) fn number(&self) -> String {
        number_text(self.nodes)
    }
}

/// One piece.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    /// The state, or the place of a version among others.
    pub word: String,
    /// Where it begins.
    pub x: u32,
    /// How wide it is.
    pub width: u32,
}

/// Nodes by state, those of most interest first; states of nobody are left out.
pub(super) fn counts(rows: RowCounts) -> Vec<Count> {
    [
        ("succeeded", rows.succeeded),
        ("upgrading", rows.upgrading),
        ("rolling-back", rows.rolling_back),
        ("failed", rows.failed),
        ("rolled-back", rows.rolled_back),
        ("skipped", rows.skipped),
        ("pending", rows.pending),
    ]
    .into_iter()
    .filter(|(_, nodes)| *nodes > 0)
    .map(|(word, nodes)| Count {
        word: word.to_owned(),
        nodes,
    })
    .collect()
}

/// One bar.
pub(super) fn bar(counts: &[Count]) -> Vec<Piece> {
    pieces(counts, 0, WHOLE)
}

/// Waves one behind the other, each as wide as its share of the nodes.
pub(super) fn bars(waves: &[Vec<Count>]) -> Vec<Piece> {
    let gaps = u32::try_from(waves.len().saturating_sub(1)).unwrap_or(0);
    let room = WHOLE.saturating_sub(GAP.saturating_mul(gaps));
    let nodes: Vec<u32> = waves.iter().map(|wave| total(wave)).collect();
    let mut from = 0;
    let mut all = Vec::new();
    for (wave, width) in waves.iter().zip(widths(&nodes, room, WAVE_LEAST)) {
        all.extend(pieces(wave, from, width));
        from = from.saturating_add(width).saturating_add(GAP);
    }
    all
}

fn total(counts: &[Count]) -> u32 {
    counts
        .iter()
        .fold(0, |sum, count| sum.saturating_add(count.nodes))
}

fn pieces(counts: &[Count], from: u32, room: u32) -> Vec<Piece> {
    let nodes: Vec<u32> = counts.iter().map(|count| count.nodes).collect();
    let mut x = from;
    let mut pieces = Vec::new();
    for (count, width) in counts.iter().zip(widths(&nodes, room, LEAST)) {
        pieces.push(Piece {
            word: count.word.clone(),
            x,
            width,
        });
        x = x.saturating_add(width);
    }
    pieces
}

/// Shares a room in proportion, nobody of anybody below the least width where there is room for that; the widest gives
/// what the others need.
fn widths(parts: &[u32], room: u32, least: u32) -> Vec<u32> {
    let sum: u64 = parts.iter().map(|part| u64::from(*part)).sum();
    let some = parts.iter().filter(|part| **part > 0).count();
    let equal = u32::try_from(some)
        .ok()
        .and_then(|some| room.checked_div(some));
    let least = least.min(equal.unwrap_or(room));
    let share = |part: u32| {
        let exact = (u64::from(part) * u64::from(room)).checked_div(sum);
        u32::try_from(exact.unwrap_or(0)).unwrap_or(room)
    };
    let mut widths: Vec<u32> = parts
        .iter()
        .map(|part| {
            if *part == 0 {
                0
            } else {
                share(*part).max(least)
            }
        })
        .collect();
    let used: u32 = widths
        .iter()
        .fold(0, |sum, width| sum.saturating_add(*width));
    // Several wide ones may have to give: the widest of them first, and none below the least.
    let mut lacking = used.saturating_sub(room);
    while lacking > 0 {
        let Some(widest) = widths.iter_mut().max().filter(|widest| **widest > least) else {
            break;
        };
        let gives = widest.saturating_sub(least).min(lacking);
        *widest = widest.saturating_sub(gives);
        lacking = lacking.saturating_sub(gives);
    }
    if let Some(widest) = widths.iter_mut().max() {
        *widest = widest.saturating_add(room.saturating_sub(used));
    }
    widths
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{Count, WHOLE, bar, bars};

    fn of(nodes: &[u32]) -> Vec<Count> {
        let count = |nodes: &u32| Count {
            word: "x".to_owned(),
            nodes: *nodes,
        };
        nodes.iter().map(count).collect()
    }

    #[test]
    fn one_of_ten_thousand_is_seen() {
        let pieces = bar(&of(&[9_999, 1]));
        assert_eq!((pieces[1].x, pieces[1].width), (994, 6));
    }

    #[test]
    fn everybody_in_a_canary_is_seen() {
        let mut waves = vec![of(&[81, 9, 7, 1, 2])];
        waves.extend([900, 4000, 5000].map(|nodes| of(&[nodes])));
        let pieces = bars(&waves);
        assert!(pieces.iter().all(|piece| piece.width > 0), "{pieces:?}");
        assert!(pieces[0].width > pieces[1].width, "{pieces:?}");
        assert_eq!(pieces.last().map(|last| last.x + last.width), Some(WHOLE));
    }

    proptest! {
        #[test]
        fn pieces_fill_the_line_in_order(nodes in proptest::collection::vec(1_u32..100_000, 1..8)) {
            let pieces = bar(&of(&nodes));
            let mut x = 0;
            for piece in &pieces {
                prop_assert_eq!(piece.x, x);
                prop_assert!(piece.width > 0);
                x += piece.width;
            }
            prop_assert_eq!(x, WHOLE);
        }

        #[test]
        fn waves_fill_the_line(
            waves in proptest::collection::vec(proptest::collection::vec(1_u32..100_000, 1..8), 1..11)
        ) {
            let waves: Vec<_> = waves.iter().map(|nodes| of(nodes)).collect();
            let pieces = bars(&waves);
            for (one, next) in pieces.iter().zip(pieces.iter().skip(1)) {
                prop_assert!(one.width > 0 && one.x + one.width <= next.x);
            }
            let last = pieces.last().unwrap();
            prop_assert_eq!(last.x + last.width, WHOLE);
        }
    }
}
