//! Pages of long lists. Pure.

use super::{
    fields::Fields,
    show::{count, number_text},
};
use crate::rollout::listing::{Direction, PAGE_ROWS};

/// Nobody turns further: behind this many rows a search is what helps.
const PAGES_MAX: u32 = 100_000;

/// Where somebody is in a long list.
#[derive(Clone, Debug)]
pub(super) struct Turner {
    /// Which rows are shown, of how many.
    pub place: String,
    /// Whether nothing was found.
    pub is_empty: bool,
    /// The address of the page before.
    pub before: Option<String>,
    /// The address of the page behind.
    pub behind: Option<String>,
}

/// The page that somebody asks for, from 0.
pub(super) fn page(fields: &Fields) -> u32 {
    let number = fields.parsed::<u32>("page").unwrap_or(1);
    number.saturating_sub(1).min(PAGES_MAX)
}

impl Turner {
    /// On a page with that many rows of so many.
    pub(super) fn new(fields: &Fields, rows: usize, total: u32, thing: &str) -> Self {
        let page = page(fields);
        let rows = u32::try_from(rows).unwrap_or(0);
        let start = page.saturating_mul(PAGE_ROWS);
        let last = start.saturating_add(rows);
        let to = |page: u32| format!("?{}", fields.with("page", &page.to_string()));
        let all = count(total, thing);
        let place = match (rows, total) {
            (_, 0) => format!("No {thing}"),
            (0, _) => format!("Behind the last of {all}"),
            (_, _) if rows == total => all,
            (_, _) => {
                let first = number_text(start.saturating_add(1));
                format!("{first}–{} of {all}", number_text(last))
            }
        };
        Self {
            place,
            is_empty: rows == 0,
            before: (page > 0).then(|| to(page)),
            behind: (last < total && rows > 0).then(|| to(page.saturating_add(2))),
        }
    }
}

/// A column that a list can be sorted by.
#[derive(Clone, Debug)]
pub(super) struct Column {
    /// What people read.
    pub name: &'static str,
    /// The address that sorts by it, or the other way round; none where it does not sort.
    pub href: Option<String>,
    /// How it is sorted now, as assistive technology names it.
    pub sorted: &'static str,
}

/// How a list is sorted: by the word of a column, and which way.
pub(super) fn sort(fields: &Fields) -> (&str, Direction) {
    let word = fields.text("sort");
    match word.strip_prefix('-') {
        Some(word) => (word, Direction::Down),
        None => (word, Direction::Up),
    }
}

/// The head of a column.
pub(super) fn column(fields: &Fields, name: &'static str, word: &str) -> Column {
    let (by, direction) = sort(fields);
    let (next, sorted) = match (by == word, direction) {
        (true, Direction::Up) => (format!("-{word}"), "ascending"),
        (true, Direction::Down) => (word.to_owned(), "descending"),
        (false, _) => (word.to_owned(), "none"),
    };
    let href = |next: &str| {
        let mut to = fields.clone();
        to.set("page", "");
        format!("?{}", to.with("sort", next))
    };
    Column {
        name,
        href: (!word.is_empty()).then(|| href(&next)),
        sorted,
    }
}

#[cfg(test)]
mod tests {
    use super::{Turner, column};
    use crate::console::fields::Fields;

    fn fields(text: &str) -> Fields {
        Fields::parse(text.as_bytes()).unwrap()
    }

    #[test]
    fn pages_lead_to_each_other() {
        let first = Turner::new(&fields("state=failed"), 100, 250, "node");
        assert_eq!(
            (first.place.as_str(), first.before),
            ("1–100 of 250 nodes", None)
        );
        assert_eq!(first.behind.as_deref(), Some("?page=2&state=failed"));
        let last = Turner::new(&fields("page=3"), 50, 250, "node");
        assert_eq!(
            (last.place.as_str(), last.behind),
            ("201–250 of 250 nodes", None)
        );
        assert_eq!(last.before.as_deref(), Some("?page=2"));
        for (page, rows, total, place) in [
            ("9", 0, 250, "Behind the last of 250 nodes"),
            ("1", 0, 0, "No node"),
            ("1", 1, 1, "1 node"),
        ] {
            let page = fields(&format!("page={page}"));
            assert_eq!(Turner::new(&page, rows, total, "node").place, place);
        }
    }

    #[test]
    fn a_column_sorts_and_then_the_other_way_round() {
        let up = column(&fields("sort=node&page=3"), "Node", "node");
        assert_eq!(
            (up.href.as_deref(), up.sorted),
            (Some("?sort=-node"), "ascending")
        );
        let other = column(&fields("sort=-node"), "Pool", "pool");
        assert_eq!(
            (other.href.as_deref(), other.sorted),
            (Some("?sort=pool"), "none")
        );
    }
}
