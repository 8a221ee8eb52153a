//! JSON documents of a file, one after the other: the elements of an array, or documents with
//! nothing but white space between them. At no time is more than one in memory. Files whose names
//! end in `.gz` are unpacked on the way.

use std::{
    fs::File,
    io::{BufRead, BufReader, Read},
    marker::PhantomData,
    path::Path,
};

use flate2::read::MultiGzDecoder;
use serde::de::DeserializeOwned;

use crate::error::BenchError;

/// Opens a file, unpacked where its name ends in `.gz`.
///
/// # Errors
/// [`BenchError::Refused`], which names the option that named the file.
pub(crate) fn open(option: &str, path: &Path) -> Result<Box<dyn BufRead + Send>, BenchError> {
    let shown = path.display();
    let file = File::open(path).map_err(|error| BenchError::Refused(format!("{option}: {shown}: {error}")))?;
    Ok(match path.extension().is_some_and(|extension| extension == "gz") {
        true => Box::new(BufReader::new(MultiGzDecoder::new(file))),
        false => Box::new(BufReader::new(file)),
    })
}

/// The documents of one file. Ends after the first error.
pub(crate) struct Documents<T> {
    /// The option and the file, for errors.
    name: String,
    input: Counted,
    place: Place,
    document: PhantomData<fn() -> T>,
}

/// Position of the reader in the file.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Start,
    /// In an array, before its first element.
    ArrayStart,
    /// In an array, after an element.
    Array,
    /// After a document that is in no array.
    Sequence,
    /// The array, or the file, is at its end.
    End,
}

impl<T: DeserializeOwned> Documents<T> {
    /// Opens the file that an option names.
    ///
    /// # Errors
    /// The errors of [`open`].
    pub(crate) fn open(option: &str, path: &Path) -> Result<Self, BenchError> {
        let input = Counted { inner: open(option, path)?, line: 1 };
        let name = format!("{option}: {}", path.display());
        Ok(Self { name, input, place: Place::Start, document: PhantomData })
    }

    /// The line of the last byte that was read, from 1.
    pub(crate) fn line(&self) -> u64 {
        self.input.line
    }

    /// An error at this line.
    pub(crate) fn refused(&self, line: u64, what: impl std::fmt::Display) -> BenchError {
        BenchError::Refused(format!("{}, line {line}: {what}", self.name))
    }

    fn advance(&mut self) -> Result<Option<T>, BenchError> {
        loop {
            let next = self.input.peek().map_err(|error| self.refused(self.line(), error))?;
            self.place = match (self.place, next) {
                (Place::End | Place::Start | Place::Sequence, None) => return Ok(None),
                (_, None) => return Err(self.refused(self.line(), "the array has no end")),
                (Place::Start, Some(b'[')) => Place::ArrayStart,
                (Place::ArrayStart | Place::Array, Some(b']')) => Place::End,
                (Place::Start | Place::Sequence, Some(b'{')) => return self.document(Place::Sequence).map(Some),
                (Place::ArrayStart, Some(b'{')) => return self.document(Place::Array).map(Some),
                (Place::Array, Some(b',')) => {
                    self.input.skip();
                    match self.input.peek().map_err(|error| self.refused(self.line(), error))? {
                        Some(b'{') => return self.document(Place::Array).map(Some),
                        _ => return Err(self.refused(self.line(), "a document is expected after a comma")),
                    }
                }
                (place, Some(byte)) => return Err(self.unexpected(place, byte)),
            };
            self.input.skip();
        }
    }

    fn unexpected(&self, place: Place, byte: u8) -> BenchError {
        let expected = match place {
            Place::Start | Place::Sequence => "a document, which begins with {,",
            Place::ArrayStart => "a document or the end of the array",
            Place::Array => "a comma or the end of the array",
            Place::End => "nothing",
        };
        self.refused(self.line(), format_args!("{expected} is expected, not {:?}", char::from(byte)))
    }

    /// Reads the document that begins here, and not a byte more: an object ends with its brace.
    fn document(&mut self, then: Place) -> Result<T, BenchError> {
        let first_line = self.line();
        let read = T::deserialize(&mut serde_json::Deserializer::from_reader(&mut self.input));
        self.place = then;
        read.map_err(|error| {
            let line = first_line + (error.line() as u64).max(1) - 1;
            let text = error.to_string();
            self.refused(line, text.split(" at line ").next().unwrap_or(&text))
        })
    }
}

impl<T: DeserializeOwned> Iterator for Documents<T> {
    type Item = Result<T, BenchError>;

    fn next(&mut self) -> Option<Self::Item> {
        let next = self.advance().transpose();
        if !matches!(next, Some(Ok(_))) {
            self.place = Place::End;
            self.input.inner = Box::new(std::io::empty());
        }
        next
    }
}

/// Counts lines while it is read.
struct Counted {
    inner: Box<dyn BufRead + Send>,
    line: u64,
}

impl Counted {
    /// The next byte that is no white space, not taken.
    fn peek(&mut self) -> std::io::Result<Option<u8>> {
        loop {
            match self.inner.fill_buf()?.first().copied() {
                Some(byte) if byte.is_ascii_whitespace() => {
                    self.line += u64::from(byte == b'\n');
                    self.skip();
                }
                next => return Ok(next),
            }
        }
    }

    /// Takes the byte that was peeked.
    fn skip(&mut self) {
        self.inner.consume(1);
    }
}

impl Read for Counted {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let n = self.inner.read(buffer)?;
        self.line += buffer[..n].iter().filter(|byte| **byte == b'\n').count() as u64;
        Ok(n)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use std::io::Write;

    use flate2::{Compression, write::GzEncoder};
    use serde_json::{Value, json};

    use super::*;

    fn read(text: &str) -> Result<Vec<Value>, String> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        let documents: Documents<Value> = Documents::open("--points", file.path()).unwrap();
        documents.collect::<Result<_, _>>().map_err(|error| error.to_string())
    }

    #[test]
    fn an_array_and_documents_in_a_row_are_read_alike() {
        let expected = vec![json!({"a": 1}), json!({"b": {"c": [2, "]"]}})];
        for text in [
            "[{\"a\": 1}, {\"b\": {\"c\": [2, \"]\"]}}]",
            "{\"a\": 1}\n{\"b\": {\"c\": [2, \"]\"]}}\n",
            "{\n \"a\": 1\n}{\"b\":\n {\"c\": [2, \"]\"]}}",
            " [\n{\"a\": 1}\n,{\"b\": {\"c\": [2, \"]\"]}}\n]\n",
        ] {
            assert_eq!(read(text).unwrap(), expected, "{text}");
        }
        assert_eq!(read("").unwrap(), Vec::<Value>::new());
        assert_eq!(read("[]").unwrap(), Vec::<Value>::new());
    }

    #[test]
    fn an_error_names_option_and_line() {
        for (text, line, said) in [
            ("[{\"a\": 1},\n{\"b\": }]", 2, "expected value"),
            ("{\"a\": 1}\n\n7", 3, "a document, which begins with {, is expected, not '7'"),
            ("[{\"a\": 1}\n{\"b\": 2}]", 2, "a comma or the end of the array is expected"),
            ("[{\"a\": 1},\n]", 2, "a document is expected after a comma"),
            ("[{\"a\": 1},\n{\"b\": 2}\n", 3, "the array has no end"),
            ("[]\n[]", 2, "nothing is expected"),
            ("{\n\"a\": 1,\n\"b\"}", 3, "expected `:`"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.starts_with("--points: ") && error.contains(&format!("line {line}: ")), "{text:?}: {error}");
            assert!(error.contains(said), "{text:?}: {error}");
        }
    }

    #[test]
    fn nothing_follows_an_error() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "[{\"a\": }, {\"b\": 1}]").unwrap();
        let mut documents: Documents<Value> = Documents::open("--points", file.path()).unwrap();
        assert!(documents.next().is_some_and(|next| next.is_err()));
        assert!(documents.next().is_none());
    }

    #[test]
    fn a_packed_file_is_unpacked() {
        let file = tempfile::Builder::new().suffix(".gz").tempfile().unwrap();
        let mut packed = GzEncoder::new(file.reopen().unwrap(), Compression::fast());
        packed.write_all(b"{\"a\": 1}\n{\"a\": 2}\n").unwrap();
        packed.finish().unwrap();
        let documents: Documents<Value> = Documents::open("--points", file.path()).unwrap();
        assert_eq!(documents.filter_map(Result::ok).count(), 2);
    }

    #[test]
    fn a_file_that_is_not_there_is_refused_by_the_option() {
        let error = Documents::<Value>::open("--points", Path::new("/no/such/file")).err().unwrap().to_string();
        assert!(error.starts_with("--points: /no/such/file: "), "{error}");
    }
}
