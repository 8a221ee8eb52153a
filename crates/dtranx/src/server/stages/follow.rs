//! The stage of a member that follows: a recovery that does not end. It reads each committed entry
//! as a start does, and applies what that commits (G5). At marks, it tells the garbage collection
//! what is complete (G11). When the member is elected, the recovery ends, and the node of the life
//! begins (G4).

use std::sync::Arc;
use std::sync::mpsc::Sender;

use super::BATCH;
use crate::core::machine::GcEvent;
use crate::core::{Key, Record, Recovery, SegmentId, TranxId, Write};
use crate::log;
use crate::server::event::Garbage;
use crate::server::member_event::{Begun, Follow};
use crate::stage::{Outlet, Source, Stage};
use crate::storage::Storage;

pub(in crate::server) struct FollowStage {
    /// `None` once the node has begun.
    recovery: Option<Recovery>,
    storage: Arc<dyn Storage>,
    source: Source<Follow>,
    begun: Sender<Begun>,
    gc: Outlet<Garbage>,
    commits: Vec<(TranxId, Vec<Write>)>,
}

impl FollowStage {
    /// `recovery` has read what was known to be committed when the member started.
    pub(in crate::server) fn new(
        recovery: Recovery,
        storage: Arc<dyn Storage>,
        source: Source<Follow>,
        begun: Sender<Begun>,
        gc: Outlet<Garbage>,
    ) -> Self {
        Self { recovery: Some(recovery), storage, source, begun, gc, commits: Vec::new() }
    }

    fn read(&mut self, segment: SegmentId, payload: &[u8]) -> Result<(), String> {
        for record in log::records(payload) {
            let Some(recovery) = &mut self.recovery else {
                return Err("an entry comes behind a life's beginning".to_owned());
            };
            let record: Record =
                postcard::from_bytes(record).map_err(|error| format!("a record of the log: {error}"))?;
            let are_marks = matches!(record, Record::Marks { .. });
            self.commits.extend(recovery.record(segment, record));
            if are_marks {
                // The log's stage knows the segments.
                drop(recovery.take_segments());
                let marks = Some(recovery.marks()).filter(|_| recovery.has_caught_up());
                self.apply()?;
                if let Some(marks) = marks {
                    self.gc.send(Garbage::Event(GcEvent::Collect(marks)));
                }
            }
        }
        Ok(())
    }

    fn apply(&mut self) -> Result<(), String> {
        if !self.commits.is_empty() {
            self.storage.apply(&self.commits).map_err(|error| error.to_string())?;
            self.commits.clear();
        }
        Ok(())
    }

    fn begin(&mut self, now_ms: u64) -> Result<(), String> {
        self.apply()?;
        let Some(mut recovery) = self.recovery.take() else { return Ok(()) };
        let map = self.storage.get(&Key::of_map()).map_err(|error| error.to_string())?;
        recovery.stored_map(map.as_ref())?;
        let mut commands = Vec::new();
        let node = recovery.finish(now_ms, &mut commands);
        self.begun.send(Begun { node, commands }).map_err(|_| "nobody waits for the node".to_owned())
    }
}

impl Stage for FollowStage {
    fn name(&self) -> &'static str {
        "follow"
    }

    fn run(&mut self, now_ms: u64) -> Result<usize, String> {
        let mut batch = Vec::new();
        let handled = self.source.take(BATCH, &mut batch);
        for event in batch {
            match event {
                Follow::Apply { segment, payload } => self.read(segment, &payload)?,
                Follow::Begin => self.begin(now_ms)?,
            }
        }
        self.apply()?;
        self.gc.flush();
        Ok(handled)
    }

    fn has_work(&self) -> bool {
        !self.source.is_empty() || !self.gc.is_clear()
    }
}
