//! Writes the manual of `bcd` into a folder: a page for the program and one for each of its commands.
//!
//! Packages are made with it. It is no part of the program, which has to be small. A command's page describes its own
//! options, and the program's page those that every command takes.

use std::{
    env,
    fs::{self, File},
    io::{self, Write as _},
    path::{Path, PathBuf},
};

use clap::{Arg, Command};
use clap_mangen::Man;

fn main() -> io::Result<()> {
    let folder = env::args_os().nth(1).map(PathBuf::from);
    let folder =
        folder.ok_or_else(|| io::Error::other("expected a folder to write into, found none"))?;
    fs::create_dir_all(&folder)?;
    let mut program = bcd::command().disable_help_subcommand(true);
    // Gives every command its full name, and the options of all.
    program.build();
    Man::new(program.clone()).generate_to(&folder)?;
    below(&program, &folder)
}

fn below(command: &Command, folder: &Path) -> io::Result<()> {
    let shown = command.get_subcommands().filter(|one| !one.is_hide_set());
    for one in shown {
        write_page(one, folder)?;
        below(one, folder)?;
    }
    Ok(())
}

fn write_page(command: &Command, folder: &Path) -> io::Result<()> {
    let is_hidden = |argument: &Arg| argument.is_hide_set() || argument.is_global_set();
    let own = command.clone().mut_args(|argument| {
        let hidden = is_hidden(&argument);
        argument.hide(hidden)
    });
    let has_own = own.get_arguments().any(|argument| !is_hidden(argument));
    let page = Man::new(own);
    let mut text = Vec::new();
    page.render_title(&mut text)?;
    page.render_name_section(&mut text)?;
    page.render_synopsis_section(&mut text)?;
    page.render_description_section(&mut text)?;
    if has_own {
        page.render_options_section(&mut text)?;
    }
    let global = command.get_arguments().filter(|one| one.is_global_set());
    let names: Vec<String> = global.filter_map(Arg::get_long).map(bold).collect();
    if !names.is_empty() {
        writeln!(
            text,
            ".SH \"GLOBAL OPTIONS\"\nEvery command takes {}, before or behind its name:\n.BR bcd (1)\ndescribes them.",
            names.join(", ")
        )?;
    }
    if command.has_subcommands() {
        page.render_subcommands_section(&mut text)?;
    }
    if command.get_after_help().is_some() || command.get_after_long_help().is_some() {
        page.render_extra_section(&mut text)?;
    }
    File::create(folder.join(page.get_filename()))?.write_all(&text)
}

fn bold(name: &str) -> String {
    format!("\\fB\\-\\-{}\\fR", name.replace('-', "\\-"))
}
