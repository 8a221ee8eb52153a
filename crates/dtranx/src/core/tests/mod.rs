//! One node, event by event: its commands, and their order.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod acknowledgement;
mod apart;
mod contention;
mod coordinator;
mod joining;
mod moves;
mod participant;
mod resolve;
mod restart;
mod snapshots;

use super::*;

const ME: ServerId = ServerId(1);
const PEER: ServerId = ServerId(2);
const THIRD: ServerId = ServerId(3);

/// A node, and the number of the last record that it logged.
struct Rig {
    node: Node,
    last: u64,
    now_ms: u64,
}

impl Rig {
    /// Server 1 of three: it holds the keys before "2", server 2 those from "2" on, server 3 those
    /// from "3" on.
    fn new(change: impl FnOnce(&mut NodeConfig)) -> Self {
        let partition = Partition::Ranges(vec![(key(""), ME), (key("2"), PEER), (key("3"), THIRD)]);
        let mut config = NodeConfig::new(ME, partition);
        config.acknowledgement_delay_ms = 0;
        change(&mut config);
        Self::recover(config, None, vec![])
    }

    fn recover(config: NodeConfig, gc: Option<GcRecord>, records: Vec<Record>) -> Self {
        let mut recovery = Recovery::new(config, gc);
        for record in records {
            recovery.record(SegmentId(1), record);
        }
        let mut rig = Self { node: recovery.finish(0, &mut vec![]), last: 1, now_ms: 0 };
        rig.on(Input::Logged { through: LogTicket(1) });
        rig.on(Input::ClientConnected { client: rig.client() });
        rig
    }

    /// The client's request of this number.
    fn request(&self, message: u64) -> RequestId {
        RequestId { client: self.client(), message: MessageId(message) }
    }

    fn client(&self) -> ClientId {
        ClientId { incarnation: self.node.incarnation().unwrap(), number: 1 }
    }

    fn on(&mut self, input: Input) -> Vec<Command> {
        let mut commands = Vec::new();
        self.node.on(self.now_ms, input, &mut commands);
        for command in &commands {
            if let Command::Log { ticket, .. } = command {
                self.last = ticket.0;
            }
        }
        commands
    }

    fn commit(&mut self, message: u64, transaction: Transaction) -> Vec<Command> {
        let client = self.client();
        self.on(Input::Commit { client, message: MessageId(message), transaction, again: Again::default() })
    }

    fn receive(&mut self, from: ServerId, message: Message) -> Vec<Command> {
        self.on(Input::Receive { from, message })
    }

    /// Makes every logged record durable.
    fn flush(&mut self) -> Vec<Command> {
        self.on(Input::Logged { through: LogTicket(self.last) })
    }

    fn prepare(&mut self, tranx: TranxId, part: Transaction) -> Vec<Command> {
        self.prepare_as(tranx, part, Standing::default())
    }

    fn prepare_as(&mut self, tranx: TranxId, part: Transaction, standing: Standing) -> Vec<Command> {
        let participants = vec![ME, PEER, THIRD];
        self.receive(tranx.server, Message::Prepare { tranx, participants, part, standing })
    }
}

fn key(name: &str) -> Key {
    Key::new(name.as_bytes().to_vec()).unwrap()
}

/// A request of a client that life 10 has accepted.
fn past_request(message: u64) -> RequestId {
    RequestId { client: ClientId { incarnation: Incarnation(10), number: 1 }, message: MessageId(message) }
}

fn tranx(server: ServerId, number: u64) -> TranxId {
    TranxId { server, number }
}

fn put(names: &[&str]) -> Transaction {
    let write = |name: &&str| Write { key: key(name), value: Some(Value::new("v").unwrap()) };
    Transaction { writes: names.iter().map(write).collect(), ..Default::default() }
}

fn read(name: &str, version: Option<TranxId>) -> Transaction {
    Transaction { reads: vec![Read { key: key(name), version }], ..Default::default() }
}

fn vote(tranx: TranxId, vote: Vote) -> Message {
    Message::Vote { tranx, vote, epoch: Epoch(0) }
}

fn low_water(through: u64) -> Message {
    Message::LowWater { through, incomplete: vec![] }
}

/// A validation of this name, of a server's first life.
fn validation(server: ServerId, number: u64) -> ValidationId {
    ValidationId { server, incarnation: Incarnation(1), number }
}

/// The answer among the commands.
fn answer(commands: &[Command]) -> Option<&CommitAnswer> {
    commands.iter().find_map(|command| match command {
        Command::Reply { answer, .. } => Some(answer),
        _ => None,
    })
}

fn refusal(commands: &[Command]) -> &Refusal {
    match answer(commands) {
        Some(CommitAnswer::Refused(refusal)) => refusal,
        other => panic!("not refused: {other:?}"),
    }
}

/// Messages that are sent, with their receivers.
fn sent(commands: Vec<Command>) -> Vec<(ServerId, Message)> {
    let message = |command| match command {
        Command::Send { to, message } => Some((to, message)),
        _ => None,
    };
    commands.into_iter().filter_map(message).collect()
}

fn records(commands: &[Command]) -> Vec<(&Record, bool)> {
    let record = |command| match command {
        &Command::Log { ref record, durable, .. } => Some((record, durable)),
        _ => None,
    };
    commands.iter().filter_map(record).collect()
}

fn inquiry_answer(tranx: TranxId, outcome: Option<Outcome>) -> Message {
    Message::InquiryAnswer { tranx, outcome }
}
