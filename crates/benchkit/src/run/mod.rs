//! The order of work: [`turns()`] lets rivals take turns; [`clients`] are those of one run; each of
//! them ([`client`]) goes through the phases of the run's `clock`.

pub mod client;
pub mod clients;
mod clock;
pub mod turns;

pub use self::{
    client::{Attempt, Chosen, Client, Pace, Retries},
    clients::{Clients, Seat},
    turns::{Turn, turns},
};
