//! Who publishes to all clients of somebody else's broker.

use std::{sync::Arc, time::Duration};

use anyhow::{Context, Result, bail, ensure};
use rustls::pki_types::ServerName;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};
use tokio_rustls::{TlsConnector, client::TlsStream};

use super::{
    authority::Pair,
    credentials::Maker,
    monotonic,
    peers::{mqtt_connect, mqtt_publish, nats_publish},
    plan::{Source, Speech},
};

/// Its number among minted nodes; no other has it.
const NUMBER: usize = usize::MAX;

/// A connection that publishes.
pub struct Publisher {
    stream: TlsStream<TcpStream>,
    speech: Speech,
}

impl Publisher {
    /// Connects to a broker.
    pub async fn connect(speech: Speech, address: &str, authority: &Pair) -> Result<Self> {
        let who = Maker::new(&Source::Minted(authority.clone()))?;
        let who = who.make(NUMBER).await?;
        let mut stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        if speech == Speech::Nats {
            // It greets in the clear.
            while stream.read_u8().await.context("greeting")? != b'\n' {}
        }
        let host = address.rsplit_once(':').context("no port")?.0.to_owned();
        let mut stream = TlsConnector::from(Arc::clone(&who.tls))
            .connect(ServerName::try_from(host)?, stream)
            .await?;
        match speech {
            Speech::Nats => {
                stream
                    .write_all(b"CONNECT {\"verbose\":false,\"tls_required\":true}\r\n")
                    .await?;
            }
            Speech::Mqtt => {
                stream.write_all(&mqtt_connect("publisher")?).await?;
                let mut accepted = [0; 4];
                stream.read_exact(&mut accepted).await?;
                ensure!(
                    accepted == [0x20, 2, 0, 0],
                    "expected to be let in, found {accepted:?}"
                );
            }
            Speech::Session | Speech::Raw => bail!("{speech:?} has no publishers"),
        }
        Ok(Self { stream, speech })
    }

    /// Publishes to everybody; gives when that began, by [`monotonic`].
    pub async fn publish(&mut self, payload: &[u8]) -> Result<Duration> {
        let message = match self.speech {
            Speech::Nats => nats_publish(payload),
            Speech::Mqtt => mqtt_publish(payload)?,
            Speech::Session | Speech::Raw => bail!("nothing to publish by"),
        };
        let began = monotonic();
        self.stream.write_all(&message).await?;
        self.stream.flush().await?;
        Ok(began)
    }
}
