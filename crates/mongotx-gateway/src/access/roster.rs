//! The users of a gateway that runs: those of the file as it was last read.

use std::sync::{Arc, PoisonError, RwLock};

use super::{user::User, users::Users};

/// The users, who may be replaced.
pub(crate) struct Roster {
    now: RwLock<Arc<Users>>,
}

impl Roster {
    pub(crate) fn new(users: Users) -> Self {
        Self { now: RwLock::new(Arc::new(users)) }
    }

    /// The users as they are now.
    pub(crate) fn now(&self) -> Arc<Users> {
        Arc::clone(&self.now.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns true if this is still a user, with this password and these roles.
    pub(crate) fn is_current(&self, user: &Arc<User>) -> bool {
        self.now().get(&user.name).is_some_and(|now| Arc::ptr_eq(now, user))
    }

    /// Replaces the users. Returns the digests of those who were removed, or whose password or
    /// roles have changed.
    pub(crate) fn replace(&self, users: Users) -> Vec<Vec<u8>> {
        let mut now = self.now.write().unwrap_or_else(PoisonError::into_inner);
        let (users, changed) = users.instead_of(&now);
        *now = Arc::new(users);
        changed
    }
}
