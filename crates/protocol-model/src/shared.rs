//! [`Shared`]: a part of a state that is copied only when a step changes it, because most steps
//! change little of a state.

use std::{
    ops::{Deref, DerefMut},
    sync::Arc,
};

/// A value that its clones share until one of them is changed. Equality and hash are those of the
/// value.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Shared<T>(Arc<T>);

impl<T> Shared<T> {
    /// Makes a value that is not shared yet.
    pub fn new(value: T) -> Self {
        Self(Arc::new(value))
    }
}

impl<T> Deref for Shared<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: Clone> DerefMut for Shared<T> {
    fn deref_mut(&mut self) -> &mut T {
        Arc::make_mut(&mut self.0)
    }
}
