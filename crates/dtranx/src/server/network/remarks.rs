//! What a server says about its connections on its standard error output. Peers and clients that
//! are refused call again several times a second: the same words are said once a minute.

use std::collections::HashMap;

use crate::remark;

const INTERVAL_MS: u64 = 60_000;
/// Limit of remarks that are remembered; beyond, all are forgotten.
const MOST: usize = 64;

/// Remarks, each with the time at which it was made last, in milliseconds.
#[derive(Debug, Default)]
pub(super) struct Remarks(HashMap<String, u64>);

impl Remarks {
    /// Makes a remark about a connection, unless the same one was made within the last minute.
    pub(super) fn say(&mut self, remark: String, now_ms: u64) {
        if self.note(&remark, now_ms) {
            remark::say(&remark);
        }
    }

    /// Returns true if a remark is due, and notes that it is made.
    fn note(&mut self, remark: &str, now_ms: u64) -> bool {
        if self.0.len() >= MOST {
            self.0.clear();
        }
        let is_due = self.0.get(remark).is_none_or(|said| now_ms.saturating_sub(*said) >= INTERVAL_MS);
        if is_due {
            self.0.insert(remark.to_owned(), now_ms);
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remark_is_made_once_a_minute() {
        let mut remarks = Remarks::default();
        let mut due = |words: &str, now_ms| remarks.note(words, now_ms);
        assert!(due("a", 1_000) && due("b", 1_001));
        assert!(!due("a", 1_002) && !due("a", 60_999) && due("a", 61_000) && !due("b", 61_000));
    }

    #[test]
    fn remembered_remarks_are_few() {
        let mut remarks = Remarks::default();
        for number in 0..10 * MOST {
            remarks.note(&number.to_string(), 0);
            assert!(remarks.0.len() <= MOST);
        }
    }
}
