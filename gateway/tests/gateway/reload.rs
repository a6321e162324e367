//! What changes while it runs.

use bc_protocol::id::GatewayId;
use rcgen::{CertificateParams, KeyPair};

use crate::{
    control::Control,
    node::{Node, secure},
    process::Home,
};

const SHOWN: &str = "metrics_listen = \"127.0.0.1:0\"";

async fn refused(gateway: &crate::process::Gateway) -> u64 {
    gateway
        .series("bc_gateway_reloads_total{outcome=\"refused\"}")
        .await
}

#[tokio::test]
async fn other_limits_count_from_now_on_and_no_session_is_touched() {
    let control = Control::start().await;
    let home = Home::new(&control, SHOWN);
    let gateway = home.start().await;
    let (stays, node) = (
        Node::new(&control.authority, "stays"),
        Node::new(&control.authority, "a"),
    );
    let mut session = stays.open(gateway.address, 1).await;
    let mut link = control.link().await;
    link.listed().await;
    // The listeners' addresses take a restart.
    let more = format!("{SHOWN}\ndrain = \"1s\"\n[limits]\nhello_timeout = \"100ms\"");
    home.configure("127.0.0.1:1".parse().unwrap(), control.api, &more);
    gateway.reload().await;
    assert_eq!(refused(&gateway).await, 0);
    let goodbye = node.connect(gateway.address).await.goodbye().await;
    assert!(goodbye.message.contains("100ms"), "{}", goodbye.message);
    // A file that does not hold changes nothing.
    home.configure(gateway.address, control.api, "drian = \"1s\"");
    gateway.reload().await;
    assert_eq!(refused(&gateway).await, 1);
    let goodbye = node.connect(gateway.address).await.goodbye().await;
    assert!(goodbye.message.contains("100ms"), "{}", goodbye.message);
    session.is_alive().await;
    assert_eq!(gateway.series("bc_gateway_links_total").await, 1);
}

#[tokio::test]
async fn another_certificate_is_shown_to_whoever_comes_and_nobody_leaves() {
    let control = Control::start().await;
    let home = Home::new(&control, SHOWN);
    let gateway = home.start().await;
    let node = Node::new(&control.authority, "a");
    let mut session = node.open(gateway.address, 1).await;
    let leaf = async || {
        let stream = secure(gateway.address, &node.tls).await.unwrap();
        stream.get_ref().1.peer_certificates().unwrap()[0].to_vec()
    };
    let before = leaf().await;
    let key = std::fs::read_to_string(home.path("state/gateway.key")).unwrap();
    let csr = CertificateParams::default()
        .serialize_request(&KeyPair::from_pem(&key).unwrap())
        .unwrap()
        .pem()
        .unwrap();
    // Another gateway's certificate is not taken, for the same key or not.
    let other = GatewayId::derived(&[b"other"]);
    for (id, taken) in [(other, false), (GatewayId::derived(&[b"gateway"]), true)] {
        home.write("state/gateway.pem", &control.authority.gateway(&id, &csr));
        gateway.reload().await;
        assert_eq!(leaf().await != before, taken, "{id}");
        assert_eq!(refused(&gateway).await, 1);
    }
    session.is_alive().await;
}
