//! The source of operations, divided over clients: drawn from a seed, or read from files. They are
//! never all in memory at once.

use std::{path::PathBuf, sync::Arc};

use super::{accounts::Accounts, files::ACCOUNTS_FILE, generator::Generator, operation::Operation, record::AnyRecord};
use crate::{error::BenchError, workload::documents::Documents};

/// Distance of the sequence numbers of two laps (`--endless`). No operation has a larger number to
/// begin with.
pub(super) const LAP: i64 = 1_000_000_000;

/// All operations, and the accounts that they are on.
#[derive(Clone, Debug)]
pub(super) struct Source {
    pub(super) accounts: Arc<Accounts>,
    list: List,
}

#[derive(Clone, Debug)]
enum List {
    Drawn {
        generator: Generator,
        operations: u64,
    },
    /// Operations of files, of which there is at least one.
    Files(Arc<Vec<PathBuf>>),
}

impl Source {
    /// A source that draws so many operations from this generator.
    pub(super) fn drawn(generator: Generator, operations: u64) -> Self {
        let accounts = Arc::new(Accounts::Counted(generator.accounts));
        Self { accounts, list: List::Drawn { generator, operations } }
    }

    /// The JSON files of a folder, whatever their names; `accounts.json` holds the accounts. Where
    /// that is not there, they are those of the paper.
    ///
    /// # Errors
    /// [`BenchError::Refused`]: the folder cannot be read or has no operations.
    pub(super) fn files(folder: &std::path::Path) -> Result<Self, BenchError> {
        let refused =
            |what: &dyn std::fmt::Display| BenchError::Refused(format!("--files: {}: {what}", folder.display()));
        let entries = std::fs::read_dir(folder).map_err(|error| refused(&error))?;
        let paths: Result<Vec<PathBuf>, _> = entries.map(|entry| entry.map(|entry| entry.path())).collect();
        let mut paths = paths.map_err(|error| refused(&error))?;
        paths.retain(|path| path.extension().is_some_and(|extension| extension == "json"));
        paths.sort();
        let accounts_file = folder.join(ACCOUNTS_FILE);
        let accounts = match paths.iter().position(|path| *path == accounts_file) {
            Some(at) => Accounts::read("--files", &paths.remove(at))?,
            None => Accounts::Counted(10),
        };
        match paths.is_empty() {
            true => Err(refused(&"no file with operations (*.json) is there")),
            false => Ok(Self { accounts: Arc::new(accounts), list: List::Files(Arc::new(paths)) }),
        }
    }

    /// The operations of one of `of` clients.
    pub(super) fn replay(&self, index: u32, of: u32, endless: bool) -> Replay {
        let (index, of) = (u64::from(index), u64::from(of));
        Replay { source: self.clone(), index, of, lap: 0, endless, in_this_lap: 0, part: None }
    }

    /// Operations of one client, each once.
    fn part(&self, index: u64, of: u64) -> Part {
        match &self.list {
            List::Drawn { generator, operations } => {
                Part::Drawn { generator: *generator, next: index, of, operations: *operations }
            }
            List::Files(paths) => {
                let files = paths.len() as u64;
                // A client has whole files of its own, or takes turns at one with the clients that
                // share it: no operation is read twice.
                let (mine, sharers, turn) = match files >= of {
                    true => ((index..files).step_by(of as usize).collect(), 1, 0),
                    false => (vec![index % files], (of - 1 - index % files) / files + 1, index / files),
                };
                let rest = mine.into_iter().rev().map(|file| paths[file as usize].clone()).collect();
                Part::Files { accounts: Arc::clone(&self.accounts), rest, file: None, at: 0, sharers, turn }
            }
        }
    }
}

/// The operations of one client, in the order in which it does them; for ever if endless.
pub(super) struct Replay {
    source: Source,
    index: u64,
    of: u64,
    /// Number of times that the operations were done.
    lap: i64,
    endless: bool,
    /// Operations given in this lap: one without any would be followed by others without end.
    in_this_lap: u64,
    part: Option<Part>,
}

impl Iterator for Replay {
    type Item = Result<Operation, BenchError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let part = self.part.get_or_insert_with(|| self.source.part(self.index, self.of));
            match part.next() {
                Some(Ok(operation)) => {
                    self.in_this_lap += 1;
                    return Some(Ok(Operation { sequence: operation.sequence + self.lap * LAP, ..operation }));
                }
                Some(Err(error)) => return Some(Err(error)),
                None if !self.endless || self.in_this_lap == 0 => return None,
                None => (self.part, self.lap, self.in_this_lap) = (None, self.lap + 1, 0),
            }
        }
    }
}

enum Part {
    Drawn {
        generator: Generator,
        next: u64,
        of: u64,
        operations: u64,
    },
    Files {
        accounts: Arc<Accounts>,
        /// Files not begun, the next one last.
        rest: Vec<PathBuf>,
        file: Option<Documents<AnyRecord>>,
        /// Position in the file of the next operation.
        at: u64,
        /// Number of clients that share the file, and this one's turn among their operations.
        sharers: u64,
        turn: u64,
    },
}

impl Iterator for Part {
    type Item = Result<Operation, BenchError>;

    fn next(&mut self) -> Option<Self::Item> {
        match self {
            Self::Drawn { generator, next, of, operations } => {
                let at = *next;
                *next += *of;
                (at < *operations).then(|| Ok(generator.operation(at)))
            }
            Self::Files { accounts, rest, file, at, sharers, turn } => loop {
                let Some(open) = file else {
                    match Documents::open("--files", &rest.pop()?) {
                        Ok(opened) => (*file, *at) = (Some(opened), 0),
                        Err(error) => return Some(Err(error)),
                    }
                    continue;
                };
                let Some(record) = open.next() else {
                    *file = None;
                    continue;
                };
                let is_mine = *at % *sharers == *turn;
                *at += 1;
                match record {
                    Err(error) => return Some(Err(error)),
                    Ok(_) if !is_mine => {}
                    Ok(record) => {
                        let operation = record.operation(accounts, LAP);
                        return Some(operation.map_err(|what| open.refused(open.line(), what)));
                    }
                }
            },
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::{super::files, *};

    const OPERATIONS: u64 = 101;

    fn generator() -> Generator {
        Generator { seed: 4, accounts: 10, mix: "40,40,20".parse().unwrap() }
    }

    fn all(source: &Source, clients: u32) -> Vec<Operation> {
        let mut operations: Vec<Operation> =
            (0..clients).flat_map(|index| source.replay(index, clients, false)).collect::<Result<_, _>>().unwrap();
        operations.sort_by_key(|operation| operation.sequence);
        operations
    }

    fn folder(count: u32) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        let Generator { seed, accounts, mix } = generator();
        let out = folder.path().to_owned();
        files::write_files(&files::FilesArgs { out, operations: OPERATIONS, files: count, accounts, mix, seed })
            .unwrap();
        folder
    }

    #[test]
    fn every_operation_is_one_clients_whatever_their_number() {
        let expected: Vec<Operation> = (0..OPERATIONS).map(|at| generator().operation(at)).collect();
        let drawn = Source::drawn(generator(), OPERATIONS);
        for clients in [1, 2, 3, 7, 200] {
            assert_eq!(all(&drawn, clients), expected, "{clients} clients");
        }
        for count in [1, 3, 5] {
            let folder = folder(count);
            let files = Source::files(folder.path()).unwrap();
            for clients in [1, 2, 3, 4, 7, 16] {
                assert_eq!(all(&files, clients), expected, "{count} files, {clients} clients");
            }
        }
    }

    #[test]
    fn an_endless_replay_begins_anew_with_other_sequence_numbers() {
        let folder = folder(2);
        for source in [Source::drawn(generator(), OPERATIONS), Source::files(folder.path()).unwrap()] {
            let once: Vec<Operation> = source.replay(1, 2, false).map(Result::unwrap).collect();
            let twice: Vec<Operation> = source.replay(1, 2, true).take(2 * once.len()).map(Result::unwrap).collect();
            let (first, second) = twice.split_at(once.len());
            assert_eq!(first, once);
            let later = |operation: &Operation| Operation { sequence: operation.sequence + LAP, ..*operation };
            assert_eq!(second, once.iter().map(later).collect::<Vec<_>>());
        }
    }

    #[test]
    fn a_client_without_operations_ends_also_when_endless() {
        assert!(Source::drawn(generator(), 2).replay(5, 8, true).next().is_none());
    }

    #[test]
    fn a_wrong_operation_is_refused_with_file_and_line() {
        let folder = tempfile::tempdir().unwrap();
        assert!(Source::files(folder.path()).unwrap_err().to_string().contains("no file with operations"));
        let path = folder.path().join("a.json");
        std::fs::write(&path, "[\n{\"ACCOUNT NO\": \"1196711\", \"SEQUENCE\": 1, \"DEPOSIT AMT\": 5},\n{\"ACCOUNT NO\": \"7\", \"SEQUENCE\": 2, \"DEPOSIT AMT\": 5}]").unwrap();
        let mut replay = Source::files(folder.path()).unwrap().replay(0, 1, false);
        assert!(replay.next().is_some_and(|first| first.is_ok()));
        let error = replay.next().unwrap().unwrap_err().to_string();
        assert!(error.contains("a.json, line 3: there is no account 7"), "{error}");
    }
}
