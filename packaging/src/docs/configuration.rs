//! The keys of the three configurations, out of the commented examples that `--help` shows.

use anyhow::{Context, Result, bail};

use super::cell;

/// The examples, and what each is about.
const FILES: [(&str, &str, &str); 3] = [
    (
        "Control",
        "`control.toml`, for `better-compute serve`",
        include_str!("../../../control/src/config/example.toml"),
    ),
    (
        "Gateway",
        "`gateway.toml`, for `bc-gateway`",
        include_str!("../../../gateway/src/config/example.toml"),
    ),
    (
        "Node",
        "`bcd.toml`, for `bcd`",
        include_str!("../../../agent/src/config/example.toml"),
    ),
];

/// One key of a file.
#[derive(Debug, PartialEq, Eq)]
struct Key {
    name: String,
    value: String,
    about: String,
}

/// The list of all keys.
pub fn configuration() -> Result<String> {
    let mut list = String::new();
    for (title, about, example) in FILES {
        list.push_str(&format!("## {title}\n\n{about}\n\n"));
        list.push_str("| key | example or default | about |\n| --- | --- | --- |\n");
        for Key { name, value, about } in keys(example).with_context(|| about.to_owned())? {
            list.push_str(&format!(
                "| `{name}` | `{}` | {} |\n",
                cell(&value),
                cell(&about)
            ));
        }
        list.push('\n');
    }
    Ok(list.trim_end().to_owned() + "\n")
}

fn keys(example: &str) -> Result<Vec<Key>> {
    let mut keys: Vec<Key> = Vec::new();
    let mut table = String::new();
    let mut table_about = String::new();
    for line in example.lines() {
        if line.starts_with("# ") && !line.contains(" = ") && !line.starts_with("#  ")
            || line.trim().is_empty()
        {
            continue;
        }
        // Behind a key that is left out, its words may go on.
        if let Some(more) = line.strip_prefix("#  ") {
            let last = keys.last_mut().context("words before any key")?;
            let more = more.trim().trim_start_matches('#').trim();
            last.about = format!("{} {more}", last.about);
            continue;
        }
        let line = line.strip_prefix("# ").unwrap_or(line);
        let (code, about) = split(line);
        if let Some(name) = code
            .strip_prefix('[')
            .and_then(|rest| rest.strip_suffix(']'))
        {
            table = format!("{name}.");
            table_about = about.to_owned();
            continue;
        }
        let Some((name, value)) = code.split_once(" = ") else {
            bail!("expected a key, found {line}")
        };
        let about = match (about, table_about.as_str()) {
            ("", whole) => whole.to_owned(),
            (own, "") => own.to_owned(),
            (own, whole) => format!("{whole}: {own}"),
        };
        keys.push(Key {
            name: format!("{table}{name}"),
            value: value.to_owned(),
            about,
        });
    }
    Ok(keys)
}

/// A line's code, and its words.
fn split(line: &str) -> (&str, &str) {
    match line.split_once(" # ") {
        Some((code, about)) => (code.trim(), about.trim()),
        None => (line.trim(), ""),
    }
}

#[cfg(test)]
mod tests {
    use super::{Key, keys};

    #[test]
    fn an_example_comes_apart() {
        let example = "# x.toml: every key\n\na = 1   # one\n\n[t]     # of t\nb = \"#2\"\n# c = 3  # instead of b\n#        # and more\n";
        let key = |name: &str, value: &str, about: &str| Key {
            name: name.to_owned(),
            value: value.to_owned(),
            about: about.to_owned(),
        };
        let found = keys(example).unwrap_or_default();
        let wanted = [
            key("a", "1", "one"),
            key("t.b", "\"#2\"", "of t"),
            key("t.c", "3", "of t: instead of b and more"),
        ];
        assert_eq!(found, wanted);
    }
}
