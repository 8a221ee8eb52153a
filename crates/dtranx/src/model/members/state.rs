//! [`State`] of members, and the steps from one state to the next.

use std::{
    collections::{BTreeMap, BTreeSet},
    hash::{DefaultHasher, Hash, Hasher},
};

use super::plan::{Budget, Plan};
use crate::core::group::{
    AnswerId, Command, Config, Configuration, Event, Group, Index, MemberId, Message, Placed, Position, Rejoin, Term,
    Timer, disk::Disk,
};

/// A member's machine and its disk.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Member {
    pub(super) group: Group,
    pub(super) disk: Disk,
    /// State in which its machine is to be started again, if it has said so.
    pub(super) next: Option<Option<Rejoin>>,
}

impl Member {
    /// Id of its store.
    pub(super) fn store(&self) -> MemberId {
        self.group.config().me
    }

    /// Starts its machine with these records of its disk that were not synced.
    fn start(&mut self, config: Config, kept: usize, out: &mut Vec<Command>) {
        self.group = Group::start(config, self.disk.crash(kept), out);
        self.next = None;
    }
}

/// A message under way.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Post {
    pub(super) from: usize,
    pub(super) to: usize,
    /// Stores of the sender and of the receiver: nothing for a lost one reaches the next.
    pub(super) stores: (MemberId, MemberId),
    pub(super) message: Message,
}

/// State of everything, with what is left of the budgets.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct State {
    pub(super) members: Vec<Member>,
    /// Messages under way, by their digests.
    pub(super) network: BTreeMap<u64, Post>,
    /// Entries that a member has acted on as committed, from the first on.
    pub(super) acted: Vec<Position>,
    /// The leader of each term, and whether a life of it has begun.
    pub(super) leaders: BTreeMap<Term, (usize, bool)>,
    /// The lost store, with its disk.
    pub(super) lost: Option<(MemberId, Disk)>,
    /// Answers that wait: whether a later term had a leader when each was said.
    pub(super) held: BTreeMap<u64, bool>,
    /// Description of a fault in a step.
    pub(super) broken: Option<String>,
    pub(super) budget: Budget,
}

/// A step. Members are given by their index.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Action {
    Deliver(Post),
    /// A message arrives, and is still under way.
    Repeat(Post),
    /// A message is lost.
    Drop(Post),
    /// All that a member has written is synced.
    Sync(usize),
    /// A member stands, for which others would vote.
    Stand(usize),
    /// The node of a leader has filled an entry.
    Append(usize),
    /// The node of a leader says something that speaks of now.
    Say(usize),
    Heartbeat(usize),
    StepDown(usize),
    /// A leader begins the next change of the plan (0088).
    Change(usize),
    /// A member crashes, keeps this many records that were not synced, and starts again.
    Crash(usize, usize),
    /// The store of a member is lost, and an empty one takes its place.
    Lose(usize),
    /// A member notes that there is another store in this place, and starts again (0081, R1).
    Note(usize),
    /// A rejoining member asks those that have not answered (0081, R2).
    Ask(usize),
    /// A rejoining member starts again: it follows, or has a vote (0081, R3, R5).
    GoOn(usize),
}

pub(super) fn id(member: usize) -> MemberId {
    MemberId(1 + member as u64)
}

/// Id of the store that takes this one's place.
pub(super) fn next(lost: MemberId) -> MemberId {
    MemberId(lost.0 + 100)
}

impl State {
    pub(super) fn new(plan: &Plan) -> Self {
        let disk = Disk::new();
        let ids = |members: &[usize]| members.iter().copied().map(id).collect();
        let (voters, learners) = (plan.first_voters(), plan.learners.as_slice());
        let configuration = Configuration { learners: ids(learners), ..Configuration::of(ids(&voters)) };
        let before = Placed { at: Position::ZERO, configuration };
        let number = voters.iter().chain(learners).max().map_or(0, |last| last + 1);
        let member = |at| {
            let config = Config { me: id(at), before: before.clone(), rejoins: None, flaw: plan.flaw };
            let group = Group::start(config, disk.durable().clone(), &mut vec![]);
            Member { group, disk: disk.clone(), next: None }
        };
        let mut state = Self {
            members: (0..number).map(member).collect(),
            network: BTreeMap::new(),
            acted: vec![],
            leaders: BTreeMap::new(),
            lost: None,
            held: BTreeMap::new(),
            broken: None,
            budget: Budget::default(),
        };
        if plan.is_begun_apart {
            state.stand(1);
            state.come_to_silence_among(&[1, 2]);
        } else {
            state.stand(0);
            state.come_to_silence();
            state.heartbeat(0);
            state.come_to_silence();
        }
        if plan.is_mistaken {
            state.note_ahead(0, 2);
            state.stand(0);
            state.come_to_silence();
        }
        if plan.is_changing {
            state.change(0, &plan.changes[0]);
        }
        if plan.is_going {
            state.begin_to_go(&plan.changes[0]);
        }
        for _ in 0..plan.ahead {
            state.append(0);
        }
        state.sync(0);
        match plan.lost.filter(|_| plan.ahead > 0 || plan.is_changing) {
            Some(lost) => state.acknowledge_unheard(lost),
            None if plan.is_going || plan.is_changing && !plan.is_replaced => {}
            None => state.network.clear(),
        }
        if plan.is_replaced {
            state.stand(1);
            state.come_to_silence_among(&[1, 2]);
        }
        if let Some(lost) = plan.lost {
            state.lose(lost);
        }
        state.budget = plan.budget;
        state
    }

    /// A follower gets and syncs what the first leader has sent; its word is under way.
    fn acknowledge_unheard(&mut self, at: usize) {
        let sent = std::mem::take(&mut self.network);
        sent.into_values().filter(|post| post.to == at).for_each(|post| self.deliver(post));
        self.network.clear();
        self.sync(at);
    }

    /// Syncs and delivers until nothing is left to do.
    pub(super) fn come_to_silence(&mut self) {
        self.come_to_silence_among(&self.all());
    }

    /// The same for some members; what is sent to others is lost.
    fn come_to_silence_among(&mut self, members: &[usize]) {
        loop {
            self.network.retain(|_, post| members.contains(&post.to));
            let to_sync = members.iter().find(|at| self.members[**at].disk.unsynced() > 0);
            if let Some(at) = to_sync {
                self.sync(*at);
            } else if let Some((_, post)) = self.network.pop_first() {
                self.deliver(post);
            } else {
                let Some(action) = self.rejoining().next() else { return };
                self.go_on_rejoining(&action);
            }
        }
    }

    /// Steps that go on by themselves.
    fn busy(&self) -> impl Iterator<Item = Action> {
        let syncs = self.all().into_iter().filter(|at| self.members[*at].disk.unsynced() > 0).map(Action::Sync);
        self.network.values().cloned().map(Action::Deliver).chain(syncs).chain(self.rejoining())
    }

    pub(super) fn is_silent(&self) -> bool {
        self.busy().next().is_none()
    }

    pub(super) fn actions(&self, plan: &Plan) -> Vec<Action> {
        let mut actions: Vec<Action> = self.busy().collect();
        let budget = &self.budget;
        if budget.repeats > 0 {
            actions.extend(self.network.values().cloned().map(Action::Repeat));
        }
        if budget.drops > 0 {
            actions.extend(self.network.values().cloned().map(Action::Drop));
        }
        let is_named = |named: &[usize], at: usize| named.is_empty() || named.contains(&at);
        let writes = |at: usize| plan.writer.is_none_or(|only| only == at);
        for (at, member) in self.members.iter().enumerate() {
            let (leads, serves) = (member.group.leads().is_some(), member.group.serving().is_some());
            let crashes = budget.crashes > 0 && is_named(&plan.crashing, at);
            let may = [
                (budget.losses > 0 && is_named(&plan.losing, at), Action::Lose(at)),
                (
                    budget.elections > 0
                        && !leads
                        && member.group.config().rejoins.is_none()
                        && is_named(&plan.candidates, at),
                    Action::Stand(at),
                ),
                (budget.entries > 0 && serves && writes(at), Action::Append(at)),
                (budget.answers > 0 && serves, Action::Say(at)),
                (budget.heartbeats > 0 && leads && writes(at), Action::Heartbeat(at)),
                (budget.ends > 0 && leads, Action::StepDown(at)),
                (budget.changes > 0 && self.may_change(at, plan), Action::Change(at)),
            ];
            actions.extend(may.into_iter().filter(|(may, _)| *may).map(|(_, action)| action));
            if crashes {
                actions.extend((0..=member.disk.unsynced()).map(|kept| Action::Crash(at, kept)));
            }
        }
        actions
    }

    /// Takes one step, which is taken from its budget.
    pub(super) fn take(&mut self, plan: &Plan, action: &Action) {
        let budget = &mut self.budget;
        match action.clone() {
            Action::Deliver(post) => {
                self.network.remove(&post.digest());
                self.deliver(post);
            }
            Action::Repeat(post) => {
                budget.repeats -= 1;
                self.deliver(post);
            }
            Action::Drop(post) => {
                budget.drops -= 1;
                self.network.remove(&post.digest());
            }
            Action::Sync(at) => self.sync(at),
            Action::Stand(at) => {
                budget.elections -= 1;
                self.stand(at);
            }
            Action::Append(at) => {
                budget.entries -= 1;
                self.append(at);
            }
            Action::Say(at) => {
                budget.answers -= 1;
                self.say(at);
            }
            Action::Heartbeat(at) => {
                budget.heartbeats -= 1;
                self.heartbeat(at);
            }
            Action::StepDown(at) => {
                budget.ends -= 1;
                self.step_down(at);
            }
            Action::Change(at) => {
                let next = plan.next_change(budget);
                budget.changes -= 1;
                self.change(at, next);
            }
            Action::Crash(at, kept) => {
                budget.crashes -= 1;
                self.crash(at, kept);
            }
            Action::Lose(at) => {
                budget.losses -= 1;
                self.lose(at);
            }
            Action::Note(_) | Action::Ask(_) | Action::GoOn(_) => self.go_on_rejoining(action),
        }
        self.forget(plan);
    }

    /// Forgets differences that do not matter, and messages that have no effect any more.
    fn forget(&mut self, plan: &Plan) {
        for member in &mut self.members {
            member.group.forget();
        }
        let is_asked = self.budget.answers > 0 || !self.held.is_empty();
        let members = &self.members;
        self.network.retain(|_, post| post.stores.1 == members[post.to].store());
        let is_cut =
            |post: &Post| plan.cut.iter().any(|pair| *pair == (post.from, post.to) || *pair == (post.to, post.from));
        self.network.retain(|_, post| !is_cut(post) && matters(plan, members, post, is_asked));
    }

    pub(super) fn deliver(&mut self, post: Post) {
        if post.stores.1 == self.members[post.to].store() {
            self.meet(&post);
            let message = self.by_notes(post.to, post.message);
            self.on(post.to, Event::Receive { from: post.stores.0, message });
        }
    }

    pub(super) fn sync(&mut self, at: usize) {
        let member = &mut self.members[at];
        let through = member.group.last_write();
        member.disk.sync(through);
        self.on(at, Event::Synced { through });
    }

    /// A member stands for election: others would vote for it, whatever they hear of a leader.
    pub(super) fn stand(&mut self, at: usize) {
        let group = &mut self.members[at].group;
        let me = group.config().me;
        if group.in_force().configuration.is_majority(|member| member == me) {
            return self.on(at, Event::Tick(Timer::Election));
        }
        // One that is to go lets others stand first, and stands the second time.
        group.on(Event::Tick(Timer::Election), &mut vec![]);
        group.on(Event::Tick(Timer::Election), &mut vec![]);
        let asked = group.term() + Term::new(1);
        let message = Message::Would { term: Term::ZERO, asked, grants: true };
        for other in self.members[at].group.in_force().configuration.members() {
            if self.members[at].group.term() < asked {
                self.on(at, Event::Receive { from: other, message: message.clone() });
            }
        }
    }

    fn append(&mut self, at: usize) {
        if let Some(life) = self.members[at].group.serving() {
            self.on(at, Event::Append { life });
        }
    }

    fn say(&mut self, at: usize) {
        let Some(life) = self.members[at].group.serving() else { return };
        let answer = u64::from(self.budget.answers);
        let is_over = self.leaders.keys().any(|term| *term > life);
        self.held.insert(answer, is_over);
        self.on(at, Event::Hold { life, answer: AnswerId(answer) });
    }

    pub(super) fn heartbeat(&mut self, at: usize) {
        self.on(at, Event::Tick(Timer::Heartbeat));
    }

    fn step_down(&mut self, at: usize) {
        // Whom it has heard of is forgotten at each step.
        self.on(at, Event::Tick(Timer::Contact));
    }

    fn crash(&mut self, at: usize, kept: usize) {
        let config = self.members[at].group.config().clone();
        self.start(at, config, kept);
    }

    pub(super) fn start(&mut self, at: usize, config: Config, kept: usize) {
        let mut out = Vec::new();
        self.members[at].start(config, kept, &mut out);
        self.hear(at, out);
    }

    /// Starts a member's engine again: nothing is lost but what is in memory.
    pub(super) fn start_again(&mut self, at: usize, config: Config) {
        self.start(at, config, self.members[at].disk.unsynced());
    }

    /// Gives a member an event.
    pub(super) fn on(&mut self, at: usize, event: Event) {
        let mut out = Vec::new();
        self.members[at].group.on(event, &mut out);
        self.hear(at, out);
    }

    fn hear(&mut self, at: usize, out: Vec<Command>) {
        for command in out {
            match command {
                Command::Write { write, state, entries } => self.members[at].disk.write(write, state, entries),
                Command::Send { to, message } => {
                    let stores = (self.members[at].store(), to);
                    if let Some(to) = self.members.iter().position(|other| other.store() == to) {
                        let post = Post { from: at, to, stores, message };
                        self.network.insert(post.digest(), post);
                    }
                }
                Command::Apply { through } | Command::Logged { through } => self.act(at, through),
                Command::Begin { life } => self.begin(at, life),
                Command::Release { answer } => {
                    if self.held.remove(&answer.0) == Some(true) {
                        self.fail(format!("member {at} says {answer:?}, and was replaced before"));
                    }
                }
                Command::Follow(promised) => self.members[at].next = Some(Some(Rejoin::Following(promised))),
                Command::Rejoined => self.members[at].next = Some(None),
                Command::Stop(damage) => self.fail(format!("member {at} stops: {damage:?}")),
                Command::Unchanged(why) => self.fail(format!("member {at} changes nothing: {why:?}")),
                Command::Set(_) | Command::End { .. } | Command::Transfer { .. } => {}
            }
        }
        if let Some(term) = self.members[at].group.leads() {
            if self.leaders.keys().all(|earlier| *earlier < term)
                && let Some(lacking) = self.lacking(at)
            {
                self.fail(format!("member {at} leads in {term:?} without {lacking:?}, which was acted on"));
            }
            let (leader, _) = *self.leaders.entry(term).or_insert((at, false));
            if leader != at {
                self.fail(format!("members {leader} and {at} lead in {term:?}"));
            }
        }
        let group = &self.members[at].group;
        if group.serving().is_some() && group.serving() != group.leads() {
            self.fail(format!("member {at} does not lead, and keeps its node"));
        }
    }

    /// A member acts on the first entries of its log.
    fn act(&mut self, at: usize, through: Index) {
        for index in 1..=through.get() {
            let Some(entry) = self.members[at].disk.at(Index::new(index)) else {
                return self.fail(format!("member {at} acts on entry {index}, which it has not synced"));
            };
            match self.acted.get(index as usize - 1) {
                Some(acted) if *acted != entry => {
                    return self.fail(format!("{acted:?} and {entry:?} are acted on"));
                }
                Some(_) => {}
                None if !self.is_kept(entry, true) => {
                    return self.fail(format!("member {at} acts on {entry:?}, which no majority has"));
                }
                None => self.acted.push(entry),
            }
        }
    }

    /// A life begins.
    fn begin(&mut self, at: usize, life: Term) {
        let entries = &self.members[at].disk.durable().entries;
        let first = entries.iter_with_positions().map(|(entry, _)| entry).find(|entry| entry.term == life);
        if first.is_none_or(|first| !self.is_kept(first, true)) {
            self.fail(format!("the life {life:?} of member {at} begins, and no majority has its first entry"));
        }
        let led = self.leaders.entry(life).or_insert((at, false));
        if *led != (at, false) {
            self.fail(format!("the life {life:?} begins at member {at}, and has begun before"));
        }
        self.leaders.insert(life, (at, true));
    }

    /// Returns true if a majority's disks have this entry: one of the voters, or of the next
    /// voters, of the configuration in force on some member. The disk of a lost store is one of
    /// them if `with_lost`.
    pub(super) fn is_kept(&self, entry: Position, with_lost: bool) -> bool {
        let lost = self.lost.as_ref().filter(|(_, disk)| with_lost && disk.has(entry));
        let has = |store: MemberId| {
            let is_next = lost.is_some_and(|(lost, _)| next(*lost) == store);
            let here = self.members.iter().find(|member| member.store() == store);
            is_next || lost.is_some_and(|(lost, _)| *lost == store) || here.is_some_and(|here| here.disk.has(entry))
        };
        // What was committed before a joint configuration has a majority of the voters alone.
        let is_kept = |voters: &BTreeSet<MemberId>| Configuration::of(voters.clone()).is_majority(has);
        let mut in_force = self.members.iter().map(|member| &member.group.in_force().configuration);
        in_force.any(|of| is_kept(&of.voters) || of.is_joint() && is_kept(&of.next))
    }

    /// An entry that was acted on before the leader of the latest term was elected, and that it
    /// does not have.
    fn lacking(&self, leader: usize) -> Option<Position> {
        self.acted.iter().copied().find(|entry| !self.members[leader].group.has_written(*entry))
    }

    /// Numbers of all members, whether or not they are alive.
    pub(super) fn all(&self) -> Vec<usize> {
        (0..self.members.len()).collect()
    }

    fn fail(&mut self, what: String) {
        self.broken.get_or_insert(what);
    }

    /// Leaders of the latest term.
    pub(super) fn leader(&self) -> Option<usize> {
        let serves: BTreeSet<(Term, usize)> =
            self.all().into_iter().filter_map(|at| Some((self.members[at].group.serving()?, at))).collect();
        serves.last().map(|(_, at)| *at)
    }
}

/// Returns false if a message has no effect, whatever happens before it arrives. Terms are looked
/// at on the disk, because a crash may go back to what that has.
fn matters(plan: &Plan, members: &[Member], post: &Post, is_asked: bool) -> bool {
    use noraft::Message as Raft;
    let (from, to) = (&members[post.from], &members[post.to]);
    let state = to.disk.durable().state;
    let durable = Term::new(state.term);
    let leads = |member: &Member, term: Term| member.group.leads() == Some(term);
    match &post.message {
        Message::Raft(Raft::AppendEntriesCall { term, .. }) => plan.has_late || *term >= durable,
        Message::Raft(Raft::AppendEntriesReply { term, .. }) => *term > durable || leads(to, *term),
        Message::Raft(Raft::RequestVoteCall { term, .. }) => {
            let may_vote = state.vote.is_none_or(|vote| vote == post.stores.0);
            *term > durable || *term == durable && may_vote
        }
        Message::Raft(Raft::RequestVoteReply { term, .. }) => *term > durable || to.group.stands() == Some(*term),
        Message::Round { term, .. } => is_asked && leads(from, *term),
        Message::Confirm { term, .. } => is_asked && leads(to, *term),
        Message::Ask { .. } | Message::Would { .. } | Message::Rejoin | Message::RejoinAnswer { .. } => true,
    }
}

impl Post {
    pub(super) fn digest(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.hash(&mut hasher);
        hasher.finish()
    }
}
