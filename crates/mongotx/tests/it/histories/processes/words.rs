//! Orders to a process, and its reports, in words.

use txcheck::lists::{End, Op};

/// `a1=5` appends 5 to list 1; `r1` reads it, `r1=` has seen nothing in it, `r1=3,5` two values.
pub(super) fn of_ops(ops: &[Op]) -> String {
    let words: Vec<String> = ops
        .iter()
        .map(|op| match op {
            Op::Append(list, value) => format!("a{list}={value}"),
            Op::Read(list, None) => format!("r{list}"),
            Op::Read(list, Some(seen)) => {
                let seen: Vec<String> = seen.iter().map(ToString::to_string).collect();
                format!("r{list}={}", seen.join(","))
            }
        })
        .collect();
    words.join(" ")
}

pub(super) fn ops_in(words: &str) -> Option<Vec<Op>> {
    words.split_whitespace().map(op_in).collect()
}

fn op_in(word: &str) -> Option<Op> {
    let (list, values) = match word.get(1..)?.split_once('=') {
        Some((list, values)) => (list, Some(values)),
        None => (word.get(1..)?, None),
    };
    let list = list.parse().ok()?;
    match (word.get(..1)?, values) {
        ("a", Some(value)) => Some(Op::Append(list, value.parse().ok()?)),
        ("r", None) => Some(Op::Read(list, None)),
        ("r", Some(seen)) => {
            let seen: Option<Vec<u64>> = seen.split(',').filter(|n| !n.is_empty()).map(|n| n.parse().ok()).collect();
            Some(Op::Read(list, Some(seen?)))
        }
        _ => None,
    }
}

pub(super) fn of_end(end: &End) -> String {
    match end {
        End::Committed(done) => format!("committed {}", of_ops(done)),
        End::Refused => "refused".to_owned(),
        End::Unknown => "unknown".to_owned(),
    }
}

pub(super) fn end_in(words: &str) -> Option<End> {
    match words.split_once(' ') {
        Some(("committed", done)) => Some(End::Committed(ops_in(done)?)),
        None if words == "refused" => Some(End::Refused),
        None if words == "unknown" => Some(End::Unknown),
        _ => None,
    }
}

/// Checks that all words are read as they were written.
pub(super) fn check() {
    let done = vec![Op::Append(1, 5), Op::Read(2, None), Op::Read(2, Some(vec![])), Op::Read(3, Some(vec![4, 5]))];
    for end in [End::Committed(done), End::Refused, End::Unknown] {
        assert_eq!(end_in(&of_end(&end)), Some(end));
    }
    assert_eq!(end_in("commited a1=5"), None);
}
