//! Requests that come over the connections: the order in which they are read, the stages that
//! messages go to, and refusals for want of room.

use mio::Token;

use super::connection::{Over, Party};
use super::incoming::Frame;
use super::{NetworkStage, turns};
use crate::cluster::PeerId;
use crate::core::joining;
use crate::core::machine::TranxEvent;
use crate::core::{ClientId, CommitAnswer, Message, MessageId, Refusal, ServerId};
use crate::server::admission;
use crate::server::member_event::{Change, FromMembers};
use crate::server::stages::BATCH;
use crate::wire::{
    Ask, AskKind, GroupMessage, Hello, MemberMessage, Proof, Reply, Request, RequestHead, Response, Welcome, WireError,
    decode,
};

/// Number of clients' messages that are handled in one turn before servers are read again.
const TURN_MESSAGES: usize = 4 * BATCH;

/// Content of a frame.
enum Heard {
    /// A client, with this many bytes.
    Request(ClientId, Request, usize),
    Message(ServerId, Message),
    /// Another member of this group, by its number.
    Member(u8, MemberMessage),
    /// A member of another group.
    Group(PeerId, GroupMessage<Message>),
    Hello(Hello),
    Proof(Proof),
    Welcome(PeerId, Welcome),
    /// Nothing more is read from the party: it has got its refusal.
    Nothing,
}

/// The change of the group's members that a client asks for.
const fn change(ask: &Ask) -> Option<Change> {
    match *ask {
        Ask::AddMember { address, store } => Some(Change::Add { address, store }),
        Ask::RemoveMember(number) => Some(Change::Remove { number }),
        _ => None,
    }
}

fn understand(
    me: ServerId,
    party: Party,
    is_closing: bool,
    is_challenged: bool,
    payload: &[u8],
) -> Result<Heard, WireError> {
    Ok(match party {
        Party::Client(client) => Heard::Request(client, decode(payload)?, payload.len()),
        Party::Caller(PeerId { server, member: Some(member) }) if server == me => {
            Heard::Member(member, decode(payload)?)
        }
        Party::Caller(peer @ PeerId { member: Some(_), .. }) => Heard::Group(peer, decode(payload)?),
        Party::Caller(PeerId { server, member: None }) => Heard::Message(server, decode(payload)?),
        Party::Unknown if is_closing => Heard::Nothing,
        Party::Unknown if is_challenged => Heard::Proof(decode(payload)?),
        Party::Unknown => Heard::Hello(decode(payload)?),
        Party::Called(peer, _) => Heard::Welcome(peer, decode(payload)?),
    })
}

impl NetworkStage {
    pub(super) fn read_all(&mut self, now_ms: u64) -> usize {
        let is_server = |token: Token| {
            let party = self.connections.get(&token).map(|connection| connection.party);
            matches!(party, Some(Party::Caller(_) | Party::Called(..)))
        };
        let readable = std::mem::take(&mut self.readable);
        let order = turns::order(&readable, is_server, self.first);
        let servers = order.iter().take_while(|token| is_server(**token)).count();
        let (mut handled, mut of_clients) = (0, 0);
        for (at, token) in order.iter().enumerate() {
            if of_clients >= TURN_MESSAGES {
                self.first = *token;
                self.readable.extend(&order[at..]);
                break;
            }
            let messages = self.read_or_close(*token, now_ms);
            handled += messages;
            of_clients += if at < servers { 0 } else { messages };
        }
        self.make_room(now_ms);
        handled
    }

    fn read_or_close(&mut self, token: Token, now_ms: u64) -> usize {
        match self.read(token, now_ms) {
            Ok(messages) => messages,
            Err(over) => {
                if let Over::Wire(error) = over {
                    let remark = format!("server {}: a connection is closed: {error}", self.me);
                    self.remarks.say(remark, now_ms);
                }
                // The answers to earlier requests are sent, as far as the socket takes them at
                // once.
                if let Some(connection) = self.connections.get_mut(&token) {
                    let _ = connection.send(now_ms);
                }
                self.close(token, now_ms);
                0
            }
        }
    }

    fn read(&mut self, token: Token, now_ms: u64) -> Result<usize, Over> {
        let Some(connection) = self.connections.get_mut(&token) else { return Ok(0) };
        let mut ended = Ok(());
        // Frames that the last turn has left come first.
        if !std::mem::take(&mut connection.is_behind) {
            connection.is_readable = true;
            ended = connection.receive(&mut self.chunk, now_ms);
        }
        if connection.is_readable && ended.is_ok() {
            self.readable.insert(token);
        }
        // Frames that came before the end are handled now or never.
        let most = if ended.is_ok() { BATCH } else { usize::MAX };
        let mut messages = 0;
        while let Some(connection) = self.connections.get_mut(&token) {
            if messages >= most {
                connection.is_behind = true;
                self.readable.insert(token);
                break;
            }
            let party = connection.party;
            match connection.next()? {
                Some(Frame::Whole(payload)) => {
                    let (me, is_challenged) = (self.me, self.challenged.contains_key(&token));
                    let is_closing = self.closing.contains(&token);
                    let heard = understand(me, party, is_closing, is_challenged, payload)?;
                    self.handle(token, heard, now_ms)?;
                }
                Some(Frame::Unkept(head)) => self.refuse_unkept(token, party, &head, now_ms),
                None => break,
            }
            messages += 1;
        }
        if let Some(connection) = self.connections.get_mut(&token) {
            connection.incoming.note_part(messages, now_ms);
        }
        self.recount(token);
        ended.map(|()| messages)
    }

    fn handle(&mut self, token: Token, heard: Heard, now_ms: u64) -> Result<(), Over> {
        match heard {
            Heard::Request(client, request, bytes) => self.serve(token, client, request, bytes, now_ms),
            Heard::Message(from, message) => self.receive(from, message, now_ms),
            Heard::Group(from, GroupMessage::Leads { term }) => self.leaders.note(from, term),
            Heard::Group(from, GroupMessage::Message(message)) => self.receive(from.server, message, now_ms),
            Heard::Member(from, MemberMessage::Told(told)) => self.hear_told(PeerId::member(self.me, from), told)?,
            Heard::Member(from, message) => {
                // Without room it is as if it were lost on the way.
                if let Some(ways) = &self.port.members {
                    drop(ways.group.offer(FromMembers::Heard { from, message }));
                }
            }
            Heard::Proof(proof) => self.prove(token, &proof, now_ms)?,
            Heard::Hello(hello) => self.meet(token, hello, now_ms)?,
            Heard::Welcome(peer, welcome) => self.welcomed(peer, token, welcome)?,
            Heard::Nothing => {}
        }
        Ok(())
    }

    fn receive(&mut self, from: ServerId, message: Message, now_ms: u64) {
        if self.member.is_none() && self.port.identity.is_new() {
            return self.receive_as_new(from, message, now_ms);
        }
        let is_serving = self.member.is_none() || self.port.stats.is_open();
        if !self.port.identity.is_in_use() || !is_serving {
            // As if it were lost on the way.
            return;
        }
        let refused = admission::refuse_message(&self.port.stats, &message);
        if let Some(answer) = refused.or_else(|| self.port.receive(from, message)) {
            self.tell(from, &answer, now_ms);
        }
    }

    /// A new server answers about snapshots and about transactions that it never voted for, and
    /// refuses parts of transactions. Nothing else is for it (0087, J3 and J4).
    fn receive_as_new(&mut self, from: ServerId, message: Message, now_ms: u64) {
        if let Some(answer) = joining::refuse(self.me, &message) {
            self.tell(from, &answer, now_ms);
        } else if matches!(message, Message::Snapshot(_) | Message::LowWater { .. } | Message::Inquire { .. }) {
            drop(self.port.receive(from, message));
        }
    }

    fn serve(&mut self, token: Token, client: ClientId, request: Request, bytes: usize, now_ms: u64) {
        let Request { id, is_repeated, ask } = request;
        if ask == Ask::Status {
            self.note_connections();
            let reply = Reply::Status(Box::new(self.port.stats.status(self.peers.all_ready(self.me))));
            return self.push(token, &Response { id, reply }, now_ms);
        }
        if !self.budget.admits(bytes, self.sessions.bytes(client)) {
            self.connection_stats.refused_requests += 1;
            let kind = if ask.is_commit() { AskKind::Commit } else { AskKind::Get };
            if let Some(response) = refusal(RequestHead { id, is_repeated, kind }, self.budget.refusal()) {
                self.push(token, &response, now_ms);
            }
            return;
        }
        match self.hand_on(client, id, is_repeated, ask) {
            Ok(()) => {
                let added = self.sessions.begin(client, id, bytes, now_ms);
                self.budget.begin(added);
            }
            Err(Some(reply)) => self.push(token, &Response { id, reply }, now_ms),
            Err(None) => {}
        }
    }

    /// Hands a request on to the stage that it concerns; or returns the answer, if there is one at
    /// once.
    fn hand_on(&self, client: ClientId, id: u64, is_repeated: bool, ask: Ask) -> Result<(), Option<Reply>> {
        let message = MessageId(id);
        if let Some(change) = change(&ask) {
            return self.ask_for_change(client, id, change).map_err(Some);
        }
        let question = match ask {
            Ask::Snapshot => Some((TranxEvent::Snapshot { client, message }, AskKind::Snapshot)),
            Ask::RequestOutcome { request, above } => {
                Some((TranxEvent::RequestOutcome { client, message, request, above }, AskKind::RequestOutcome))
            }
            _ => None,
        };
        if let Some((event, kind)) = question {
            let head = RequestHead { id, is_repeated, kind };
            let full = |_| refusal(head, "requests that wait at the server".to_owned()).map(|response| response.reply);
            return self.port.entry.offer(event).map_err(full);
        }
        let (transaction, mut again) = match ask.into_commit() {
            Ok(commit) => commit,
            Err(ask) => return self.port.reads.ask(client, id, ask).map_err(Some),
        };
        admission::limit_keeping(&self.port.stats, &transaction, &mut again);
        let refused = admission::refuse_commit(&self.port.stats, &self.cluster.partition, &transaction, is_repeated);
        if let Some(refusal) = refused {
            return Err(Some(Reply::Commit(CommitAnswer::Refused(refusal))));
        }
        let event = TranxEvent::Commit { client, message, is_repeated, transaction, again };
        self.port.entry.offer(event).map_err(|_| {
            let head = RequestHead { id, is_repeated, kind: AskKind::Commit };
            refusal(head, "requests that wait at the server".to_owned()).map(|response| response.reply)
        })
    }

    /// Refuses a message that was read to its end and not kept. A message of a server is dropped,
    /// as if it were lost on the way.
    fn refuse_unkept(&mut self, token: Token, party: Party, head: &[u8], now_ms: u64) {
        if let Party::Client(_) = party
            && let Some(response) = refusal_of_head(head, self.budget.refusal())
        {
            self.push(token, &response, now_ms);
        }
    }

    /// Counts what a connection of a client holds.
    pub(super) fn recount(&mut self, token: Token) {
        let Some(connection) = self.connections.get_mut(&token) else { return };
        let is_server = matches!(connection.party, Party::Caller(_) | Party::Called(..));
        let now = if is_server { 0 } else { connection.held_bytes() };
        let before = std::mem::replace(&mut connection.counted, now);
        self.budget.recount(before, now);
    }

    /// Makes room when clients hold more than they may: those with most bytes on the way lose them.
    /// A part of a message is not kept, and refused when the rest has come; a client that does not
    /// take its answers is disconnected.
    pub(super) fn make_room(&mut self, now_ms: u64) {
        while self.budget.is_exceeded() {
            let held =
                self.connections.iter().filter(|(_, connection)| connection.counted > 0 && !connection.is_behind);
            let Some((&token, _)) = held.max_by_key(|(_, connection)| connection.counted) else { return };
            let Some(connection) = self.connections.get_mut(&token) else { return };
            let is_unread = connection.unsent_bytes() > connection.incoming.held_bytes();
            if !is_unread && connection.incoming.unkeep() {
                self.connection_stats.refused_requests += 1;
                self.recount(token);
            } else {
                self.connection_stats.closed_unread += 1;
                let remark = format!("server {}: a connection is closed: {}", self.me, self.budget.refusal());
                self.remarks.say(remark, now_ms);
                self.close(token, now_ms);
            }
        }
    }
}

/// Refusal of a request; none if the client has sent it before: the earlier copy may be under way,
/// so this one is treated as lost, and will be sent again.
fn refusal(head: RequestHead, limit: String) -> Option<Response> {
    let reply = match head.kind {
        kind if kind.is_commit() && head.is_repeated => return None,
        AskKind::Commit | AskKind::CommitAgain => Reply::Commit(CommitAnswer::Refused(Refusal::Overloaded { limit })),
        AskKind::Get
        | AskKind::Scan
        | AskKind::Status
        | AskKind::Snapshot
        | AskKind::GetAt
        | AskKind::ScanAt
        | AskKind::RequestOutcome
        | AskKind::AddMember
        | AskKind::RemoveMember => Reply::Refused(format!("the server is at its limit: {limit}")),
    };
    Some(Response { id: head.id, reply })
}

/// The refusal of a request of which only this beginning is here.
pub(super) fn refusal_of_head(head: &[u8], limit: String) -> Option<Response> {
    RequestHead::of(head).and_then(|head| refusal(head, limit))
}
