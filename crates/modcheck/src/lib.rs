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
//! file or in one of its folder, also in what is compiled for tests alone: a test that needs two
//! modules belongs to the upper one. Names that a module imports from another one are followed to
//! where they are from. Not counted: what a module names of its parent's own, methods (they name no
//! module), and imports of everything (`use …::*`) on the way to a name.

pub mod circles;
pub mod paths;
pub mod sources;

use std::path::Path;

use crate::{circles::Circle, sources::Sources};

/// Checks the library of the crate with this manifest folder, and each program in a folder of
/// `src/bin`.
///
/// # Panics
///
/// Where modules use each other in a circle. The message names each circle, and each use in it
/// with its file.
pub fn assert_no_circles(manifest_dir: &str) {
    let circles: String = circles_of(Path::new(manifest_dir)).iter().map(Circle::to_string).collect();
    assert!(circles.is_empty(), "modules use each other in a circle\n{circles}");
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
