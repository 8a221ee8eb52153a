//! The gateway's logical time: `operationTime` and `$clusterTime` in its replies, which drivers send back.
//!
//! It orders nothing. A read through any gateway sees every commit that was acknowledged before the read began, so whatever
//! time a client asks a read to come after, that time has come. Drivers merely want to have one.

use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use bson::{RawDocumentBuf, Timestamp, raw::cstr, rawdoc, spec::BinarySubtype};

/// A clock that never stands still and never goes back.
#[derive(Debug, Default)]
pub(crate) struct Clock {
    /// Seconds in the upper half, a counter in the lower.
    last: AtomicU64,
}

impl Clock {
    /// The next moment; `seconds`: what a wall clock shows.
    pub(crate) fn tick(&self, seconds: u32) -> Timestamp {
        let wall = u64::from(seconds) << 32 | 1;
        let next = |last: u64| Some(wall.max(last + 1));
        let last = self.last.fetch_update(SeqCst, SeqCst, next).unwrap_or_default();
        let now = wall.max(last + 1);
        Timestamp { time: (now >> 32) as u32, increment: now as u32 }
    }

    /// The next moment by the machine's clock.
    pub(crate) fn now(&self) -> Timestamp {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        self.tick(u32::try_from(now.as_secs()).unwrap_or(u32::MAX))
    }

    /// Adds the time to a reply.
    pub(crate) fn stamp(&self, reply: &mut RawDocumentBuf) {
        let time = self.now();
        let hash = bson::Binary { subtype: BinarySubtype::Generic, bytes: vec![0; 20] };
        let signature = rawdoc! {"hash": hash, "keyId": 0_i64};
        reply.append(cstr!("$clusterTime"), rawdoc! {"clusterTime": time, "signature": signature});
        reply.append(cstr!("operationTime"), time);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_goes_on_when_the_wall_clock_stands_still_or_goes_back() {
        let clock = Clock::default();
        let times: Vec<_> = [7, 7, 5, 9].map(|seconds| clock.tick(seconds)).into_iter().collect();
        let times: Vec<_> = times.iter().map(|time| (time.time, time.increment)).collect();
        assert_eq!(times, [(7, 1), (7, 2), (7, 3), (9, 1)]);
    }
}
