//! One release's binary, from a server that nobody trusts to a file that can be believed.
//!
//! Takes the address, size and digest that a signed manifest names; gives a file of exactly those bytes. What an
//! earlier try has left is used again. Whatever the server does, no more than the signed size is written, and no wait
//! is without an end.

mod error;
mod head;
mod pace;
mod partial;
#[cfg(test)]
mod tests;

use std::{io, path::PathBuf, sync::Arc};

use bc_protocol::digest::Sha256;
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::{
    Request,
    body::Incoming,
    header::{ACCEPT_ENCODING, CONNECTION, HOST, IF_RANGE, RANGE, USER_AGENT},
};
use rustls::ClientConfig;
use tokio::{
    sync::watch,
    task::spawn_blocking,
    time::{Instant, timeout, timeout_at},
};
use url::Url;

pub(crate) use error::FetchError;

use self::{
    head::{Asked, Head},
    pace::{Gate, Pace, Slow},
    partial::{Partial, Place, Writer},
};
use super::limits::REDIRECTS_MAX;
use crate::{
    clock,
    content::Seen,
    dial::Reach,
    http::{self, Exchange, Server, Web},
};

/// What to fetch, and where to put it.
#[derive(Clone, Debug)]
pub(crate) struct Fetch {
    /// Where the bytes are.
    pub(crate) url: Url,
    /// How many there are, by the manifest.
    pub(crate) size: u64,
    /// Their digest, by the manifest.
    pub(crate) digest: Sha256,
    /// The file to fill; what it already holds is kept if it fits. A small file beside it says what that is.
    pub(crate) partial: PathBuf,
    /// How servers may be spoken to.
    pub(crate) web: Web,
}

/// Fetches a file: its size and digest are the order's, and it is open for reading. That its bytes are on the disk is for
/// whoever gives it a name to see to.
pub(crate) async fn fetch(order: Fetch, progress: &watch::Sender<u8>) -> Result<Seen, FetchError> {
    fetch_at(&Pace::USUAL, order, progress).await
}

async fn fetch_at(
    pace: &Pace,
    order: Fetch,
    progress: &watch::Sender<u8>,
) -> Result<Seen, FetchError> {
    let server =
        Server::of(&order.url, order.web.plain_http, Reach::Anywhere).map_err(FetchError::Url)?;
    let whole = Download {
        order,
        server,
        pace: *pace,
    };
    timeout(pace.total, Box::pin(whole.run(progress)))
        .await
        .map_err(|_| FetchError::Overdue(pace.total))?
}

struct Download {
    order: Fetch,
    server: Server,
    pace: Pace,
}

impl Download {
    async fn run(&self, progress: &watch::Sender<u8>) -> Result<Seen, FetchError> {
        let partial = self.partial().await?;
        match self.complete(partial, progress).await {
            // The wrong bits, which are gone, may have been there before, or have come from one bad cache on the way.
            Err(FetchError::Digest { .. }) => {
                let partial = self.partial().await?;
                self.complete(partial, progress).await
            }
            done => done,
        }
    }

    async fn partial(&self) -> Result<Partial, FetchError> {
        let place = Place {
            path: self.order.partial.clone(),
            size: self.order.size,
            digest: self.order.digest,
        };
        spawn_blocking(move || Partial::open(place)).await?
    }

    async fn complete(
        &self,
        partial: Partial,
        progress: &watch::Sender<u8>,
    ) -> Result<Seen, FetchError> {
        let partial = if partial.is_whole() {
            partial
        } else {
            let (exchange, writer) = self.ask(partial).await?;
            self.receive(exchange, writer, progress).await?
        };
        spawn_blocking(move || partial.finish()).await?
    }

    /// Asks for what is missing; everything, where what is there is of no use to the server's answer.
    async fn ask(&self, partial: Partial) -> Result<(Exchange, Writer), FetchError> {
        let mut partial = partial;
        let mut hop = Hop {
            url: self.order.url.clone(),
            server: self.server.clone(),
            reach: Reach::Anywhere,
        };
        let mut redirects_left = REDIRECTS_MAX;
        loop {
            let exchange = self.request(&hop, &partial).await?;
            let asked = Asked {
                server: &hop.server,
                have: partial.have(),
                size: self.order.size,
            };
            match head::judge(&exchange.response, asked)? {
                Head::Rest => return Ok((exchange, Writer::of_the_rest(partial))),
                Head::Whole { validator } => {
                    return Ok((exchange, Writer::of_the_whole(partial, validator)));
                }
                // Empty, it asks for no range, so this happens once.
                Head::Useless => {
                    let work = move || partial.emptied();
                    partial = spawn_blocking(work).await?.map_err(FetchError::Disk)?;
                }
                Head::Elsewhere { location } if redirects_left > 0 => {
                    redirects_left -= 1;
                    hop = self.follow(&hop, &location, &exchange)?;
                }
                Head::Elsewhere { location } => {
                    return Err(FetchError::Redirect {
                        expected: "at most 3 redirects",
                        found: location,
                    });
                }
            }
        }
    }

    async fn request(&self, hop: &Hop, partial: &Partial) -> Result<Exchange, FetchError> {
        let tls = self.tls_for(&hop.server).await?;
        let mut request = Request::get(http::target(&hop.url))
            .header(HOST, http::authority(&hop.url))
            .header(USER_AGENT, "bcd")
            .header(CONNECTION, "close")
            .header(ACCEPT_ENCODING, "identity");
        if let Some(validator) = partial.validator() {
            request = request
                .header(RANGE, format!("bytes={}-", partial.have()))
                .header(IF_RANGE, validator);
        }
        let request = request
            .body(Full::new(Bytes::new()))
            .map_err(|error| FetchError::Disk(io::Error::other(error)))?;
        Ok(hop.server.ask(request, tls, self.pace.patience).await?)
    }

    async fn tls_for(&self, server: &Server) -> Result<Option<Arc<ClientConfig>>, FetchError> {
        if !server.is_secured() {
            return Ok(None);
        }
        let (web, server) = (self.order.web.clone(), server.clone());
        Ok(spawn_blocking(move || web.tls_for(&server)).await??)
    }

    fn follow(&self, hop: &Hop, location: &str, exchange: &Exchange) -> Result<Hop, FetchError> {
        let refused = |expected, found: &str| FetchError::Redirect {
            expected,
            found: found.to_owned(),
        };
        let url = hop
            .url
            .join(location)
            .map_err(|_| refused("an address", location))?;
        if url.scheme() != hop.url.scheme() {
            return Err(refused("the scheme to stay", &http::shown(&url)));
        }
        // Who is not on this machine does not get to send us to what is.
        let reach = if exchange.peer.to_canonical().is_loopback() {
            hop.reach
        } else {
            Reach::Outward
        };
        let server = Server::of(&url, self.order.web.plain_http, reach)
            .map_err(|error| refused("an address to go to", &error.to_string()))?;
        Ok(Hop { url, server, reach })
    }

    async fn receive(
        &self,
        exchange: Exchange,
        writer: Writer,
        progress: &watch::Sender<u8>,
    ) -> Result<Partial, FetchError> {
        let (mut exchange, mut writer) = (exchange, writer);
        let mut have = writer.have();
        let mut gate = Gate::new(self.pace, clock::instant());
        let ended = loop {
            show(progress, have, self.order.size);
            let bytes = match next(exchange.response.body_mut(), &mut gate).await {
                Ok(Some(bytes)) => bytes,
                Ok(None) => break Ok("the end".to_owned()),
                Err(Failed::Line(found)) => break Ok(found),
                Err(Failed::Slow(slow)) => break Err(slow.into()),
            };
            have = have.saturating_add(u64::try_from(bytes.len()).unwrap_or(u64::MAX));
            if have > self.order.size {
                break Err(FetchError::Size {
                    expected: self.order.size,
                    found: "more".to_owned(),
                });
            }
            if !writer.write(bytes).await {
                break Ok("the disk".to_owned());
            }
        };
        // Also after a failure: the next try goes on from what was written.
        let partial = writer.finish().await?;
        let found = ended?;
        if partial.is_whole() {
            Ok(partial)
        } else {
            Err(FetchError::Cut {
                expected: self.order.size,
                received: partial.have(),
                found,
            })
        }
    }
}

struct Hop {
    url: Url,
    server: Server,
    reach: Reach,
}

enum Failed {
    Line(String),
    Slow(Slow),
}

/// The next bytes of a body; None at its end. Trailers are nobody's business.
async fn next(body: &mut Incoming, gate: &mut Gate) -> Result<Option<Bytes>, Failed> {
    loop {
        let deadline = Instant::from_std(gate.next_check());
        match timeout_at(deadline, body.frame()).await {
            Ok(None) => return Ok(None),
            Ok(Some(Err(error))) => return Err(Failed::Line(error.to_string())),
            Ok(Some(Ok(frame))) => {
                if let Ok(bytes) = frame.into_data() {
                    gate.received(bytes.len(), clock::instant());
                    gate.check(clock::instant()).map_err(Failed::Slow)?;
                    return Ok(Some(bytes));
                }
            }
            Err(_) => gate.check(clock::instant()).map_err(Failed::Slow)?,
        }
    }
}

fn show(progress: &watch::Sender<u8>, have: u64, size: u64) {
    let percent = have.saturating_mul(100).checked_div(size).unwrap_or(100);
    let percent = u8::try_from(percent.min(100)).unwrap_or(100);
    progress.send_if_modified(|shown| std::mem::replace(shown, percent) != percent);
}
