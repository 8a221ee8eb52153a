//! Decides which mongod the tests use.
//!
//! In this order: `MONGOTX_MONGOD`, `mongod` on PATH, the copy in the user's cache, a copy fetched
//! into the cache (`fetch.rs`).

use std::ffi::OsString;
use std::path::PathBuf;

use crate::error::Error;
use crate::fetch::{self, is_executable};

/// The environment variables that decide, as values, so that a test can decide without setting any.
#[derive(Clone, Debug, Default)]
pub struct Environment {
    /// `MONGOTX_MONGOD`: the mongod to use, whatever else there is.
    pub mongod: Option<OsString>,
    /// `PATH`: the folders to look for `mongod` in.
    pub path: Option<OsString>,
    /// `XDG_CACHE_HOME`: the user's cache folder.
    pub cache_home: Option<OsString>,
    /// `HOME`: its `.cache` is the cache folder when `XDG_CACHE_HOME` is not set.
    pub home: Option<OsString>,
}

impl Environment {
    /// The variables of this process.
    pub fn of_process() -> Self {
        let var = |name| std::env::var_os(name).filter(|value| !value.is_empty());
        Self { mongod: var("MONGOTX_MONGOD"), path: var("PATH"), cache_home: var("XDG_CACHE_HOME"), home: var("HOME") }
    }

    /// The project's own folder in the user's cache. Relative values are ignored, as the XDG rules
    /// ask.
    fn cache_folder(&self) -> Option<PathBuf> {
        let absolute = |value: &Option<OsString>| value.as_ref().map(PathBuf::from).filter(|path| path.is_absolute());
        let cache = absolute(&self.cache_home).or_else(|| Some(absolute(&self.home)?.join(".cache")))?;
        Some(cache.join("mongotx"))
    }

    fn on_path(&self) -> Option<PathBuf> {
        let folders = std::env::split_paths(self.path.as_ref()?);
        folders.map(|folder| folder.join("mongod")).find(|file| is_executable(file))
    }
}

/// The path of a mongod that can be run, fetched if there is none yet.
///
/// Blocks: for milliseconds when there is one, for up to some minutes when it must be fetched.
/// Several processes may call it at the same time; one fetches and the others wait for it.
///
/// # Errors
/// [`Error::BadVariable`], [`Error::NoCacheFolder`], [`Error::Fetch`].
pub fn locate() -> Result<PathBuf, Error> {
    locate_in(&Environment::of_process())
}

/// [`locate`] with the variables given by the caller.
///
/// # Errors
/// As [`locate`].
pub fn locate_in(environment: &Environment) -> Result<PathBuf, Error> {
    if let Some(named) = &environment.mongod {
        let path = PathBuf::from(named);
        return if is_executable(&path) { Ok(path) } else { Err(Error::BadVariable { path }) };
    }
    if let Some(found) = environment.on_path() {
        return Ok(found);
    }
    let cache = environment.cache_folder().ok_or(Error::NoCacheFolder)?;
    let cached = fetch::place_in(&cache);
    if is_executable(&cached) { Ok(cached) } else { fetch::fetch_once(&cache) }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn folder_with_mongod(below: &str, mode: u32) -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join(below).join("mongod");
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(&file, "").unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).unwrap();
        (folder, file)
    }

    #[test]
    fn a_variable_that_points_to_nothing_is_named_in_the_error() {
        let environment = Environment { mongod: Some("/nowhere/mongod".into()), ..Environment::default() };
        let error = locate_in(&environment).unwrap_err().to_string();
        assert!(error.contains("MONGOTX_MONGOD") && error.contains("/nowhere/mongod"), "{error}");
    }

    #[test]
    fn a_variable_that_points_to_a_file_without_the_execute_bit_is_refused() {
        let (_folder, file) = folder_with_mongod("", 0o644);
        let environment = Environment { mongod: Some(file.into()), ..Environment::default() };
        assert!(matches!(locate_in(&environment), Err(Error::BadVariable { .. })));
    }

    #[test]
    fn the_variable_wins_over_path_and_path_over_cache() {
        let (_a, named) = folder_with_mongod("", 0o755);
        let (path, on_path) = folder_with_mongod("", 0o755);
        let (cache, _) = folder_with_mongod("mongotx/mongod-6.0.5", 0o755);
        let mut environment = Environment {
            mongod: Some(named.clone().into()),
            path: Some(path.path().into()),
            cache_home: Some(cache.path().into()),
            home: None,
        };
        assert_eq!(locate_in(&environment).unwrap(), named);
        environment.mongod = None;
        assert_eq!(locate_in(&environment).unwrap(), on_path);
    }

    #[test]
    fn the_cache_is_below_xdg_cache_home_else_below_home() {
        let (cache, cached) = folder_with_mongod("mongotx/mongod-6.0.5", 0o755);
        let by_xdg = Environment { cache_home: Some(cache.path().into()), ..Environment::default() };
        assert_eq!(locate_in(&by_xdg).unwrap(), cached);

        let (home, cached) = folder_with_mongod(".cache/mongotx/mongod-6.0.5", 0o755);
        let by_home = Environment {
            cache_home: Some("relative".into()),
            home: Some(home.path().into()),
            ..Environment::default()
        };
        assert_eq!(locate_in(&by_home).unwrap(), cached);
    }

    #[test]
    fn without_a_cache_folder_the_error_says_what_to_set() {
        let error = locate_in(&Environment::default()).unwrap_err().to_string();
        assert!(error.contains("XDG_CACHE_HOME") && error.contains("MONGOTX_MONGOD"), "{error}");
    }
}
