//! What changes while a session lives.

use bc_protocol::{
    digest::Sha256,
    id::{NodeId, SessionId},
    link::NodeReport,
};

use super::{Entry, Outbox, Session, events::Due};
use crate::session::dispatch::Tier;

impl Outbox {
    /// A node reported. Only its live session counts.
    pub(crate) fn reported(&mut self, report: NodeReport) {
        let NodeReport {
            node,
            session,
            report,
            facts,
            ..
        } = report;
        let Some(Session::Live { opened, due }) = self.live(&node, &session) else {
            return;
        };
        opened.report = report;
        opened.facts = facts;
        *due = match due {
            Due::Open => Due::Open,
            Due::Nothing | Due::Report => Due::Report,
        };
        self.enqueue(node);
    }

    /// A live session is good for something else now: it is named anew.
    pub(crate) fn turned(&mut self, node: &NodeId, session: &SessionId, tier: Tier) {
        let Some(Session::Live { opened, due }) = self.live(node, session) else {
            return;
        };
        opened.upgrade_only = tier == Tier::UpgradeOnly;
        *due = Due::Open;
        self.enqueue(node.clone());
    }

    /// The node of a live session is given a certificate that says this. Control has sent it, and is not told.
    pub(crate) fn certified(&mut self, node: &NodeId, company: Option<Sha256>) {
        if let Some(Entry {
            session: Session::Live { opened, .. },
            ..
        }) = self.nodes.get_mut(node)
        {
            opened.company = company;
        }
    }
}
