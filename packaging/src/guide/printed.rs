//! What a page says that a command prints, held against what it prints.
//!
//! Takes both texts, gives their difference.

/// What differs, if something does. `…` in a line stands for anything in it; alone, for any lines.
pub fn differs(said: &str, printed: &str) -> Option<String> {
    let said: Vec<String> = said.lines().map(plain).collect();
    let lines: Vec<String> = printed
        .lines()
        .map(plain)
        .filter(|line| !line.is_empty())
        .collect();
    let wanted: Vec<&str> = said
        .iter()
        .map(String::as_str)
        .filter(|line| !line.is_empty())
        .collect();
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    if all_fit(&wanted, &lines) {
        return None;
    }
    Some(format!(
        "the page says\n{}\nand it printed\n{printed}",
        said.join("\n")
    ))
}

/// Columns move with what is in them.
fn plain(line: &str) -> String {
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn all_fit(wanted: &[&str], lines: &[&str]) -> bool {
    match wanted.split_first() {
        None => lines.is_empty(),
        Some((&"…", rest)) => (0..=lines.len()).any(|skipped| {
            let left = lines.get(skipped..);
            left.is_some_and(|left| all_fit(rest, left))
        }),
        Some((first, rest)) => match lines.split_first() {
            Some((line, others)) => fits(first, line) && all_fit(rest, others),
            None => false,
        },
    }
}

fn fits(wanted: &str, line: &str) -> bool {
    let mut parts = wanted.split('…');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = line.strip_prefix(first) else {
        return false;
    };
    let parts: Vec<&str> = parts.collect();
    let Some((last, between)) = parts.split_last() else {
        return rest.is_empty();
    };
    for part in between {
        // An ellipsis between two words is no word where there is none.
        let part = part.trim();
        match rest.find(part) {
            Some(at) => rest = rest.get(at + part.len()..).unwrap_or_default(),
            None => return false,
        }
    }
    rest.ends_with(last.trim_start())
}

#[cfg(test)]
mod tests {
    use super::differs;

    #[test]
    fn an_ellipsis_is_anything_and_nothing_else_is() {
        let printed = "ID        NAME  STATE\ngw_01abc  local  linked\n\n";
        for said in [
            "…",
            "…\ngw_… local …",
            "ID NAME STATE\ngw_… linked",
            "ID NAME STATE\n…",
            "ID … STATE\n…local…",
        ] {
            assert_eq!(differs(said, printed), None, "{said}");
        }
        for said in [
            "",
            "gw_… local …",
            "…\ngw_… lokal …",
            "ID NAME STATE",
            "ID NAME\n…",
            "…\ngw_… local",
        ] {
            assert!(differs(said, printed).is_some(), "{said}");
        }
    }
}
