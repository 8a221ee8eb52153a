//! `readConcern`: how fresh and how isolated a read is to be, and which commands accept which
//! level.

use bson::{Bson, Document, Timestamp};
use mongotx::Isolation;

use crate::{
    failure::{Answer, Failure, codes},
    fields::type_name,
};

/// The levels that a command takes outside transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReadLevels {
    /// Levels that do not promise one moment: `local`, `available`, `majority`.
    Usual,
    /// The usual levels and `linearizable`.
    Linearizable,
    /// The usual levels, `linearizable` and `snapshot`.
    OneMoment,
    /// Every level, without effect. In a snapshot session, drivers send `getMore` and `killCursors`
    /// with the read concern of the cursor's read.
    Heedless,
}

/// The read concern of a command (field `readConcern`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ReadConcern {
    pub(crate) level: Option<ReadLevel>,
    /// The moment of which the read is to be: `atClusterTime`.
    at: Option<Timestamp>,
    /// True if it has the field `afterClusterTime`.
    has_after: bool,
}

/// The levels that `readConcern.level` can name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReadLevel {
    Local,
    Available,
    Majority,
    Snapshot,
    Linearizable,
}

/// A read that is validated, before its answer is sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ValidatedRead {
    /// The level that promises one moment.
    pub(crate) level: ReadLevel,
    /// Name of that moment at `snapshot`: a time before the read up to which every change through
    /// this gateway is either committed, and so seen, or never will be. A change stream that begins
    /// there misses none.
    pub(crate) moment: Timestamp,
}

impl ReadConcern {
    /// # Errors
    /// The server's, for what is no read concern.
    pub(crate) fn parse(concern: &Bson) -> Answer<Self> {
        let Bson::Document(concern) = concern else {
            return Err(Failure::new(codes::FAILED_TO_PARSE, "readConcern field should be an object"));
        };
        for field in concern.keys() {
            // A read sees every commit that was acknowledged before it began, and so also the
            // commits that the fields with `after` demand.
            if !["level", "afterClusterTime", "atClusterTime", "afterOpTime", "provenance"].contains(&field.as_str()) {
                return invalid(format!("Unrecognized option in readConcern: {field}"));
            }
        }
        let level = match concern.get("level") {
            None => None,
            Some(Bson::String(name)) => Some(ReadLevel::parse(name)?),
            Some(_) => return Err(Failure::new(codes::TYPE_MISMATCH, "\"level\" had the wrong type")),
        };
        let (after, at) = (take_time(concern, "afterClusterTime")?, take_time(concern, "atClusterTime")?);
        if after.is_some() && at.is_some() {
            return invalid("Can not specify both afterClusterTime and atClusterTime".to_owned());
        }
        if at.is_some() && level != Some(ReadLevel::Snapshot) {
            return invalid("atClusterTime field can be set only if level is equal to snapshot".to_owned());
        }
        Ok(Self { level, at, has_after: after.is_some() })
    }

    /// Checks the read concern of a statement in a transaction.
    ///
    /// # Errors
    /// The server's for what stands there only at the beginning; 239 for a moment that is named.
    pub(crate) fn check_statement(&self, begins: bool) -> Answer<()> {
        match self.level {
            Some(_) if !begins => {
                invalid("Only the first command in a transaction may specify a readConcern".to_owned())
            }
            Some(ReadLevel::Available) => invalid(
                "The readConcern level must be either 'local' (default), 'majority', 'snapshot' or, for a serializable transaction, 'linearizable' in order to run in a transaction".to_owned(),
            ),
            _ => self.check_moment(),
        }
    }

    /// Checks the read concern of a command outside transactions.
    ///
    /// # Errors
    /// 72 where the command does not take the level, or the level no `afterClusterTime`; 239 for a
    /// moment that is named.
    pub(crate) fn check_plain(&self, command: &str, taken: ReadLevels) -> Answer<()> {
        match self.level.map(|level| (level, level.takers())) {
            _ if taken == ReadLevels::Heedless => Ok(()),
            Some((level, Some(takers))) if !taken.promise(level) => invalid(format!(
                "Command {command} does not support {{ readConcern: {{ level: \"{}\" }} }} outside transactions; these do: {takers}",
                level.name()
            )),
            // In a transaction the level is the gateway's own, and drivers send the time with every
            // first statement.
            _ if self.has_after && self.level == Some(ReadLevel::Linearizable) => {
                let levels = "majority, local, or snapshot";
                invalid(format!("afterClusterTime field can be set only if level is equal to {levels}"))
            }
            _ => self.check_moment(),
        }
    }

    /// Refuses reads of a past moment: MongoTx keeps no older versions of documents.
    fn check_moment(&self) -> Answer<()> {
        let Some(Timestamp { time, increment }) = self.at else { return Ok(()) };
        let message = format!(
            "readConcern.atClusterTime {{ t: {time}, i: {increment} }} cannot be read: MongoTx keeps no older versions of documents. \
             In a snapshot session the first read is of one moment, and later ones would be of another: read what belongs together by \
             one command or in a transaction"
        );
        Err(Failure::new(codes::SNAPSHOT_TOO_OLD, message))
    }

    /// The level of a read outside transactions that is to be of one moment, and so has to be
    /// validated.
    pub(crate) fn one_moment(&self, taken: ReadLevels) -> Option<ReadLevel> {
        self.level.filter(|level| taken.promise(*level))
    }

    /// Isolation level of a transaction that begins with this read concern; `usual` is the level of
    /// those without one.
    pub(crate) fn isolation(&self, usual: Isolation) -> Isolation {
        match self.level {
            Some(ReadLevel::Linearizable) => Isolation::Serializable,
            Some(ReadLevel::Snapshot) if usual != Isolation::Serializable => Isolation::Snapshot,
            _ => usual,
        }
    }
}

impl ReadLevels {
    /// Returns true if commands with these levels take this one, which promises one moment.
    pub(crate) fn promise(self, level: ReadLevel) -> bool {
        match level {
            ReadLevel::Snapshot => self == Self::OneMoment,
            ReadLevel::Linearizable => matches!(self, Self::OneMoment | Self::Linearizable),
            ReadLevel::Local | ReadLevel::Available | ReadLevel::Majority => false,
        }
    }
}

impl ReadLevel {
    const ALL: [Self; 5] = [Self::Local, Self::Available, Self::Majority, Self::Snapshot, Self::Linearizable];

    fn parse(name: &str) -> Answer<Self> {
        Self::ALL.into_iter().find(|level| level.name() == name).ok_or_else(|| {
            Failure::new(
                codes::FAILED_TO_PARSE,
                "readConcern.level must be either 'local', 'majority', 'linearizable', 'available', or 'snapshot'",
            )
        })
    }

    /// The commands that take it outside transactions, for errors (the table of commands decides);
    /// `None`: all.
    pub(crate) fn takers(self) -> Option<&'static str> {
        match self {
            Self::Snapshot => Some("find, aggregate, distinct"),
            Self::Linearizable => Some("find, aggregate, distinct, count"),
            Self::Local | Self::Available | Self::Majority => None,
        }
    }

    /// The name of the level, as clients spell it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Local => "local",
            Self::Available => "available",
            Self::Majority => "majority",
            Self::Snapshot => "snapshot",
            Self::Linearizable => "linearizable",
        }
    }
}

fn invalid<T>(message: String) -> Answer<T> {
    Err(Failure::new(codes::INVALID_OPTIONS, message))
}

fn take_time(concern: &Document, field: &str) -> Answer<Option<Timestamp>> {
    match concern.get(field) {
        None => Ok(None),
        Some(Bson::Timestamp(time)) => Ok(Some(*time)),
        Some(other) => {
            let found = type_name(other);
            let message = format!("\"{field}\" had the wrong type. Expected timestamp, found {found}");
            Err(Failure::new(codes::TYPE_MISMATCH, message))
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use bson::doc;

    use super::*;

    const TIME: Timestamp = Timestamp { time: 7, increment: 1 };

    fn parsed(concern: Document) -> Answer<ReadConcern> {
        ReadConcern::parse(&Bson::Document(concern))
    }

    #[test]
    fn levels_are_what_the_table_says() {
        for (level, isolation, under_read_committed, under_serializable) in [
            ("local", Isolation::Snapshot, Isolation::ReadCommitted, Isolation::Serializable),
            ("majority", Isolation::Snapshot, Isolation::ReadCommitted, Isolation::Serializable),
            ("snapshot", Isolation::Snapshot, Isolation::Snapshot, Isolation::Serializable),
            ("linearizable", Isolation::Serializable, Isolation::Serializable, Isolation::Serializable),
        ] {
            let concern = parsed(doc! {"level": level}).unwrap();
            assert_eq!(concern.isolation(Isolation::Snapshot), isolation);
            assert_eq!(concern.isolation(Isolation::ReadCommitted), under_read_committed);
            assert_eq!(concern.isolation(Isolation::Serializable), under_serializable);
            concern.check_statement(true).unwrap();
            assert_eq!(concern.check_statement(false).unwrap_err().code, 72);
        }
        let available = parsed(doc! {"level": "available"}).unwrap();
        assert_eq!(available.check_statement(true).unwrap_err().code, 72);
    }

    #[test]
    fn a_moment_that_is_named_is_refused_by_name() {
        let concern = parsed(doc! {"level": "snapshot", "atClusterTime": TIME}).unwrap();
        for failure in
            [concern.check_plain("find", ReadLevels::OneMoment), concern.check_statement(true)].map(Result::unwrap_err)
        {
            assert_eq!((failure.code, failure.labels.len()), (239, 0));
            assert!(failure.message.contains("atClusterTime"), "{}", failure.message);
        }
        assert_eq!(concern.check_plain("insert", ReadLevels::Usual).unwrap_err().code, 72);
        concern.check_plain("getMore", ReadLevels::Heedless).unwrap();
    }

    #[test]
    fn what_does_not_go_together_has_the_servers_codes() {
        for (concern, code) in [
            (doc! {"level": "x"}, 9),
            (doc! {"level": 1}, 14),
            (doc! {"lev": 1}, 72),
            (doc! {"afterClusterTime": 1}, 14),
            (doc! {"level": "snapshot", "atClusterTime": 1}, 14),
            (doc! {"level": "local", "atClusterTime": TIME}, 72),
            (doc! {"atClusterTime": TIME}, 72),
            (doc! {"level": "snapshot", "atClusterTime": TIME, "afterClusterTime": TIME}, 72),
        ] {
            assert_eq!(parsed(concern.clone()).unwrap_err().code, code, "{concern}");
        }
        parsed(doc! {"level": "snapshot", "afterClusterTime": TIME})
            .unwrap()
            .check_plain("find", ReadLevels::OneMoment)
            .unwrap();
        let linearizable = parsed(doc! {"level": "linearizable", "afterClusterTime": TIME}).unwrap();
        assert_eq!(linearizable.check_plain("find", ReadLevels::OneMoment).unwrap_err().code, 72);
        linearizable.check_statement(true).unwrap();
    }
}
