//! Which pages there are, in the order in which they are offered.

/// One page.
#[derive(Clone, Copy, Debug)]
pub(super) struct Page {
    /// Its name, without an ending.
    pub(super) name: &'static str,
    /// What the list of pages calls it.
    pub(super) title: &'static str,
    /// Where it stands in that list.
    pub(super) part: Part,
    /// Where its text is.
    pub(super) source: Source,
}

/// A part of the list of pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// What to do first.
    Start,
    /// What to do with a fleet that runs.
    Operate,
    /// What to look up.
    Reference,
}

impl Part {
    pub(super) const ALL: [Self; 3] = [Self::Start, Self::Operate, Self::Reference];

    pub(super) fn title(self) -> &'static str {
        match self {
            Self::Start => "Start",
            Self::Operate => "Operate",
            Self::Reference => "Look up",
        }
    }
}

/// Where a page's text is.
#[derive(Clone, Copy, Debug)]
pub(super) enum Source {
    /// Somebody wrote it.
    Written(&'static str),
    /// It follows from the API's description.
    Api,
}

/// What is shown where there is no such page.
pub(super) const MISSING: Page = Page {
    name: "",
    title: "No such page",
    part: Part::Start,
    source: Source::Written(
        "# No such page\n\nThe list of pages names all there are. [Where to go](index.md) says what each is for.\n",
    ),
};

macro_rules! written {
    ($part:ident, $name:literal, $title:literal) => {
        Page {
            name: $name,
            title: $title,
            part: Part::$part,
            source: Source::Written(include_str!(concat!(
                "../../../packaging/docs/",
                $name,
                ".md"
            ))),
        }
    };
}

/// Every page.
pub(super) const PAGES: &[Page] = &[
    written!(Start, "index", "Where to go"),
    written!(Start, "first-rollout", "First rollout"),
    written!(Start, "install", "Installing"),
    written!(Start, "signing", "Signing with two people"),
    written!(Operate, "paused", "Reading a paused rollout"),
    written!(Operate, "roll-forward", "Rolling forward"),
    written!(Operate, "owner", "A machine of your own"),
    written!(Operate, "work", "Work beside rollouts"),
    written!(Operate, "unprivileged", "A node without rights"),
    written!(Operate, "cluster", "PostgreSQL and several gateways"),
    written!(Operate, "backup", "Backup and restore"),
    written!(Operate, "upgrade-control", "Upgrading control"),
    written!(Operate, "too-old", "Nodes too old to talk"),
    written!(Operate, "security", "Security"),
    Page {
        name: "api",
        title: "API",
        part: Part::Reference,
        source: Source::Api,
    },
    written!(Reference, "events", "Events and webhooks"),
    written!(Reference, "metrics", "Metrics"),
    written!(Reference, "configuration", "Configuration"),
];
