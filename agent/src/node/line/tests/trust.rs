//! Whom a node believes.

use super::*;

#[tokio::test]
async fn a_gateway_of_another_authority_hears_nothing() {
    let (ours, theirs) = (Authority::new(), Authority::new());
    let mut scene = Scene::between(&ours, theirs.gateway("127.0.0.1"), 2020).await;
    let stream = scene.tcp().await;
    assert!(scene.acceptor.accept(stream).await.is_err());
    let ending = scene.lost().await;
    assert!(
        ending.to_string().contains("invalid peer certificate"),
        "{ending}"
    );
}

#[tokio::test]
async fn a_gateway_of_another_name_hears_nothing() {
    let authority = Authority::new();
    for name in ["127.0.0.2", "gateway.example"] {
        let mut scene = Scene::between(&authority, authority.gateway(name), 2020).await;
        let stream = scene.tcp().await;
        assert!(scene.acceptor.accept(stream).await.is_err());
        let ending = scene.lost().await;
        assert!(
            ending.to_string().contains("not valid for name"),
            "{ending}"
        );
    }
}

#[tokio::test]
async fn a_clock_before_the_certificate_is_not_believed() {
    let authority = Authority::new();
    // By the machine's clock the gateway's certificate is not valid yet; by the node's own certificate it is.
    let gateway = authority.web("127.0.0.1", 2150);
    let mut scene = Scene::between(&authority, gateway, 2200).await;
    let mut peer = scene.peer().await;
    let hello = hello(&mut peer).await;
    say(&mut peer, welcome(&hello)).await;
    assert!(matches!(scene.hear().await, News::Welcomed { .. }));
}
