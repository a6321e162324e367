//! What surrounds a page: its head, the list of all pages, the list of its own headings.

use std::fmt::Write as _;

use super::{
    markdown::{Rendered, escaped},
    pages::{PAGES, Page, Part},
};

/// Headings of the third level are listed too where there are not too many of them.
const LISTED_MAX: usize = 24;

/// A page as it is sent.
pub(super) fn page(page: &Page, rendered: &Rendered) -> String {
    let title = escaped(&rendered.title);
    let pages = pages(page);
    let headings = headings(rendered);
    let body = &rendered.body;
    let next = next(page);
    format!(
        r##"<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{title} · bcd fleet updates</title>
<link rel="stylesheet" href="style.css">
</head>
<body>
<a class="skip" href="#text">Skip to the text</a>
<header class="top"><a class="name" href="index.html">bcd fleet updates</a></header>
<div class="house">
<nav class="pages" aria-label="Pages">
<details class="small"><summary>All pages</summary>
{pages}</details>
<div class="large">
{pages}</div>
</nav>
<main id="text" tabindex="-1">
{headings}{body}{next}</main>
</div>
</body>
</html>
"##
    )
}

/// The list of all pages, with the one that is shown marked.
fn pages(shown: &Page) -> String {
    let mut list = String::new();
    for part in Part::ALL {
        list.push_str(&format!("<p>{}</p>\n<ul>\n", part.title()));
        for page in PAGES.iter().filter(|page| page.part == part) {
            let here = if page.name == shown.name {
                " aria-current=\"page\""
            } else {
                ""
            };
            let title = escaped(page.title);
            let name = page.name;
            // Writing to a String cannot fail.
            let _written = writeln!(list, "<li><a href=\"{name}.html\"{here}>{title}</a></li>");
        }
        list.push_str("</ul>\n");
    }
    list
}

fn headings(rendered: &Rendered) -> String {
    let all = &rendered.headings;
    let deepest = if all.len() > LISTED_MAX { 2 } else { 3 };
    let listed: Vec<_> = all
        .iter()
        .filter(|heading| heading.level <= deepest)
        .collect();
    if listed.len() < 2 {
        return String::new();
    }
    let mut list = String::from("<ul>\n");
    for heading in listed {
        let text = escaped(&heading.text);
        let (level, id) = (heading.level, escaped(&heading.id));
        let _written = writeln!(
            list,
            "<li class=\"level-{level}\"><a href=\"#{id}\">{text}</a></li>"
        );
    }
    list.push_str("</ul>\n");
    // A phone shows the page's name first, and the list to who asks for it.
    format!(
        "<nav class=\"here\" aria-label=\"On this page\">\n<details class=\"small\"><summary>On this page</summary>\n{list}\
         </details>\n<div class=\"large\">\n<p>On this page</p>\n{list}</div>\n</nav>\n"
    )
}

/// Where to go on, in the order of the list.
fn next(shown: &Page) -> String {
    let after = PAGES
        .iter()
        .skip_while(|page| page.name != shown.name)
        .nth(1);
    let Some(page) = after else {
        return String::new();
    };
    let title = escaped(page.title);
    format!(
        "<p class=\"next\">Next: <a href=\"{}.html\">{title}</a></p>\n",
        page.name
    )
}
