//! `release show`.

use std::io::{self, Write};
use std::path::PathBuf;

use bc_protocol::digest::Pin;
use bc_protocol::release::sign::Unjudged;
use clap::Args;

use super::Format;
use super::failure::Failure;
use super::{file, verify};

/// Show what a signed release holds, before you sign it too
///
/// Prints the version, the files' digests, and which of the keys that may sign have signed. It judges nothing: only
/// `release verify`, with the pins of keys that you trust, says whether that is enough.
#[derive(Debug, Args)]
pub(crate) struct Show {
    /// The signed manifest, or the folder that holds it
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// How to print the result
    #[arg(long, short, value_enum, default_value_t = Format::Text)]
    pub(super) output: Format,
}

impl Show {
    pub(super) fn execute(self, out: &mut dyn Write) -> Result<(), Failure> {
        let path = file::manifest_at(self.file);
        let opened = Unjudged::open(&file::read_published(&path)?)?;
        match self.output {
            Format::Text => {
                let beside = verify::check_beside(opened.manifest(), &path)?;
                print_text(&opened, beside, out)
            }
            Format::Json => print_json(&opened, out),
        }
        .map_err(Failure::output)
    }
}

fn print_text(opened: &Unjudged, beside: usize, out: &mut dyn Write) -> io::Result<()> {
    let manifest = opened.manifest();
    verify::print_contents(manifest, out)?;
    print_signers(opened, out)?;
    verify::print_beside(manifest, beside, out)
}

/// Who has signed and who may still.
fn print_signers(opened: &Unjudged, out: &mut dyn Write) -> io::Result<()> {
    let signers = opened.signers();
    writeln!(out, "keys that have signed")?;
    for pin in &signers {
        writeln!(out, "  {pin}")?;
    }
    let listed = opened.manifest().keys().iter().map(|key| key.pin());
    let open: Vec<Pin> = listed.filter(|pin| !signers.contains(pin)).collect();
    if !open.is_empty() {
        writeln!(out, "keys that have not signed")?;
    }
    for pin in open {
        writeln!(out, "  {pin}")?;
    }
    Ok(())
}

fn print_json(opened: &Unjudged, out: &mut dyn Write) -> io::Result<()> {
    let mut shown = verify::json(opened.manifest());
    if let Some(fields) = shown.as_object_mut() {
        fields.insert("signers".to_owned(), serde_json::json!(opened.signers()));
    }
    writeln!(out, "{shown:#}")
}
