//! Writing to people: plain lines that never panic, and text from databases that cannot play tricks
//! on a terminal.

use std::io::Write;

/// Prints one line (or several) on standard output. A reader that has gone is no error: `mongotx ls
/// | head` ends well.
pub fn line(text: &str) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{text}").and_then(|()| out.flush());
}

/// Prints one line on standard error.
pub fn warn(text: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{text}");
}

/// The text with visible control characters.
pub fn plain(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control() {
            plain.extend(c.escape_default());
        } else {
            plain.push(c);
        }
    }
    plain
}

/// An `_id`, as one short line.
pub fn id(id: &bson::Bson) -> String {
    const LONGEST: usize = 100;
    let text = match id {
        // Printed over several lines otherwise.
        bson::Bson::Document(_) => id.to_string().split_whitespace().collect::<Vec<_>>().join(" "),
        _ => id.to_string(),
    };
    let text = plain(&text);
    match text.char_indices().nth(LONGEST) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text,
    }
}

/// A number with its noun: `1 document`, `2 documents`.
pub fn count(n: usize, what: &str) -> String {
    if n == 1 { format!("1 {what}") } else { format!("{n} {what}s") }
}

/// A time span as people read it: `350 ms`, `4.2 s`, `3 min 5 s`, `2 h 10 min`.
pub fn span(span: std::time::Duration) -> String {
    let s = span.as_secs();
    match s {
        0 => format!("{} ms", span.as_millis()),
        1..60 => format!("{:.1} s", span.as_secs_f64()),
        60..3600 => format!("{} min {} s", s / 60, s % 60),
        _ => format!("{} h {} min", s / 3600, s % 3600 / 60),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn control_characters_are_made_visible() {
        assert_eq!(plain("a\u{1b}[31m\nb é"), "a\\u{1b}[31m\\nb é");
    }

    #[test]
    fn long_ids_are_cut_between_characters() {
        assert!(id(&bson::Bson::String("é".repeat(500))).ends_with('…'));
    }

    #[test]
    fn spans_are_written_in_the_fitting_unit() {
        let written = [5, 4_200, 185_000, 7_800_000].map(|ms| span(Duration::from_millis(ms)));
        assert_eq!(written, ["5 ms", "4.2 s", "3 min 5 s", "2 h 10 min"]);
    }
}
