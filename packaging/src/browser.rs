//! A real browser without a window, for looking at the console as people do.
//!
//! Takes addresses, clicks and keys, gives what the page then shows. It speaks the W3C WebDriver protocol with Debian's
//! chromedriver, over loopback; whatever it starts ends with it. It knows nothing of the console.

use std::{path::Path, process::Command, time::Duration};

use anyhow::{Context, Result, ensure};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::fleet::{Service, free_ports, now};

/// The programs, by the package's name where they are missing.
const PROGRAMS: [(&str, &str); 2] = [
    ("chromium", "chromium"),
    ("chromedriver", "chromium-driver"),
];

/// How long the driver may take to be there.
const START: Duration = Duration::from_secs(60);

/// How long a page may take to show what is waited for.
const PATIENCE: Duration = Duration::from_secs(60);

/// The Enter key, as the protocol names it.
pub const ENTER: &str = "\u{e007}";
/// The Tab key.
pub const TAB: &str = "\u{e004}";
/// The Escape key.
pub const ESCAPE: &str = "\u{e00c}";

/// What the body of a form is.
pub const FORM: &str = "application/x-www-form-urlencoded";

/// The body of a form with these fields.
pub fn form(fields: &[(&str, &str)]) -> Result<String> {
    let address = reqwest::Url::parse_with_params("http://localhost/", fields)?;
    Ok(address.query().unwrap_or_default().to_owned())
}

/// What a page is shown in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// By day.
    Light,
    /// By night.
    Dark,
}

/// A browser with one window.
#[derive(Debug)]
pub struct Browser {
    http: reqwest::Client,
    session: String,
    // The driver ends before its folder goes.
    _driver: Service,
    _dir: TempDir,
}

/// The package that is missing for a browser, if one is.
pub fn missing() -> Option<&'static str> {
    let lacks = |program: &str| Command::new(program).arg("--version").output().is_err();
    PROGRAMS
        .into_iter()
        .find_map(|(program, package)| lacks(program).then_some(package))
}

impl Browser {
    /// Starts one.
    pub async fn start() -> Result<Self> {
        let dir = tempfile::Builder::new().prefix("bcd-browser-").tempdir()?;
        let [port] = free_ports()?;
        let mut driver = Service::new("chromedriver", Path::new("chromedriver"), dir.path());
        driver.arg(format!("--port={port}"));
        driver.start()?;
        let http = crate::simulated::client()?;
        let base = format!("http://127.0.0.1:{port}");
        let deadline = now() + START;
        while http.get(format!("{base}/status")).send().await.is_err() {
            driver.check()?;
            ensure!(
                now() < deadline,
                "waited {START:?} in vain for chromedriver"
            );
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        let profile = dir.path().join("profile");
        let arguments = [
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--hide-scrollbars",
            &format!("--user-data-dir={}", profile.display()),
        ];
        let wanted = json!({ "capabilities": { "alwaysMatch": {
            "goog:chromeOptions": { "args": arguments },
            "goog:loggingPrefs": { "browser": "ALL" },
        } } });
        let answer = http.post(format!("{base}/session")).json(&wanted);
        let answer: Value = answer.send().await?.json().await?;
        let id = answer.pointer("/value/sessionId").and_then(Value::as_str);
        let id = id.with_context(|| format!("no browser was started: {answer}"))?;
        Ok(Self {
            session: format!("{base}/session/{id}"),
            http,
            _driver: driver,
            _dir: dir,
        })
    }

    async fn call(&self, path: &str, body: Value) -> Result<Value> {
        let asked = self
            .http
            .post(format!("{}{path}", self.session))
            .json(&body);
        read(path, asked).await
    }

    async fn get(&self, path: &str) -> Result<Value> {
        read(path, self.http.get(format!("{}{path}", self.session))).await
    }

    /// Goes to an address, and waits until the page is there.
    pub async fn open(&self, url: &str) -> Result<()> {
        self.call("/url", json!({ "url": url })).await.map(drop)
    }

    /// Where it is.
    pub async fn url(&self) -> Result<String> {
        let url = self.get("/url").await?;
        Ok(url.as_str().context("an address is no text")?.to_owned())
    }

    /// What a piece of script gives, within the page.
    pub async fn script(&self, script: &str) -> Result<Value> {
        let body = json!({ "script": script, "args": [] });
        self.call("/execute/sync", body).await
    }

    /// The same, where the script calls its last argument with what it gives.
    pub async fn script_later(&self, script: &str) -> Result<Value> {
        let body = json!({ "script": script, "args": [] });
        self.call("/execute/async", body).await
    }

    /// Waits until an expression is true in the page.
    pub async fn until(&self, what: &str, expression: &str) -> Result<()> {
        let deadline = now() + PATIENCE;
        // A page that is being left answers with an error, and the next one is asked.
        let script = format!("return Boolean({expression})");
        while !matches!(self.script(&script).await, Ok(Value::Bool(true))) {
            if now() >= deadline {
                let text = self.script("return document.body?.innerText").await?;
                anyhow::bail!("waited {PATIENCE:?} in vain until {what}; the page says: {text}");
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Ok(())
    }

    async fn element(&self, css: &str) -> Result<String> {
        let body = json!({ "using": "css selector", "value": css });
        let found = self.call("/element", body).await?;
        id_of(&found)
    }

    /// Clicks on something.
    pub async fn click(&self, css: &str) -> Result<()> {
        let element = self.element(css).await?;
        let path = format!("/element/{element}/click");
        self.call(&path, json!({})).await.map(drop)
    }

    /// Writes into a field.
    pub async fn write(&self, css: &str, text: &str) -> Result<()> {
        let element = self.element(css).await?;
        let path = format!("/element/{element}/value");
        self.call(&path, json!({ "text": text })).await.map(drop)
    }

    /// Presses keys where the focus is.
    pub async fn press(&self, keys: &str) -> Result<()> {
        let strokes = keys.chars().flat_map(|key| {
            ["keyDown", "keyUp"].map(|kind| json!({ "type": kind, "value": key.to_string() }))
        });
        let strokes: Vec<Value> = strokes.collect();
        let keyboard = json!({ "type": "key", "id": "keyboard", "actions": strokes });
        let body = json!({ "actions": [keyboard] });
        self.call("/actions", body).await.map(drop)
    }

    /// Goes on with Tab until something has the focus.
    pub async fn tab_to(&self, id: &str) -> Result<()> {
        const STOPS_MAX: usize = 60;
        for _ in 0..STOPS_MAX {
            let focus = self.script("return document.activeElement?.id").await?;
            if focus == id {
                return Ok(());
            }
            self.press(TAB).await?;
        }
        anyhow::bail!("pressed Tab {STOPS_MAX} times and never came to {id}")
    }

    /// The cookies of the page.
    pub async fn cookies(&self) -> Result<Vec<Value>> {
        let cookies = self.get("/cookie").await?;
        Ok(cookies.as_array().cloned().unwrap_or_default())
    }

    /// What the browser has complained of since the last time.
    pub async fn complaints(&self) -> Result<Vec<String>> {
        let log = self.call("/se/log", json!({ "type": "browser" })).await?;
        let lines = log.as_array().into_iter().flatten();
        let lines = lines.filter_map(|line| line.get("message")?.as_str());
        Ok(lines.map(ToOwned::to_owned).collect())
    }

    async fn tool(&self, command: &str, params: Value) -> Result<Value> {
        let body = json!({ "cmd": command, "params": params });
        self.call("/goog/cdp/execute", body).await
    }

    /// Makes the window so wide.
    pub async fn resize(&self, width: u32, height: u32) -> Result<()> {
        let params =
            json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false });
        let command = "Emulation.setDeviceMetricsOverride";
        self.tool(command, params).await.map(drop)
    }

    /// Lets pages know whether it is day.
    pub async fn prefer(&self, scheme: Scheme) -> Result<()> {
        let word = match scheme {
            Scheme::Light => "light",
            Scheme::Dark => "dark",
        };
        let features = [
            json!({ "name": "prefers-color-scheme", "value": word }),
            json!({ "name": "prefers-reduced-motion", "value": "reduce" }),
        ];
        let params = json!({ "features": features });
        self.tool("Emulation.setEmulatedMedia", params)
            .await
            .map(drop)
    }

    /// A picture of the top of the page, of at most that height, as PNG.
    pub async fn picture(&self, height_max: u32) -> Result<Vec<u8>> {
        let size = "return [innerWidth, document.documentElement.scrollHeight]";
        let size = self.script(size).await?;
        let width = size.pointer("/0").and_then(Value::as_u64).unwrap_or(1280);
        let height = size.pointer("/1").and_then(Value::as_u64).unwrap_or(800);
        let clip = json!({ "x": 0, "y": 0, "width": width, "height": height.min(height_max.into()), "scale": 1 });
        let params = json!({ "format": "png", "captureBeyondViewport": true, "clip": clip });
        let shot = self.tool("Page.captureScreenshot", params).await?;
        let data = shot.get("data").and_then(Value::as_str);
        Ok(STANDARD.decode(data.context("the browser took no picture")?)?)
    }

    /// Ends it; without this its driver ends it all the same.
    pub async fn quit(self) -> Result<()> {
        self.http.delete(&self.session).send().await?;
        Ok(())
    }
}

fn id_of(element: &Value) -> Result<String> {
    let fields = element.as_object().into_iter().flatten();
    let mut ids = fields.filter_map(|(_, id)| id.as_str());
    Ok(ids.next().context("an element has no id")?.to_owned())
}

async fn read(path: &str, asked: reqwest::RequestBuilder) -> Result<Value> {
    let answer: Value = asked.send().await?.json().await?;
    let value = answer.get("value").cloned().unwrap_or_default();
    if let Some(error) = value.get("error").and_then(Value::as_str) {
        let message = value.get("message").and_then(Value::as_str);
        anyhow::bail!("{path}: {error}: {}", message.unwrap_or_default());
    }
    Ok(value)
}

/// Fetches axe-core once into a folder, and gives its script; none where there is no npm or no network.
pub fn axe(folder: &Path) -> Result<Option<String>> {
    const PACKAGE: &str = "axe-core@4.14.1";
    const FILE: &str = "axe-core-4.14.1.tgz";
    const SHA256: &str = "e6b0ce02b84d892e2e33e403485e7f3d6c29e2be6df65daf44d89ba564139745";
    let file = folder.join(FILE);
    if !file.exists() {
        let fetched = Command::new("npm")
            .args(["pack", "--silent", PACKAGE])
            .current_dir(folder)
            .output();
        if !fetched.is_ok_and(|fetched| fetched.status.success()) {
            return Ok(None);
        }
    }
    let found = bc_protocol::digest::Sha256::of(&std::fs::read(&file)?).to_string();
    ensure!(
        found == SHA256,
        "{}: expected {SHA256}, found {found}",
        file.display()
    );
    let script = Command::new("tar")
        .args(["-xzOf", FILE, "package/axe.min.js"])
        .current_dir(folder)
        .output()?;
    Ok(Some(String::from_utf8(script.stdout)?))
}

/// Writes a picture.
#[expect(
    clippy::disallowed_methods,
    reason = "a picture that is lost is taken again"
)]
pub(crate) fn keep(path: &Path, picture: &[u8]) -> Result<()> {
    if let Some(dir) = path.parent() {
        std::fs::create_dir_all(dir)?;
    }
    std::fs::write(path, picture).with_context(|| format!("write {}", path.display()))
}
