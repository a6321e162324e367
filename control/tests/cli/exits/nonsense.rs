//! Command lines that make no sense.

/// What makes no sense, and what is said about it.
pub(super) const NONSENSE: &[(&str, &str)] = &[
    (
        "rollouts create --version 1.0.0 --waves 10,10,100",
        "found 10 after 10",
    ),
    (
        "rollouts create --version 1.0.0 --waves 50,10,100",
        "found 10 after 50",
    ),
    (
        "rollouts create --version 1.0.0 --waves 1,50",
        "expected the last wave to be 100, found 50",
    ),
    (
        "rollouts create --version 1.0.0 --waves 0,100",
        "expected percentages",
    ),
    (
        "rollouts create --version 1.0.0 --waves 1,NaN,100",
        "expected percentages",
    ),
    (
        "rollouts create --version 1.0.0 --waves=",
        "expected percentages",
    ),
    (
        "rollouts create --version 1.0.0 --max-failure-ratio 1.1",
        "expected a share from 0 to 1",
    ),
    (
        "rollouts create --version 1.0.0 --max-failure-ratio=-0",
        "expected a share from 0 to 1",
    ),
    (
        "rollouts create --version 1.0.0 --max-failure-ratio 105%",
        "or a percentage like 5%",
    ),
    (
        "rollouts create --version 1.0.0 --soak 8d",
        "expected 0s to 7d, found 8d",
    ),
    (
        "rollouts create --version 1.0.0 --soak 10",
        "expected a duration",
    ),
    (
        "rollouts create --version 1.0.0 --upgrade-timeout 59s",
        "expected 1m to 24h, found 59s",
    ),
    (
        "rollouts create --version 1.0.0 --key é",
        "expected 1 to 128 letters",
    ),
    (
        "rollouts create --version 1.0.0 --selector edge",
        "expected a label like",
    ),
    (
        "rollouts create --version 1.0.0 --selector a=b --selector a=c",
        "expected one value for a",
    ),
    (
        "rollouts create --version 1.0.0 --node node_1",
        "expected a node's id",
    ),
    ("rollouts create --version 1.0.0 --timeout 1m", "--watch"),
    ("rollouts create --version 1.0", "expected a version like"),
    ("rollouts create", "--version"),
    (
        "rollouts get rollout_x",
        "expected a rollout's id, or 4 or more",
    ),
    ("rollouts get node_4k2m8x", "expected a rollout's id"),
    ("webhooks test ho", "expected a webhook's id"),
    (
        "pools create edge --budget 2",
        "expected a share from 0 to 1",
    ),
    (
        "pools create edge --budget -1",
        "'--budget <SHARE>': expected a share from 0 to 1",
    ),
    (
        "rollouts create --version 1.0.0 --soak -1s",
        "expected a duration",
    ),
    ("pools update edge", "--name"),
    (
        "join-tokens create --pool p --uses 0",
        "0 is not in 1..=100000",
    ),
    (
        "join-tokens create --pool p --expires soon",
        "expected a duration",
    ),
    (
        "gateways enrol g --url https://g/session",
        "wss://gateway.example/session",
    ),
    ("tokens create --subject me", "--permission"),
    (
        "tokens create --subject me --permission compute:fleet",
        "compute:pool:read",
    ),
    ("pools list -o xml", "possible values"),
    ("pools list --tenant a/b", "--tenant is no tenant"),
    ("pools lsit", "list"),
    ("pools", "Usage"),
];
