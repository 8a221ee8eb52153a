//! For a model: what tells two machines apart that do the same from here on is forgotten.

use super::{canvass::Canvass, contact::Contact, id::WriteId, machine::Group, outbox::Outbox};

impl Group {
    /// Forgets what only timers look at, and the numbers of writes where nothing waits for one.
    pub(crate) fn forget(&mut self) {
        self.canvass = Canvass::default();
        if self.own.synced_write() == self.own.last_write() && self.outbox == Outbox::default() {
            self.own.number_anew();
            self.vote_written = WriteId(0);
        }
        self.contact = Contact::new(self.own.last_write());
    }
}
