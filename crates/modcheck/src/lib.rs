//! Checks that the modules of a crate use each other in one direction: no two that stand side by
//! side, in the crate or in one of its folders, need each other, over others or by themselves.
//!
//! ```
//! modcheck::assert_no_circles(env!("CARGO_MANIFEST_DIR"));
//! ```
//!
//! For tests only, and without dependencies, so that every crate's tests can use it. [`mod@paths`]
//! finds the paths that a file names, [`sources`] reads a crate and knows which module uses which,
//! [`circles`] finds the circles among them.
//!
//! A module uses what it names by a path that begins with `crate`, `super` or `self`, in its own
//! file or in one of its folder. Names that a module imports from another one are followed to where
//! they are from. Not counted: what a module names of its parent's own, what only tests use,
//! methods (they name no module), and imports of everything (`use …::*`) on the way to a name.

pub mod circles;
pub mod paths;
pub mod sources;

use std::path::Path;

use crate::{circles::Circle, sources::Sources};

/// A circle that stays for now.
#[derive(Clone, Copy, Debug)]
pub struct Known {
    /// Path of the module that contains the circle; empty for the crate.
    pub parent: &'static str,
    /// Names of the modules in the circle, sorted.
    pub modules: &'static [&'static str],
    /// Why it cannot be cut, for readers.
    pub reason: &'static str,
}

/// Checks the library of the crate with this manifest folder, and each program in a folder of
/// `src/bin`.
///
/// # Panics
///
/// Where modules use each other in a circle. The message names each circle, and each use in it
/// with its file.
pub fn assert_no_circles(manifest_dir: &str) {
    assert_no_circles_but(manifest_dir, &[]);
}

/// Like [`assert_no_circles`], but for circles that are known.
///
/// # Panics
///
/// Where modules use each other in a circle that is not known, and where a known one is not there
/// as it is described: it was cut, or has become larger or smaller.
pub fn assert_no_circles_but(manifest_dir: &str, known: &[Known]) {
    let circles = circles_of(Path::new(manifest_dir));
    let is_known = |circle: &Circle| known.iter().any(|known| circle.is(known.parent, known.modules));
    let unknown: String = circles.iter().filter(|circle| !is_known(circle)).map(Circle::to_string).collect();
    assert!(unknown.is_empty(), "modules use each other in a circle\n{unknown}");
    for known in known {
        let is_there = circles.iter().any(|circle| circle.is(known.parent, known.modules));
        assert!(is_there, "this circle is not there any more: {known:?}");
    }
}

fn circles_of(manifest_dir: &Path) -> Vec<Circle> {
    let mut found = Vec::new();
    for root in roots(manifest_dir) {
        let sources = Sources::read(&root);
        for parent in sources.parents() {
            found.extend(circles::find(&parent, &sources.uses_in(&parent)));
        }
    }
    found
}

/// Folders that each have the root of a crate: the library's, and those of programs beside it.
fn roots(manifest_dir: &Path) -> Vec<std::path::PathBuf> {
    let src = manifest_dir.join("src");
    let programs = std::fs::read_dir(src.join("bin")).into_iter().flatten().flatten().map(|entry| entry.path());
    std::iter::once(src).chain(programs.filter(|path| path.is_dir())).collect()
}
