//! Log lines as entries of systemd's journal.
//!
//! Takes what a program logs and how it writes a line of it. Gives an entry, in the form that journald's socket takes: the
//! line, its level as priority, and each field (`node=…`) as one of the journal's (`BC_NODE=…`), so that an operator asks
//! for one node, or for warnings alone. Never sends it. What a field holds never makes another field.

use std::fmt::{self, Debug};

use tracing::{
    Event, Level, Subscriber,
    field::{Field, Visit},
};
use tracing_subscriber::{
    fmt::{FmtContext, FormatEvent, FormatFields, format::Writer},
    registry::LookupSpan,
};

/// Writes an entry where another format writes a line.
#[derive(Debug)]
pub struct Entry<F>(pub F);

impl<S, N, F> FormatEvent<S, N> for Entry<F>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
    F: FormatEvent<S, N>,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut entry: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let mut line = String::new();
        self.0
            .format_event(context, Writer::new(&mut line), event)?;
        field(&mut entry, "PRIORITY", priority(*event.metadata().level()))?;
        let mut fields = Fields(&mut entry, Ok(()));
        event.record(&mut fields);
        fields.1?;
        field(&mut entry, "MESSAGE", line.trim_end())
    }
}

/// As syslog counts.
fn priority(level: Level) -> &'static str {
    match level {
        Level::ERROR => "3",
        Level::WARN => "4",
        Level::INFO => "6",
        Level::DEBUG | Level::TRACE => "7",
    }
}

struct Fields<'a, 'w>(&'a mut Writer<'w>, fmt::Result);

impl Visit for Fields<'_, '_> {
    fn record_debug(&mut self, of: &Field, value: &dyn Debug) {
        // The message is in the line.
        if self.1.is_ok() && of.name() != "message" {
            let name = format!("BC_{}", of.name().to_ascii_uppercase());
            self.1 = field(self.0, &name, &format!("{value:?}"));
        }
    }

    fn record_str(&mut self, of: &Field, value: &str) {
        // Without the quotes of a text that is shown.
        self.record_debug(of, &format_args!("{value}"));
    }
}

/// A field ends with its line, so no value has more than one.
fn field(entry: &mut Writer<'_>, name: &str, value: &str) -> fmt::Result {
    let value = value.replace('\n', "\\n");
    writeln!(entry, "{name}={value}")
}

#[cfg(test)]
mod tests {
    use std::{
        io,
        sync::{Arc, Mutex},
    };

    use tracing_subscriber::fmt::format;

    use super::*;

    #[test]
    fn a_line_becomes_an_entry_with_its_level_and_what_it_names() {
        let written = Written::default();
        let entries = written.clone();
        let log = tracing_subscriber::fmt()
            .with_ansi(false)
            .event_format(Entry(format().without_time().with_target(false)))
            .with_writer(move || entries.clone());
        tracing::subscriber::with_default(log.finish(), || {
            let reason = "away\nPRIORITY=0";
            tracing::warn!(node = "node_1", count = 3, %reason, "session ended");
        });
        let written = written.0.lock().unwrap();
        let entry = std::str::from_utf8(&written).unwrap();
        let wanted = "PRIORITY=4\n\
            BC_NODE=node_1\n\
            BC_COUNT=3\n\
            BC_REASON=away\\nPRIORITY=0\n\
            MESSAGE= WARN session ended node=\"node_1\" count=3 reason=away\\nPRIORITY=0\n";
        assert_eq!(entry, wanted);
    }

    #[derive(Clone, Default)]
    struct Written(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Written {
        fn write(&mut self, entry: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(entry)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
}
