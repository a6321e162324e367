use std::io::{self, Read, Write};

use proptest::prelude::*;
use tokio_tungstenite::tungstenite::{
    Message,
    protocol::{Role, WebSocket},
};

use super::*;

/// What a client of tungstenite writes, and what it has to read.
#[derive(Default)]
struct Wire {
    written: Vec<u8>,
    to_read: Vec<u8>,
}

impl Read for &mut Wire {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let count = self.to_read.len().min(into.len());
        into[..count].copy_from_slice(&self.to_read[..count]);
        self.to_read.drain(..count);
        Ok(count)
    }
}

impl Write for &mut Wire {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.written.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Everything that comes of bytes in pieces of these sizes, over and over.
fn heard(bytes: &[u8], pieces: &[usize]) -> Result<Vec<Heard>, Fault> {
    let mut decoder = Decoder::new(1 << 16);
    let mut all = Vec::new();
    let mut from = 0;
    for piece in pieces.iter().cycle() {
        let end = (from + piece.max(&1)).min(bytes.len());
        while from < end {
            let (taken, one) = decoder.take(&bytes[from..end])?;
            from += taken;
            all.extend(one);
            assert!(taken > 0, "it goes on");
        }
        if from == bytes.len() {
            break;
        }
    }
    assert_eq!(decoder.message.capacity(), decoder.message.len());
    Ok(all)
}

fn said(message: &Message) -> Vec<u8> {
    let mut wire = Wire::default();
    let mut client = WebSocket::from_raw_socket(&mut wire, Role::Client, None);
    client.send(message.clone()).unwrap();
    drop(client);
    wire.written
}

fn message() -> impl Strategy<Value = Message> {
    let bytes = |max| proptest::collection::vec(any::<u8>(), 0..max);
    prop_oneof![
        bytes(60_000).prop_map(|bytes| Message::Binary(bytes.into())),
        bytes(300).prop_map(|bytes| Message::Binary(bytes.into())),
        bytes(126).prop_map(|bytes| Message::Ping(bytes.into())),
        bytes(126).prop_map(|bytes| Message::Pong(bytes.into())),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever a real client says is heard, however the network cuts it.
    #[test]
    fn a_client_is_understood(
        messages in proptest::collection::vec(message(), 1..6),
        pieces in proptest::collection::vec(1usize..5000, 1..6),
    ) {
        let bytes: Vec<u8> = messages.iter().flat_map(said).collect();
        let expected: Vec<Heard> = messages.iter().map(|message| match message {
            Message::Binary(bytes) => Heard::Message(bytes.to_vec()),
            Message::Ping(bytes) => Heard::Ping(bytes.to_vec()),
            Message::Text(_) | Message::Pong(_) | Message::Close(_) | Message::Frame(_) => Heard::Pong,
        }).collect();
        prop_assert_eq!(heard(&bytes, &pieces).unwrap(), expected.clone());
        prop_assert_eq!(heard(&bytes, &[1]).unwrap(), expected);
    }

    /// Whatever is said is understood by a real client.
    #[test]
    fn a_client_understands(payload in proptest::collection::vec(any::<u8>(), 0..70_000)) {
        let mut wire = Wire { to_read: encode(Saying::Message, &payload), ..Wire::default() };
        let mut client = WebSocket::from_raw_socket(&mut wire, Role::Client, None);
        prop_assert_eq!(client.read().unwrap(), Message::Binary(payload.into()));
    }

    /// Nothing makes it panic, and it never holds more than it may.
    #[test]
    fn anything_may_come(bytes: Vec<u8>, pieces in proptest::collection::vec(1usize..9, 1..4)) {
        let mut decoder = Decoder::new(64);
        let mut from = 0;
        for piece in pieces.iter().cycle() {
            let end = (from + piece).min(bytes.len());
            while from < end {
                let Ok((taken, _)) = decoder.take(&bytes[from..end]) else { return Ok(()) };
                prop_assert!(taken > 0);
                from += taken;
                prop_assert!(decoder.message.len() <= 64 && decoder.control.len() <= 125);
            }
            if from == bytes.len() {
                break;
            }
        }
    }
}

fn frame(first: u8, length: u8, masked: bool, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![first, length | if masked { 0x80 } else { 0 }];
    if masked {
        frame.extend_from_slice(&[0; 4]);
    }
    frame.extend_from_slice(payload);
    frame
}

#[test]
fn fragments_become_one_message_with_a_ping_between() {
    let bytes = [
        frame(0x02, 2, true, b"ab"),
        frame(0x89, 1, true, b"?"),
        frame(0x00, 0, true, b""),
        frame(0x80, 1, true, b"c"),
    ]
    .concat();
    let expected = [Heard::Ping(b"?".to_vec()), Heard::Message(b"abc".to_vec())];
    assert_eq!(heard(&bytes, &[1]).unwrap(), expected);
    assert_eq!(heard(&bytes, &[100]).unwrap(), expected);
}

#[test]
fn what_no_client_may_send() {
    for (bytes, word) in [
        (frame(0x82, 1, false, b"a"), "masked"),
        (frame(0x81, 1, true, b"a"), "text"),
        (frame(0xC2, 1, true, b"a"), "reserved bit"),
        (frame(0x80, 1, true, b"a"), "continuation"),
        (frame(0x83, 1, true, b"a"), "head"),
        (frame(0x8B, 1, true, b"a"), "head"),
        (frame(0x09, 1, true, b"a"), "control"),
        ([&[0x89, 0xFE, 0, 200][..], &[0; 204]].concat(), "control"),
        (
            [frame(0x02, 1, true, b"a"), frame(0x82, 1, true, b"a")].concat(),
            "another message",
        ),
        (
            frame(0x82, 127, false, &[0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]),
            "masked",
        ),
    ] {
        let fault = heard(&bytes, &[1]).unwrap_err().to_string();
        assert!(fault.contains(word), "{bytes:x?}: {fault}");
    }
    let mut giant = frame(0x82, 127, true, &[]);
    giant.splice(2..2, u64::MAX.to_be_bytes());
    let fault = heard(&giant, &[3]).unwrap_err();
    assert!(
        matches!(fault, Fault::TooLong { .. } | Fault::Frame { .. }),
        "{fault}"
    );
}

#[test]
fn fragments_share_one_bound() {
    let mut bytes = frame(0x02, 126, true, &[]);
    bytes.splice(2..2, 40_000_u16.to_be_bytes());
    bytes.extend(vec![0; 40_000]);
    let mut more = frame(0x00, 126, true, &[]);
    more.splice(2..2, 40_000_u16.to_be_bytes());
    bytes.extend(more);
    let fault = heard(&bytes, &[4096]).unwrap_err();
    assert_eq!(
        fault,
        Fault::TooLong {
            found: 80_000,
            max: 1 << 16
        }
    );
}
