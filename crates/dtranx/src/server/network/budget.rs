//! Bytes that clients hold in a server: of frames that have not all come, of requests under way, of
//! answers that are not sent. Servers count for nothing: each has one connection, with room for one
//! frame.

/// The shares of a budget, in eighths: what requests under way may take, so that something is left
/// for what comes, and what those of one client may take.
const UNDER_WAY_EIGHTHS: usize = 6;
const ONE_CLIENT_EIGHTHS: usize = 3;

#[derive(Debug)]
pub(super) struct Budget {
    limit: usize,
    /// Bytes in the buffers of connections, in both directions.
    on_the_way: usize,
    /// Bytes of requests that are handed on and not answered.
    under_way: usize,
}

impl Budget {
    pub(super) fn new(limit: usize) -> Self {
        Self { limit, on_the_way: 0, under_way: 0 }
    }

    pub(super) fn held(&self) -> usize {
        self.on_the_way + self.under_way
    }

    pub(super) fn is_exceeded(&self) -> bool {
        self.held() > self.limit
    }

    /// Notes that a connection holds `now` bytes instead of `before`.
    pub(super) fn recount(&mut self, before: usize, now: usize) {
        self.on_the_way = (self.on_the_way + now).saturating_sub(before);
    }

    /// Returns true if there is room for a request of so many bytes, of a client that has so many
    /// under way.
    pub(super) fn admits(&self, bytes: usize, of_client: usize) -> bool {
        let share = |eighths: usize| self.limit / 8 * eighths;
        self.under_way + bytes <= share(UNDER_WAY_EIGHTHS) && of_client + bytes <= share(ONE_CLIENT_EIGHTHS)
    }

    pub(super) fn begin(&mut self, bytes: usize) {
        self.under_way += bytes;
    }

    pub(super) fn end(&mut self, bytes: usize) {
        self.under_way = self.under_way.saturating_sub(bytes);
    }

    /// Message for a client that is refused.
    pub(super) fn refusal(&self) -> String {
        format!("limits.client_mib: clients hold as much of {} MiB as they may", self.limit >> 20)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_leave_room_for_what_comes_and_one_client_for_others() {
        let mut budget = Budget::new(800);
        assert!(budget.admits(300, 0) && !budget.admits(301, 0) && !budget.admits(1, 300));
        budget.begin(300);
        budget.begin(300);
        assert!(!budget.admits(1, 0) && !budget.is_exceeded());
        budget.recount(0, 200);
        assert!(!budget.is_exceeded());
        budget.recount(200, 201);
        assert!(budget.is_exceeded() && budget.held() == 801);
        budget.end(300);
        budget.recount(201, 0);
        assert!(budget.admits(300, 0) && budget.held() == 300);
    }
}
