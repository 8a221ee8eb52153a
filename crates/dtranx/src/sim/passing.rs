//! Events between the machines of one server: delivered in order between two of them, after a while
//! that is different each time. A crash forgets those that were not delivered.

use rand::RngExt;

use super::{
    place::Place,
    world::{Event, World},
};
use crate::core::node::Link;

impl World<'_> {
    /// Delivers the first event that waits between two machines, unless the server has crashed
    /// since.
    pub(super) fn pass(&mut self, id: Place, life: u64, link: Link) {
        let Some(server) = self.servers.get_mut(&id).filter(|server| server.life == life) else { return };
        let commands = server.pass(self.now_us, link);
        self.carry_out(id, commands);
        self.pass_on(id);
    }

    /// Delivers the events between a server's machines after a while.
    pub(super) fn pass_on(&mut self, id: Place) {
        let Some(server) = self.servers.get_mut(&id) else { return };
        let life = server.life;
        for link in server.begin_to_pass() {
            let most_us = self.hop_us();
            let after_us = self.rng.random_range(0..most_us);
            self.later(after_us, Event::Pass { server: id, life, link });
        }
    }

    /// Longest time that an event takes from one thread of a server to another: little, or much
    /// when a thread is held up.
    pub(super) fn hop_us(&mut self) -> u64 {
        if self.chance(5) { 5_000 } else { 50 }
    }
}
