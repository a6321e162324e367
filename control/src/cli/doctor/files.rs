//! Files that hold secrets, and who can read them.

use std::path::Path;

use super::Findings;
use crate::{
    cli::{
        globals::Globals,
        settings::{Environment, Settings, TokenSource, config_path},
    },
    files::open_to_others,
};

/// Looks at the config file and the token's.
pub(super) fn look(
    settings: &Settings,
    (flags, environment): (&Globals, &Environment),
    to: &mut Findings,
) {
    if let Ok(path) = config_path(flags, environment) {
        config(settings, &path, to);
    }
    if let Some(token) = &settings.token
        && let TokenSource::File(path) = &token.value
        && let Some(mode) = open_to_others(path)
    {
        let found = format!("others can read {} (mode {mode:03o})", path.display());
        to.wrong("token", found, format!("chmod 600 {}", path.display()));
    }
}

fn config(settings: &Settings, path: &Path, to: &mut Findings) {
    const CHECK: &str = "config";
    let shown = path.display();
    if !path.exists() {
        let hint = "`better-compute login` keeps an address and a token there";
        return to.note(CHECK, format!("there is no {shown}"), hint);
    }
    if let Some(mode) = open_to_others(path) {
        let found = format!("others can read {shown} (mode {mode:03o})");
        return to.wrong(CHECK, found, format!("chmod 600 {shown}"));
    }
    let context = settings
        .context
        .as_ref()
        .map_or_else(|| "no context".to_owned(), |name| format!("context {name}"));
    to.good(CHECK, format!("{shown}, {context}"));
}
