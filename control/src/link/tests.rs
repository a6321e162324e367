//! Links over real sockets, to a real database, with gateways that do what a test says.

mod company;
mod site;
mod twins;

use std::time::Duration;

use bc_protocol::{
    id::{GatewayId, NodeId},
    link::{
        CertificateWanted, CloseSession, FromControl, FromGateway, LinkWelcome, Settings, SpecPush,
    },
    session::GoodbyeReason,
    spec::NodeSpec,
};
use rcgen::{CertificateParams, KeyPair, PublicKeyData as _};

use super::{limits::SESSION_HEARTBEAT_MS, lost};
use crate::{
    api::{fleet::OneNode, gateway::RemoveGateway},
    clock::Moment,
    db::query_scalar,
    fleet::{change, gateway::remove},
};
use site::{Dialled, Link, Site, closed, listed, node, opened, report};

fn spec(name: u8) -> FromControl {
    FromControl::Spec(SpecPush {
        node: node(name),
        spec: NodeSpec {
            generation: 1,
            daemon: None,
        },
    })
}

/// The node, the counter up to which it is closed, and the reason.
fn closing(frame: FromControl) -> (NodeId, u64, GoodbyeReason) {
    match frame {
        FromControl::Close(CloseSession {
            node,
            connect_seq,
            goodbye,
        }) => (node, connect_seq, goodbye.reason),
        other @ (FromControl::Welcome(_)
        | FromControl::Ack(_)
        | FromControl::Spec(_)
        | FromControl::Settings(_)
        | FromControl::Removed(_)
        | FromControl::Certificate(_)
        | FromControl::OwnCertificate(_)
        | FromControl::Command(_)) => panic!("expected a closing, found {other:?}"),
    }
}

#[tokio::test]
async fn facts_are_committed_before_they_are_acknowledged_and_a_spec_follows() {
    let site = Site::new().await;
    let mut link = site.link("a").await;
    link.batch(1, [opened(0, 5), listed()]).await;
    assert_eq!(link.next().await, FromControl::Ack(1));
    assert_eq!(site.online(0).await, Some((5, true)));
    assert_eq!(link.next().await, spec(0));
    // The same again: the same answer, and nothing else has changed.
    link.batch(1, [opened(0, 5), listed()]).await;
    assert_eq!(link.next().await, FromControl::Ack(1));
    assert_eq!(link.next().await, spec(0));
    assert_eq!(site.online(0).await, Some((5, true)));
    link.batch(2, [report(0, 5, 1), closed(0, 5)]).await;
    assert_eq!(link.next().await, FromControl::Ack(2));
    assert_eq!(site.online(0).await, Some((5, false)));
}

/// Two gateways, each with a session of one node.
async fn two_links(site: &Site) -> [Link; 2] {
    let mut links = [site.link("a").await, site.link("b").await];
    for (name, link) in (0..).zip(&mut links) {
        link.batch(1, [opened(name, 1), listed()]).await;
        assert_eq!(link.next().await, FromControl::Ack(1));
        assert_eq!(link.next().await, spec(name));
    }
    links
}

#[tokio::test]
async fn stale_nodes_are_pushed_their_spec_over_the_link_that_reaches_them() {
    let site = Site::new().await;
    let [mut a, mut b] = two_links(&site).await;
    let stale = [node(0), node(1), node(2)].into();
    assert_eq!(site.services.stale.send(stale).unwrap(), 4);
    assert_eq!(a.next().await, spec(0));
    assert_eq!(b.next().await, spec(1));
    // One that left gets nothing any more: the next frame is the next batch's.
    a.batch(2, [closed(0, 1)]).await;
    assert_eq!(a.next().await, FromControl::Ack(2));
    site.services.stale.send([node(0)].into()).unwrap();
    a.batch(3, []).await;
    assert_eq!(a.next().await, FromControl::Ack(3));
}

#[tokio::test]
async fn of_two_sessions_the_newer_stays_wherever_it_is() {
    let site = Site::new().await;
    let (mut a, mut b) = (site.link("a").await, site.link("b").await);
    a.batch(1, [opened(0, 5)]).await;
    assert_eq!(a.next().await, FromControl::Ack(1));
    assert_eq!(a.next().await, spec(0));
    b.batch(1, [opened(0, 6)]).await;
    assert_eq!(b.next().await, FromControl::Ack(1));
    assert_eq!(b.next().await, spec(0));
    let superseded = |connect_seq| GoodbyeReason::Superseded { connect_seq };
    assert_eq!(closing(a.next().await), (node(0), 5, superseded(6)));
    // A node whose counter was lost comes in below: it is told where to go on.
    a.batch(2, [opened(0, 2)]).await;
    assert_eq!(a.next().await, FromControl::Ack(2));
    assert_eq!(closing(a.next().await), (node(0), 2, superseded(6)));
    site.services.stale.send([node(0)].into()).unwrap();
    assert_eq!(b.next().await, spec(0));
    assert_eq!(site.online(0).await, Some((6, true)));
}

#[tokio::test]
async fn who_is_no_node_of_the_fleet_is_put_out() {
    let site = Site::new().await;
    site.remove(1).await;
    let Dialled { mut link, welcome } = site.dial("a").await;
    let expected = LinkWelcome {
        settings: Settings {
            protocol_min: 1,
            heartbeat_interval_ms: SESSION_HEARTBEAT_MS,
        },
        removed: vec![node(1)],
    };
    assert_eq!(welcome, expected);
    link.batch(1, [opened(1, 1), opened(9, 1)]).await;
    assert_eq!(link.next().await, FromControl::Ack(1));
    let mut put_out = [closing(link.next().await), closing(link.next().await)].to_vec();
    put_out.sort_by_key(|(node, ..)| node.clone());
    let mut expected = [1, 9].map(|name| (node(name), u64::MAX, GoodbyeReason::Removed));
    expected.sort_by_key(|(node, ..)| node.clone());
    assert_eq!(put_out, expected);
}

#[tokio::test]
async fn every_link_hears_of_a_removed_node_at_once() {
    let site = Site::new().await;
    let (mut a, mut b) = (site.link("a").await, site.link("b").await);
    let request = OneNode {
        tenant_id: "root".parse().unwrap(),
        node_id: node(1),
    };
    let now = Moment::now();
    let removed = change::remove(&site.services.db, "alice", &request, now).await;
    site.services.tell_removed(&removed.unwrap().id);
    for link in [&mut a, &mut b] {
        assert_eq!(link.next().await, FromControl::Removed(vec![node(1)]));
    }
    // Repeated: the same answer, and the counters moved once.
    let later = now.plus(Duration::from_secs(9));
    let again = change::remove(&site.services.db, "alice", &request, later).await;
    assert_eq!(again.unwrap().removed_at, now);
    let nodes: i64 = query_scalar("SELECT nodes FROM pools")
        .fetch_one(site.services.db.reader())
        .await
        .unwrap();
    assert_eq!(nodes, 2);
    assert_eq!(site.dial("a").await.welcome.removed, [node(1)]);
}

#[tokio::test]
async fn a_new_link_of_a_gateway_ends_the_old_one_and_tells_who_is_gone() {
    let site = Site::new().await;
    let mut old = site.link("a").await;
    old.batch(1, [opened(0, 1), opened(1, 1), listed()]).await;
    assert_eq!(old.next().await, FromControl::Ack(1));
    let mut new = site.link("a").await;
    old.ends().await;
    assert!(site.linked("a").await);
    assert_eq!(site.online(1).await, Some((1, true)));
    new.batch(2, [opened(0, 1), listed()]).await;
    assert_eq!(new.next().await, FromControl::Ack(2));
    assert_eq!(new.next().await, spec(0));
    assert_eq!(site.online(0).await, Some((1, true)));
    assert_eq!(site.online(1).await, Some((1, false)));
}

#[tokio::test]
async fn a_gateway_that_stays_away_has_lost_its_sessions() {
    let site = Site::new().await;
    let mut a = site.link("a").await;
    a.batch(1, [opened(0, 1)]).await;
    assert_eq!(a.next().await, FromControl::Ack(1));
    drop(a);
    site.unlinked("a").await;
    let shared = site.shared();
    // With nobody linked, it may be control that is cut off.
    lost::look(&shared, Duration::ZERO).await.unwrap();
    assert_eq!(site.online(0).await, Some((1, true)));
    let _b = site.link("b").await;
    lost::look(&shared, Duration::from_secs(60)).await.unwrap();
    assert_eq!(site.online(0).await, Some((1, true)));
    // The old link's turn may end a moment after its row says so.
    site::soon(async {
        while site.online(0).await == Some((1, true)) {
            lost::look(&shared, Duration::ZERO).await.unwrap();
        }
    })
    .await;
    assert_eq!(site.online(0).await, Some((1, false)));
    assert!(!site.linked("a").await);
    // It was not lost after all.
    let mut a = site.link("a").await;
    a.batch(1, [opened(0, 1), listed()]).await;
    assert_eq!(a.next().await, FromControl::Ack(1));
    assert_eq!(site.online(0).await, Some((1, true)));
}

/// A key and a request that it has signed.
fn key_and_request() -> (Vec<u8>, Vec<u8>) {
    let key = KeyPair::generate().unwrap();
    let request = CertificateParams::default()
        .serialize_request(&key)
        .unwrap();
    (key.subject_public_key_info(), request.der().to_vec())
}

fn wanted(name: u8, request: &[u8]) -> FromGateway {
    FromGateway::CertificateWanted(CertificateWanted {
        node: node(name),
        request: request.to_vec(),
    })
}

#[tokio::test]
async fn certificates_are_renewed_for_the_known_key_alone() {
    let site = Site::new().await;
    let [(spki, request), (_, foreign)] = [key_and_request(), key_and_request()];
    site.has_key("nodes", node(0).as_str(), &spki).await;
    let mut link = site.link("a").await;
    // Another key, a node that is not known, and no request at all: no answer, and the link stays.
    link.say(wanted(0, &foreign)).await;
    link.say(wanted(9, &request)).await;
    link.say(wanted(0, b"no request")).await;
    link.say(wanted(0, &request)).await;
    let FromControl::Certificate(issued) = link.next().await else {
        panic!("expected a certificate");
    };
    assert_eq!(issued.node, node(0));
    assert_eq!(
        issued.certificate.authorities,
        [site.authority.root().to_vec()]
    );
    let named: NodeId = bc_protocol::certificate::holder(&issued.certificate.chain[0]).unwrap();
    assert_eq!(named, node(0));
    site.remove(0).await;
    link.say(wanted(0, &request)).await;
    let expected = (node(0), u64::MAX, GoodbyeReason::Removed);
    assert_eq!(closing(link.next().await), expected);
}

#[tokio::test]
async fn a_gateway_renews_its_own_over_its_link() {
    let site = Site::new().await;
    let [(spki, request), (_, foreign)] = [key_and_request(), key_and_request()];
    site.has_key("gateways", site.gateway("a").as_str(), &spki)
        .await;
    let mut link = site.link("a").await;
    link.say(FromGateway::OwnCertificateWanted(foreign)).await;
    link.say(FromGateway::OwnCertificateWanted(request)).await;
    let FromControl::OwnCertificate(renewed) = link.next().await else {
        panic!("expected a certificate");
    };
    let named: GatewayId = bc_protocol::certificate::holder(&renewed.chain[0]).unwrap();
    assert_eq!(named, site.gateway("a"));
}

#[tokio::test]
async fn only_enrolled_gateways_are_let_in() {
    let site = Site::new().await;
    assert!(site.connect(site.node_tls()).await.is_none());
    assert!(site.connect(site.nobody_tls()).await.is_none());
    let unknown = site.gateway_tls(&GatewayId::derived(&[b"never enrolled"]));
    let mut link = Link(site.connect(unknown).await.unwrap());
    link.hello().await;
    link.ends().await;
    // A batch before the Hello is no way in either.
    let mut link = Link(
        site.connect(site.gateway_tls(&site.gateway("a")))
            .await
            .unwrap(),
    );
    link.batch(1, [opened(0, 1)]).await;
    link.ends().await;
    assert_eq!(site.online(0).await, None);
}

#[tokio::test]
async fn the_link_of_a_removed_gateway_ends_and_it_gets_no_other() {
    let site = Site::new().await;
    let [mut a, mut b] = two_links(&site).await;
    let services = &site.services;
    let request = RemoveGateway {
        tenant_id: "root".parse().unwrap(),
        gateway_id: site.gateway("a"),
    };
    let removed = remove::remove(&services.db, "x", &request, Moment::now()).await;
    let (removed, nodes) = removed.unwrap();
    assert_eq!(nodes, [node(0)].into());
    assert_eq!(site.online(0).await, Some((1, false)));
    assert_eq!(site.online(1).await, Some((1, true)));
    services.tell_retired(&removed.id);
    a.ends().await;
    // Its certificate is as good as ever, and opens nothing.
    let tls = site.gateway_tls(&removed.id);
    let mut again = Link(site.connect(tls).await.unwrap());
    again.hello().await;
    again.ends().await;
    b.batch(2, [report(1, 1, 1)]).await;
    assert_eq!(b.next().await, FromControl::Ack(2));
}

#[tokio::test]
async fn facts_of_a_removed_gateway_count_for_nothing_where_its_link_was_not_told() {
    let site = Site::new().await;
    let mut a = site.link("a").await;
    a.batch(1, [listed()]).await;
    assert_eq!(a.next().await, FromControl::Ack(1));
    let request = RemoveGateway {
        tenant_id: "root".parse().unwrap(),
        gateway_id: site.gateway("a"),
    };
    let removed = remove::remove(&site.services.db, "x", &request, Moment::now()).await;
    removed.unwrap();
    a.batch(2, [opened(0, 1)]).await;
    a.ends().await;
    assert_eq!(site.online(0).await, None);
}

#[tokio::test]
async fn a_stop_ends_all_links() {
    let site = Site::new().await;
    let (mut a, mut b) = (site.link("a").await, site.link("b").await);
    let (db, done, _dir) = site.stop().await;
    a.ends().await;
    b.ends().await;
    done.unwrap();
    let linked: i64 = query_scalar("SELECT count(*) FROM gateways WHERE linked = 1")
        .fetch_one(db.reader())
        .await
        .unwrap();
    assert_eq!(linked, 0);
}
