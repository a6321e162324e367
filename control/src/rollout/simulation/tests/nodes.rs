//! What nodes do and say, in both.

use std::collections::BTreeMap;

use bc_protocol::{
    id::{AttemptId, NodeId, SessionId},
    link::{Event, NodeReport, SessionClosed, SessionOpened},
    sequence::Sequence,
    session::{AttemptFacts, Outcome},
};
use rand::RngExt as _;

use super::house::{Both, RELEASES, first_facts};

impl Both {
    fn session(&self, node: &NodeId) -> SessionId {
        SessionId::derived(&[
            node.as_str().as_bytes(),
            &self.sessions[node].0.to_be_bytes(),
        ])
    }

    pub(super) fn opened(&self, node: &NodeId) -> Event {
        let (connect_seq, report, _) = self.sessions[node];
        Event::Opened(SessionOpened {
            node: node.clone(),
            session: self.session(node),
            connect_seq,
            protocol: 2,
            upgrade_only: false,
            report,
            facts: self.facts[node].clone(),
            labels: BTreeMap::from([("cpu.arch".to_owned(), "x86_64".to_owned())]),
            company: None,
        })
    }

    pub(super) async fn comes(&mut self, node: &NodeId) {
        let session = self.sessions.get_mut(node).unwrap();
        *session = (session.0 + 1, 0, true);
        let opened = self.opened(node);
        self.say(&[opened]).await;
    }

    pub(super) async fn goes(&mut self, node: &NodeId) {
        let closed = SessionClosed {
            node: node.clone(),
            session: self.session(node),
            connect_seq: self.sessions[node].0,
            reason: String::new(),
        };
        self.sessions.get_mut(node).unwrap().2 = false;
        self.say(&[Event::Closed(closed)]).await;
    }

    /// Tells the facts as they are; sometimes twice, and sometimes what was told before once more.
    async fn reports(&mut self, node: &NodeId) {
        let session = self.sessions.get_mut(node).unwrap();
        session.1 += 1;
        let number = session.1;
        let report = NodeReport {
            node: node.clone(),
            session: self.session(node),
            connect_seq: self.sessions[node].0,
            report: number,
            facts: self.facts[node].clone(),
        };
        let older = NodeReport {
            report: number - 1,
            facts: first_facts(),
            ..report.clone()
        };
        let events = [
            Event::Report(report.clone()),
            Event::Report(older),
            Event::Report(report),
        ];
        let told = self.random.random_range(1..=3);
        self.say(&events[..told]).await;
    }

    /// The node does what its spec says, or fails to, or only reads it.
    pub(super) async fn obeys(&mut self, node: &NodeId, outcome: Outcome) {
        let Some(spec) = self.spec(node).await else {
            return;
        };
        let facts = self.facts.get_mut(node).unwrap();
        facts.observed_generation = spec.generation;
        if let Some(section) = spec.daemon {
            if outcome == Outcome::Confirmed {
                let sequence = RELEASES
                    .iter()
                    .find(|(version, _)| *version == section.version.as_str())
                    .unwrap()
                    .1;
                facts.sequence = Sequence::new(sequence).unwrap();
                facts.floor = facts.floor.raised_to(facts.sequence);
                facts.version = section.version.clone();
                facts.digest = section.sha256;
            }
            facts.last_attempt = Some(attempt(section.attempt, outcome));
        }
        if self.sessions[node].2 {
            self.reports(node).await;
        }
    }
}

fn attempt(id: AttemptId, outcome: Outcome) -> AttemptFacts {
    AttemptFacts {
        id,
        target: String::new(),
        outcome,
        is_final: outcome != Outcome::Running,
        tries: 1,
        code: if outcome == Outcome::Crashed {
            "crashed".to_owned()
        } else {
            String::new()
        },
        message: String::new(),
        exit_status: None,
        signal: None,
        log: String::new(),
    }
}
