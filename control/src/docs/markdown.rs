//! Markdown in, HTML out.
//!
//! Takes a page's text, gives its title, its headings and its body. Markup that stands in the text is shown, never
//! taken: the only HTML that comes out is what is written here and what the renderer makes.

use std::collections::BTreeMap;

use pulldown_cmark::{
    CodeBlockKind, CowStr, Event, HeadingLevel, Options, Parser, Tag, TagEnd, html::push_html,
};

/// A page's text as HTML.
#[derive(Debug, Default)]
pub(super) struct Rendered {
    /// The text of its first heading.
    pub(super) title: String,
    /// What can be jumped to.
    pub(super) headings: Vec<Heading>,
    /// The HTML.
    pub(super) body: String,
}

/// A place in a page.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Heading {
    /// How deep it is: 2 or 3.
    pub(super) level: u8,
    /// Its anchor.
    pub(super) id: String,
    /// Its text.
    pub(super) text: String,
}

/// Renders one page.
pub(super) fn render(text: &str) -> Rendered {
    let mut renderer = Renderer::default();
    let events: Vec<Event<'_>> = Parser::new_ext(text, Options::ENABLE_TABLES).collect();
    let mut shown = Vec::with_capacity(events.len());
    let mut rest = events.as_slice();
    while let Some((event, after)) = rest.split_first() {
        rest = renderer.take(event, after, &mut shown);
    }
    push_html(&mut renderer.rendered.body, shown.into_iter());
    renderer.rendered
}

#[derive(Default)]
struct Renderer {
    rendered: Rendered,
    anchors: BTreeMap<String, u32>,
}

impl Renderer {
    /// Takes one event, gives what is left to be taken.
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "all other events of the parser go on as they are"
    )]
    fn take<'e, 't>(
        &mut self,
        event: &Event<'t>,
        after: &'e [Event<'t>],
        shown: &mut Vec<Event<'t>>,
    ) -> &'e [Event<'t>] {
        match event {
            Event::Start(Tag::Heading { level, .. }) => {
                shown.push(self.heading(*level, after));
                after
            }
            Event::Start(Tag::CodeBlock(kind)) => {
                let (code, rest) = code(after);
                shown.push(Event::Html(block(kind, &code).into()));
                rest
            }
            Event::Start(Tag::Table(columns)) => {
                // A table that is wider than the screen is moved by itself, by keyboard too.
                let region =
                    "<div class=\"wide\" role=\"region\" aria-label=\"Table\" tabindex=\"0\">";
                shown.push(Event::Html(region.into()));
                shown.push(Event::Start(Tag::Table(columns.clone())));
                after
            }
            Event::End(TagEnd::Table) => {
                shown.push(Event::End(TagEnd::Table));
                shown.push(Event::Html("</div>\n".into()));
                after
            }
            Event::Start(Tag::Link {
                link_type,
                dest_url,
                title,
                id,
            }) => {
                shown.push(Event::Start(Tag::Link {
                    link_type: *link_type,
                    dest_url: address(dest_url).into(),
                    title: title.clone(),
                    id: id.clone(),
                }));
                after
            }
            Event::Html(text) | Event::InlineHtml(text) => {
                shown.push(Event::Text(text.clone()));
                after
            }
            other => {
                shown.push(other.clone());
                after
            }
        }
    }

    fn heading<'t>(&mut self, level: HeadingLevel, after: &[Event<'t>]) -> Event<'t> {
        let text = text_until_heading_ends(after);
        let id = self.anchor(&text);
        match level {
            HeadingLevel::H1 => self.rendered.title.clone_from(&text),
            HeadingLevel::H2 | HeadingLevel::H3 => self.rendered.headings.push(Heading {
                level: if level == HeadingLevel::H2 { 2 } else { 3 },
                id: id.clone(),
                text,
            }),
            HeadingLevel::H4 | HeadingLevel::H5 | HeadingLevel::H6 => {}
        }
        Event::Start(Tag::Heading {
            level,
            id: Some(id.into()),
            classes: Vec::new(),
            attrs: Vec::new(),
        })
    }

    /// The anchor of a heading, as those who show Markdown elsewhere make it: then links work there too.
    fn anchor(&mut self, text: &str) -> String {
        let mut anchor = String::new();
        for letter in text.chars() {
            match letter {
                ' ' => anchor.push('-'),
                '-' | '_' => anchor.push(letter),
                letter if letter.is_alphanumeric() => anchor.extend(letter.to_lowercase()),
                _ => {}
            }
        }
        let before = self.anchors.entry(anchor.clone()).or_insert(0);
        let id = match *before {
            0 => anchor,
            more => format!("{anchor}-{more}"),
        };
        *before += 1;
        id
    }
}

#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "of what a heading holds, texts alone are of interest"
)]
fn text_until_heading_ends(events: &[Event<'_>]) -> String {
    let inside = events
        .iter()
        .take_while(|event| !matches!(event, Event::End(TagEnd::Heading(_))));
    let texts = inside.filter_map(|event| match event {
        Event::Text(text) | Event::Code(text) => Some(text.as_ref()),
        _ => None,
    });
    texts.collect()
}

/// A code block's text, and what comes behind it.
fn code<'e, 't>(mut events: &'e [Event<'t>]) -> (String, &'e [Event<'t>]) {
    let mut code = String::new();
    while let Some((event, rest)) = events.split_first() {
        events = rest;
        if let Event::Text(text) = event {
            code.push_str(text);
        }
        if matches!(event, Event::End(TagEnd::CodeBlock)) {
            break;
        }
    }
    (code, events)
}

/// A code block. What stands behind its language says where it is for, and is shown above it.
fn block(kind: &CodeBlockKind<'_>, code: &str) -> String {
    let info = match kind {
        CodeBlockKind::Fenced(info) => info.clone(),
        CodeBlockKind::Indented => CowStr::Borrowed(""),
    };
    let mut words = info.split_whitespace();
    let language = words.next().unwrap_or("text");
    let note = match (language, words.next()) {
        ("sh", Some("machine")) if words.next() == Some("other") => {
            "On another machine with systemd, as root"
        }
        ("sh", Some("machine")) => "On a machine with systemd, as root",
        ("sh", Some("source")) => "In a checkout of the source",
        ("sh", Some("call")) => "Run, with the object above in body.json",
        ("sh", Some("last")) => "When you have done",
        ("sh", _) => "Run",
        ("out", _) => "Prints",
        ("toml", _) => "TOML",
        ("json", _) => "JSON",
        _ => "",
    };
    let note = match note {
        "" => String::new(),
        note => format!("<p class=\"note\">{}</p>", escaped(note)),
    };
    format!(
        "<div class=\"code {language}\">{note}<pre tabindex=\"0\"><code>{code}</code></pre></div>\n",
        language = escaped(language),
        code = escaped(code),
    )
}

/// Pages link to each other as files of Markdown; the site has them as HTML.
fn address(written: &str) -> String {
    let (page, place) = match written.split_once('#') {
        Some((page, place)) => (page, Some(place)),
        None => (written, None),
    };
    let page = match page.strip_suffix(".md") {
        Some(name) if !page.contains(':') => format!("{name}.html"),
        Some(_) | None => page.to_owned(),
    };
    match place {
        Some(place) => format!("{page}#{place}"),
        None => page,
    }
}

/// Text that is shown as it is.
pub(super) fn escaped(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => shown.push_str("&amp;"),
            '<' => shown.push_str("&lt;"),
            '>' => shown.push_str("&gt;"),
            '"' => shown.push_str("&quot;"),
            '\'' => shown.push_str("&#39;"),
            letter => shown.push(letter),
        }
    }
    shown
}
