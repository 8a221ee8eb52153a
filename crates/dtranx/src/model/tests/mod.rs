//! Explorations of the real protocol, which must hold, and of the protocol with one flaw each,
//! which the model must notice.

mod flaws;
mod plans;
mod sound;
