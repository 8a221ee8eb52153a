//! The commands that write the whole cluster to a file, and restore it.

use std::fs::{File, OpenOptions};
use std::io::{BufReader, BufWriter};
use std::path::{Path, PathBuf};

use clap::Args;
use dtranx::backup::{self, Content};
use dtranx::client::Error;

use crate::connect::Connect;
use crate::failure::Failure;
use crate::say::say;

#[derive(Args)]
pub(crate) struct Backup {
    #[command(flatten)]
    connect: Connect,
    /// The file; it must not be there
    file: PathBuf,
}

#[derive(Args)]
pub(crate) struct Restore {
    #[command(flatten)]
    connect: Connect,
    /// The file with the backup
    file: PathBuf,
    /// Restores into a cluster that has keys: those of the backup are replaced, others stay
    #[arg(long)]
    replace: bool,
}

/// Writes beside the file until it is whole and on the disk, so that no half of a backup has its
/// name.
pub(crate) fn backup(options: &Backup) -> Result<(), Failure> {
    let failed = |what: &str, error: std::io::Error| Failure::Failed(format!("{what}: {error}"));
    let shown = options.file.display().to_string();
    if options.file.exists() {
        return Err(Failure::Failed(format!("{shown} is there already")));
    }
    let partial = partial(&options.file);
    let file = OpenOptions::new().write(true).create(true).truncate(true).open(&partial);
    let file = file.map_err(|error| failed(&partial.display().to_string(), error))?;
    let client = options.connect.client()?;
    let cluster = client.cluster().name.clone();
    let mut is_ours = Ok(());
    let content = client.read(|snapshot| {
        // An attempt before may have written to it.
        let emptied = file.set_len(0).and_then(|()| std::io::Seek::rewind(&mut &file));
        let written = emptied.map_err(|error| backup::Failure::File(error.into()));
        match written.and_then(|()| backup::backup(snapshot, &cluster, BufWriter::new(&file))) {
            Ok(content) => Ok(content),
            Err(backup::Failure::Client(error)) => Err(error),
            Err(other) => {
                is_ours = Err(other.to_string());
                Err(Error::Aborted(other.to_string()))
            }
        }
    });
    is_ours.map_err(|what| Failure::Failed(format!("{}: {what}", partial.display())))?;
    let Content { items, bytes } = content?;
    file.sync_all().map_err(|error| failed(&shown, error))?;
    // Fails if another process has made the file meanwhile, and does not replace that one.
    std::fs::hard_link(&partial, &options.file).map_err(|error| failed(&shown, error))?;
    std::fs::remove_file(&partial).map_err(|error| failed(&partial.display().to_string(), error))?;
    let folder = options.file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(|error| failed(&shown, error))?;
    say!("{items} items, {bytes} bytes of keys and values");
    Ok(())
}

fn partial(file: &Path) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(".partial");
    name.into()
}

/// Reads the file to its end before anything of it is written.
pub(crate) fn restore(options: &Restore) -> Result<(), Failure> {
    let shown = options.file.display();
    let failed = |error: &dyn std::fmt::Display| Failure::Failed(format!("{shown}: {error}"));
    let open = || File::open(&options.file).map(BufReader::new).map_err(|error| failed(&error));
    let content = backup::check(open()?).map_err(|error| failed(&error))?;
    let client = options.connect.client()?;
    match backup::restore(&client, open()?, options.replace) {
        Ok(restored) if restored == content => {
            say!("{} items, {} bytes of keys and values", content.items, content.bytes);
            Ok(())
        }
        Ok(_) => Err(Failure::Failed(format!("{shown} has changed meanwhile"))),
        Err(backup::Failure::Client(error)) => Err(error.into()),
        Err(error @ backup::Failure::NotEmpty { .. }) => Err(Failure::No(format!("{error}: `--replace` does that"))),
        Err(error) => Err(failed(&error)),
    }
}
