//! `login`.

use std::{
    io::{self, BufRead},
    path::PathBuf,
};

use clap::Args;
use dialoguer::{Input, Password};

use super::{
    ask::{is_interactive, unanswered},
    client::CallError,
    contexts::{self, Context, Contexts, Hidden},
    exit::Exit,
    failure::Failure,
    globals::Globals,
    online,
    print::note,
    secret::Secret,
    settings::{Cleartext, Environment, Origin, Settings, TokenSource, config_path},
};
use crate::api::{
    error::Code,
    fleet::{ListPools, Pools},
};

/// The context's name where nobody gives one.
const USUAL_NAME: &str = "default";

/// Try a token, and keep it with control's address as a context of the config file
///
/// Takes what it needs from --url, --tenant, --token or --token-file (then the file's path is kept, not the token),
/// and asks on a terminal for what is missing; a token may also come by standard input. The context is called
/// --context, or else as the current one. The file is readable by its owner only.
#[derive(Debug, Args)]
pub(super) struct Login {}

impl Login {
    pub(super) async fn run(
        self,
        flags: &Globals,
        environment: &Environment,
    ) -> Result<Exit, Failure> {
        let path = config_path(flags, environment)?;
        let contexts = Contexts::load(&path)?;
        let name = flags
            .context
            .clone()
            .or_else(|| contexts.current_context.clone())
            .unwrap_or_else(|| USUAL_NAME.to_owned());
        let settings = settings(flags, environment, (&contexts, &name))?;
        let source = match &settings.token {
            Some(token) => token.value.clone(),
            None => TokenSource::Given(ask_for_token()?),
        };
        let token = match online::read_token(&source) {
            // The usual advice is to log in.
            Err(Failure::NoToken) => {
                return Err(Failure::Usage(
                    "expected an API token by --token-file, or on standard input, found none"
                        .to_owned(),
                ));
            }
            token => token?,
        };
        try_out(&settings, &token).await?;
        contexts::save(&path, &name, &context(&settings, &source)?)?;
        note(&format!(
            "logged in at {} as context {name}, kept in {}",
            settings.url.value,
            path.display()
        ));
        Ok(Exit::Done)
    }
}

/// What the flags and the variables say; the address is asked for where nothing says it.
fn settings(
    flags: &Globals,
    environment: &Environment,
    context: (&Contexts, &str),
) -> Result<Settings, Failure> {
    let settings = Settings::for_login(flags, environment, context)?;
    if settings.url.origin != Origin::Default || !is_interactive() {
        return Ok(settings);
    }
    let asked: String = Input::new()
        .with_prompt("Address of control")
        .default(settings.url.value.to_string())
        .interact_text()
        .map_err(unanswered)?;
    let flags = Globals {
        url: Some(asked),
        ..flags.clone()
    };
    Ok(Settings::for_login(&flags, environment, context)?)
}

fn ask_for_token() -> Result<Secret, Failure> {
    if is_interactive() {
        let token = Password::new()
            .with_prompt("API token")
            .interact()
            .map_err(unanswered)?;
        return Ok(Secret::new(&token));
    }
    let mut line = zeroize::Zeroizing::new(String::new());
    io::stdin()
        .lock()
        .read_line(&mut line)
        .map_err(|source| Failure::Read {
            path: PathBuf::from("-"),
            source,
        })?;
    Ok(Secret::new(&line))
}

/// A token that may not list pools is a good one all the same: control knows it.
async fn try_out(settings: &Settings, token: &Secret) -> Result<(), Failure> {
    let client = online::client(settings, token)?;
    let request = ListPools {
        tenant_id: client.tenant.clone(),
    };
    match client.call::<Pools>("pools/list", &request).await {
        Ok(_) => Ok(()),
        Err(CallError::Refused { refusal }) if refusal.object.code == Code::AccessDenied => Ok(()),
        Err(error) => Err(error.into()),
    }
}

fn context(settings: &Settings, source: &TokenSource) -> Result<Context, Failure> {
    let (token, token_file) = match source {
        TokenSource::Given(secret) => (Some(Hidden(secret.expose().to_owned())), None),
        TokenSource::File(path) => (None, Some(absolute(path.clone())?)),
    };
    let ca_file = match &settings.ca_file {
        Some(file) => Some(absolute(file.value.clone())?),
        None => None,
    };
    Ok(Context {
        url: Some(settings.url.value.to_string()),
        token,
        token_file,
        tenant: Some(settings.tenant.value.to_string()),
        output: None,
        ca_file,
        allow_http: match settings.cleartext {
            Cleartext::Allowed => Some(true),
            Cleartext::Refused => None,
        },
    })
}

/// The config file is read from other folders than this one.
fn absolute(path: PathBuf) -> Result<PathBuf, Failure> {
    std::path::absolute(&path).map_err(|source| Failure::Read { path, source })
}
