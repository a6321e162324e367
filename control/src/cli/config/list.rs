//! `config list`.

use clap::Args;
use serde_json::{Value, json};

use crate::cli::{
    contexts::{Context, Contexts},
    exit::Exit,
    failure::Failure,
    globals::Globals,
    online,
    print::{Answer, Detail, View, note},
    settings::{Environment, Settings, config_path},
    sheet::{Cell, Sheet},
};

/// List the contexts of the config file; the current one has a star
#[derive(Debug, Args)]
pub(in crate::cli) struct List {}

impl List {
    pub(super) fn run(self, flags: &Globals, environment: &Environment) -> Result<Exit, Failure> {
        let settings = Settings::load(flags, environment)?;
        let value = Contexts::load(&config_path(flags, environment)?)?;
        let raw = object(&value);
        let printer = online::printer(flags, &settings);
        let answer = Answer { value, raw };
        printer.show(&answer)?;
        if answer.value.contexts.is_empty() && printer.sheet(&answer).is_some() {
            note("no contexts yet; `better-compute login` keeps one");
        }
        Ok(Exit::Done)
    }
}

fn object(contexts: &Contexts) -> Value {
    let list: Vec<Value> = contexts
        .contexts
        .iter()
        .map(|(name, context)| {
            json!({
                "name": name,
                "current": contexts.current_context.as_ref() == Some(name),
                "url": context.url,
                "tenant": context.tenant,
            })
        })
        .collect();
    json!({ "contexts": list })
}

impl View for Contexts {
    fn sheet(&self, _detail: Detail) -> Sheet {
        let rows = self
            .contexts
            .iter()
            .map(|(name, context)| {
                let current = self.current_context.as_ref() == Some(name);
                vec![
                    Cell::new(if current { "*" } else { "" }),
                    Cell::new(name),
                    Cell::optional(context.url.as_ref()),
                    Cell::optional(context.tenant.as_ref()),
                    Cell::new(token(context)),
                ]
            })
            .collect();
        Sheet::rows(&["", "NAME", "URL", "TENANT", "TOKEN"], rows)
    }

    fn names(&self) -> Vec<String> {
        self.contexts.keys().cloned().collect()
    }
}

/// Where the token is; never what it is.
fn token(context: &Context) -> String {
    match (&context.token, &context.token_file) {
        (Some(_), _) => "here".to_owned(),
        (None, Some(path)) => path.display().to_string(),
        (None, None) => "-".to_owned(),
    }
}
