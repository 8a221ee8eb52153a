//! The gateway's logical time: `operationTime` and `$clusterTime` in its replies, which drivers
//! send back.
//!
//! It orders nothing but the times of change events: no event of a commit that is not acknowledged
//! yet is earlier than a time that was given out, by this gateway, or by another one to a client
//! whose time this one has heard. A read through any gateway sees every commit
//! that was acknowledged before the read began, so any time that a client wants a read to come
//! after has come already. Drivers only expect the fields to be there.

use std::sync::Arc;

use bson::{RawDocumentBuf, Timestamp, raw::cstr, rawdoc, spec::BinarySubtype};
use mongotx::LogicalClock;

/// A client cannot set the clock further ahead than this.
const MOST_AHEAD_SECONDS: u32 = 60;

/// The clock of a gateway, which change events have their times of, too.
#[derive(Clone, Debug, Default)]
pub(crate) struct Clock(Arc<LogicalClock>);

impl Clock {
    /// The clock as the library takes it.
    pub(crate) fn shared(&self) -> Arc<dyn mongotx::Clock> {
        Arc::<LogicalClock>::clone(&self.0)
    }

    /// A time that can be given out: a change stream that begins there has all events of what was
    /// not committed when it was taken.
    pub(crate) fn settled(&self) -> Timestamp {
        self.0.settled()
    }

    /// The next timestamp, later than all before.
    fn now(&self) -> Timestamp {
        mongotx::Clock::now(&*self.0)
    }

    /// A client has heard this time, perhaps of another gateway. Times far ahead do not count.
    pub(crate) fn hear(&self, time: Timestamp) {
        let now = self.now();
        if time > now && time.time - now.time <= MOST_AHEAD_SECONDS {
            mongotx::Clock::after(&*self.0, time);
        }
    }

    /// Adds the time to a reply.
    pub(crate) fn stamp(&self, reply: &mut RawDocumentBuf) {
        let time = self.settled();
        let hash = bson::Binary { subtype: BinarySubtype::Generic, bytes: vec![0; 20] };
        let signature = rawdoc! {"hash": hash, "keyId": 0_i64};
        reply.append(cstr!("$clusterTime"), rawdoc! {"clusterTime": time, "signature": signature});
        reply.append(cstr!("operationTime"), time);
    }
}
