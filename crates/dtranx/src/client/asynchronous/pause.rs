//! Waits between attempts, with `futures-timer`: one thread for all clients of a process, started
//! at the first wait, and no runtime to agree on. The links' own threads look at the time every 50
//! ms only, and waits begin at half a millisecond.

use std::time::Duration;

use futures_timer::Delay;

pub(super) async fn pause(wait: Duration) {
    if !wait.is_zero() {
        Delay::new(wait).await;
    }
}
