//! Reads the last words of a server, for the errors that quote them.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

const TAIL_BYTES: u64 = 64 * 1024;
const TAIL_LINES: usize = 8;

/// The last `count` lines of a text.
pub(crate) fn last_lines(text: &str, count: usize) -> String {
    let lines: Vec<&str> = text.trim_end().lines().collect();
    lines[lines.len().saturating_sub(count)..].join("\n")
}

/// Last output of a server: the end of its console, the errors in its log, and the end of its log.
/// A file that cannot be read counts as empty.
pub(crate) fn last_words(console: &Path, log: &Path) -> String {
    let (console, log) = (read_tail(console).unwrap_or_default(), read_tail(log).unwrap_or_default());
    let mut words = vec![last_lines(&console, TAIL_LINES), last_lines(&errors_of(&log), TAIL_LINES)];
    words.push(last_lines(&log, TAIL_LINES));
    words.retain(|words| !words.is_empty());
    if words.is_empty() { "(it said nothing)".to_owned() } else { words.join("\n") }
}

/// The lines of severity error or fatal. A server that ends in good order says much after them.
fn errors_of(log: &str) -> String {
    let serious = |line: &&str| [r#""s":"E""#, r#""s":"F""#].iter().any(|severity| line.contains(severity));
    log.lines().filter(serious).collect::<Vec<_>>().join("\n")
}

fn read_tail(path: &Path) -> std::io::Result<String> {
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(TAIL_BYTES)))?;
    let mut bytes = Vec::new();
    file.take(TAIL_BYTES).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_last_lines_are_kept() {
        assert_eq!(last_lines("a\nb\nc\n", 2), "b\nc");
        assert_eq!(last_lines("a", 2), "a");
        assert_eq!(last_lines("", 2), "");
    }

    #[test]
    fn a_missing_file_has_no_words() {
        let nowhere = Path::new("/nowhere/log");
        assert_eq!(last_words(nowhere, nowhere), "(it said nothing)");
    }
    #[test]
    fn an_error_is_reported_even_when_much_was_said_after_it() {
        let log = tempfile::NamedTempFile::new().unwrap();
        let after = "{\"s\":\"I\",\"msg\":\"bye\"}\n".repeat(100);
        std::fs::write(log.path(), format!("{{\"s\":\"E\",\"msg\":\"why\"}}\n{after}")).unwrap();
        let words = last_words(Path::new("/nowhere/console"), log.path());
        assert!(words.contains("why") && words.lines().count() == 1 + TAIL_LINES, "{words}");
    }
}
