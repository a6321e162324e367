//! Which control, as whom, and how answers look.
//!
//! Takes flags, variables and the config file, gives settings and where each came from. Flags count more than
//! variables, variables more than the context, the context more than the defaults. Reads no file itself but the config
//! file, and does not judge a setting that another one overrides.

use std::{collections::BTreeMap, fmt, path::PathBuf};

use bc_protocol::id::{IdError, TenantId};
use clap::ValueEnum;
use url::Url;

mod layers;

use super::{
    contexts::{Context, Contexts, ContextsError, default_path},
    globals::Globals,
    print::Output,
    secret::Secret,
};
use layers::Layers;
pub(super) use layers::is_default;

const CONFIG: &str = "BETTER_COMPUTE_CONFIG";
const CONTEXT: &str = "BETTER_COMPUTE_CONTEXT";
const URL: &str = "BETTER_COMPUTE_URL";
const TOKEN: &str = "BETTER_COMPUTE_TOKEN";
const TOKEN_FILE: &str = "BETTER_COMPUTE_TOKEN_FILE";
const TENANT: &str = "BETTER_COMPUTE_TENANT";
const OUTPUT: &str = "BETTER_COMPUTE_OUTPUT";

/// Every variable that is read.
const VARIABLES: [&str; 7] = [CONFIG, CONTEXT, URL, TOKEN, TOKEN_FILE, TENANT, OUTPUT];

/// A setting, and where it came from.
#[derive(Clone, Debug)]
pub(super) struct Sourced<T> {
    /// The setting.
    pub value: T,
    /// Who said so.
    pub origin: Origin,
}

/// Where a setting came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// The command line.
    Flag(&'static str),
    /// The environment.
    Variable(&'static str),
    /// The config file.
    Context(String),
    /// Nowhere.
    Default,
}

/// The token, or where it is.
#[derive(Clone, Debug)]
pub(super) enum TokenSource {
    /// The token.
    Given(Secret),
    /// A file that holds it.
    File(PathBuf),
}

/// Everything that a command which talks to control needs to know.
#[derive(Clone, Debug)]
pub(super) struct Settings {
    /// Where control listens.
    pub url: Sourced<Url>,
    /// Who one is.
    pub token: Option<Sourced<TokenSource>>,
    /// Whose things.
    pub tenant: Sourced<TenantId>,
    /// How answers look.
    pub output: Sourced<Output>,
    /// Certificates to trust instead of the system's.
    pub ca_file: Option<Sourced<PathBuf>>,
    /// Whether the token may travel in the clear.
    pub cleartext: Cleartext,
    /// The context in use.
    pub context: Option<String>,
}

/// Whether the token may travel over plain http to another machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cleartext {
    /// Within this machine only.
    Refused,
    /// The operator said so.
    Allowed,
}

/// Why there are no settings.
#[derive(Debug, thiserror::Error)]
pub(super) enum SettingsError {
    #[error(transparent)]
    Contexts(#[from] ContextsError),
    #[error("{origin}: expected an address like https://control.example, found \"{found}\"")]
    Url { origin: Origin, found: String },
    #[error("{origin}: expected either a token or a token file, found both")]
    TwoTokens { origin: Origin },
    #[error("{origin} is no tenant")]
    Tenant { origin: Origin, source: IdError },
    #[error("{origin}: expected table, wide, json, yaml or name, found \"{found}\"")]
    Output { origin: Origin, found: String },
    #[error("{origin}: expected text, found bytes that are none")]
    NotText { origin: Origin },
    #[error("--config: expected a file at {}, found none", path.display())]
    NoFile { path: PathBuf },
}

/// The variables of the environment that this program reads.
#[derive(Clone, Debug, Default)]
pub(super) struct Environment {
    variables: BTreeMap<&'static str, String>,
}

impl Environment {
    /// The process's own. A variable that is empty is not set.
    pub(super) fn of_process() -> Result<Self, SettingsError> {
        let mut variables = BTreeMap::new();
        for name in VARIABLES {
            if let Some(value) = std::env::var_os(name).filter(|value| !value.is_empty()) {
                let value = value.into_string().map_err(|_| SettingsError::NotText {
                    origin: Origin::Variable(name),
                })?;
                variables.insert(name, value);
            }
        }
        Ok(Self { variables })
    }

    fn get(&self, name: &'static str) -> Option<&str> {
        self.variables.get(name).map(String::as_str)
    }
}

/// Where the config file is: the flag, the variable, or the usual place.
pub(super) fn config_path(
    flags: &Globals,
    environment: &Environment,
) -> Result<PathBuf, SettingsError> {
    let named = flags
        .config
        .clone()
        .or_else(|| environment.get(CONFIG).map(PathBuf::from));
    match named {
        Some(path) => Ok(path),
        None => Ok(default_path()?),
    }
}

/// How answers look, as far as it can be known when nothing else can: an error wants to be printed, too.
pub(super) fn output_at_least(flags: &Globals, environment: &Environment) -> Output {
    let variable = || {
        environment
            .get(OUTPUT)
            .and_then(|text| parse_output(text).ok())
    };
    flags.output.or_else(variable).unwrap_or_default()
}

impl Settings {
    /// Puts together what the flags, the variables and the config file say.
    pub(super) fn load(flags: &Globals, environment: &Environment) -> Result<Self, SettingsError> {
        let path = config_path(flags, environment)?;
        if flags.config.is_some() && !path.exists() {
            return Err(SettingsError::NoFile { path });
        }
        Self::resolve(flags, environment, &Contexts::load(&path)?)
    }

    /// What `login` writes to context `name`, which need not be there yet. The token is a new one.
    pub(super) fn for_login(
        flags: &Globals,
        environment: &Environment,
        (contexts, name): (&Contexts, &str),
    ) -> Result<Self, SettingsError> {
        let known = contexts.contexts.get(name).cloned().unwrap_or_default();
        let context = Context {
            token: None,
            token_file: None,
            ..known
        };
        let layers = Layers {
            flags,
            environment,
            context: Some((name, &context)),
        };
        layers.settings()
    }

    fn resolve(
        flags: &Globals,
        environment: &Environment,
        contexts: &Contexts,
    ) -> Result<Self, SettingsError> {
        let name = flags
            .context
            .as_deref()
            .or_else(|| environment.get(CONTEXT))
            .or(contexts.current_context.as_deref());
        let context = match name {
            Some(name) => Some((name, contexts.named(name)?)),
            None => None,
        };
        let layers = Layers {
            flags,
            environment,
            context,
        };
        layers.settings()
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flag(name) | Self::Variable(name) => f.write_str(name),
            Self::Context(name) => write!(f, "context {name}"),
            Self::Default => f.write_str("default"),
        }
    }
}

fn parse_output(text: &str) -> Result<Output, String> {
    Output::from_str(text, false)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::contexts::Hidden;

    fn environment(variables: &[(&'static str, &str)]) -> Environment {
        Environment {
            variables: variables
                .iter()
                .map(|(name, value)| (*name, (*value).to_owned()))
                .collect(),
        }
    }

    fn contexts() -> Contexts {
        let context = Context {
            url: Some("https://context".to_owned()),
            token: Some(Hidden("context".to_owned())),
            tenant: Some("context".to_owned()),
            output: Some(Output::Yaml),
            ..Context::default()
        };
        Contexts {
            current_context: Some("prod".to_owned()),
            contexts: BTreeMap::from([
                ("prod".to_owned(), context),
                ("bare".to_owned(), Context::default()),
            ]),
        }
    }

    fn flags(url: Option<&str>) -> Globals {
        Globals {
            url: url.map(str::to_owned),
            ..Globals::default()
        }
    }

    #[test]
    fn flags_beat_variables_beat_the_context_beats_the_defaults() {
        let variable = environment(&[(URL, "https://variable")]);
        let nothing = environment(&[]);
        for (flag, variables, contexts, url, origin) in [
            (
                Some("https://flag"),
                &variable,
                contexts(),
                "https://flag/",
                Origin::Flag("--url"),
            ),
            (
                None,
                &variable,
                contexts(),
                "https://variable/",
                Origin::Variable(URL),
            ),
            (
                None,
                &nothing,
                contexts(),
                "https://context/",
                Origin::Context("prod".to_owned()),
            ),
            (
                None,
                &nothing,
                Contexts::default(),
                "http://127.0.0.1:8443/",
                Origin::Default,
            ),
        ] {
            let settings = Settings::resolve(&flags(flag), variables, &contexts).unwrap();
            assert_eq!(settings.url.value.as_str(), url);
            assert_eq!(settings.url.origin, origin);
        }
    }

    #[test]
    fn a_token_file_in_a_flag_beats_a_token_in_a_variable() {
        let flags = Globals {
            token_file: Some("/run/token".into()),
            ..Globals::default()
        };
        let variables = environment(&[(TOKEN, "variable")]);
        let settings = Settings::resolve(&flags, &variables, &contexts()).unwrap();
        let token = settings.token.unwrap();
        assert_eq!(token.origin, Origin::Flag("--token-file"));
        assert!(matches!(
            token.value,
            TokenSource::File(path) if path.as_os_str() == "/run/token"
        ));
    }

    #[test]
    fn the_named_context_beats_the_current_one() {
        let variables = environment(&[(CONTEXT, "bare")]);
        let settings = Settings::resolve(&flags(None), &variables, &contexts()).unwrap();
        assert_eq!(settings.context.as_deref(), Some("bare"));
        assert!(settings.token.is_none());
        assert_eq!(settings.output.value, Output::Table);
    }

    #[test]
    fn what_makes_no_sense_is_refused_with_its_origin() {
        for (variables, message) in [
            (
                environment(&[(URL, "control.example")]),
                "BETTER_COMPUTE_URL: expected an address like https://control.example, found \"control.example\"",
            ),
            (
                environment(&[(TOKEN, "a"), (TOKEN_FILE, "b")]),
                "BETTER_COMPUTE_TOKEN: expected either a token or a token file, found both",
            ),
            (
                environment(&[(OUTPUT, "xml")]),
                "BETTER_COMPUTE_OUTPUT: expected table, wide, json, yaml or name, found \"xml\"",
            ),
            (
                environment(&[(TENANT, "a/b")]),
                "BETTER_COMPUTE_TENANT is no tenant",
            ),
            (
                environment(&[(CONTEXT, "prd")]),
                "expected one of the contexts bare, prod, found \"prd\"",
            ),
        ] {
            let error = Settings::resolve(&flags(None), &variables, &contexts()).unwrap_err();
            assert_eq!(error.to_string(), message);
        }
    }
}
