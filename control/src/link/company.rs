//! Keeps one link's nodes informed of where gateways are, and whom to trust.
//!
//! Takes what the nodes' certificates say of authorities and gateways, gives whoever has other ones than today's a fresh
//! certificate with today's beside it, without being asked: a node that waited for its own renewal would not know, for
//! weeks, of the gateway that is to take the place of its only one. A few at a time, since a fleet turns to the database
//! and to its disks at once otherwise. Who is passed over here, because his session ended or his daemon is too old to take
//! what it has not asked for, is given it in his next session, and asks himself in the end.

use bc_protocol::{
    id::NodeId,
    link::{CertificateIssued, FromControl},
};
use bytes::Bytes;
use prometheus_client::metrics::gauge::Gauge;
use tokio::{sync::mpsc, time::sleep};

use super::{
    Shared,
    limits::{COMPANY_CHUNK, COMPANY_LOOK, COMPANY_PAUSE},
    push::Closed,
    routes::LinkKey,
};
use crate::{
    clock::Moment,
    fleet::renew::{self, RenewError},
    metrics::Work,
};

/// One link's informer.
pub(super) struct Informer<'a> {
    pub(super) shared: &'a Shared,
    pub(super) link: LinkKey,
    pub(super) out: mpsc::Sender<Bytes>,
}

impl Informer<'_> {
    /// Informs until the link takes no more.
    pub(super) async fn run(self) -> Closed {
        let mut behind = Behind::new(&self.shared.services.metrics.nodes_behind);
        let mut pause = COMPANY_LOOK;
        loop {
            sleep(pause).await;
            pause = match self.look(&mut behind).await {
                Ok(Ok(Looked::AllKnow)) => COMPANY_LOOK,
                Ok(Ok(Looked::SomeWereTold)) => COMPANY_PAUSE,
                Ok(Err(closed)) => return closed,
                Err(error) => {
                    let error: &dyn std::error::Error = &error;
                    tracing::error!(error, "nodes cannot be told of today's gateways");
                    self.shared.services.metrics.has_failed(&Work::COMPANY);
                    COMPANY_LOOK
                }
            };
        }
    }

    /// Tells the next few. Today's list is read every time: it may change while a fleet is being told.
    async fn look(&self, behind: &mut Behind) -> Result<Result<Looked, Closed>, RenewError> {
        let Shared {
            services,
            authority,
            routes,
            ..
        } = self.shared;
        let gateways = renew::gateways(&services.db).await?;
        let today = authority.company(&gateways);
        let others = routes.in_other_company(self.link, &today);
        match (behind.show(others.len()), others.len()) {
            (0, 0) => {}
            (0, nodes) => tracing::info!(nodes, "nodes are told of other gateways"),
            (_, 0) => tracing::info!("every node of this link has been told of today's gateways"),
            (_, _) => {}
        }
        if others.is_empty() {
            return Ok(Ok(Looked::AllKnow));
        }
        let chunk: Vec<NodeId> = others.into_iter().take(COMPANY_CHUNK).collect();
        let now = Moment::now();
        let renewed = renew::unasked(&services.db, authority, (&chunk, &gateways), now).await?;
        // Before they leave: a session that is named from here on is one that they may have missed. Also those for whom none
        // could be made, who would come up again and again.
        for node in &chunk {
            routes.informed(self.link, node, today);
        }
        for node in renewed {
            let issued = FromControl::Certificate(CertificateIssued {
                node: node.node_id.clone(),
                certificate: renew::certificate(node),
            });
            if self.out.send(issued.encode()).await.is_err() {
                return Ok(Err(Closed));
            }
        }
        Ok(Ok(Looked::SomeWereTold))
    }
}

/// What a look has come to.
enum Looked {
    AllKnow,
    SomeWereTold,
}

/// This link's part of a gauge, until the link ends.
struct Behind {
    gauge: Gauge,
    shown: i64,
}

impl Behind {
    fn new(gauge: &Gauge) -> Self {
        Self {
            gauge: gauge.clone(),
            shown: 0,
        }
    }

    /// Gives how many there were before.
    fn show(&mut self, nodes: usize) -> i64 {
        let nodes = i64::try_from(nodes).unwrap_or(i64::MAX);
        let before = std::mem::replace(&mut self.shown, nodes);
        self.gauge.inc_by(nodes - before);
        before
    }
}

impl Drop for Behind {
    fn drop(&mut self) {
        self.gauge.dec_by(self.shown);
    }
}
