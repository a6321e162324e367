//! Two processes with one gateway's certificate.

use futures_util::StreamExt as _;
use tokio_tungstenite::tungstenite::Message;

use super::{site::soon, *};
use crate::{
    db::query,
    link::{turns::Occupied, twin},
};

const COPY: [u8; 16] = [1; 16];

impl Site {
    /// A connection of another process of the gateway, which has said Hello.
    async fn copy(&self, name: &str) -> Link {
        let tls = self.gateway_tls(&self.gateway(name));
        let mut link = Link(self.connect(tls).await.unwrap());
        link.hello_of(COPY).await;
        link
    }

    async fn told(&self) -> i64 {
        query_scalar("SELECT count(*) FROM events WHERE type = 'gateway.duplicate'")
            .fetch_one(self.services.db.reader())
            .await
            .unwrap()
    }
}

/// Why control closes the connection, which is all that it does.
async fn refusal(link: &mut Link) -> String {
    loop {
        match soon(link.0.next()).await {
            Some(Ok(Message::Close(Some(close)))) => return close.reason.to_string(),
            Some(Ok(Message::Ping(_))) => {}
            other => panic!("expected a refusal, found {other:?}"),
        }
    }
}

#[tokio::test]
async fn a_copy_is_refused_for_as_long_as_the_first_answers() {
    let site = Site::new().await;
    let mut first = site.link("a").await;
    first.batch(1, [opened(0, 1), listed()]).await;
    assert_eq!(first.next().await, FromControl::Ack(1));
    assert_eq!(first.next().await, spec(0));
    for _ in 0..2 {
        let refused = async { refusal(&mut site.copy("a").await).await };
        tokio::select! {
            // Whoever reads answers pings.
            frame = first.next() => panic!("expected nothing, found {frame:?}"),
            reason = refused => assert_eq!(reason, twin::REASON),
        }
    }
    // Its node never was away, and people hear of it once.
    first.batch(2, [report(0, 1, 1)]).await;
    assert_eq!(first.next().await, FromControl::Ack(2));
    assert_eq!(site.online(0).await, Some((1, true)));
    soon(async { while site.told().await == 0 {} }).await;
    assert_eq!(site.told().await, 1);
    // The first ends, and the other need not wait.
    drop(first);
    let mut copy = site.copy("a").await;
    assert!(matches!(copy.next().await, FromControl::Welcome(_)));
}

#[tokio::test]
async fn a_gateway_that_comes_back_has_the_link_of_one_that_does_not_answer() {
    let site = Site::new().await;
    // Nobody reads it: as over a network that is cut.
    let mut silent = site.link("a").await;
    let mut again = site.copy("a").await;
    assert!(matches!(again.next().await, FromControl::Welcome(_)));
    silent.ends().await;
    again.batch(1, [listed()]).await;
    assert_eq!(again.next().await, FromControl::Ack(1));
    assert_eq!(site.told().await, 0);
}

#[tokio::test]
async fn a_link_at_another_control_process_counts_as_much() {
    let site = Site::new().await;
    let link = async |linked: bool| {
        let mut tx = site.services.db.begin().await.unwrap();
        let process: &[u8] = &[7; 16];
        query(
            "UPDATE gateways SET linked = $2, process = 'other', link_process = $3 WHERE name = $1",
        )
        .bind("a")
        .bind(linked)
        .bind(process)
        .execute(&mut *tx)
        .await
        .unwrap();
        tx.commit().await.unwrap();
    };
    let (gateway, shared) = (site.gateway("a"), site.shared());
    let is_free = async |process: [u8; 16]| {
        twin::is_free_elsewhere(&shared, &gateway, &process)
            .await
            .unwrap()
    };
    assert!(is_free(COPY).await);
    link(true).await;
    // The same process has lost that link, whether anybody has noticed or not. SQLite has one process.
    assert!(is_free([7; 16]).await);
    assert_eq!(is_free(COPY).await, !site.services.db.is_shared());
    // It ends while one waits: nobody has answered.
    let (free, ()) = tokio::join!(is_free(COPY), link(false));
    assert!(free);
}

#[tokio::test]
async fn a_doubted_link_ends_where_nobody_answers() {
    let site = Site::new().await;
    let (mut lives, mut silent) = (site.link("a").await, site.link("b").await);
    let doubt = async {
        for name in ["a", "b"] {
            site.services.doubted.send(site.gateway(name)).unwrap();
        }
        site.unlinked("b").await;
    };
    tokio::select! {
        frame = lives.next() => panic!("expected nothing, found {frame:?}"),
        () = doubt => {}
    }
    silent.ends().await;
    assert!(site.linked("a").await);
    assert!(twin::REASON.len() <= 123 && !Occupied.to_string().is_empty());
}
