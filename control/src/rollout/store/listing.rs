//! Reads nodes a page at a time: those of a rollout, or those of a tenant, as somebody wants to see them.
//!
//! Takes what is wanted and how it is sorted, gives one page and how many there are. Whoever turns pages of ten thousand
//! nodes pays for one page. Writes nothing.

mod nodes;
mod rows;

pub(crate) use nodes::{ListedNode, NodeOrder, NodesWanted, Standing, nodes};
pub(crate) use rows::{ListedRow, RowOrder, RowsWanted, rows};

use crate::db::{Conn, Query, Row, column::number};

/// Rows of a page.
pub(crate) const PAGE_ROWS: u32 = 100;

/// One page of many rows.
#[derive(Clone, Debug)]
pub(crate) struct Listed<T> {
    /// The rows.
    pub rows: Vec<T>,
    /// How many there are on all pages.
    pub total: u32,
}

/// How rows are sorted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    /// The least first.
    Up,
    /// The greatest first.
    Down,
}

/// One page as it was found.
struct Found {
    rows: Vec<Row>,
    total: u32,
}

impl Found {
    fn read<T>(
        &self,
        read: impl FnMut(&Row) -> Result<T, sqlx::Error>,
    ) -> Result<Listed<T>, sqlx::Error> {
        let rows = self.rows.iter().map(read).collect::<Result<_, _>>()?;
        let total = self.total;
        Ok(Listed { rows, total })
    }
}

/// Turns to a page: one statement counts, the other takes the order, how many rows and how many before them.
async fn turn_to(
    conn: &mut Conn,
    (count, page): (Query, Query),
    (word, direction, number_of_page): (&str, Direction, u32),
) -> Result<Found, sqlx::Error> {
    let total = number(&count.fetch_one(&mut *conn).await?, "total")?;
    let rows = page
        .bind(sorted(word, direction))
        .bind(PAGE_ROWS)
        .bind(PAGE_ROWS.saturating_mul(number_of_page))
        .fetch_all(conn)
        .await?;
    Ok(Found { rows, total })
}

/// The pattern of a text that stands for itself.
fn pattern(text: &str) -> String {
    if text.is_empty() {
        return String::new();
    }
    let mut pattern = String::from("%");
    for character in text.chars() {
        if matches!(character, '%' | '_' | '!') {
            pattern.push('!');
        }
        pattern.push(character);
    }
    pattern.push('%');
    pattern
}

fn sorted(word: &str, direction: Direction) -> String {
    match direction {
        Direction::Up => word.to_owned(),
        Direction::Down => format!("-{word}"),
    }
}

#[cfg(test)]
mod tests {
    use super::pattern;

    #[test]
    fn what_is_looked_for_stands_for_itself() {
        assert_eq!(pattern(""), "");
        assert_eq!(pattern("web-1"), "%web-1%");
        assert_eq!(pattern("50%_!"), "%50!%!_!!%");
    }
}
