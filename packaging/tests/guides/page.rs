//! A page as those who hold it against the programs see it: prose, and blocks of code with what they are for.

use std::path::{Path, PathBuf};

/// One page.
pub(crate) struct Page {
    /// Its name, without an ending.
    pub(crate) name: String,
    /// All of it.
    pub(crate) text: String,
    /// Its blocks of code, in order.
    pub(crate) blocks: Vec<Block>,
}

/// A block of code.
pub(crate) struct Block {
    /// What it is for.
    pub(crate) what: Use,
    /// What stands behind its language.
    pub(crate) word: String,
    /// What is in it.
    pub(crate) text: String,
    /// The line where it begins.
    pub(crate) line: usize,
    /// Whether the block before it is run.
    pub(crate) follows_a_run: bool,
}

/// What a block is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    /// To be run.
    Run,
    /// To be run in a checkout.
    Source,
    /// To be run when everything else has been.
    Last,
    /// To be run on a machine with systemd.
    Machine,
    /// A call of the API, with the object in the block before it as `body.json`.
    Call,
    /// What the block before it prints.
    Printed,
    /// An object of the API; the word names its type.
    Json,
    /// A configuration; the word names the program.
    Toml,
    /// Only to be looked at.
    Shown,
}

/// The folder of the pages.
pub(crate) fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("docs")
}

impl Page {
    /// Every page that somebody wrote.
    pub(crate) fn all() -> Vec<Self> {
        let mut names: Vec<String> = std::fs::read_dir(folder())
            .unwrap()
            .filter_map(|entry| {
                let name = entry.unwrap().file_name().into_string().unwrap();
                Some(name.strip_suffix(".md")?.to_owned())
            })
            .collect();
        names.sort();
        assert!(names.len() > 2, "the guides are in {}", folder().display());
        names.iter().map(|name| Self::read(name)).collect()
    }

    /// One of them.
    pub(crate) fn read(name: &str) -> Self {
        let file = folder().join(format!("{name}.md"));
        let text = std::fs::read_to_string(&file)
            .unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        Self::of(name, text)
    }

    /// A page with this text.
    pub(crate) fn of(name: &str, text: String) -> Self {
        let mut blocks: Vec<Block> = Vec::new();
        let mut lines = (1..).zip(text.lines());
        while let Some((line, opening)) = lines.next() {
            let Some(info) = opening.strip_prefix("```") else {
                continue;
            };
            let mut inside = String::new();
            loop {
                match lines.next() {
                    Some((_, "```")) => break,
                    Some((_, text)) => inside = inside + text + "\n",
                    None => panic!("{name}.md:{line}: the block has no end"),
                }
            }
            let (what, word) = meaning(info)
                .unwrap_or_else(|| panic!("{name}.md:{line}: nobody knows what \"{info}\" is for"));
            let before = blocks.last().map(|block| block.what);
            blocks.push(Block {
                what,
                word,
                text: inside,
                line,
                follows_a_run: matches!(before, Some(Use::Run | Use::Source | Use::Last)),
            });
        }
        Self {
            name: name.to_owned(),
            text,
            blocks,
        }
    }

    /// Every line outside of blocks.
    pub(crate) fn prose(&self) -> impl Iterator<Item = &str> {
        let mut inside = false;
        self.text.lines().filter(move |line| {
            if line.starts_with("```") {
                inside = !inside;
                return false;
            }
            !inside
        })
    }
}

fn meaning(info: &str) -> Option<(Use, String)> {
    let (language, word) = info.split_once(' ').unwrap_or((info, ""));
    let what = match (language, word) {
        ("sh", "") => Use::Run,
        ("sh", "source") => Use::Source,
        ("sh", "last") => Use::Last,
        ("sh", "machine") => Use::Machine,
        ("sh", "call") => Use::Call,
        ("out", "") => Use::Printed,
        ("json", _) => Use::Json,
        ("toml", _) => Use::Toml,
        ("text", "") => Use::Shown,
        _ => return None,
    };
    Some((what, word.to_owned()))
}

#[test]
#[should_panic(expected = "nobody knows what \"bash\" is for")]
fn a_block_without_a_known_use_is_no_block() {
    Page::of("x", "# X\n\n```bash\nls\n```\n".to_owned());
}

#[test]
fn a_page_comes_apart() {
    let text = "# X\n\n```sh\nls\n```\n\n```out\n…\n```\n\nprose\n\n```json Event\n{}\n```\n";
    let page = Page::of("x", text.to_owned());
    let uses: Vec<Use> = page.blocks.iter().map(|block| block.what).collect();
    assert_eq!(uses, [Use::Run, Use::Printed, Use::Json]);
    assert_eq!(page.blocks[0].text, "ls\n");
    assert!(page.blocks[1].follows_a_run);
    assert_eq!(page.blocks[2].word, "Event");
    assert_eq!(page.blocks[1].line, 7);
    assert!(page.prose().any(|line| line == "prose"));
    assert!(!page.prose().any(|line| line == "ls"));
}
