//! Nodes hear of gateways that come and go.

use bc_protocol::{
    certificate::{company, holder},
    digest::Sha256,
    session::Certificate,
};

use super::{site::soon, *};
use bc_protocol::link::Event;

fn opened_in(name: u8, company: Option<Sha256>) -> Event {
    let Event::Opened(mut opened) = opened(name, 1) else {
        panic!("expected a session");
    };
    opened.company = company;
    Event::Opened(opened)
}

fn urls(names: &[&str]) -> Vec<String> {
    let url = |name| format!("wss://{name}.example/session");
    names.iter().map(url).collect()
}

impl Link {
    /// The next certificate, and whose it is; of the rest only specs may come before.
    async fn certificate(&mut self) -> (NodeId, Certificate) {
        loop {
            match self.next().await {
                FromControl::Certificate(issued) => return (issued.node, issued.certificate),
                FromControl::Spec(_) | FromControl::Ack(_) => {}
                other @ (FromControl::Welcome(_)
                | FromControl::Close(_)
                | FromControl::Settings(_)
                | FromControl::Removed(_)
                | FromControl::OwnCertificate(_)
                | FromControl::Command(_)) => panic!("expected a certificate, found {other:?}"),
            }
        }
    }
}

#[tokio::test]
async fn who_knows_other_gateways_than_todays_is_given_a_certificate_unasked() {
    let site = Site::new().await;
    site.enrolled(&["a"]).await;
    for name in 0..3 {
        let (spki, _) = key_and_request();
        site.has_key("nodes", node(name).as_str(), &spki).await;
    }
    let today = site.authority.company(&urls(&["a"]));
    let mut link = site.link("a").await;
    // One knows them, of one nothing is known, and one was away when they changed.
    let told = [Some(today), None, Some(Sha256::of(b"yesterday"))];
    let events: Vec<Event> = (0..)
        .zip(told)
        .map(|(n, told)| opened_in(n, told))
        .collect();
    link.batch(1, events).await;
    let (whose, certificate) = link.certificate().await;
    assert_eq!(whose, node(2));
    assert_eq!(holder(&certificate.chain[0]), Ok(node(2)));
    assert_eq!(company::of(&certificate.chain[0]), Ok(Some(today)));
    assert_eq!(certificate.gateways, urls(&["a"]));
    assert_eq!(certificate.authorities, [site.authority.root().to_vec()]);
    // Another gateway comes: everybody of whom something is known hears of it, once.
    site.enrolled(&["a", "b"]).await;
    let mut both = urls(&["a", "b"]);
    if site.gateway("b") < site.gateway("a") {
        both.reverse();
    }
    let mut informed = Vec::new();
    for _ in 0..2 {
        let (whose, certificate) = link.certificate().await;
        assert_eq!(certificate.gateways, both);
        informed.push(whose);
    }
    let mut expected = vec![node(0), node(2)];
    expected.sort();
    assert_eq!(informed, expected);
    // The first goes: with the next certificates nobody was given one twice in between.
    site.enrolled(&["b"]).await;
    for _ in 0..2 {
        assert_eq!(link.certificate().await.1.gateways, urls(&["b"]));
    }
    soon(async {
        while site.services.metrics.nodes_behind.get() != 0 {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

#[tokio::test]
async fn who_cannot_be_given_one_keeps_nobody_from_his() {
    let site = Site::new().await;
    site.enrolled(&["a"]).await;
    let (spki, _) = key_and_request();
    site.has_key("nodes", node(2).as_str(), &spki).await;
    let mut link = site.link("a").await;
    // The keys of the others are none.
    let yesterday = Some(Sha256::of(b"yesterday"));
    let events: Vec<Event> = (0..3).map(|name| opened_in(name, yesterday)).collect();
    link.batch(1, events).await;
    assert_eq!(link.certificate().await.0, node(2));
}

#[tokio::test]
async fn who_has_gone_to_another_gateway_meanwhile_is_told_there() {
    let site = Site::new().await;
    let shared = site.shared();
    let (today, yesterday) = (Sha256::of(b"today"), Sha256::of(b"yesterday"));
    let (out, _queue) = tokio::sync::mpsc::channel(1);
    let [first, second] = [(); 2].map(|()| shared.routes.begin(out.clone()));
    let comes = |link, connect_seq| {
        let Event::Opened(mut opened) = opened(0, connect_seq) else {
            panic!("expected a session");
        };
        opened.company = Some(yesterday);
        drop(shared.routes.opened(link, &opened));
    };
    comes(first, 1);
    assert_eq!(shared.routes.in_other_company(first, &today), [node(0)]);
    comes(second, 2);
    // The first link's word of it comes late.
    shared.routes.informed(first, &node(0), today);
    assert_eq!(shared.routes.in_other_company(second, &today), [node(0)]);
    shared.routes.informed(second, &node(0), today);
    assert!(shared.routes.in_other_company(second, &today).is_empty());
    // What the next session shows is what counts.
    comes(second, 3);
    assert_eq!(shared.routes.in_other_company(second, &today), [node(0)]);
}
