//! The gateway and control: enrolment, links that break, gateways that die.

use std::os::unix::fs::PermissionsExt;

use bc_protocol::{
    link::{CertificateIssued, CertificateWanted, CloseSession, Event, FromControl},
    session::{Certificate, FromGateway, FromNode, Goodbye, GoodbyeReason},
};
use rcgen::CertificateSigningRequestParams;

use crate::{
    control::{Answer, Control},
    node::Node,
    process::Home,
};

fn words(events: &[Event]) -> Vec<String> {
    events
        .iter()
        .map(|event| match event {
            Event::Opened(e) => format!("open {}.{}", e.connect_seq, e.report),
            Event::Report(e) => format!("report {}.{}", e.connect_seq, e.report),
            Event::Closed(e) => format!("close {}", e.connect_seq),
            Event::Listed => "listed".to_owned(),
            Event::Ended(e) => format!("ended {}", e.connect_seq),
        })
        .collect()
}

#[tokio::test]
async fn a_lost_answer_is_asked_for_again_with_the_same_key() {
    let control = Control::start().await;
    control
        .answers
        .lock()
        .unwrap()
        .extend([Answer::Lost, Answer::Lost]);
    let home = Home::new(&control, "");
    let first = home.start().await;
    let keys: Vec<Vec<u8>> = control
        .asked
        .lock()
        .unwrap()
        .iter()
        .map(|csr| {
            let request = CertificateSigningRequestParams::from_pem(csr).unwrap();
            rcgen::PublicKeyData::der_bytes(&request.public_key).to_vec()
        })
        .collect();
    assert_eq!(keys.len(), 3);
    assert!(keys.iter().all(|key| *key == keys[0]));
    let key = std::fs::metadata(home.path("state/gateway.key")).unwrap();
    assert_eq!(key.permissions().mode() & 0o777, 0o600);
    // Once enrolled it needs neither the token nor control's API.
    first.kill().await;
    std::fs::remove_file(home.path("token")).unwrap();
    let _second = home.start().await;
    assert_eq!(control.asked.lock().unwrap().len(), 3);
}

#[tokio::test]
async fn a_refused_gateway_says_why_and_ends() {
    let control = Control::start().await;
    control.answers.lock().unwrap().push_back(Answer::No);
    let ended = Home::new(&control, "").fails(&[]).await;
    assert_eq!(ended.status.code(), Some(1));
    let said = "UNAUTHENTICATED: no such token";
    assert!(ended.stderr.contains(said), "{}", ended.stderr);
}

#[tokio::test]
async fn a_typo_is_refused_with_its_line_and_key() {
    let control = Control::start().await;
    let home = Home::new(&control, "drian = \"1s\"");
    for more in [&[][..], &["--check-config"]] {
        let ended = home.fails(more).await;
        assert_eq!(ended.status.code(), Some(1));
        let said = &ended.stderr;
        assert!(said.contains("line 5") && said.contains("drian"), "{said}");
    }
    let ended = Home::new(&control, "").fails(&["--check-config"]).await;
    assert_eq!(ended.status.code(), Some(0));
    assert_eq!(*control.asked.lock().unwrap(), [""; 0]);
}

#[tokio::test]
async fn a_check_names_the_key_what_it_should_be_and_what_it_is() {
    let control = Control::start().await;
    let home = Home::new(&control, "");
    home.write("empty", " \n");
    let (empty, missing) = (home.path("empty"), home.path("missing"));
    for (line, words) in [
        (
            "protocol_min = 99".to_owned(),
            ["protocol_min", "expected", "found 99"],
        ),
        (
            "drain = \"0s\"".to_owned(),
            ["line 5", "above zero", "found \"0s\""],
        ),
        (
            format!("ca_file = {missing:?}"),
            ["cannot read", "missing", "No such file"],
        ),
        (
            format!("ca_file = {empty:?}"),
            ["ca_file", "expected certificates", "found none"],
        ),
    ] {
        home.configure("127.0.0.1:0".parse().unwrap(), control.api, &line);
        let ended = home.fails(&["--check-config"]).await;
        assert_eq!(ended.status.code(), Some(1), "{line}");
        for word in words {
            assert!(ended.stderr.contains(word), "{line}: {}", ended.stderr);
        }
    }
    // Not enrolled yet, and nothing to enrol with.
    home.configure("127.0.0.1:0".parse().unwrap(), control.api, "");
    home.write("token", "\n");
    let ended = home.fails(&["--check-config"]).await;
    assert_eq!(ended.status.code(), Some(1));
    assert!(
        ended.stderr.contains("enrol_token_file: expected a token"),
        "{}",
        ended.stderr
    );
    assert_eq!(*control.asked.lock().unwrap(), [""; 0]);
}

#[tokio::test]
async fn a_new_link_hears_what_the_old_one_did_not_acknowledge() {
    let control = Control::start().await;
    let gateway = Home::new(&control, "").start().await;
    let (a, b) = (
        Node::new(&control.authority, "a"),
        Node::new(&control.authority, "b"),
    );
    let mut link = control.link().await;
    assert_eq!(words(&link.listed().await), ["listed"]);
    let mut stays = a.open(gateway.address, 5).await;
    let unacknowledged = link.batch().await;
    assert_eq!(words(&unacknowledged.events), ["open 5.0"]);
    drop(link);
    stays.report(1).await;
    stays.is_alive().await;
    let mut leaves = b.open(gateway.address, 6).await;
    leaves.report(1).await;
    leaves.is_alive().await;
    drop(leaves);
    // A link that says nothing gets nothing, and hearing nothing changes nothing.
    let mut link = control.link().await;
    assert_eq!(link.batch().await, unacknowledged);
    let mut events = link.listed().await;
    if events
        .iter()
        .all(|event| !matches!(event, Event::Closed(_)))
    {
        // The gateway had not noticed yet that the second node was gone.
        events.extend(link.batch().await.events);
    }
    let words = words(&events);
    assert!(words.contains(&"open 5.1".to_owned()), "{words:?}");
    assert!(words.contains(&"open 6.1".to_owned()), "{words:?}");
    assert!(words.contains(&"close 6".to_owned()), "{words:?}");
    stays.is_alive().await;
}

#[tokio::test]
async fn a_gateway_that_was_killed_comes_back_with_nothing_but_its_certificate() {
    let control = Control::start().await;
    let home = Home::new(&control, "");
    let gateway = home.start().await;
    let address = gateway.address;
    let node = Node::new(&control.authority, "a");
    let mut link = control.link().await;
    let mut session = node.open(address, 1).await;
    link.listed().await;
    gateway.kill().await;
    assert_eq!(session.next().await, None);
    home.configure(address, control.api, "");
    let gateway = home.start().await;
    let mut again = control.link().await;
    assert_ne!(again.hello.process, link.hello.process);
    assert_eq!(words(&again.listed().await), ["listed"]);
    let mut session = node.open(gateway.address, 2).await;
    assert_eq!(words(&again.batch().await.events), ["open 2.0"]);
    session.is_alive().await;
    assert_eq!(control.asked.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn removed_nodes_are_put_out_and_kept_out_also_without_a_link() {
    let control = Control::start().await;
    let gateway = Home::new(&control, "").start().await;
    let nodes = ["a", "b", "c"].map(|name| Node::new(&control.authority, name));
    let mut link = control.link_with(1, &[nodes[0].id.clone()]).await;
    link.listed().await;
    let mut sessions = Vec::new();
    for node in &nodes[1..] {
        sessions.push(node.open(gateway.address, 1).await);
    }
    link.send(FromControl::Removed(vec![nodes[1].id.clone()]))
        .await;
    let reason = sessions[0].goodbye().await.reason;
    assert_eq!(reason, GoodbyeReason::Removed);
    sessions[1].is_alive().await;
    drop(link);
    for removed in &nodes[..2] {
        let mut session = removed.connect(gateway.address).await;
        session.hello(2).await;
        assert_eq!(session.goodbye().await.reason, GoodbyeReason::Removed);
    }
    // The next list is the whole truth, also about who came in meanwhile.
    let _link = control.link_with(1, &[nodes[2].id.clone()]).await;
    let reason = sessions[1].goodbye().await.reason;
    assert_eq!(reason, GoodbyeReason::Removed);
    nodes[0].open(gateway.address, 3).await.is_alive().await;
}

#[tokio::test]
async fn control_closes_a_session_but_not_a_newer_one() {
    let control = Control::start().await;
    let gateway = Home::new(&control, "").start().await;
    let node = Node::new(&control.authority, "a");
    let mut link = control.link().await;
    let mut session = node.open(gateway.address, 5).await;
    let close = |connect_seq| {
        FromControl::Close(CloseSession {
            node: node.id.clone(),
            connect_seq,
            goodbye: Goodbye {
                reason: GoodbyeReason::Superseded { connect_seq: 9 },
                reconnect_after_ms: 0,
                message: "elsewhere".to_owned(),
            },
        })
    };
    link.send(close(4)).await;
    link.send(close(5)).await;
    let goodbye = session.goodbye().await;
    assert_eq!(goodbye.reason, GoodbyeReason::Superseded { connect_seq: 9 });
    assert_eq!(goodbye.message, "elsewhere");
}

#[tokio::test]
async fn a_node_has_its_certificate_renewed_over_its_session() {
    let control = Control::start().await;
    let home = Home::new(&control, "");
    let gateway = home.start().await;
    let node = Node::new(&control.authority, "node");
    let mut session = node.open(gateway.address, 1).await;
    // Asked while there is no link: it waits for one, and of two questions the newer is asked.
    for request in [b"first", b"newer"] {
        session
            .say(FromNode::CertificateRequest(request.to_vec()))
            .await;
    }
    session.is_alive().await;
    let mut link = control.link().await;
    let expected = CertificateWanted {
        node: node.id.clone(),
        request: b"newer".to_vec(),
    };
    assert_eq!(link.wanted().await, expected);
    let certificate = Certificate {
        chain: vec![b"chain".to_vec()],
        authorities: vec![b"old".to_vec(), b"new".to_vec()],
        gateways: vec!["wss://g.example/session".to_owned()],
    };
    link.send(FromControl::Certificate(CertificateIssued {
        node: node.id.clone(),
        certificate: certificate.clone(),
    }))
    .await;
    assert_eq!(
        session.next().await,
        Some(FromGateway::Certificate(certificate))
    );
}
