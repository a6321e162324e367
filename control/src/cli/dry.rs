//! `--dry-run` behind commands that create something.
//!
//! Takes the call that would be made, shows it. Makes none that changes anything.

use clap::Args;
use serde::Serialize;
use serde_json::Value;

use super::{
    exit::Exit,
    failure::Failure,
    online::Online,
    print::{Answer, Detail, View},
    sheet::{Cell, Sheet},
};

/// Whether nothing is to be created.
#[derive(Clone, Copy, Debug, Args)]
pub(super) struct DryRun {
    /// Check what is wanted and show the call that would create it; create nothing
    #[arg(long)]
    dry_run: bool,
}

/// A call that was not made.
#[derive(Debug)]
struct Call {
    address: String,
    fields: Vec<(String, String)>,
}

impl DryRun {
    /// Whether only the call is to be shown.
    pub(super) fn is_wanted(self) -> bool {
        self.dry_run
    }

    /// Shows the call: programs get its body as it would be sent.
    pub(super) fn show(
        online: &Online,
        method: &str,
        request: &impl Serialize,
    ) -> Result<Exit, Failure> {
        let raw = serde_json::to_value(request).map_err(super::print::PrintError::Json)?;
        let value = Call {
            address: online.client.address(method).to_string(),
            fields: fields(&raw),
        };
        online.printer.show(&Answer { value, raw })?;
        Ok(Exit::Done)
    }
}

fn fields(request: &Value) -> Vec<(String, String)> {
    let fields = request.as_object().into_iter().flatten();
    let shown = |value: &Value| match value {
        Value::String(text) => text.clone(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
            value.to_string()
        }
    };
    fields
        .map(|(name, value)| (name.clone(), shown(value)))
        .collect()
}

impl View for Call {
    fn sheet(&self, _detail: Detail) -> Sheet {
        let rows = self.fields.iter();
        let rows = rows.map(|(name, value)| vec![Cell::new(name), Cell::prose(value)]);
        Sheet::fields(vec![("would call", Cell::new(&self.address))])
            .above(Sheet::rows(&["FIELD", "VALUE"], rows.collect()))
    }

    fn names(&self) -> Vec<String> {
        Vec::new()
    }
}
