//! Keeps secrets out of what leaves the node.
//!
//! Takes a text and the lines of this node's own key, gives the text without them and without whatever else looks like a
//! secret: private keys, bearer tokens, what a URL has before its host. Pure. It would rather leave out too much.

const LEFT_OUT: &str = "[left out]";

/// Ids of tokens, behind which a dot and the secret follow.
const TOKEN_PREFIXES: [&str; 4] = ["bcjt_", "tok_", "gw_", "bct_"];

/// The shortest line of a key that is looked for: shorter ones could be any word.
const KEY_LINE_CHARS_MIN: usize = 16;

/// The text without secrets.
pub(super) fn scrub(text: &str, own_key: &str) -> String {
    let mut clean = String::with_capacity(text.len());
    let mut in_key = false;
    for line in text.split_inclusive('\n') {
        if line.contains("PRIVATE KEY-----") {
            if !in_key {
                clean.push_str(LEFT_OUT);
                clean.push('\n');
            }
            in_key = line.contains("-----BEGIN") && !line.contains("-----END");
        } else if !in_key {
            clean.push_str(&without_tokens(&without_userinfo(line)));
        }
    }
    let key_lines = own_key
        .lines()
        .map(str::trim)
        .filter(|line| line.len() >= KEY_LINE_CHARS_MIN && !line.starts_with("-----"));
    for line in key_lines {
        clean = clean.replace(line, LEFT_OUT);
    }
    clean
}

/// `https://user:secret@host` becomes `https://[left out]@host`.
fn without_userinfo(line: &str) -> String {
    let mut clean = String::new();
    let mut rest = line;
    while let Some((before, after)) = rest.split_once("://") {
        clean.push_str(before);
        clean.push_str("://");
        let end = after
            .find(|c: char| c.is_whitespace() || ['/', '"', '\'', '?', '#', ')'].contains(&c))
            .unwrap_or(after.len());
        let (authority, tail) = after.split_at(end);
        match authority.rsplit_once('@') {
            Some((_, host)) => {
                clean.push_str(LEFT_OUT);
                clean.push('@');
                clean.push_str(host);
            }
            None => clean.push_str(authority),
        }
        rest = tail;
    }
    clean.push_str(rest);
    clean
}

fn without_tokens(line: &str) -> String {
    let mut clean = after_word(line, "Bearer ");
    clean = after_word(&clean, "bearer ");
    for prefix in TOKEN_PREFIXES {
        clean = after_prefix(&clean, prefix);
    }
    clean
}

/// Leaves out the word that follows `word`.
fn after_word(line: &str, word: &str) -> String {
    let mut clean = String::new();
    let mut rest = line;
    while let Some((before, after)) = rest.split_once(word) {
        clean.push_str(before);
        clean.push_str(word);
        let end = after.find(char::is_whitespace).unwrap_or(after.len());
        let (secret, tail) = after.split_at(end);
        if !secret.is_empty() {
            clean.push_str(LEFT_OUT);
        }
        rest = tail;
    }
    clean.push_str(rest);
    clean
}

/// Leaves out what follows an id of this prefix and a dot.
fn after_prefix(line: &str, prefix: &str) -> String {
    let is_part = |c: char| c.is_ascii_alphanumeric() || ['_', '-', '.'].contains(&c);
    let mut clean = String::new();
    let mut rest = line;
    while let Some((before, after)) = rest.split_once(prefix) {
        clean.push_str(before);
        clean.push_str(prefix);
        let end = after.find(|c: char| !is_part(c)).unwrap_or(after.len());
        let (token, tail) = after.split_at(end);
        match token.split_once('.') {
            Some((id, secret)) if !secret.is_empty() => {
                clean.push_str(id);
                clean.push('.');
                clean.push_str(LEFT_OUT);
            }
            Some(_) | None => clean.push_str(token),
        }
        rest = tail;
    }
    clean.push_str(rest);
    clean
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::scrub;

    fn check(text: &str, expected: &str) {
        assert_eq!(scrub(text, ""), expected);
    }

    #[test]
    fn secrets_are_left_out_and_the_rest_stays() {
        check("nothing to hide\n", "nothing to hide\n");
        check(
            "control = \"https://alice:pa55@control.example/x\"",
            "control = \"https://[left out]@control.example/x\"",
        );
        check(
            "see https://control.example/x?a=b",
            "see https://control.example/x?a=b",
        );
        check(
            "token bcjt_01aryz6s41.s3cr-et_x, done",
            "token bcjt_01aryz6s41.[left out], done",
        );
        check("node gw_01aryz6s41 linked", "node gw_01aryz6s41 linked");
        check(
            "Authorization: Bearer abc.def\nnext",
            "Authorization: Bearer [left out]\nnext",
        );
        check(
            "a\n-----BEGIN PRIVATE KEY-----\nMIGHAgEA\n-----END PRIVATE KEY-----\nb\n",
            "a\n[left out]\nb\n",
        );
    }

    #[test]
    fn the_nodes_own_key_is_left_out_wherever_it_stands() {
        let key =
            "-----BEGIN PRIVATE KEY-----\nMIGHAgEAMBMGByqGSM49AgEG\n-----END PRIVATE KEY-----\n";
        let text = "debug: key=MIGHAgEAMBMGByqGSM49AgEG!";
        assert_eq!(scrub(text, key), "debug: key=[left out]!");
    }

    proptest! {
        #[test]
        fn no_secret_survives(
            before in "[ -~\n]{0,60}", secret in "[a-zA-Z0-9]{20,40}", after in "[ -~\n]{0,60}", form in 0_u8..4,
        ) {
            let hidden = match form {
                0 => format!("bcjt_01aryz6s41.{secret}"),
                1 => format!("https://u:{secret}@h/"),
                2 => format!("Bearer {secret}"),
                _ => format!("\n-----BEGIN PRIVATE KEY-----\n{secret}\n-----END PRIVATE KEY-----\n"),
            };
            let text = format!("{before} {hidden} {after}");
            prop_assert!(!scrub(&text, "").contains(&secret), "{}", scrub(&text, ""));
        }
    }
}
