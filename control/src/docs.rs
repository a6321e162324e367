//! The guides: one static site, made of Markdown and of the API's own description.
//!
//! Takes the texts that were compiled in and the OpenAPI document, gives files. It reads nothing, asks nobody and knows
//! no node: what it shows to one it shows to everybody.

mod frame;
mod markdown;
mod pages;
mod reference;

use std::collections::BTreeMap;

use bytes::Bytes;

use pages::{MISSING, PAGES, Page, Source};

/// What is in the site, by the name below `/docs/`.
#[derive(Debug)]
pub(crate) struct Site {
    files: BTreeMap<String, File>,
    missing: File,
}

/// One file of the site.
#[derive(Clone, Debug)]
pub(crate) struct File {
    /// What it is.
    pub content_type: &'static str,
    /// Its bytes.
    pub bytes: Bytes,
}

const HTML: &str = "text/html; charset=utf-8";
const MARKDOWN: &str = "text/markdown; charset=utf-8";
const STYLE: &str = include_str!("docs/style.css");

impl Site {
    /// Renders every page. `openapi` is the document that this build serves.
    pub(crate) fn of(openapi: &[u8]) -> Self {
        let mut files = BTreeMap::new();
        let style = File::new("text/css; charset=utf-8", STYLE.to_owned());
        files.insert("style.css".to_owned(), style);
        for page in PAGES {
            let text = match page.source {
                Source::Written(text) => text.to_owned(),
                Source::Api => reference::markdown(openapi),
            };
            files.insert(format!("{}.html", page.name), html(page, &text));
            // The same without a browser, by `curl`.
            files.insert(format!("{}.md", page.name), File::new(MARKDOWN, text));
        }
        let missing = match MISSING.source {
            Source::Written(text) => html(&MISSING, text),
            Source::Api => File::new(HTML, String::new()),
        };
        Self { files, missing }
    }

    /// The file of that name; the site itself is its first page.
    pub(crate) fn file(&self, name: &str) -> Option<&File> {
        let name = if name.is_empty() { "index.html" } else { name };
        self.files.get(name)
    }

    /// What is shown where there is no such page.
    pub(crate) fn missing(&self) -> &File {
        &self.missing
    }

    /// Every file with its name.
    pub(crate) fn files(&self) -> impl Iterator<Item = (&str, &File)> {
        self.files.iter().map(|(name, file)| (name.as_str(), file))
    }
}

fn html(page: &Page, text: &str) -> File {
    let rendered = markdown::render(text);
    File::new(HTML, frame::page(page, &rendered))
}

impl File {
    fn new(content_type: &'static str, text: String) -> Self {
        Self {
            content_type,
            bytes: text.into(),
        }
    }
}

#[cfg(test)]
mod tests;
