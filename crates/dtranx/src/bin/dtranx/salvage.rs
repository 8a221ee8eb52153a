//! The command that gets what is whole out of a damaged server's folder.

use std::fs;
use std::io::BufWriter;
use std::path::{Path, PathBuf};

use clap::Args;
use dtranx::core::Key;
use dtranx::server::{Moment, Named, SalvageError, Salvaged, ServerConfig, salvage};

use crate::failure::Failure;
use crate::new_file::{NewFile, beside};
use crate::say::say;
use crate::which::WhichServer;

/// Gets what is whole out of a damaged server's folder, into a backup
///
/// The server must not run, and nothing in its folders is written. Each damage is named, with what
/// is lost or uncertain by it. Of the log, whole committed transactions before the first gap count;
/// transactions in doubt do not. `dtranx restore --salvaged` reads the file. Status 1: something is
/// damaged, in doubt or uncertain; the file is written all the same.
#[derive(Args)]
pub(crate) struct SalvageOptions {
    #[command(flatten)]
    which: WhichServer,
    /// The new file; it must not be there, and not be put into the server's folders. A folder
    /// beside it, which is removed at the end, takes as much room as the server has data
    file: PathBuf,
}

pub(crate) fn run_salvage(options: &SalvageOptions) -> Result<(), Failure> {
    let config = options.which.config()?;
    check_outside(&config, &options.file)?;
    let new = NewFile::make(&options.file)?;
    let found = salvage(&config, &beside(&options.file, "scratch"), BufWriter::new(&new.file));
    let found = match found {
        Ok(found) => found,
        Err(error) => {
            // Nothing of worth is in it.
            let _ = fs::remove_file(&new.partial);
            return Err(failure(&error));
        }
    };
    new.publish()?;
    show(&config, &found);
    if found.is_whole() {
        return Ok(());
    }
    Err(Failure::No("not all of the server's data is in the file, or not all of it is sure".to_owned()))
}

fn failure(error: &SalvageError) -> Failure {
    Failure::Failed(error.to_string())
}

/// Refuses a file in one of the folders that are salvaged.
fn check_outside(config: &ServerConfig, file: &Path) -> Result<(), Failure> {
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let real = |path: &Path| fs::canonicalize(path).ok();
    let within = |of: &PathBuf| real(folder).zip(real(of)).is_some_and(|(folder, of)| folder.starts_with(of));
    match [&config.folder, &config.log_folder].into_iter().find(|of| within(of)) {
        Some(of) => Err(Failure::Failed(format!("{} is in {}, which is not written", file.display(), of.display()))),
        None => Ok(()),
    }
}

fn show(config: &ServerConfig, found: &Salvaged) {
    for damage in found.damages.list() {
        say!("damage: {damage}");
    }
    if found.damages.more() > 0 {
        say!("damage: {} more", found.damages.more());
    }
    let behind = if found.behind > 0 { format!(", {} behind a gap", found.behind) } else { String::new() };
    say!(
        "server {} of {:?}: log: {} segments, {} records{behind}",
        config.server,
        config.cluster.name,
        found.segments,
        found.records
    );
    match &found.moment {
        Moment::Newest => say!(
            "moment: the last one; nothing that is sure has a newer value, unless the log has lost its end without a trace"
        ),
        Moment::Before(damage) => say!("moment: before the gap in the log ({damage}); any key may have a newer value"),
    }
    say!("sure: {} items, {} bytes of keys and values", found.sure.items, found.sure.bytes);
    say!("uncertain: {} items, {} bytes of keys and values", found.uncertain.items, found.uncertain.bytes);
    if found.newer.total > 0 {
        say!("written behind the gap, and not used: {}", named(&found.newer, "keys"));
    }
    if found.in_doubt.total > 0 {
        say!("in doubt, and not used: {}", list(&found.in_doubt, "transactions", ToString::to_string));
        say!("written by these: {}", named(&found.doubtful, "keys"));
    }
}

fn named(keys: &Named<Key>, what: &str) -> String {
    list(keys, what, |key| format!("{key:?}"))
}

fn list<T>(things: &Named<T>, what: &str, shown: impl Fn(&T) -> String) -> String {
    let first: Vec<String> = things.first.iter().map(shown).collect();
    let more = things.total - first.len() as u64;
    let rest = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{} {what}: {}{rest}", things.total, first.join(", "))
}
