//! `man`.

use std::{
    fs::File,
    io::{self, Write},
    path::{Path, PathBuf},
};

use clap::{Arg, Args, Command};
use clap_mangen::Man as Page;

use super::{exit::Exit, failure::Failure, globals::is_global};

/// Write the manual: a page for this program and one for each of its commands
///
/// Made of the same texts as --help. Packages put the pages where `man` finds them.
#[derive(Debug, Args)]
pub(super) struct Man {
    /// The folder; it is made where there is none
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
}

impl Man {
    pub(super) fn run(self, tree: Command) -> Result<Exit, Failure> {
        // A page for `help` would say what every page says.
        let mut tree = tree.disable_help_subcommand(true);
        // Gives every command its full name.
        tree.build();
        std::fs::create_dir_all(&self.out)
            .and_then(|()| write(&tree, &self.out))
            .map_err(|source| Failure::Write {
                path: self.out,
                source,
            })?;
        Ok(Exit::Done)
    }
}

fn write(program: &Command, folder: &Path) -> io::Result<()> {
    Page::new(program.clone()).generate_to(folder)?;
    below(program, folder)
}

/// Pages of the commands below one.
fn below(command: &Command, folder: &Path) -> io::Result<()> {
    let shown = command.get_subcommands().filter(|one| !one.is_hide_set());
    for one in shown {
        write_page(one, folder)?;
        below(one, folder)?;
    }
    Ok(())
}

/// A command's page describes its own options; those of the whole program are described on the program's.
fn write_page(command: &Command, folder: &Path) -> io::Result<()> {
    let global: Vec<Arg> = command
        .get_arguments()
        .filter(|argument| is_global(argument))
        .cloned()
        .collect();
    let own = command.clone().mut_args(|argument| {
        let hidden = argument.is_hide_set() || is_global(&argument);
        argument.hide(hidden)
    });
    let page = Page::new(own);
    let mut text = Vec::new();
    page.render_title(&mut text)?;
    page.render_name_section(&mut text)?;
    page.render_synopsis_section(&mut text)?;
    page.render_description_section(&mut text)?;
    page.render_options_section(&mut text)?;
    if !global.is_empty() {
        writeln!(text, ".SH \"GLOBAL OPTIONS\"\n{}", about(&global))?;
    }
    if command.has_subcommands() {
        page.render_subcommands_section(&mut text)?;
    }
    if command.get_after_help().is_some() || command.get_after_long_help().is_some() {
        page.render_extra_section(&mut text)?;
    }
    File::create(folder.join(page.get_filename()))?.write_all(&text)
}

/// Where the options of the whole program are described.
fn about(global: &[Arg]) -> String {
    let names = global.iter().filter_map(Arg::get_long);
    let (renamed, same): (Vec<&str>, Vec<&str>) = names.partition(|name| name.starts_with("api-"));
    let mut text = format!(
        "It takes {}, before or behind its name, as every command that talks to control does: \
         .BR better\\-compute (1)\ndescribes them.",
        list(&same)
    )
    .replace(" .BR", "\n.BR");
    for name in renamed {
        let elsewhere = name.trim_start_matches("api-");
        text.push_str(&format!(
            "\nHere, {} is what is {} elsewhere.",
            bold(name),
            bold(elsewhere)
        ));
    }
    text
}

fn list(names: &[&str]) -> String {
    let names: Vec<String> = names.iter().map(|name| bold(name)).collect();
    match names.as_slice() {
        [others @ .., last] if !others.is_empty() => format!("{} and {last}", others.join(", ")),
        few => few.join(", "),
    }
}

fn bold(name: &str) -> String {
    format!("\\fB\\-\\-{}\\fR", name.replace('-', "\\-"))
}

#[cfg(test)]
mod tests {
    use std::fs;

    #[test]
    fn an_option_of_the_program_is_described_on_its_page_alone() {
        let folder = tempfile::tempdir().unwrap();
        let mut tree = crate::cli::tree().disable_help_subcommand(true);
        tree.build();
        super::write(&tree, folder.path()).unwrap();
        let page = |name: &str| fs::read_to_string(folder.path().join(name)).unwrap();
        let program = page("better-compute.1");
        assert!(
            program.contains(".SH \"GLOBAL OPTIONS\"") && program.contains("Where control listens")
        );
        let create = page("better-compute-rollouts-create.1");
        assert!(
            create.contains("\\fB\\-\\-waves\\fR") && create.contains("Cumulative percentages")
        );
        let (_, behind) = create.split_once(".SH \"GLOBAL OPTIONS\"").unwrap();
        assert!(
            behind.contains("\\fB\\-\\-no\\-headers\\fR")
                && behind.contains(".BR better\\-compute (1)")
        );
        let synopsis = create
            .split(".SH")
            .find(|part| part.starts_with(" SYNOPSIS"));
        assert!(!synopsis.unwrap().contains("ca\\-file"), "{create}");
        let enrol = page("better-compute-gateways-enrol.1");
        assert!(
            enrol.contains("Here, \\fB\\-\\-api\\-url\\fR is what is \\fB\\-\\-url\\fR elsewhere.")
        );
        for file in fs::read_dir(folder.path()).unwrap() {
            let text = fs::read_to_string(file.unwrap().path()).unwrap();
            // An option without a word about it.
            let lines: Vec<&str> = text.lines().collect();
            let bare = lines
                .windows(2)
                .find(|pair| pair[0].starts_with("\\fB\\-") && pair[1].starts_with(".TP"));
            assert_eq!(bare, None, "{text}");
        }
    }
}
