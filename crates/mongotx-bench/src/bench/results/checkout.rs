//! Commit of the code that is measured, so that a figure can be measured again.

use std::{process::Command, time::Duration};

/// The longest that Git may take.
const GIT_LIMIT: Duration = Duration::from_secs(10);

/// Commit of the checkout that is the working directory, followed by `-dirty` if something in it is
/// not committed. `None` if it is no checkout, or there is no Git.
pub(super) fn commit() -> Option<String> {
    let mut git = Command::new("git");
    // No tag takes the commit's place.
    git.args(["describe", "--always", "--exclude=*", "--abbrev=12", "--dirty"]);
    let done = child_processes::run_limited(git, GIT_LIMIT).ok().filter(|done| done.status.success())?;
    let commit = done.said.trim();
    is_commit(commit).then(|| commit.to_owned())
}

/// What Git says may have warnings in it.
fn is_commit(said: &str) -> bool {
    let digits = said.strip_suffix("-dirty").unwrap_or(said);
    (7..=64).contains(&digits.len()) && digits.bytes().all(|digit| digit.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commits_are_told_from_what_git_says_besides() {
        for commit in ["5a9a001b4c3d", "5a9a001b4c3d-dirty", "5a9a001"] {
            assert!(is_commit(commit), "{commit}");
        }
        for other in ["", "-dirty", "5a9a00", "v1.0", "warning: 5a9a001b4c3d", "5a9a001b4c3d-other"] {
            assert!(!is_commit(other), "{other}");
        }
    }
}
