//! Which layer decides: flags, then variables, then the context, then the defaults.

use std::{path::PathBuf, str::FromStr};

use bc_protocol::id::TenantId;
use url::Url;

use super::{
    Cleartext, Environment, OUTPUT, Origin, Settings, SettingsError, Sourced, TENANT, TOKEN,
    TOKEN_FILE, TokenSource, URL, parse_output,
};
use crate::cli::{contexts::Context, globals::Globals, print::Output, secret::Secret};

/// Where the guides and the package let control listen.
const DEFAULT_URL: &str = "http://127.0.0.1:8443";

/// Whether an address is the one that is taken where nobody gives one.
pub(in crate::cli) fn is_default(base: &Url) -> bool {
    base.as_str().trim_end_matches('/') == DEFAULT_URL
}

/// The tenant that releases and rollouts belong to.
const DEFAULT_TENANT: &str = "root";

/// What is said, by whom.
#[derive(Debug)]
pub(super) struct Layers<'a> {
    pub flags: &'a Globals,
    pub environment: &'a Environment,
    pub context: Option<(&'a str, &'a Context)>,
}

impl Layers<'_> {
    /// The settings in force.
    pub(super) fn settings(&self) -> Result<Settings, SettingsError> {
        Ok(Settings {
            url: self.url()?,
            token: self.token()?,
            tenant: self.tenant()?,
            output: self.output()?,
            ca_file: self.ca_file(),
            cleartext: self.cleartext(),
            context: self.context.map(|(name, _)| name.to_owned()),
        })
    }

    fn url(&self) -> Result<Sourced<Url>, SettingsError> {
        let Sourced { value, origin } = self
            .first(("--url", self.flags.url.clone()), URL, |context| {
                context.url.clone()
            })
            .unwrap_or_else(|| Sourced {
                value: DEFAULT_URL.to_owned(),
                origin: Origin::Default,
            });
        match address(&value) {
            Some(value) => Ok(Sourced { value, origin }),
            None => Err(SettingsError::Url {
                origin,
                found: value,
            }),
        }
    }

    /// The first layer that names a token, in whichever form, decides: a flag with a file counts more than a variable
    /// with a token.
    fn token(&self) -> Result<Option<Sourced<TokenSource>>, SettingsError> {
        let flags = (
            Origin::Flag("--token"),
            self.flags.token.clone(),
            self.flags.token_file.clone(),
        );
        let variables = (
            Origin::Variable(TOKEN),
            self.environment.get(TOKEN).map(str::to_owned),
            self.environment.get(TOKEN_FILE).map(PathBuf::from),
        );
        let context = self.context.map(|(name, context)| {
            (
                Origin::Context(name.to_owned()),
                context.token.as_ref().map(|token| token.0.clone()),
                context.token_file.clone(),
            )
        });
        for (origin, token, file) in [flags, variables].into_iter().chain(context) {
            let (value, origin) = match (token, file) {
                (Some(_), Some(_)) => return Err(SettingsError::TwoTokens { origin }),
                (Some(token), None) => (TokenSource::Given(Secret::new(&token)), origin),
                (None, Some(file)) => (TokenSource::File(file), of_a_file(origin)),
                (None, None) => continue,
            };
            return Ok(Some(Sourced { value, origin }));
        }
        Ok(None)
    }

    fn tenant(&self) -> Result<Sourced<TenantId>, SettingsError> {
        let Sourced { value, origin } = self
            .first(("--tenant", self.flags.tenant.clone()), TENANT, |context| {
                context.tenant.clone()
            })
            .unwrap_or_else(|| Sourced {
                value: DEFAULT_TENANT.to_owned(),
                origin: Origin::Default,
            });
        match TenantId::from_str(&value) {
            Ok(value) => Ok(Sourced { value, origin }),
            Err(source) => Err(SettingsError::Tenant { origin, source }),
        }
    }

    fn output(&self) -> Result<Sourced<Output>, SettingsError> {
        if let Some(value) = self.flags.output {
            let origin = Origin::Flag("--output");
            return Ok(Sourced { value, origin });
        }
        if let Some(text) = self.environment.get(OUTPUT) {
            let origin = Origin::Variable(OUTPUT);
            return match parse_output(text) {
                Ok(value) => Ok(Sourced { value, origin }),
                Err(_) => Err(SettingsError::Output {
                    origin,
                    found: text.to_owned(),
                }),
            };
        }
        let in_context = self
            .context
            .and_then(|(name, context)| Some((name, context.output?)));
        Ok(match in_context {
            Some((name, value)) => Sourced {
                value,
                origin: Origin::Context(name.to_owned()),
            },
            None => Sourced {
                value: Output::default(),
                origin: Origin::Default,
            },
        })
    }

    fn ca_file(&self) -> Option<Sourced<PathBuf>> {
        if let Some(value) = self.flags.ca_file.clone() {
            let origin = Origin::Flag("--ca-file");
            return Some(Sourced { value, origin });
        }
        let (name, context) = self.context?;
        Some(Sourced {
            value: context.ca_file.clone()?,
            origin: Origin::Context(name.to_owned()),
        })
    }

    fn cleartext(&self) -> Cleartext {
        let in_context = self
            .context
            .is_some_and(|(_, context)| context.allow_http == Some(true));
        if self.flags.allow_http || in_context {
            Cleartext::Allowed
        } else {
            Cleartext::Refused
        }
    }

    fn first(
        &self,
        (flag, given): (&'static str, Option<String>),
        variable: &'static str,
        in_context: impl FnOnce(&Context) -> Option<String>,
    ) -> Option<Sourced<String>> {
        if let Some(value) = given {
            let origin = Origin::Flag(flag);
            return Some(Sourced { value, origin });
        }
        if let Some(value) = self.environment.get(variable) {
            return Some(Sourced {
                value: value.to_owned(),
                origin: Origin::Variable(variable),
            });
        }
        let (name, context) = self.context?;
        Some(Sourced {
            value: in_context(context)?,
            origin: Origin::Context(name.to_owned()),
        })
    }
}

/// An address of control: http or https, and nothing in it that a call would not use.
fn address(text: &str) -> Option<Url> {
    let url = Url::parse(text).ok()?;
    let plain = matches!(url.scheme(), "http" | "https")
        && url.has_host()
        && url.username().is_empty()
        && url.password().is_none()
        && url.query().is_none()
        && url.fragment().is_none();
    plain.then_some(url)
}

/// A token's file has a flag and a variable of its own.
fn of_a_file(token: Origin) -> Origin {
    match token {
        Origin::Flag(_) => Origin::Flag("--token-file"),
        Origin::Variable(_) => Origin::Variable(TOKEN_FILE),
        Origin::Context(name) => Origin::Context(name),
        Origin::Default => Origin::Default,
    }
}

#[cfg(test)]
mod tests {
    use super::address;

    #[test]
    fn addresses_are_http_with_nothing_that_no_call_uses() {
        for text in ["http://a", "https://a:1", "https://a/fleet"] {
            assert!(address(text).is_some(), "{text}");
        }
        for text in [
            "",
            "a",
            "wss://a",
            "https://",
            "https://u@a",
            "https://u:p@a",
            "https://a?x",
            "https://a#x",
            "file:///a",
        ] {
            assert!(address(text).is_none(), "{text}");
        }
    }
}
