//! Screens as an SVG.
//!
//! Takes screens and the times at which they are shown, gives a picture that plays once and keeps the last. A viewer that
//! plays nothing shows the last, too. Pure.

use std::{fmt::Write as _, time::Duration};

use vt100::{Cell, Color, Screen};

/// Pixels, for a letter and around the text.
const WIDE: f64 = 8.4;
const HIGH: f64 = 19.0;
const MARGIN: f64 = 18.0;

const BACKGROUND: &str = "#16181d";
const FOREGROUND: &str = "#d8dce4";

/// What terminals call black, red, green, yellow, blue, magenta, cyan and white, and the same again, brighter.
const PALETTE: [&str; 16] = [
    "#3b4048", "#e06c75", "#98c379", "#e5c07b", "#61afef", "#c678dd", "#56b6c2", "#d8dce4",
    "#5c6370", "#ff7b86", "#b5e890", "#ffd68a", "#7fc4ff", "#de9bf0", "#76d5e0", "#ffffff",
];

/// Letters of one look that stand beside each other.
struct Run {
    column: u16,
    text: String,
    letters: u16,
    look: Look,
}

/// How a letter looks.
#[derive(Clone, PartialEq)]
struct Look {
    color: &'static str,
    bold: bool,
    dim: bool,
}

/// Draws the screens below a prompt with `line` behind it.
pub(super) fn draw(line: &str, frames: &[(Duration, &Screen)]) -> String {
    let rows = frames.iter().map(|(_, screen)| used_rows(screen)).max();
    let columns = frames
        .first()
        .map_or(80, |(_, screen)| screen.size().1.get());
    let height = f64::from(rows.unwrap_or(1) + 1) * HIGH + 2.0 * MARGIN;
    let width = f64::from(columns) * WIDE + 2.0 * MARGIN;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" width=\"{width:.0}\" \
         height=\"{height:.0}\" role=\"img\" font-family=\"ui-monospace,SFMono-Regular,Menlo,Consolas,\
         'DejaVu Sans Mono',monospace\" font-size=\"14\">\n<title>{}</title>\n\
         <rect width=\"100%\" height=\"100%\" rx=\"10\" fill=\"{BACKGROUND}\"/>\n",
        escaped(line)
    );
    let prompt = Look {
        color: "#98c379",
        bold: true,
        dim: false,
    };
    let typed = Look {
        color: FOREGROUND,
        bold: true,
        dim: false,
    };
    text(&mut svg, 0, &run(0, "$", prompt));
    text(&mut svg, 0, &run(2, line, typed));
    for (index, (at, screen)) in frames.iter().enumerate() {
        let until = frames.get(index + 1).map(|(until, _)| *until);
        frame(&mut svg, (*at, until), screen);
    }
    svg.push_str("</svg>\n");
    svg
}

/// One screen, which the next one takes the place of.
fn frame(svg: &mut String, (at, until): (Duration, Option<Duration>), screen: &Screen) {
    let at = at.as_secs_f64();
    // Writing to a string does not fail.
    let _written = match until {
        Some(until) => writeln!(
            svg,
            "<g visibility=\"hidden\"><set attributeName=\"visibility\" to=\"visible\" begin=\"{at:.2}s\" \
             end=\"{:.2}s\"/>",
            until.as_secs_f64()
        ),
        None => writeln!(
            svg,
            "<g><set attributeName=\"visibility\" to=\"hidden\" begin=\"0s\" end=\"{at:.2}s\"/>"
        ),
    };
    for row in 0..used_rows(screen) {
        for run in runs(screen, row) {
            text(svg, row + 1, &run);
        }
    }
    svg.push_str("</g>\n");
}

fn text(svg: &mut String, row: u16, run: &Run) {
    let x = f64::from(run.column) * WIDE + MARGIN;
    let y = f64::from(row) * HIGH + MARGIN + 14.0;
    let bold = if run.look.bold {
        " font-weight=\"600\""
    } else {
        ""
    };
    let dim = if run.look.dim { " opacity=\"0.6\"" } else { "" };
    let _written = writeln!(
        svg,
        "<text x=\"{x:.1}\" y=\"{y:.1}\" textLength=\"{:.1}\" fill=\"{}\"{bold}{dim} xml:space=\"preserve\">{}</text>",
        f64::from(run.letters) * WIDE,
        run.look.color,
        escaped(&run.text)
    );
}

fn run(column: u16, text: &str, look: Look) -> Run {
    Run {
        column,
        text: text.to_owned(),
        letters: u16::try_from(text.chars().count()).unwrap_or(u16::MAX),
        look,
    }
}

/// The row's letters, those of one look together; the space between them is nobody's.
fn runs(screen: &Screen, row: u16) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    let mut gap = 0;
    for column in 0..screen.size().1.get() {
        let Some(cell) = screen.cell(row, column) else {
            continue;
        };
        if cell.is_wide_continuation() {
            continue;
        }
        if cell.contents().trim().is_empty() {
            gap += 1;
            continue;
        }
        let look = look(cell);
        let letters = if cell.is_wide() { 2 } else { 1 };
        match runs.last_mut() {
            Some(last) if last.look == look && gap <= 1 => {
                last.text.push_str(if gap == 1 { " " } else { "" });
                last.text.push_str(cell.contents());
                last.letters += gap + letters;
            }
            Some(_) | None => runs.push(Run {
                column,
                text: cell.contents().to_owned(),
                letters,
                look,
            }),
        }
        gap = 0;
    }
    runs
}

fn look(cell: &Cell) -> Look {
    Look {
        color: color(cell.fgcolor()),
        bold: cell.bold(),
        dim: cell.dim(),
    }
}

fn color(color: Color) -> &'static str {
    match color {
        Color::Idx(index) => PALETTE
            .get(usize::from(index))
            .copied()
            .unwrap_or(FOREGROUND),
        Color::Default | Color::Rgb(..) => FOREGROUND,
    }
}

/// Counted by rows: a line that fills its row runs on into the next one where text is asked for.
fn used_rows(screen: &Screen) -> u16 {
    let columns = screen.size().1.get();
    let rows = (1..).zip(screen.rows(0, columns));
    let used = rows.filter(|(_, row)| !row.trim().is_empty());
    used.map(|(number, _)| number).last().unwrap_or(0)
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn screen(bytes: &str) -> Screen {
        let size = |number: u16| number.try_into().unwrap_or(std::num::NonZeroU16::MIN);
        let mut parser = vt100::Parser::new(size(3), size(20), 0);
        parser.process(bytes.as_bytes());
        parser.screen().clone()
    }

    #[test]
    fn letters_of_one_look_stand_together_and_markup_is_text() {
        let screen = screen("a <b>  \u{1b}[31mred\u{1b}[0m\r\n\u{1b}[1mbold");
        let svg = draw("x & y", &[(Duration::ZERO, &screen)]);
        for part in [
            "a &lt;b&gt;</text>",
            "#e06c75",
            ">red</text>",
            "600",
            ">x &amp; y</text>",
        ] {
            assert!(svg.contains(part), "{part}: {svg}");
        }
        assert!(!svg.contains("<b>"), "{svg}");
    }

    #[test]
    fn who_plays_nothing_sees_the_last_screen() {
        let (first, last) = (screen("first"), screen("last"));
        let svg = draw(
            "x",
            &[(Duration::ZERO, &first), (Duration::from_secs(2), &last)],
        );
        let before = svg.split("last").next().unwrap_or_default();
        let group = before.rsplit("<g").next().unwrap_or_default();
        assert!(group.starts_with("><set"), "{svg}");
        assert_eq!(svg.matches("visibility=\"hidden\"").count(), 1, "{svg}");
    }
}
