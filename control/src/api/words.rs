//! What the words of the protocol look like in the API's description.
//!
//! Gives a schema for each type that the protocol owns: it knows nothing of descriptions, so the types here stand for
//! its own, under the same names. Nothing ever makes a value of them.

use std::borrow::Cow;

use utoipa::{
    PartialSchema, ToSchema,
    openapi::{
        RefOr,
        schema::{Object, ObjectBuilder, Schema, SchemaFormat, Type},
    },
};

/// Texts of a form.
macro_rules! texts {
    ($($name:ident $pattern:expr, $description:expr;)*) => {$(
        #[doc = $description]
        pub(crate) enum $name {}

        impl PartialSchema for $name {
            fn schema() -> RefOr<Schema> {
                text($pattern, $description).into()
            }
        }

        impl ToSchema for $name {
            fn name() -> Cow<'static, str> {
                stringify!($name).into()
            }
        }
    )*};
}

/// Numbers between two bounds.
macro_rules! numbers {
    ($($name:ident $kind:ident $lowest:expr, $highest:expr, $description:expr;)*) => {$(
        #[doc = $description]
        pub(crate) enum $name {}

        impl PartialSchema for $name {
            fn schema() -> RefOr<Schema> {
                number(Type::$kind, $lowest, $highest, $description).into()
            }
        }

        impl ToSchema for $name {
            fn name() -> Cow<'static, str> {
                stringify!($name).into()
            }
        }
    )*};
}

texts! {
    TenantId "^[A-Za-z0-9._:-]{1,128}$", "A tenant; `root` is that of those who operate the platform.";
    PoolId "^pool_[0-9a-hjkmnp-tv-z]{26,52}$", "A pool of nodes.";
    NodeId "^node_[0-9a-hjkmnp-tv-z]{26,52}$", "A node.";
    RolloutId "^rollout_[0-9a-hjkmnp-tv-z]{26,52}$", "A rollout.";
    WorkflowId "^wf_[0-9a-hjkmnp-tv-z]{26,52}$", "A workflow.";
    ReleaseId "^rel_[0-9a-hjkmnp-tv-z]{26,52}$", "A registered release.";
    GatewayId "^gw_[0-9a-hjkmnp-tv-z]{26,52}$", "A gateway.";
    TokenId "^tok_[0-9a-hjkmnp-tv-z]{26,52}$", "An API token, without its secret.";
    JoinTokenId "^bcjt_[0-9a-hjkmnp-tv-z]{26,52}$", "A join token, without its secret.";
    CommandId "^cmd_[0-9a-hjkmnp-tv-z]{26,52}$", "Something that a node is to do once.";
    CommandKind "^(daemon\\.upgrade|daemon\\.restart|diagnostics\\.collect)$", "What a command does.";
    CommandLane "^(control|work)$", "Commands of one lane run one after the other.";
    ReportPart "^(versions|status|doctor|record|config|disk|log)$", "A part of a diagnostics report.";
    EventId "^evt_[0-9a-hjkmnp-tv-z]{26,52}$", "Something that happened.";
    WebhookId "^whk_[0-9a-hjkmnp-tv-z]{26,52}$", "A webhook.";
    AttemptId "^att_[0-9a-hjkmnp-tv-z]{26,52}$", "One try to bring one node to one version.";
    Version "^v?[0-9]+\\.[0-9]+\\.[0-9]+([-+][0-9A-Za-z.-]+)?$", "A release's version; answers have no leading `v`.";
    Platform "^[a-z0-9]+-[a-z0-9_]+$", "What a binary runs on, such as `linux-amd64`.";
    Sha256 "^[0-9a-f]{64}$", "A SHA-256, in lower-case hex.";
    Pin "^sha256/[A-Za-z0-9+/]{43}=$", "The pin of a public key: SHA-256 of its SPKI DER, in base64.";
    Slot "^[ab]$", "One of a node's two places for a binary.";
}

numbers! {
    Share Number 0.0, 1.0, "A share, with at most 6 decimal places.";
    Percent Number 0.0, 100.0, "A percentage above 0, with at most 4 decimal places.";
    Sequence Integer 0.0, 9_007_199_254_740_991.0, "A release's place in the order of releases; it only grows. 0 is a package's own binary.";
    ReleaseFloor Integer 0.0, 9_007_199_254_740_991.0, "The sequence of the oldest release that a node still accepts.";
}

/// A point in time in whole seconds.
pub(crate) enum Timestamp {}

impl PartialSchema for Timestamp {
    fn schema() -> RefOr<Schema> {
        moment("A point in time, RFC 3339 in UTC, whole seconds.").into()
    }
}

impl ToSchema for Timestamp {}

/// A signed manifest, as `release sign` writes it.
#[derive(ToSchema)]
#[expect(dead_code, reason = "it describes a text that is kept as it came")]
pub(crate) struct SignedManifest {
    /// The body's exact bytes, in base64.
    manifest: String,
    /// Who signed them.
    signatures: Vec<ManifestSignature>,
}

/// One signature over a manifest's body.
#[derive(ToSchema)]
#[expect(dead_code, reason = "it describes a text that is kept as it came")]
pub(crate) struct ManifestSignature {
    /// The key that is said to have signed; verification goes by the key itself.
    kid: String,
    /// `r` and `s`, 64 bytes in base64.
    sig: String,
}

/// A binary that has not proven itself yet.
#[derive(ToSchema)]
#[expect(dead_code, reason = "it describes the protocol's type of this name")]
pub(crate) struct TrialFacts {
    /// Where it lies.
    slot: Slot,
    /// Its release's sequence.
    sequence: Sequence,
    /// Its digest.
    digest: Sha256,
    /// The attempt that it belongs to.
    attempt: AttemptId,
    /// How often it was started.
    starts: u32,
}

/// One try to bring a node to a version.
#[derive(ToSchema)]
#[schema(rename_all = "camelCase")]
#[expect(dead_code, reason = "it describes the protocol's type of this name")]
pub(crate) struct AttemptFacts {
    /// Its id.
    id: AttemptId,
    /// The version that it was to bring.
    target: String,
    /// How far it came: `running`, `confirmed`, `refused`, `failed`, `crashed`, `hung`, `no-welcome`, `unstable`,
    /// `environment` or `cancelled`.
    outcome: String,
    /// Whether it has ended for good.
    #[schema(rename = "final")]
    is_final: bool,
    /// Tries so far.
    tries: u32,
    /// The reason as a word; empty where nothing went wrong.
    code: String,
    /// The reason as a sentence.
    message: String,
    /// The dead binary's exit status.
    exit_status: Option<i32>,
    /// The signal that ended it.
    signal: Option<i32>,
    /// The last lines that it wrote.
    log: String,
}

/// What a node's updater does now.
#[derive(ToSchema)]
#[expect(dead_code, reason = "it describes the protocol's type of this name")]
pub(crate) struct Progress {
    /// For which attempt.
    attempt: AttemptId,
    /// Which step, such as `downloading`.
    phase: String,
    /// How much of the step, 0 to 100.
    percent: u8,
}

fn text(pattern: &str, description: &str) -> Object {
    ObjectBuilder::new()
        .schema_type(Type::String)
        .pattern(Some(pattern))
        .description(Some(description))
        .build()
}

fn number(kind: Type, lowest: f64, highest: f64, description: &str) -> Object {
    ObjectBuilder::new()
        .schema_type(kind)
        .minimum(Some(lowest))
        .maximum(Some(highest))
        .description(Some(description))
        .build()
}

/// How a point in time looks.
pub(crate) fn moment(description: &str) -> Object {
    ObjectBuilder::new()
        .schema_type(Type::String)
        .format(Some(SchemaFormat::Custom("date-time".to_owned())))
        .description(Some(description))
        .build()
}
