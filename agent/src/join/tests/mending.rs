//! Identities that a disk has damaged.

use super::*;

/// A machine that has joined, and what control hears and says of it afterwards.
fn joined(answers: Vec<Answer>) -> (Machine, Control) {
    let machine = Machine::new();
    let answers = [accepts(Authority::new())].into_iter().chain(answers);
    let control = Control::start(answers.collect());
    machine.join(&control.url).unwrap();
    control.heard.recv().unwrap();
    fs::remove_file(machine.token_file()).unwrap();
    (machine, control)
}

fn damage(machine: &Machine, file: &str, bytes: &[u8]) {
    let path = machine.identity().join(file);
    durable::replace_file(&path, bytes, Mode::Readable).unwrap();
}

#[test]
fn what_is_damaged_comes_from_control_to_whoever_has_the_key() {
    for file in ["node.pem", "ca.pem", "node.json"] {
        for bytes in [&b""[..], b"{", &[0; 5000]] {
            let (machine, control) = joined(vec![accepts(Authority::new())]);
            let key = fs::read(machine.identity().join("node.key")).unwrap();
            damage(&machine, file, bytes);
            assert!(Identity::load(&machine.identity()).is_err(), "{file}");
            let mended = machine.join(&control.url).unwrap();
            assert_eq!(mended, Joined::Mended(node_id()), "{file}");
            let head = control.heard.recv().unwrap().head;
            assert!(
                head.starts_with("POST /api/compute/nodes/renew HTTP/1.1\r\n"),
                "{head}"
            );
            let identity = Identity::load(&machine.identity()).unwrap();
            assert_eq!(identity.node_id(), &node_id());
            assert_eq!(fs::read(machine.identity().join("node.key")).unwrap(), key);
        }
    }
}

/// It parses, and no gateway would take it.
#[test]
fn a_certificate_that_is_somebody_elses_or_that_nobody_has_signed_is_damaged() {
    let spoils: [fn(&Machine); 3] = [
        // One bit of the signature, which comes last.
        |machine| {
            let identity = Identity::load(&machine.identity()).unwrap();
            let mut der = identity.chain()[0].to_vec();
            *der.last_mut().unwrap() ^= 1;
            let pem = identity::pem_of(&[der.into()]);
            damage(machine, "node.pem", pem.as_bytes());
        },
        // Another machine's certificate, with the authority that has signed it.
        |machine| {
            let (other, _) = joined(Vec::new());
            for file in ["node.pem", "ca.pem"] {
                let bytes = fs::read(other.identity().join(file)).unwrap();
                damage(machine, file, &bytes);
            }
        },
        // The right certificate, beside an authority that knows nothing of it.
        |machine| damage(machine, "ca.pem", Authority::new().pem().as_bytes()),
    ];
    for (number, spoil) in spoils.into_iter().enumerate() {
        let (machine, control) = joined(vec![accepts(Authority::new())]);
        spoil(&machine);
        let error = Identity::load(&machine.identity()).err();
        assert!(
            matches!(error, Some(IdentityError::Content { .. })),
            "{number}: {error:?}"
        );
        let mended = machine.join(&control.url).unwrap();
        assert_eq!(mended, Joined::Mended(node_id()), "{number}");
        Identity::load(&machine.identity()).unwrap();
    }
}

#[test]
fn what_control_refuses_leaves_the_remains_as_they_are() {
    let refused = says(
        403,
        r#"{"error":{"code":"ACCESS_DENIED","message":"removed"}}"#,
    );
    let (machine, control) = joined(vec![refused]);
    damage(&machine, "node.pem", b"");
    let error = machine.join(&control.url).unwrap_err();
    assert!(matches!(error, JoinError::Refused { .. }), "{error}");
    assert!(identity::remains(&machine.identity()).is_some());
}

#[test]
fn without_its_key_a_machine_is_a_new_one() {
    let (machine, control) = joined(vec![accepts(Authority::new())]);
    fs::remove_file(machine.identity().join("node.key")).unwrap();
    machine.token(TOKEN);
    assert_eq!(machine.join(&control.url).unwrap(), Joined::Now(node_id()));
    Identity::load(&machine.identity()).unwrap();
}
