//! Pictures for the README and the eye: the console here, a rollout at a terminal in `terminal`.
//!
//! Takes a folder, leaves pictures there. Control, gateway and what they show are real; the nodes are simulated, since
//! thousands of agents do not fit on one machine. Nothing on the pictures is drawn.

mod acts;
pub mod stage;
pub mod terminal;

use std::path::{Path, PathBuf};

use anyhow::Result;

use self::acts::Acts;
use crate::{
    browser::{Browser, ENTER, Scheme, keep},
    build,
};

/// Pages are cut off below this: a picture in a text is no poster.
const HEIGHT_MAX: u32 = 1000;

/// Nothing is cut off where everything is to be looked at.
const GALLERY_HEIGHT_MAX: u32 = 4000;

/// A phone, a desk, and a wide one.
const WIDTHS: [u32; 3] = [390, 1280, 1920];

/// Whom pictures are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Audience {
    /// Readers of the README: a few pages, as wide as a desk.
    Readers,
    /// Whoever changes the console: every page, by day and by night, in every width.
    Designers,
}

/// Takes pictures of the console, with so many nodes.
pub async fn take(into: &Path, (audience, nodes): (Audience, usize), tell: fn(&str)) -> Result<()> {
    tell("building control and gateway");
    let programs = build::programs().await?;
    tell(&format!(
        "starting control, a gateway and {nodes} simulated nodes"
    ));
    let acts = Acts::play(&programs, nodes, tell).await?;
    let browser = Browser::start().await?;
    browser.resize(1280, 900).await?;
    browser.prefer(Scheme::Light).await?;
    let camera = Camera {
        browser,
        url: acts.stage.fleet.operator.url().to_owned(),
        into: into.to_owned(),
    };
    camera.sign_in(&acts.token()?).await?;
    match audience {
        Audience::Readers => camera.readers(&acts).await?,
        Audience::Designers => camera.designers(&acts).await?,
    }
    tell(&format!("the pictures are in {}", into.display()));
    camera.browser.quit().await
}

struct Camera {
    browser: Browser,
    url: String,
    into: PathBuf,
}

impl Camera {
    async fn sign_in(&self, token: &str) -> Result<()> {
        let browser = &self.browser;
        browser.open(&format!("{}/console", self.url)).await?;
        browser.write("#token", &(token.to_owned() + ENTER)).await?;
        let there = "document.querySelector('li.rollout')";
        browser.until("somebody is signed in", there).await
    }

    async fn readers(&self, acts: &Acts) -> Result<()> {
        for (scheme, tail) in [(Scheme::Light, ""), (Scheme::Dark, "-dark")] {
            self.browser.prefer(scheme).await?;
            for (name, path) in [
                ("console-rollouts", "rollouts".to_owned()),
                ("console-rollout", format!("rollouts/{}", acts.paused)),
                ("console-fleet", "fleet".to_owned()),
            ] {
                self.open(&path).await?;
                self.keep(&format!("{name}{tail}"), HEIGHT_MAX).await?;
            }
        }
        Ok(())
    }

    async fn designers(&self, acts: &Acts) -> Result<()> {
        for (scheme, word) in [(Scheme::Light, "light"), (Scheme::Dark, "dark")] {
            self.browser.prefer(scheme).await?;
            for width in WIDTHS {
                self.browser.resize(width, 900).await?;
                for (name, path) in acts.pages() {
                    self.open(&path).await?;
                    let name = format!("{name}-{width}-{word}");
                    self.keep(&name, GALLERY_HEIGHT_MAX).await?;
                }
                self.open(&format!("rollouts/{}", acts.paused)).await?;
                self.browser.click("#do-abort").await?;
                let asks = "document.querySelector('#ask-abort').open";
                self.browser.until("a dialog asks", asks).await?;
                self.keep(&format!("dialog-{width}-{word}"), 900).await?;
            }
        }
        Ok(())
    }

    /// Opens a page of the tenant, or one that begins with a slash, and waits until it is live where it is.
    async fn open(&self, path: &str) -> Result<()> {
        let url = match path.strip_prefix('/') {
            Some(path) => format!("{}/{path}", self.url),
            None => format!("{}/console/t/root/{path}", self.url),
        };
        self.browser.open(&url).await?;
        let live = "!document.querySelector('#live-state') || document.querySelector('#live-state[data-state=on]')";
        self.browser.until("the page is live", live).await
    }

    async fn keep(&self, name: &str, height_max: u32) -> Result<()> {
        let file = self.into.join(format!("{name}.png"));
        keep(&file, &self.browser.picture(height_max).await?)
    }
}
