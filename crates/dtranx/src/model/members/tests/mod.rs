//! Explorations of the machine by its rules, which must hold, and with one rule broken each, which
//! the model must notice.

mod flaws;
mod sound;
