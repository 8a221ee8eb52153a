//! The commands that write the whole cluster to a file, and restore it.

use std::fs::File;
use std::io::{BufReader, BufWriter};
use std::path::PathBuf;

use clap::Args;
use dtranx::backup::{self, Content, RestoreOptions};
use dtranx::client::{Error, Snapshot};

use crate::connect::{Connect, patiently};
use crate::failure::Failure;
use crate::new_file::NewFile;
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
    /// Restores a file of `dtranx salvage` that is no backup of a whole cluster: its keys are those
    /// of one server, perhaps as of an earlier moment, and others may be missing
    #[arg(long)]
    salvaged: bool,
    /// Restores the uncertain keys of such a file, too: their newest values may be others, or they
    /// may have been deleted
    #[arg(long, requires = "salvaged")]
    uncertain: bool,
}

pub(crate) fn backup(options: &Backup) -> Result<(), Failure> {
    let new = NewFile::make(&options.file)?;
    let client = options.connect.patient_client()?;
    let cluster = client.cluster().name.clone();
    let mut is_ours = Ok(());
    let mut write = |snapshot: &Snapshot| {
        // An attempt before may have written to it.
        let emptied = new.file.set_len(0).and_then(|()| std::io::Seek::rewind(&mut &new.file));
        let written = emptied.map_err(|error| backup::Failure::File(error.into()));
        match written.and_then(|()| backup::backup(snapshot, &cluster, BufWriter::new(&new.file))) {
            Ok(content) => Ok(content),
            Err(backup::Failure::Client(error)) => Err(error),
            Err(other) => {
                is_ours = Err(other.to_string());
                Err(Error::Aborted(other.to_string()))
            }
        }
    };
    let content = patiently(|| client.read(&mut write));
    is_ours.map_err(|what| Failure::Failed(format!("{}: {what}", new.partial.display())))?;
    let Content { items, bytes } = content?;
    new.publish()?;
    say!("{items} items, {bytes} bytes of keys and values");
    Ok(())
}

/// Reads the file to its end before anything of it is written.
pub(crate) fn restore(options: &Restore) -> Result<(), Failure> {
    let shown = options.file.display();
    let failed = |error: &dyn std::fmt::Display| Failure::Failed(format!("{shown}: {error}"));
    let open = || File::open(&options.file).map(BufReader::new).map_err(|error| failed(&error));
    let checked = backup::check(open()?).map_err(|error| failed(&error))?;
    let client = options.connect.client()?;
    let (content, uncertain) = (checked.content, checked.uncertain);
    let left = if options.uncertain { Content::default() } else { uncertain };
    let expected = Content { items: content.items - left.items, bytes: content.bytes - left.bytes };
    let wanted = RestoreOptions { replaces: options.replace, salvaged: options.salvaged, uncertain: options.uncertain };
    match backup::restore(&client, open()?, wanted) {
        Ok(restored) if restored == expected => {
            say!("{} items, {} bytes of keys and values", restored.items, restored.bytes);
            if left.items > 0 {
                say!("{} uncertain items were left out: `--uncertain` restores them", left.items);
            }
            Ok(())
        }
        Ok(_) => Err(Failure::Failed(format!("{shown} has changed meanwhile"))),
        Err(backup::Failure::Client(error)) => Err(error.into()),
        Err(error @ backup::Failure::Salvaged { .. }) => Err(Failure::No(format!("{error}: `--salvaged` restores it"))),
        Err(error @ backup::Failure::NotEmpty { .. }) => Err(Failure::No(format!("{error}: `--replace` does that"))),
        Err(error) => Err(failed(&error)),
    }
}
