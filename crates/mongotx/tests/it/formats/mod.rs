//! Versions of the stored format (decision 0056).
//!
//! | file | what it tests |
//! | --- | --- |
//! | [`upgrade`] | what a client of an earlier format has left is read, and finished |
//! | [`newer`] | a client that meets a later format says so, and changes nothing |

mod newer;
mod upgrade;
