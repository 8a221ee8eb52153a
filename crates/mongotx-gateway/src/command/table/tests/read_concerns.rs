//! The read concerns that commands take outside transactions, by their rows.

use bson::{Bson, Document, doc};

use crate::{
    command::{
        look_up,
        parts::read_concern::{ReadConcern, ReadLevel, ReadLevels},
    },
    failure::Answer,
};

fn parsed(concern: Document) -> Answer<ReadConcern> {
    ReadConcern::parse(&Bson::Document(concern))
}

/// The levels that the command takes.
fn taken_by(command: &str) -> ReadLevels {
    look_up(command).unwrap().command.reads
}

#[test]
fn levels_of_one_moment_are_for_reads_only() {
    for (level, taken, refused) in [
        ("snapshot", &["find", "aggregate", "distinct"][..], ["count", "insert", "explain"]),
        ("linearizable", &["find", "aggregate", "distinct", "count"][..], ["update", "explain", "listCollections"]),
    ] {
        let concern = parsed(doc! {"level": level}).unwrap();
        for command in taken {
            concern.check_plain(command, taken_by(command)).unwrap();
            assert_eq!(concern.one_moment(taken_by(command)).map(ReadLevel::name), Some(level));
        }
        for command in ["getMore", "killCursors"] {
            concern.check_plain(command, taken_by(command)).unwrap();
            assert_eq!(concern.one_moment(taken_by(command)), None);
        }
        for command in refused {
            let failure = concern.check_plain(command, taken_by(command)).unwrap_err();
            assert_eq!(failure.code, 72, "{command}");
            assert!(failure.message.contains(level) && failure.message.contains(command), "{}", failure.message);
        }
    }
    for level in ["local", "available", "majority"] {
        let concern = parsed(doc! {"level": level}).unwrap();
        assert_eq!(concern.one_moment(taken_by("find")), None);
        concern.check_plain("insert", taken_by("insert")).unwrap();
    }
}
