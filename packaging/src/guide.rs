//! A page of the guides as those who run it see it: prose, and blocks of code with what they are for.
//!
//! Takes Markdown, gives its blocks in order. It runs nothing.

pub mod printed;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};

/// One page.
#[derive(Clone, Debug)]
pub struct Page {
    /// Its name, without an ending.
    pub name: String,
    /// All of it.
    pub text: String,
    /// Its blocks of code, in order.
    pub blocks: Vec<Block>,
}

/// A block of code.
#[derive(Clone, Debug)]
pub struct Block {
    /// What it is for.
    pub what: Use,
    /// What stands behind its language.
    pub word: String,
    /// What is in it.
    pub text: String,
    /// The line where it begins.
    pub line: usize,
}

/// What a block is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// To be run.
    Run,
    /// To be run in a checkout.
    Source,
    /// To be run when everything else has been.
    Last,
    /// To be run on a machine with systemd; the word says on which one and when, as [`Place`] has it.
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

impl Use {
    /// Whether somebody runs it, so that it prints something.
    fn is_run(self) -> bool {
        match self {
            Self::Run | Self::Source | Self::Last | Self::Machine => true,
            Self::Call | Self::Printed | Self::Json | Self::Toml | Self::Shown => false,
        }
    }
}

/// Where a block for machines is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// On the one that has control and gateway, and a node beside them.
    First,
    /// On one that has nothing yet.
    Other,
    /// On the first, when those that go on from it have been gone through.
    Last,
}

impl Block {
    /// Where it is run, if that is on machines.
    pub fn place(&self) -> Option<Place> {
        match (self.what, self.word.as_str()) {
            (Use::Machine, "other") => Some(Place::Other),
            (Use::Machine, "last") => Some(Place::Last),
            (Use::Machine, _) => Some(Place::First),
            (
                Use::Run
                | Use::Source
                | Use::Last
                | Use::Call
                | Use::Printed
                | Use::Json
                | Use::Toml
                | Use::Shown,
                _,
            ) => None,
        }
    }
}

/// The folder of the pages.
fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("docs")
}

impl Page {
    /// Every page that somebody wrote.
    pub fn all() -> Result<Vec<Self>> {
        let mut names = Vec::new();
        for entry in std::fs::read_dir(folder()).context("the folder of the guides")? {
            let name = entry?.file_name();
            if let Some(name) = name.to_str().and_then(|name| name.strip_suffix(".md")) {
                names.push(name.to_owned());
            }
        }
        names.sort();
        names.iter().map(|name| Self::read(name)).collect()
    }

    /// One of them.
    pub fn read(name: &str) -> Result<Self> {
        let file = folder().join(format!("{name}.md"));
        let text = std::fs::read_to_string(&file).with_context(|| file.display().to_string())?;
        Self::of(name, text)
    }

    /// A page with this text.
    pub fn of(name: &str, text: String) -> Result<Self> {
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
                    None => bail!("{name}.md:{line}: the block has no end"),
                }
            }
            let (what, word) = meaning(info)
                .with_context(|| format!("{name}.md:{line}: nobody knows what {info:?} is for"))?;
            let prints_nothing = blocks.last().is_none_or(|before| !before.what.is_run());
            ensure!(
                what != Use::Printed || !prints_nothing,
                "{name}.md:{line}: prints what?"
            );
            blocks.push(Block {
                what,
                word,
                text: inside,
                line,
            });
        }
        Ok(Self {
            name: name.to_owned(),
            text,
            blocks,
        })
    }

    /// Every block, with what the page says that it prints.
    pub fn with_printed(&self) -> impl Iterator<Item = (&Block, Option<&str>)> {
        let behind = (1..=self.blocks.len()).map(|next| self.blocks.get(next));
        self.blocks.iter().zip(behind).map(|(block, behind)| {
            let printed = behind.filter(|block| block.what == Use::Printed);
            (block, printed.map(|block| block.text.as_str()))
        })
    }

    /// Every line outside of blocks.
    pub fn prose(&self) -> impl Iterator<Item = &str> {
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
    let (what, word) = match (language, word) {
        ("sh", "") => (Use::Run, ""),
        ("sh", "source") => (Use::Source, ""),
        ("sh", "last") => (Use::Last, ""),
        ("sh", "machine") => (Use::Machine, ""),
        ("sh", "machine other") => (Use::Machine, "other"),
        ("sh", "machine last") => (Use::Machine, "last"),
        ("sh", "call") => (Use::Call, ""),
        ("out", "") => (Use::Printed, ""),
        ("json", word) => (Use::Json, word),
        ("toml", word) => (Use::Toml, word),
        ("text", "") => (Use::Shown, ""),
        _ => return None,
    };
    Some((what, word.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::{Page, Place, Use};

    #[test]
    fn a_block_without_a_known_use_is_no_block() {
        for (text, said) in [
            (
                "# X\n\n```bash\nls\n```\n",
                "nobody knows what \"bash\" is for",
            ),
            ("# X\n\n```sh machine third\nls\n```\n", "nobody knows"),
            ("# X\n\n```sh\nls\n", "has no end"),
            ("# X\n\n```out\nls\n```\n", "prints what?"),
        ] {
            let error = Page::of("x", text.to_owned()).unwrap_err().to_string();
            assert!(error.contains(said), "{error}");
        }
    }

    #[test]
    fn a_page_comes_apart() {
        let text = "# X\n\n```sh\nls\n```\n\n```out\n…\n```\n\nprose\n\n```json Event\n{}\n```\n\n```sh machine other\nls\n```\n";
        let page = Page::of("x", text.to_owned()).unwrap();
        let uses: Vec<Use> = page.blocks.iter().map(|block| block.what).collect();
        assert_eq!(uses, [Use::Run, Use::Printed, Use::Json, Use::Machine]);
        assert_eq!(page.blocks[0].text, "ls\n");
        assert_eq!(page.blocks[1].line, 7);
        assert_eq!(page.blocks[2].word, "Event");
        assert_eq!(page.blocks[3].place(), Some(Place::Other));
        let printed: Vec<Option<&str>> = page.with_printed().map(|(_, printed)| printed).collect();
        assert_eq!(printed, [Some("…\n"), None, None, None]);
        assert!(page.prose().any(|line| line == "prose"));
        assert!(!page.prose().any(|line| line == "ls"));
    }
}
