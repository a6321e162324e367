//! What lies in the state folder, and whether it is used.

use bc_protocol::id::GatewayId;
use rcgen::{CertificateParams, KeyPair};

use crate::{
    authority::Authority,
    control::Control,
    node::Node,
    process::{Gateway, Home},
};

const SHOWN: &str = "metrics_listen = \"127.0.0.1:0\"";

async fn refused(gateway: &Gateway) -> u64 {
    let series = "bc_gateway_reloads_total{outcome=\"refused\"}";
    gateway.series(series).await
}

fn read(home: &Home, name: &str) -> String {
    std::fs::read_to_string(home.path(name)).unwrap()
}

/// The gateway's certificate, good for some years only.
fn between(control: &Control, home: &Home, years: std::ops::Range<i32>) -> String {
    let key = KeyPair::from_pem(&read(home, "state/gateway.key")).unwrap();
    let csr = CertificateParams::default().serialize_request(&key);
    let id = GatewayId::derived(&[b"gateway"]);
    let csr = csr.unwrap().pem().unwrap();
    control.authority.gateway_between(&id, &csr, years)
}

#[tokio::test]
async fn what_would_cut_everybody_off_is_not_used() {
    let control = Control::start().await;
    let home = Home::new(&control, SHOWN);
    let gateway = home.start().await;
    let node = Node::new(&control.authority, "a");
    let good = ["gateway.pem", "authorities.pem"].map(|name| {
        let name = format!("state/{name}");
        (name.clone(), read(&home, &name))
    });
    let foreign = Authority::new().pem();
    let wrong = [
        ("state/authorities.pem", foreign),
        ("state/gateway.pem", between(&control, &home, 2000..2001)),
        ("state/gateway.pem", between(&control, &home, 3000..3001)),
    ];
    for (number, (name, text)) in (1..).zip(&wrong) {
        home.write(name, text);
        gateway.reload().await;
        assert_eq!(refused(&gateway).await, number, "{name}");
        node.open(gateway.address, number).await;
        for (name, text) in &good {
            home.write(name, text);
        }
    }
    gateway.reload().await;
    assert_eq!(refused(&gateway).await, 3);
    gateway.kill().await;
    // Nor does one start with it, and a check says so before.
    for ((name, text), words) in wrong.iter().zip([
        "an authority of the state folder signed, found another's",
        "",
        "good now by this machine's clock, found one that has not begun",
    ]) {
        // One that has ended is renewed with the token.
        if words.is_empty() {
            continue;
        }
        home.write(name, text);
        for more in [&[][..], &["--check-config"]] {
            let ended = home.fails(more).await;
            assert_eq!(ended.status.code(), Some(1), "{name} {more:?}");
            assert!(ended.stderr.contains(words), "{}", ended.stderr);
        }
        for (name, text) in &good {
            home.write(name, text);
        }
    }
    home.start().await.kill().await;
}

#[tokio::test]
async fn a_rotten_file_is_named_by_a_check_and_by_the_start() {
    let control = Control::start().await;
    let home = Home::new(&control, "");
    // Not enrolled yet is no fault, and a check leaves nothing behind.
    assert_eq!(home.fails(&["--check-config"]).await.status.code(), Some(0));
    assert!(!home.path("state").exists());
    home.start().await.kill().await;
    assert_eq!(home.fails(&["--check-config"]).await.status.code(), Some(0));
    for name in [
        "gateway.pem",
        "gateway.key",
        "authorities.pem",
        "enrolment.json",
    ] {
        let path = format!("state/{name}");
        let good = read(&home, &path);
        for rotten in ["", "junk\u{1}"] {
            home.write(&path, rotten);
            for more in [&["--check-config"][..], &[]] {
                let ended = home.fails(more).await;
                assert_eq!(ended.status.code(), Some(1), "{name} {more:?}");
                let said = &ended.stderr;
                let expected = format!("{name}: expected");
                assert!(said.contains(&expected), "{name} {more:?}: {said}");
                assert!(
                    said.contains("cannot use the identity in state_dir"),
                    "{said}"
                );
                assert!(!said.contains("cannot enrol"), "{said}");
            }
        }
        home.write(&path, &good);
    }
    // One that has not enrolled is held to its key: control knows it by that.
    std::fs::remove_file(home.path("state/enrolment.json")).unwrap();
    home.write("state/gateway.key", "junk");
    let ended = home.fails(&["--check-config"]).await;
    assert_eq!(ended.status.code(), Some(1));
    assert!(ended.stderr.contains("gateway.key: expected a private key"));
}
