use super::{Site, frame, markdown, pages::PAGES};

#[test]
fn markup_in_a_text_is_shown() {
    let page = markdown::render(
        "# A <b>title</b>\n\n<script>alert(1)</script>\n\n`<i>` and <img src=x>\n",
    );
    assert!(!page.body.contains("<script"), "{}", page.body);
    assert!(!page.body.contains("<img"), "{}", page.body);
    assert!(!page.body.contains("<b>"), "{}", page.body);
    assert!(page.body.contains("&lt;script&gt;"), "{}", page.body);
}

#[test]
fn a_heading_has_an_anchor_and_equal_ones_have_two() {
    let page =
        markdown::render("# One\n\n## Say `when`: now\n\n## Again\n\n## Again\n\n#### Deep\n");
    assert_eq!(page.title, "One");
    let ids: Vec<&str> = page
        .headings
        .iter()
        .map(|heading| heading.id.as_str())
        .collect();
    assert_eq!(ids, ["say-when-now", "again", "again-1"]);
    for id in ids {
        assert!(page.body.contains(&format!("id=\"{id}\"")), "{}", page.body);
    }
}

#[test]
fn pages_link_to_pages() {
    let page = markdown::render("[a](b.md) [c](b.md#d) [e](#f) [g](https://h.example/i.md)\n");
    for address in ["b.html", "b.html#d", "#f", "https://h.example/i.md"] {
        assert!(
            page.body.contains(&format!("href=\"{address}\"")),
            "{}",
            page.body
        );
    }
}

#[test]
fn a_block_says_where_it_is_for() {
    let page = markdown::render("```sh machine\nsystemctl start bcd\n```\n\n```sh\nls <x>\n```\n");
    assert!(
        page.body.contains("On a machine with systemd"),
        "{}",
        page.body
    );
    assert!(page.body.contains("ls &lt;x&gt;"), "{}", page.body);
    assert!(page.body.contains("tabindex=\"0\""), "{}", page.body);
}

#[test]
fn a_page_names_itself_and_every_other() {
    let shown = &PAGES[0];
    let page = frame::page(shown, &markdown::render("# Title & more\n\n## A\n\n## B\n"));
    assert!(page.contains("<title>Title &amp; more"), "{page}");
    assert_eq!(
        page.matches("aria-current").count(),
        2,
        "in the short list and in the long one"
    );
    for other in PAGES {
        assert!(
            page.contains(&format!("href=\"{}.html\"", other.name)),
            "{}",
            other.name
        );
    }
    assert!(page.contains("<a href=\"#a\">A</a>"), "{page}");
}

#[test]
fn a_description_that_cannot_be_read_is_said_so() {
    let site = Site::of(b"{}");
    let page = site.file("api.md").unwrap();
    let text = String::from_utf8(page.bytes.to_vec()).unwrap();
    assert!(text.contains("cannot be shown"), "{text}");
    assert!(site.file("nothing.html").is_none());
    assert!(site.files().count() > PAGES.len());
}
