//! Changes of the members (decision 0088): a leader begins them, and the crate ends them.

use std::collections::BTreeSet;

use super::{
    plan::Plan,
    state::{Post, State, id},
};
use crate::core::group::{Event, MemberId};

impl State {
    /// Returns true if a leader may begin the next change: its node runs, the last change is over,
    /// and who gets a vote has caught up.
    pub(super) fn may_change(&self, at: usize, plan: &Plan) -> bool {
        let group = &self.members[at].group;
        let in_force = group.in_force();
        let is_over = !in_force.configuration.is_joint() && group.settled().at == in_force.at;
        let voters = plan.next_change(&self.budget).iter().copied().map(id);
        let has_all = |member: MemberId| group.counted(member).get() >= group.state().committed;
        let mut new = voters.filter(|member| !in_force.configuration.has_vote(*member));
        group.serving().is_some() && is_over && new.all(has_all)
    }

    /// A leader begins the next change of the plan: the learners that get a vote have caught up.
    pub(super) fn change(&mut self, at: usize, voters: &[usize]) {
        let group = &self.members[at].group;
        let voters: BTreeSet<MemberId> = voters.iter().copied().map(id).collect();
        let learners = &group.in_force().configuration.learners;
        let learners = learners.difference(&voters).copied().collect();
        self.on(at, Event::Change { voters, learners });
    }

    /// The fourth member goes, and only the first has the final configuration. The fourth stands,
    /// and the third votes for it and is lost; what the fourth asks the second is under way. The
    /// first two have noted the next store in its place, and have answered it.
    pub(super) fn begin_to_go(&mut self, voters: &[usize]) {
        self.change(0, voters);
        while self.members[0].group.in_force().configuration.is_joint() {
            self.all().into_iter().for_each(|at| self.sync(at));
            self.deliver_all(|_| true);
        }
        self.network.clear();
        self.sync(0);
        self.network.clear();
        // In a later term than the others are elected in next.
        self.stand(3);
        self.stand(3);
        self.sync(3);
        self.network.retain(|_, post| post.to != 0);
        self.deliver_all(|post| post.to == 2);
        self.sync(2);
        self.deliver_all(|post| post.from == 2);
        self.lose(2);
        self.network.retain(|_, post| (post.from, post.to) == (3, 1));
        self.note(0);
        self.note(1);
        self.ask(2);
        for _ in 0..2 {
            self.deliver_all(|post| post.from == 2 || post.to == 2);
        }
        self.go_on(2);
    }

    /// Delivers what is under way of this kind, and not what follows.
    fn deliver_all(&mut self, is_due: impl Fn(&Post) -> bool) {
        let due: Vec<Post> = self.network.values().filter(|post| is_due(post)).cloned().collect();
        for post in due {
            self.network.remove(&post.digest());
            self.deliver(post);
        }
    }

    /// The receiver of a message hears whom the sender takes for the members, if it does not know
    /// the sender: the handshake says so.
    pub(super) fn meet(&mut self, post: &Post) {
        let (sender, receiver) = (&self.members[post.from], &self.members[post.to].group);
        let has_noted = self.has_noted(post.from) && self.has_noted(post.to);
        if has_noted && sender.store() == post.stores.0 && !receiver.knows(post.stores.0) {
            let met = sender.group.in_force().clone();
            self.on(post.to, Event::Meet { at: met.at, members: met.configuration.members() });
        }
    }
}
