//! The gateway's program.

use std::{
    io::{Write, stderr},
    process::ExitCode,
};

use bc_gateway::{Args, run};
use clap::Parser;

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let error = anyhow::Error::from(error);
            // Nobody is left to tell if this fails.
            drop(writeln!(stderr(), "bc-gateway: {error:#}"));
            ExitCode::FAILURE
        }
    }
}
