//! The service: whether it is control, ready, of this version, and of one mind about the time.

use std::time::Duration;

use serde_json::Value;

use super::Findings;
use crate::{
    cli::{
        client::{Client, Look},
        failure::Failure,
        span::human,
    },
    clock::Moment,
};

/// Certificates and tokens are judged by time; a minute is more than any machine with NTP is off by.
const CLOCKS_APART_MAX: Duration = Duration::from_secs(60);

/// Looks at what control says of itself; false where it is no control, or could answer no call.
pub(super) async fn look(client: &Client, to: &mut Findings) -> bool {
    let look = match client.look("version").await {
        Ok(look) => look,
        Err(error) => {
            to.failed("service", &Failure::from(error));
            return false;
        }
    };
    let Some(theirs) = look.body.get("version").and_then(Value::as_str) else {
        let mend = "look at the address: `better-compute config show` says where it comes from";
        to.wrong("service", "something answers that is no control", mend);
        return false;
    };
    let answers = match client.look("readyz").await {
        Ok(look) => {
            readiness(&look.body, to);
            part(&look.body, "database") != "failing"
        }
        Err(error) => {
            to.failed("service", &Failure::from(error));
            true
        }
    };
    version(theirs, to);
    clocks(&look, to);
    answers
}

fn part<'a>(body: &'a Value, name: &str) -> &'a str {
    body.get(name).and_then(Value::as_str).unwrap_or("unknown")
}

fn readiness(body: &Value, to: &mut Findings) {
    const CHECK: &str = "service";
    if part(body, "status") == "ready" {
        return to.good(
            CHECK,
            "ready: its database answers and its controller moves",
        );
    }
    let found = format!(
        "not ready: database {}, writes {}, migrations {}",
        part(body, "database"),
        part(body, "writes"),
        part(body, "migrations")
    );
    let mend = if part(body, "database") == "failing" {
        "see that its database runs and is reached; control's log says why, and nothing else can be looked at before"
    } else if part(body, "writes") == "failing" {
        "see that the database's disk has room and can be written; control's log says why"
    } else {
        "control's log says why"
    };
    to.wrong(CHECK, found, mend);
}

fn version(theirs: &str, to: &mut Findings) {
    const CHECK: &str = "version";
    let ours = env!("CARGO_PKG_VERSION");
    if theirs == ours {
        return to.good(CHECK, format!("control and this program are {ours}"));
    }
    to.note(
        CHECK,
        format!("control is {theirs}, this program {ours}"),
        "use the program of control's version where one does not understand the other",
    );
}

fn clocks(look: &Look, to: &mut Findings) {
    const CHECK: &str = "clocks";
    let Some(theirs) = look.date else {
        return;
    };
    let ours = Moment::now();
    let apart = ours.since(theirs).max(theirs.since(ours));
    if apart <= CLOCKS_APART_MAX {
        return to.good(CHECK, "control's and this machine's agree");
    }
    let whole = Duration::from_secs(apart.as_secs());
    to.wrong(
        CHECK,
        format!("control's and this machine's are {} apart", human(whole)),
        "set both by NTP: certificates and tokens are judged by time",
    );
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::cli::doctor::finding::State;

    fn state(look: impl FnOnce(&mut Findings)) -> (State, String) {
        let mut findings = Findings::default();
        look(&mut findings);
        let finding = findings.all().first().unwrap();
        (finding.state, finding.found.clone())
    }

    #[test]
    fn clocks_may_differ_by_a_minute() {
        let look = |date| Look {
            body: Value::Null,
            date,
        };
        let near = Moment::now().minus(Duration::from_secs(50));
        let (good, _) = state(|to| clocks(&look(Some(near)), to));
        assert_eq!(good, State::Good);
        let far = Moment::now().plus(Duration::from_secs(2 * 3600 + 30));
        let (wrong, found) = state(|to| clocks(&look(Some(far)), to));
        assert_eq!(wrong, State::Wrong);
        assert!(found.contains("2h"), "{found}");
    }

    #[test]
    fn a_service_that_is_not_ready_says_which_part() {
        let body = json!({"status": "not-ready", "database": "failing", "writes": "ok", "migrations": "ok"});
        let (wrong, found) = state(|to| readiness(&body, to));
        assert_eq!(wrong, State::Wrong);
        assert_eq!(
            found,
            "not ready: database failing, writes ok, migrations ok"
        );
    }

    #[test]
    fn another_version_is_worth_a_note() {
        assert_eq!(state(|to| version("99.0.0", to)).0, State::Note);
    }
}
