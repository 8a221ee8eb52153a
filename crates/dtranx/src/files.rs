//! Reads the files of a store that may be damaged, without being led elsewhere or stopped by them.
//!
//! - Below the folder itself, a symbolic link is an error: what it leads to is none of the store's
//!   data, or no one can say which. So is anything that is no file: reading a pipe would not end.
//! - A disk with bad sectors fails to read whole windows because of some bytes in them. A window is
//!   read once more in pieces then, and what cannot be read is zeros. A piece that failed is not
//!   tried again: a failing disk takes seconds for each attempt. After [`ATTEMPTS`] failures in a
//!   file, windows that fail are given up as a whole.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read, Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Length of the first window in which something is looked for, in bytes.
const FIRST_WINDOW_BYTES: usize = 16 << 10;
/// Length of the longest window, in bytes.
const WINDOW_BYTES: usize = 1 << 20;
/// Length of the pieces in which a window is read when it fails, in bytes: what the system reads of
/// a disk at least.
const PIECE_BYTES: u64 = 4096;
/// Failed reads of a file after which no window is read in pieces any more.
const ATTEMPTS: u32 = 1_000;

/// Opens a file to be read at places of the caller's choice.
pub(crate) type Open<'a> = dyn Fn(&Path) -> io::Result<Source> + 'a;

/// The files in a folder and in those below it.
pub(crate) struct Files<'a> {
    folder: &'a Path,
    open: &'a Open<'a>,
}

impl<'a> Files<'a> {
    /// The files that the system has in a folder, which may be a link itself.
    pub(crate) fn new(folder: &'a Path) -> Self {
        Self::opened_by(folder, &Source::open)
    }

    /// The files in a folder, of which `open` opens each one.
    pub(crate) fn opened_by(folder: &'a Path, open: &'a Open<'a>) -> Self {
        Self { folder, open }
    }

    /// The folder that the files are in.
    pub(crate) fn folder(&self) -> &'a Path {
        self.folder
    }

    /// Opens a file.
    ///
    /// # Errors
    /// There is none, it cannot be opened, a link leads to it, or it is no file.
    pub(crate) fn open(&self, path: &Path) -> io::Result<Source> {
        self.refuse_links(path)?;
        if !fs::symlink_metadata(path)?.is_file() {
            return Err(io::Error::other("it is no file"));
        }
        (self.open)(path)
    }

    /// Reads a file as a whole.
    ///
    /// # Errors
    /// As [`Files::open`]; it is longer than the limit, or not all of it can be read.
    pub(crate) fn read(&self, path: &Path, limit_bytes: u64) -> io::Result<Vec<u8>> {
        let source = self.open(path)?;
        if source.bytes > limit_bytes {
            let what = format!("it has {} bytes, more than {limit_bytes}", source.bytes);
            return Err(io::Error::new(ErrorKind::FileTooLarge, what));
        }
        let mut bytes = vec![0; usize::try_from(source.bytes).map_err(io::Error::other)?];
        source.read(&mut bytes, 0)?;
        Ok(bytes)
    }

    /// Names of the files and folders in a folder.
    ///
    /// # Errors
    /// The folder cannot be listed, or a link leads to it.
    pub(crate) fn list(&self, folder: &Path) -> io::Result<Vec<OsString>> {
        self.refuse_links(folder)?;
        fs::read_dir(folder)?.map(|entry| Ok(entry?.file_name())).collect()
    }

    /// Refuses a path on which there is a link below the folder.
    fn refuse_links(&self, path: &Path) -> io::Result<()> {
        let below = path.ancestors().take_while(|above| *above != self.folder);
        for part in below.collect::<Vec<_>>().into_iter().rev() {
            if fs::symlink_metadata(part)?.is_symlink() {
                let to = fs::read_link(part)?;
                let it = if part == path { "it".to_owned() } else { part.display().to_string() };
                let what = format!("{it} is a symbolic link to {}, which is not followed", to.display());
                return Err(io::Error::other(what));
            }
        }
        Ok(())
    }
}

/// A file of which some bytes may be impossible to read.
pub(crate) struct Source {
    file: Box<dyn FileExt>,
    bytes: u64,
    bad: RefCell<Bad>,
}

/// Bytes of a file that could not be read.
#[derive(Default)]
struct Bad {
    /// Numbers of the pieces in the file: the offset divided by [`PIECE_BYTES`].
    pieces: BTreeSet<u64>,
    /// Number of reads of the file that failed.
    failures: u32,
}

impl Source {
    /// Opens a file, and asks the system for its length.
    fn open(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        let bytes = file.metadata()?.len();
        Ok(Self::new(Box::new(file), bytes))
    }

    /// Makes a source of a file that has `bytes` bytes.
    pub(crate) fn new(file: Box<dyn FileExt>, bytes: u64) -> Self {
        Self { file, bytes, bad: RefCell::default() }
    }

    /// Length of the file, in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Fills `into` with the bytes from `at` on.
    ///
    /// # Errors
    /// There are fewer bytes, or one of them cannot be read.
    pub(crate) fn read(&self, into: &mut [u8], at: u64) -> io::Result<()> {
        if self.has_bad_pieces(at, at.saturating_add(into.len() as u64)) {
            return Err(unreadable());
        }
        let read = self.file.read_exact_at(into, at);
        if read.as_ref().is_err_and(|error| error.kind() != ErrorKind::UnexpectedEof) {
            self.bad.borrow_mut().failures += 1;
            // Finds out now which pieces are bad, so that none of them is tried once more.
            self.read_pieces(into, at);
        }
        read
    }

    /// Fills `into` with the bytes from `at` on, up to the end of the file; those that cannot be
    /// read are zeros. Returns how many there are.
    pub(crate) fn window(&self, into: &mut [u8], at: u64) -> usize {
        let left = self.bytes.saturating_sub(at).min(into.len() as u64);
        let into = &mut into[..left as usize];
        if self.has_bad_pieces(at, at + left) {
            self.read_pieces(into, at);
        } else if self.read(into, at).is_err() && !self.has_bad_pieces(at, at + left) {
            // The file has become shorter.
            into.fill(0);
        }
        into.len()
    }

    /// Looks for something from `from` on. `find` is given a window and its offset, and returns the
    /// offset of what it has found. What cannot be read is zeros. Windows overlap by `overlap`
    /// bytes, and grow: what is near is found at once, and nothing is read many times.
    pub(crate) fn search(
        &self,
        from: u64,
        overlap: usize,
        mut find: impl FnMut(&[u8], u64) -> Option<u64>,
    ) -> Option<u64> {
        let (mut window, mut start) = (vec![0; FIRST_WINDOW_BYTES], from);
        while start < self.bytes {
            let filled = self.window(&mut window, start);
            if let Some(at) = find(&window[..filled], start) {
                return Some(at);
            }
            start += filled.saturating_sub(overlap).max(1) as u64;
            window.resize((window.len() * 2).min(WINDOW_BYTES), 0);
        }
        None
    }

    /// Returns true if one of `length` bytes from `at` on has turned out to be impossible to read.
    pub(crate) fn is_unreadable(&self, at: u64, length: usize) -> bool {
        self.has_bad_pieces(at, at.saturating_add(length as u64))
    }

    /// Returns true if bytes at or behind a place have turned out to be impossible to read.
    pub(crate) fn is_unreadable_from(&self, at: u64) -> bool {
        self.has_bad_pieces(at, u64::MAX)
    }

    fn has_bad_pieces(&self, from: u64, until: u64) -> bool {
        from < until && self.bad.borrow().pieces.range(from / PIECE_BYTES..=(until - 1) / PIECE_BYTES).next().is_some()
    }

    /// Fills `into` piece by piece, with zeros where a piece cannot be read.
    fn read_pieces(&self, into: &mut [u8], at: u64) {
        let mut bad = self.bad.borrow_mut();
        let mut done = 0;
        while done < into.len() {
            let from = at + done as u64;
            let piece = from / PIECE_BYTES;
            let length = ((piece + 1) * PIECE_BYTES - from).min((into.len() - done) as u64) as usize;
            let part = &mut into[done..done + length];
            if !bad.pieces.contains(&piece) {
                let is_read = bad.failures < ATTEMPTS && self.file.read_exact_at(part, from).is_ok();
                if !is_read {
                    bad.failures = bad.failures.saturating_add(1);
                    bad.pieces.insert(piece);
                }
            }
            if bad.pieces.contains(&piece) {
                part.fill(0);
            }
            done += length;
        }
    }
}

fn unreadable() -> io::Error {
    io::Error::other("it cannot be read there")
}

/// A place in a file from which it is read on.
pub(crate) struct Cursor {
    source: Source,
    at: u64,
}

impl Cursor {
    /// Begins at the first byte of a file.
    pub(crate) fn new(source: Source) -> Self {
        Self { source, at: 0 }
    }
}

impl Read for Cursor {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let left = self.source.bytes.saturating_sub(self.at).min(into.len() as u64) as usize;
        let mut length = left;
        if self.source.read(&mut into[..length], self.at).is_err() {
            // Up to the bytes that cannot be read.
            length = left.min((PIECE_BYTES - self.at % PIECE_BYTES) as usize);
            self.source.read(&mut into[..length], self.at)?;
        }
        self.at += length as u64;
        Ok(length)
    }
}

impl Seek for Cursor {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let to = match to {
            SeekFrom::Start(at) => Some(at),
            SeekFrom::Current(by) => self.at.checked_add_signed(by),
            SeekFrom::End(by) => self.source.bytes.checked_add_signed(by),
        };
        self.at = to.ok_or(ErrorKind::InvalidInput)?;
        Ok(self.at)
    }
}

#[cfg(test)]
pub(crate) mod failing {
    //! Files of a disk of which some bytes cannot be read.

    use std::cell::Cell;
    use std::ops::Range;
    use std::path::PathBuf;
    use std::rc::Rc;

    use super::*;

    /// A file with a stretch that cannot be read. As the system does, a read that begins before the
    /// stretch returns what is before it.
    struct Failing {
        file: File,
        bad: Range<u64>,
    }

    impl FileExt for Failing {
        fn read_at(&self, into: &mut [u8], at: u64) -> io::Result<usize> {
            if self.bad.contains(&at) {
                return Err(io::Error::from_raw_os_error(rustix::io::Errno::IO.raw_os_error()));
            }
            let before = if at < self.bad.start { self.bad.start - at } else { u64::MAX };
            let length = before.min(into.len() as u64) as usize;
            self.file.read_at(&mut into[..length], at)
        }

        fn write_at(&self, _: &[u8], _: u64) -> io::Result<usize> {
            Err(ErrorKind::ReadOnlyFilesystem.into())
        }
    }

    /// A file of which the bytes that are read are counted.
    struct Counted {
        file: File,
        bytes: Rc<Cell<u64>>,
    }

    impl FileExt for Counted {
        fn read_at(&self, into: &mut [u8], at: u64) -> io::Result<usize> {
            let read = self.file.read_at(into, at)?;
            self.bytes.set(self.bytes.get() + read as u64);
            Ok(read)
        }

        fn write_at(&self, _: &[u8], _: u64) -> io::Result<usize> {
            Err(ErrorKind::ReadOnlyFilesystem.into())
        }
    }

    /// Opens files, and counts the bytes that are read of one of them.
    pub(crate) fn counted(counted_file: PathBuf, read: Rc<Cell<u64>>) -> impl Fn(&Path) -> io::Result<Source> {
        move |path| {
            if path != counted_file {
                return Source::open(path);
            }
            let file = File::open(path)?;
            let bytes = file.metadata()?.len();
            Ok(Source::new(Box::new(Counted { file, bytes: Rc::clone(&read) }), bytes))
        }
    }

    /// Opens files; one of them cannot be read in a stretch of bytes.
    pub(crate) fn open(bad_file: PathBuf, bad: Range<u64>) -> impl Fn(&Path) -> io::Result<Source> {
        move |path| {
            if path != bad_file {
                return Source::open(path);
            }
            let file = File::open(path)?;
            let bytes = file.metadata()?.len();
            Ok(Source::new(Box::new(Failing { file, bad: bad.clone() }), bytes))
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may panic")]

    use std::os::unix::fs::symlink;

    use super::*;

    fn written(folder: &Path, bytes: usize) -> std::path::PathBuf {
        let path = folder.join("file");
        fs::write(&path, vec![7; bytes]).unwrap();
        path
    }

    #[test]
    fn window_has_everything_but_the_pieces_that_cannot_be_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = written(folder.path(), 100_000);
        let source = failing::open(path.clone(), 50_000..50_001)(&path).unwrap();
        let mut window = vec![1; 1 << 20];
        assert_eq!(source.window(&mut window, 0), 100_000);
        let bad: Vec<usize> = (0..100_000).filter(|at| window[*at] != 7).collect();
        assert_eq!((bad.first(), bad.last()), (Some(&49_152), Some(&53_247)));
        assert!(source.is_unreadable_from(53_000) && !source.is_unreadable_from(54_000));
        assert!(source.read(&mut [0; 10], 49_150).is_err() && source.read(&mut [0; 10], 60_000).is_ok());
        let mut cursor = Cursor::new(source);
        let mut read = Vec::new();
        assert!(cursor.read_to_end(&mut read).is_err());
        assert_eq!(read.len(), 49_152);
    }

    #[test]
    fn disk_that_fails_everywhere_is_tried_a_limited_number_of_times() {
        struct Counting(std::rc::Rc<std::cell::Cell<u32>>);
        impl FileExt for Counting {
            fn read_at(&self, _: &mut [u8], _: u64) -> io::Result<usize> {
                self.0.set(self.0.get() + 1);
                Err(io::Error::from_raw_os_error(rustix::io::Errno::IO.raw_os_error()))
            }

            fn write_at(&self, _: &[u8], _: u64) -> io::Result<usize> {
                Err(ErrorKind::ReadOnlyFilesystem.into())
            }
        }
        let tried = std::rc::Rc::default();
        let source = Source::new(Box::new(Counting(std::rc::Rc::clone(&tried))), 1 << 30);
        let mut window = vec![0; 1 << 20];
        for _ in 0..2 {
            for at in (0..1 << 30).step_by(window.len()) {
                source.window(&mut window, at);
            }
        }
        // Pieces, and then each window once.
        assert!(tried.get() <= ATTEMPTS + 1024, "{} times", tried.get());
    }

    #[test]
    fn links_are_not_followed_below_the_folder() {
        let folder = tempfile::tempdir().unwrap();
        let (data, inner) = (folder.path().join("data"), folder.path().join("data/inner"));
        fs::create_dir_all(&inner).unwrap();
        written(&inner, 10);
        symlink(&data, folder.path().join("root")).unwrap();
        symlink("inner", data.join("linked")).unwrap();
        symlink("file", inner.join("other")).unwrap();
        let root = folder.path().join("root");
        let files = Files::new(&root);
        assert_eq!(files.read(&root.join("inner/file"), 10).unwrap(), [7; 10]);
        assert!(files.read(&root.join("inner/file"), 9).is_err());
        for path in ["linked/file", "inner/other"] {
            let error = files.open(&root.join(path)).err().unwrap().to_string();
            assert!(error.contains("is a symbolic link to ") && error.contains("not followed"), "{error}");
        }
        assert!(files.list(&root.join("linked")).is_err() && files.list(&root).is_ok());
        assert!(files.open(&inner).is_err() && files.open(&root.join("inner")).is_err());
        assert_eq!(files.open(&root.join("none")).err().unwrap().kind(), ErrorKind::NotFound);
    }
}
