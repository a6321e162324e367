//! Whether a form was sent by a page of ours. Pure.
//!
//! Takes what the browser says about a request, gives yes or what is wrong. A cookie goes with every request to us,
//! whoever made it; these headers no page can write.

use axum::http::{HeaderMap, header};
use thiserror::Error;
use url::Url;

/// A form that no page of ours has sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub(super) enum Forged {
    /// The browser says that another site sent it.
    #[error("expected a form of this console, found one that another site sent")]
    OtherSite,
    /// Another origin sent it.
    #[error(
        "expected a form of this console, found one of another origin; behind a proxy, the host that browsers see has to be passed on or be that of base_url"
    )]
    OtherOrigin,
    /// Nobody says who sent it.
    #[error("expected a browser that says where a form comes from, found none of its headers")]
    Silent,
    /// It lacks the session's token.
    #[error(
        "expected a form of this session, found an older one: go back, load the page again and repeat"
    )]
    Token,
}

/// Goes on only if a page of ours sent this request, as far as the browser's headers tell.
pub(super) fn same_origin(
    headers: &HeaderMap,
    authority: Option<&str>,
    base_url: &str,
) -> Result<(), Forged> {
    let said = |name: &str| headers.get(name).map(|value| value.to_str().unwrap_or("?"));
    let site = said("sec-fetch-site");
    if site.is_some_and(|site| site != "same-origin") {
        return Err(Forged::OtherSite);
    }
    let Some(origin) = said(header::ORIGIN.as_str()) else {
        return site.map(|_| ()).ok_or(Forged::Silent);
    };
    let host = authority.or(said(header::HOST.as_str()));
    let own = origin
        .strip_prefix("https://")
        .or_else(|| origin.strip_prefix("http://"));
    let is_host = own.is_some() && own == host;
    let is_base = Url::parse(base_url).is_ok_and(|base| {
        base.origin().is_tuple() && base.origin().ascii_serialization() == origin
    });
    if is_host || is_base {
        Ok(())
    } else {
        Err(Forged::OtherOrigin)
    }
}

#[cfg(test)]
mod tests {
    use axum::http::{HeaderMap, HeaderName};

    use super::{Forged, same_origin};

    fn check(said: &[(&'static str, &str)], expected: Result<(), Forged>) {
        let mut headers = HeaderMap::new();
        for (name, value) in said {
            headers.append(HeaderName::from_static(name), value.parse().unwrap());
        }
        let found = same_origin(&headers, None, "https://control.example:8443");
        assert_eq!(found, expected, "{said:?}");
    }

    #[test]
    fn a_page_of_ours() {
        let host = ("host", "localhost:7080");
        check(&[host, ("origin", "http://localhost:7080")], Ok(()));
        check(
            &[
                host,
                ("origin", "http://localhost:7080"),
                ("sec-fetch-site", "same-origin"),
            ],
            Ok(()),
        );
        check(&[host, ("sec-fetch-site", "same-origin")], Ok(()));
        // A proxy in front speaks to us under another name.
        check(&[host, ("origin", "https://control.example:8443")], Ok(()));
    }

    #[test]
    fn pages_of_others() {
        let host = ("host", "control.example");
        check(&[host], Err(Forged::Silent));
        for origin in [
            "null",
            "https://evil.example",
            "http://control.example.evil.example",
            "https://control.example:1",
            "control.example",
            "",
        ] {
            check(&[host, ("origin", origin)], Err(Forged::OtherOrigin));
        }
        for site in ["cross-site", "same-site", "none", ""] {
            check(
                &[
                    host,
                    ("origin", "https://control.example"),
                    ("sec-fetch-site", site),
                ],
                Err(Forged::OtherSite),
            );
        }
    }
}
