//! `config use-context`.

use clap::Args;

use crate::cli::{
    contexts::{Contexts, make_current},
    exit::Exit,
    failure::Failure,
    globals::Globals,
    print::note,
    settings::{Environment, config_path},
};

/// Make a context the one that is used where none is named
#[derive(Debug, Args)]
pub(in crate::cli) struct UseContext {
    /// Its name
    #[arg(value_name = "NAME")]
    name: String,
}

impl UseContext {
    pub(super) fn run(self, flags: &Globals, environment: &Environment) -> Result<Exit, Failure> {
        let path = config_path(flags, environment)?;
        Contexts::load(&path)?.named(&self.name)?;
        make_current(&path, &self.name)?;
        note(&format!("context {} is current now", self.name));
        Ok(Exit::Done)
    }
}
