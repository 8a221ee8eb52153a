//! A life: when the node of a leader begins, what it hears, and when it ends (G1, G4, G5).

use super::{
    event::Command,
    id::{Index, Term},
};

/// The node of this member, or what is applied while it has none.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Life {
    /// The life whose node runs here.
    serving: Option<Term>,
    /// Last entry that was applied, or that was passed to the node.
    acted: Index,
}

impl Life {
    pub(super) const fn new(beginning: Index) -> Self {
        Self { serving: None, acted: beginning }
    }

    pub(super) const fn serving(&self) -> Option<Term> {
        self.serving
    }

    /// Acts on entries up to `through`, which are committed and synced here.
    pub(super) fn act(&mut self, through: Index, out: &mut Vec<Command>) {
        if through <= self.acted {
            return;
        }
        self.acted = through;
        out.push(match self.serving {
            Some(_) => Command::Logged { through },
            None => Command::Apply { through },
        });
    }

    /// Begins the life of this term once its first entry is acted on (G4).
    pub(super) fn begin(&mut self, life: Term, first: Index, out: &mut Vec<Command>) {
        if self.serving.is_none() && self.acted >= first {
            self.serving = Some(life);
            out.push(Command::Begin { life });
        }
    }

    /// The leader has stepped down. What it applied is read again from the beginning.
    pub(super) fn end(&mut self, beginning: Index, out: &mut Vec<Command>) {
        if let Some(life) = self.serving.take() {
            out.push(Command::End { life });
            self.acted = beginning;
        }
    }
}
