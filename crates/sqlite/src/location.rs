use std::path::{Path, PathBuf};

use everloom_core::{Error, Result};

/// Where a database is.
///
/// ```
/// # use everloom_sqlite::Location;
/// assert!(!Location::parse("sqlite://app.db").unwrap().is_memory());
/// assert!(Location::parse("file:test?mode=memory&cache=shared").unwrap().is_memory());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Location(Place);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Place {
    /// A file, by its plain path.
    File(PathBuf),
    /// A file, by a URI whose query SQLite reads.
    Uri { uri: String, path: PathBuf },
    /// No file; the text SQLite opens.
    Memory(String),
}

impl Location {
    /// Reads a plain path, `sqlite://path`, `sqlite:path`, a `file:` URI or `:memory:`.
    ///
    /// In memory are exactly `:memory:`, `file::memory:` and URIs whose query has the item
    /// `mode=memory`. A `?` begins a query in `file:` and `sqlite:` URIs, and is part of the name
    /// in a plain path.
    pub fn parse(text: &str) -> Result<Self> {
        let place = match text.strip_prefix("sqlite:") {
            Some(rest) => {
                let rest = rest.strip_prefix("//").unwrap_or(rest);
                match rest.contains('?') && !rest.starts_with("file:") {
                    true => parse_plain_or_uri(&format!("file:{rest}")),
                    false => parse_plain_or_uri(rest),
                }
            }
            None => parse_plain_or_uri(text),
        };
        place.map(Self).map_err(|problem| {
            Error::invalid("location", format!("{problem}; give a path such as `app.db`"))
        })
    }

    /// Whether nothing is written to a file.
    pub fn is_memory(&self) -> bool {
        matches!(self.0, Place::Memory(_))
    }

    /// The file.
    pub fn path(&self) -> Option<&Path> {
        match &self.0 {
            Place::File(path) | Place::Uri { path, .. } => Some(path),
            Place::Memory(_) => None,
        }
    }

    /// The same text for every way of naming the same database from within this process.
    pub fn key(&self) -> String {
        match &self.0 {
            Place::Memory(uri) => uri.clone(),
            Place::File(path) | Place::Uri { path, .. } => {
                canonical(path).to_string_lossy().into_owned()
            }
        }
    }

    /// What SQLite opens, and whether it is to be read as a URI.
    pub(crate) fn target(&self) -> (&Path, bool) {
        match &self.0 {
            Place::File(path) => (path, false),
            Place::Uri { uri, .. } => (Path::new(uri), true),
            Place::Memory(uri) => (Path::new(uri), uri != ":memory:"),
        }
    }

    /// How messages name it.
    pub(crate) fn name(&self) -> String {
        match &self.0 {
            Place::File(path) | Place::Uri { path, .. } => path.display().to_string(),
            Place::Memory(uri) => uri.clone(),
        }
    }
}

fn parse_plain_or_uri(text: &str) -> Result<Place, String> {
    if text == ":memory:" {
        return Ok(Place::Memory(text.into()));
    }
    match text.strip_prefix("file:") {
        Some(rest) => parse_uri(text, rest),
        None if text.is_empty() => Err("the path is empty".into()),
        None if text.contains('\0') => Err("a path has no zero character".into()),
        None => Ok(Place::File(text.into())),
    }
}

fn parse_uri(uri: &str, rest: &str) -> Result<Place, String> {
    let rest = rest.split('#').next().unwrap_or_default();
    let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
    if path == ":memory:" || query.split('&').any(|item| item == "mode=memory") {
        return Ok(Place::Memory(uri.into()));
    }
    // After `//` comes the name of a host, which can only be this one.
    let path = match path.strip_prefix("//") {
        Some(authority) => match authority.find('/').map(|at| authority.split_at(at)) {
            Some(("" | "localhost", path)) => path,
            _ => {
                return Err(format!("`{uri}` names a host; write `file:path` or `file:///path`"));
            }
        },
        None => path,
    };
    let path = percent_decoded(path).ok_or_else(|| format!("`{uri}` has a broken % code"))?;
    if path.is_empty() || path.contains('\0') {
        return Err(format!("`{uri}` names no file"));
    }
    Ok(match query.is_empty() {
        true => Place::File(path.into()),
        false => Place::Uri { uri: uri.into(), path: path.into() },
    })
}

fn percent_decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, tail)) = rest.split_first() {
        if byte != b'%' {
            bytes.push(byte);
            rest = tail;
            continue;
        }
        let code = std::str::from_utf8(tail.get(..2)?).ok()?;
        bytes.push(u8::from_str_radix(code, 16).ok()?);
        rest = &tail[2..];
    }
    String::from_utf8(bytes).ok()
}

/// The canonical path, also of a file that does not exist yet.
fn canonical(path: &Path) -> PathBuf {
    if let Ok(path) = path.canonicalize() {
        return path;
    }
    let parent = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    match (parent.canonicalize(), path.file_name()) {
        (Ok(parent), Some(name)) => parent.join(name),
        _ => std::path::absolute(path).unwrap_or_else(|_| path.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_exact_memory_names_are_in_memory() {
        for (text, memory) in [
            (":memory:", true),
            ("sqlite::memory:", true),
            ("sqlite://:memory:", true),
            ("file::memory:", true),
            ("file::memory:?cache=shared", true),
            ("file:jobs?mode=memory&cache=shared", true),
            ("file:jobs?cache=shared&mode=memory", true),
            ("sqlite://jobs?mode=memory", true),
            ("app.db", false),
            ("memory", false),
            ("a:memory:", false),
            ("mode=memory", false),
            ("x?mode=memory", false),
            ("file:mode=memory", false),
            ("file:x?xmode=memory", false),
            ("file:x?mode=memory2", false),
            ("file:x?note=a+mode=memory", false),
            ("file:x%3Fmode=memory", false),
            ("file:x#?mode=memory", false),
            ("sqlite://dir/:memory:.db", false),
        ] {
            assert_eq!(Location::parse(text).unwrap().is_memory(), memory, "{text}");
        }
    }

    #[test]
    fn every_spelling_of_a_file_leads_to_its_path() {
        for (text, path) in [
            ("a/b.db", "a/b.db"),
            ("/a/b.db", "/a/b.db"),
            ("sqlite://a/b.db", "a/b.db"),
            ("sqlite:///a/b.db", "/a/b.db"),
            ("sqlite:a/b.db", "a/b.db"),
            ("sqlite://a/b.db?mode=rwc", "a/b.db"),
            ("sqlite:file:a/b.db", "a/b.db"),
            ("file:a/b.db", "a/b.db"),
            ("file:/a/b.db", "/a/b.db"),
            ("file:///a/b.db", "/a/b.db"),
            ("file://localhost/a/b.db", "/a/b.db"),
            ("file:a%20b.db?mode=rwc", "a b.db"),
            ("what?.db", "what?.db"),
            ("100%.db", "100%.db"),
        ] {
            assert_eq!(Location::parse(text).unwrap().path(), Some(Path::new(path)), "{text}");
        }
    }

    #[test]
    fn what_names_no_file_is_refused() {
        for text in
            ["", "sqlite:", "sqlite://", "file:", "file:?mode=rwc", "file://far/a.db", "file:%zz"]
        {
            let error = Location::parse(text).unwrap_err();
            assert_eq!(error.code(), everloom_core::Code::InvalidInput, "{text}");
        }
    }

    #[test]
    fn all_ways_to_a_file_have_one_key_before_and_after_it_exists() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("sub")).unwrap();
        let direct = dir.path().join("app.db");
        let ways = [
            direct.display().to_string(),
            format!("sqlite://{}", direct.display()),
            format!("file:{}?mode=rwc", direct.display()),
            dir.path().join("sub/../app.db").display().to_string(),
        ];
        let keys = || ways.clone().map(|way| Location::parse(&way).unwrap().key());
        let before = keys();
        assert!(before.iter().all(|key| *key == before[0]), "{before:?}");
        std::fs::write(&direct, "").unwrap();
        assert_eq!(keys(), before);
    }

    #[test]
    fn a_memory_database_is_shared_by_its_exact_uri() {
        let key = |text| Location::parse(text).unwrap().key();
        assert_eq!(key("file:a?mode=memory&cache=shared"), "file:a?mode=memory&cache=shared");
        assert_ne!(key("file:a?mode=memory"), key("file:b?mode=memory"));
    }
}
