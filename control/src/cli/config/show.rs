//! `config show`.

use clap::{Args, ValueEnum};
use serde_json::{Value, json};

use crate::cli::{
    exit::Exit,
    failure::Failure,
    globals::Globals,
    online,
    print::{Answer, Detail, View},
    settings::{Environment, Origin, Settings, Sourced, TokenSource},
    sheet::{Cell, Sheet},
};

/// Show what is in force, and where it comes from: a flag, a variable, the context or the defaults
#[derive(Debug, Args)]
pub(in crate::cli) struct Show {}

impl Show {
    pub(super) fn run(self, flags: &Globals, environment: &Environment) -> Result<Exit, Failure> {
        let settings = Settings::load(flags, environment)?;
        let value = InForce {
            rows: rows(&settings),
        };
        let raw = value.object();
        online::printer(flags, &settings).show(&Answer { value, raw })?;
        Ok(Exit::Done)
    }
}

/// Every setting in force.
struct InForce {
    rows: Vec<(&'static str, Sourced<String>)>,
}

fn rows(settings: &Settings) -> Vec<(&'static str, Sourced<String>)> {
    let text = |value: String, origin: &Origin| Sourced {
        value,
        origin: origin.clone(),
    };
    let mut rows = vec![
        (
            "url",
            text(settings.url.value.to_string(), &settings.url.origin),
        ),
        (
            "tenant",
            text(settings.tenant.value.to_string(), &settings.tenant.origin),
        ),
        (
            "output",
            text(
                settings
                    .output
                    .value
                    .to_possible_value()
                    .map(|value| value.get_name().to_owned())
                    .unwrap_or_default(),
                &settings.output.origin,
            ),
        ),
    ];
    rows.push(match &settings.token {
        Some(token) => {
            let shown = match &token.value {
                TokenSource::Given(_) => "(not shown)".to_owned(),
                TokenSource::File(path) => format!("in {}", path.display()),
            };
            ("token", text(shown, &token.origin))
        }
        None => ("token", text("none".to_owned(), &Origin::Default)),
    });
    if let Some(name) = &settings.context {
        let origin = Origin::Context(name.clone());
        rows.push(("context", text(name.clone(), &origin)));
    }
    if let Some(file) = &settings.ca_file {
        rows.push((
            "ca-file",
            text(file.value.display().to_string(), &file.origin),
        ));
    }
    rows
}

impl InForce {
    fn object(&self) -> Value {
        let settings: serde_json::Map<String, Value> = self
            .rows
            .iter()
            .map(|(name, setting)| {
                let from = setting.origin.to_string();
                (
                    (*name).to_owned(),
                    json!({"value": setting.value, "from": from}),
                )
            })
            .collect();
        Value::Object(settings)
    }
}

impl View for InForce {
    fn sheet(&self, _detail: Detail) -> Sheet {
        let rows = self
            .rows
            .iter()
            .map(|(name, setting)| {
                vec![
                    Cell::new(name),
                    Cell::new(&setting.value),
                    Cell::new(&setting.origin),
                ]
            })
            .collect();
        Sheet::rows(&["SETTING", "VALUE", "FROM"], rows)
    }

    fn names(&self) -> Vec<String> {
        self.rows
            .iter()
            .map(|(name, _)| (*name).to_owned())
            .collect()
    }
}
