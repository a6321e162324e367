//! The config file: named contexts, and which of them is current.
//!
//! Takes a path, gives contexts, and changes them so that comments stay and only the owner reads the file. A name that
//! it does not know is an error with its line, since a typo must not send a call to another control.

use std::{
    collections::BTreeMap,
    fs::{DirBuilder, File},
    io::{self, Read},
    os::unix::fs::{DirBuilderExt, PermissionsExt},
    path::{Path, PathBuf},
};

use etcetera::{BaseStrategy, HomeDirError, choose_base_strategy};
use serde::Deserialize;
use toml_edit::{DocumentMut, Item, Table, TableLike, TomlError, Value};

use super::{
    limits::CONFIG_BYTES_MAX,
    print::{Output, note},
    secret::PrivateFile,
};

/// What the config file holds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Contexts {
    /// The context that is used where none is named.
    pub current_context: Option<String>,
    /// All contexts by name.
    #[serde(default)]
    pub contexts: BTreeMap<String, Context>,
}

/// One control, and who one is there.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Context {
    /// Where control listens.
    pub url: Option<String>,
    /// The API token.
    pub token: Option<Hidden>,
    /// A file with the API token.
    pub token_file: Option<PathBuf>,
    /// The tenant.
    pub tenant: Option<String>,
    /// How to print answers.
    pub output: Option<Output>,
    /// Certificates to trust instead of the system's.
    pub ca_file: Option<PathBuf>,
    /// Whether the token may travel over plain http to another machine.
    pub allow_http: Option<bool>,
}

/// A text that no debug print shows.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub(super) struct Hidden(pub String);

impl std::fmt::Debug for Hidden {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Hidden(…)")
    }
}

/// Why the config file cannot be used.
#[derive(Debug, thiserror::Error)]
pub(super) enum ContextsError {
    #[error("cannot find the home folder that holds the config file")]
    Home(#[source] HomeDirError),
    #[error("cannot read the config file {}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("the config file {} is not as expected", path.display())]
    Form {
        path: PathBuf,
        source: Box<toml::de::Error>,
    },
    #[error("the config file {} cannot be edited", path.display())]
    Edit {
        path: PathBuf,
        source: Box<TomlError>,
    },
    #[error("expected a table of contexts in {}, found something else", path.display())]
    Table { path: PathBuf },
    #[error("cannot write the config file {}", path.display())]
    Write { path: PathBuf, source: io::Error },
    #[error("expected one of the contexts {}, found \"{name}\"", known.join(", "))]
    Unknown { name: String, known: Vec<String> },
    #[error("expected a context by the name \"{name}\", found a config file without contexts")]
    NoContexts { name: String },
}

impl Contexts {
    /// Reads the file. A file that is not there is an empty one.
    pub(super) fn load(path: &Path) -> Result<Self, ContextsError> {
        let (text, mode) = read(path)?;
        let contexts: Self = toml::from_str(&text).map_err(|source| ContextsError::Form {
            path: path.to_owned(),
            source: Box::new(source),
        })?;
        let holds_a_token = contexts.contexts.values().any(|one| one.token.is_some());
        if holds_a_token && mode & 0o077 != 0 {
            note(&format!(
                "warning: {0} holds a token and others can read it; hint: chmod 600 {0}",
                path.display()
            ));
        }
        Ok(contexts)
    }

    /// The context by this name.
    pub(super) fn named(&self, name: &str) -> Result<&Context, ContextsError> {
        let name = name.to_owned();
        match self.contexts.get(&name) {
            Some(context) => Ok(context),
            None if self.contexts.is_empty() => Err(ContextsError::NoContexts { name }),
            None => Err(ContextsError::Unknown {
                name,
                known: self.contexts.keys().cloned().collect(),
            }),
        }
    }
}

/// Where the config file is where nobody says otherwise.
pub(super) fn default_path() -> Result<PathBuf, ContextsError> {
    let folders = choose_base_strategy().map_err(ContextsError::Home)?;
    Ok(folders.config_dir().join("better-compute/config.toml"))
}

/// Makes a context the current one.
pub(super) fn make_current(path: &Path, name: &str) -> Result<(), ContextsError> {
    edit(path, |document| {
        set(document.as_table_mut(), "current_context", name);
        Some(())
    })
}

/// Writes a context, in place of one with the same name, and makes it the current one.
pub(super) fn save(path: &Path, name: &str, context: &Context) -> Result<(), ContextsError> {
    edit(path, |document| {
        set(document.as_table_mut(), "current_context", name);
        let contexts = document
            .entry("contexts")
            .or_insert_with(|| {
                let mut table = Table::new();
                table.set_implicit(true);
                Item::Table(table)
            })
            .as_table_like_mut()?;
        let table = contexts
            .entry(name)
            .or_insert_with(|| Item::Table(Table::new()))
            .as_table_like_mut()?;
        write_fields(table, context);
        Some(())
    })
}

fn write_fields(table: &mut dyn TableLike, context: &Context) {
    let path = |path: &PathBuf| path.to_string_lossy().into_owned();
    let texts = [
        ("url", context.url.clone()),
        ("token", context.token.as_ref().map(|token| token.0.clone())),
        ("token_file", context.token_file.as_ref().map(path)),
        ("tenant", context.tenant.clone()),
        ("ca_file", context.ca_file.as_ref().map(path)),
    ];
    for (key, text) in texts {
        set_or_remove(table, key, text);
    }
    set_or_remove(table, "allow_http", context.allow_http);
}

fn set_or_remove(table: &mut dyn TableLike, key: &str, new: Option<impl Into<Value>>) {
    match new {
        Some(new) => set(table, key, new),
        None => {
            table.remove(key);
        }
    }
}

/// Sets a key. Where it is there already, what stands around its value stays, such as a comment behind it.
fn set(table: &mut dyn TableLike, key: &str, new: impl Into<Value>) {
    let mut new = new.into();
    match table.get_mut(key).and_then(Item::as_value_mut) {
        Some(old) => {
            *new.decor_mut() = old.decor().clone();
            *old = new;
        }
        None => {
            table.insert(key, Item::Value(new));
        }
    }
}

/// Changes the file, comments and order kept, so that a power cut leaves the old one or the new one.
fn edit(
    path: &Path,
    change: impl FnOnce(&mut DocumentMut) -> Option<()>,
) -> Result<(), ContextsError> {
    let failed = |source| ContextsError::Write {
        path: path.to_owned(),
        source,
    };
    let (text, _) = read(path)?;
    let mut document: DocumentMut = text.parse().map_err(|source| ContextsError::Edit {
        path: path.to_owned(),
        source: Box::new(source),
    })?;
    change(&mut document).ok_or_else(|| ContextsError::Table {
        path: path.to_owned(),
    })?;
    if let Some(folder) = path.parent() {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(folder)
            .map_err(failed)?;
    }
    // A link, as people keep their dot files, stays one: what it points to is replaced.
    let target = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    PrivateFile::prepare(&target)
        .and_then(|file| file.write(document.to_string().as_bytes()))
        .map_err(failed)
}

/// The text and who may read it.
fn read(path: &Path) -> Result<(String, u32), ContextsError> {
    let failed = |source| ContextsError::Read {
        path: path.to_owned(),
        source,
    };
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok((String::new(), 0)),
        Err(error) => return Err(failed(error)),
    };
    let mode = file.metadata().map_err(failed)?.permissions().mode();
    let mut text = String::new();
    file.take(CONFIG_BYTES_MAX)
        .read_to_string(&mut text)
        .map_err(failed)?;
    Ok((text, mode))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(text: &str) -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("deep/config.toml");
        if !text.is_empty() {
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            PrivateFile::prepare(&path)
                .unwrap()
                .write(text.as_bytes())
                .unwrap();
        }
        (folder, path)
    }

    fn context() -> Context {
        Context {
            url: Some("https://control.example".to_owned()),
            token: Some(Hidden("hush".to_owned())),
            tenant: Some("root".to_owned()),
            ..Context::default()
        }
    }

    #[test]
    fn what_was_saved_is_loaded_and_private() {
        let (_folder, path) = file("");
        save(&path, "prod", &context()).unwrap();
        let contexts = Contexts::load(&path).unwrap();
        assert_eq!(contexts.current_context.as_deref(), Some("prod"));
        assert_eq!(contexts.named("prod").unwrap(), &context());
        let mode = path.metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn comments_and_other_contexts_stay() {
        let (_folder, path) = file(
            "# mine\ncurrent_context = \"a\" # today\n\n[contexts.a]\nurl = \"http://a\" # the first\noutput = \"wide\"\n",
        );
        save(&path, "b", &context()).unwrap();
        make_current(&path, "a").unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        for kept in ["# mine", "# today", "# the first", "output = \"wide\""] {
            assert!(text.contains(kept), "{text}");
        }
        let contexts = Contexts::load(&path).unwrap();
        assert_eq!(contexts.contexts.len(), 2);
        assert_eq!(contexts.current_context.as_deref(), Some("a"));
    }

    #[test]
    fn saving_again_forgets_the_old_token() {
        let (_folder, path) = file("");
        save(&path, "prod", &context()).unwrap();
        let with_file = Context {
            token: None,
            token_file: Some("/run/token".into()),
            ..context()
        };
        save(&path, "prod", &with_file).unwrap();
        assert!(!std::fs::read_to_string(&path).unwrap().contains("hush"));
        assert_eq!(
            Contexts::load(&path).unwrap().named("prod").unwrap(),
            &with_file
        );
    }

    #[test]
    fn a_typo_is_an_error_with_its_line_and_key() {
        let (_folder, path) = file("[contexts.a]\nurl = \"http://a\"\ntokn = \"x\"\n");
        let ContextsError::Form { source, .. } = Contexts::load(&path).unwrap_err() else {
            panic!("expected an error of form");
        };
        let shown = source.to_string();
        assert!(shown.contains("line 3"), "{shown}");
        assert!(shown.contains("unknown field `tokn`"), "{shown}");
    }

    #[test]
    fn a_name_that_is_not_there_says_which_are() {
        let (_folder, path) = file("");
        assert!(matches!(
            Contexts::load(&path).unwrap().named("x"),
            Err(ContextsError::NoContexts { .. })
        ));
        save(&path, "prod", &context()).unwrap();
        let error = Contexts::load(&path).unwrap().named("x").unwrap_err();
        assert_eq!(
            error.to_string(),
            "expected one of the contexts prod, found \"x\""
        );
    }

    #[test]
    fn a_linked_file_stays_linked() {
        let (folder, path) = file("# mine\n");
        let link = folder.path().join("link.toml");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        save(&link, "prod", &context()).unwrap();
        assert!(link.symlink_metadata().unwrap().is_symlink());
        assert!(std::fs::read_to_string(&path).unwrap().contains("prod"));
    }

    #[test]
    fn no_debug_print_shows_a_token() {
        assert!(!format!("{:?}", context()).contains("hush"));
    }
}
