//! Three real servers, killed, paused and cut off from each other while clients work: nothing
//! acknowledged is lost, and what the clients saw is strictly serializable.
mod appends;
mod backup;
mod bank;
mod commands;
mod history;
mod proxy;
mod snapshots;
mod trio;
