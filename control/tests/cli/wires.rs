//! What lies between the command line and control: TLS, and connections that break.

use std::{
    io::{self, Read, Write},
    net::{Shutdown, TcpListener, TcpStream},
    thread,
};

use rcgen::{CertifiedKey, generate_simple_self_signed};

use super::stand::{Control, Home, run};

#[test]
fn a_certificate_is_believed_only_from_whom_it_should_be() {
    let home = Home::new();
    for name in ["mine", "other"] {
        let CertifiedKey { cert, signing_key } =
            generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).unwrap();
        home.write(&format!("{name}.pem"), &cert.pem());
        home.write(&format!("{name}.key"), &signing_key.serialize_pem());
    }
    home.write("none.pem", "no certificate\n");
    let tls = format!(
        "[tls]\ncertificate = {:?}\nkey = {:?}\n",
        home.text("mine.pem"),
        home.text("mine.key")
    );
    let control = Control::at(home, &tls);
    assert!(control.url.starts_with("https://"), "{}", control.url);

    control
        .run(&["pools", "list", "--ca-file", "mine.pem"])
        .done();
    for args in [
        &["pools", "list", "--ca-file", "other.pem"][..],
        &["pools", "list"],
    ] {
        let error = control.run(args).refused(6);
        assert!(error.contains("invalid peer certificate"), "{error}");
        assert!(error.contains("--ca-file"), "{error}");
    }
    let error = control.run(&["pools", "list", "--ca-file", "none.pem"]);
    assert!(error.refused(2).contains("found none"));
    let error = control.run(&["pools", "list", "--ca-file", "gone.pem"]);
    assert!(error.refused(1).contains("cannot read gone.pem"));
}

#[test]
fn an_answer_that_is_lost_is_asked_for_again_and_makes_one_rollout() {
    let control = Control::start();
    control.ready_for_rollouts();
    let wire = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", wire.local_addr().unwrap());
    let address = control.url.strip_prefix("http://").unwrap().to_owned();
    let breaking = thread::spawn(move || {
        let (first, _) = wire.accept().unwrap();
        carry(first, &address, Answer::Lost);
        let (second, _) = wire.accept().unwrap();
        carry(second, &address, Answer::Carried);
    });
    let mut command = control.command(&["rollouts", "create", "--version", "1.1.0", "-o", "name"]);
    command.env("BETTER_COMPUTE_URL", url);
    let made = run(command).done();
    breaking.join().unwrap();
    assert_eq!(
        control.run(&["rollouts", "list", "-o", "name"]).done(),
        made
    );
}

enum Answer {
    Lost,
    Carried,
}

/// Carries what a client says to control, and control's first words back, or not.
fn carry(mut client: TcpStream, address: &str, answer: Answer) {
    let mut control = TcpStream::connect(address).unwrap();
    let (mut from, mut to) = (client.try_clone().unwrap(), control.try_clone().unwrap());
    let forth = thread::spawn(move || io::copy(&mut from, &mut to));
    let mut words = vec![0; 64 * 1024];
    let length = control.read(&mut words).unwrap();
    match answer {
        Answer::Lost => {}
        Answer::Carried => client.write_all(&words[..length]).unwrap(),
    }
    client.shutdown(Shutdown::Both).unwrap();
    control.shutdown(Shutdown::Both).unwrap();
    // It ends with the connections, well or not.
    let _ended = forth.join().unwrap();
}
