//! Where keys are: as configured, and as ranges have moved since (decision 0082).
//!
//! Every server keeps a map under a reserved key of its items. It holds exactly those ranges of
//! which its own map says so; what it says of other servers are hints. Each range has the number of
//! its moves: of two maps, the one with more moves knows better where a range is.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{
    id::ServerId,
    item::{Item, Key, LimitError, MAX_CUT_BYTES, MAX_PARTS, Value},
    partition::Partition,
    range::{KeyBound, KeyRange},
    refusal::Moved,
    transaction::{Moving, ScanRead, Transaction, Write},
};

/// The most ranges of one map.
pub const MAX_PIECES: usize = 4096;

/// The most hints of one refusal. It has fewer where their keys are long, but at least one.
pub const MAX_HINTS: usize = 64;

/// Size of the hints of one refusal from which on it gets no further one, in bytes.
const MAX_HINT_BYTES: usize = 64 << 10;

/// Map from keys to servers.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Map {
    /// By the keys' hashes. It does not change.
    Hash(Partition),
    /// Ranges that are next to each other, in order. The first one begins with the empty key.
    Ranges(Vec<Piece>),
}

/// A range of a map, which ends where the next one begins.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Piece {
    /// First key of the range.
    pub first: Key,
    /// Server that holds the range.
    pub holder: ServerId,
    /// Number of moves that have brought the range there.
    pub moves: u64,
}

/// The maps of one server's node.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Maps {
    /// The server's own map: what it holds, and what it knew of others at its last move.
    pub(crate) held: Map,
    /// Best knowledge of where all keys are.
    pub(crate) known: Map,
}

impl From<&Partition> for Map {
    fn from(partition: &Partition) -> Self {
        let Partition::Ranges(ranges) = partition else { return Self::Hash(partition.clone()) };
        let piece = |(first, holder): &(Key, ServerId)| Piece { first: first.clone(), holder: *holder, moves: 0 };
        Self::Ranges(ranges.iter().map(piece).collect())
    }
}

impl Map {
    /// The server that holds `key`.
    pub fn server_of(&self, key: &Key) -> ServerId {
        match self {
            Self::Hash(partition) => partition.server_of(key),
            Self::Ranges(pieces) => at(pieces, key).map_or(ServerId(0), |(_, piece)| piece.holder),
        }
    }

    /// The parts of `range`, in order, each with its holder; by hash, one for each server.
    pub fn pieces(&self, range: &KeyRange) -> Vec<(KeyRange, ServerId)> {
        match self {
            Self::Hash(partition) => partition.servers().into_iter().map(|server| (range.clone(), server)).collect(),
            Self::Ranges(_) => self.parts(range).map(|(part, piece)| (part, piece.holder)).collect(),
        }
    }

    /// The first parts of `range` with one holder each, `most` of them if there are more, and the
    /// key before which the last one ends if there are more.
    pub fn first_pieces(&self, range: &KeyRange, most: usize) -> (Vec<(KeyRange, ServerId)>, Option<Key>) {
        let Self::Ranges(_) = self else { return (self.pieces(range), None) };
        let mut runs = self.runs(range);
        let first = runs.by_ref().take(most).collect();
        (first, runs.next().map(|(run, _)| run.start))
    }

    /// As [`Map::parts`], where parts that are next to each other and have the same holder are one.
    fn runs(&self, range: &KeyRange) -> impl Iterator<Item = (KeyRange, ServerId)> {
        let mut parts = self.parts(range).peekable();
        std::iter::from_fn(move || {
            let (mut run, Piece { holder, .. }) = parts.next()?;
            while let Some((next, _)) = parts.next_if(|(_, next)| next.holder == *holder) {
                run.end = next.end;
            }
            Some((run, *holder))
        })
    }

    /// Parts of a map by ranges that are in `range`, in order.
    fn parts(&self, range: &KeyRange) -> impl Iterator<Item = (KeyRange, &Piece)> {
        let pieces = if let Self::Ranges(pieces) = self { pieces.as_slice() } else { &[] };
        let from = at(pieces, &range.start).map_or(0, |(place, _)| place);
        let next = pieces.iter().skip(from + 1).map(Some).chain([None]);
        let is_within = |piece: &Piece| range.contains(&piece.first);
        pieces.iter().skip(from).zip(next).enumerate().map_while(move |(nth, (piece, next))| {
            if nth > 0 && !is_within(piece) || range.is_empty() {
                return None;
            }
            let start = piece.first.clone().max(range.start.clone());
            let next = next.filter(|next| is_within(next));
            let end = next.map_or_else(|| range.end.clone(), |next| Some(KeyBound::Before(next.first.clone())));
            Some((KeyRange { start, end }, piece))
        })
    }

    /// Returns true if `server` holds every key that may be in `range`. By hash each server may
    /// hold some of any range.
    pub fn holds(&self, server: ServerId, range: &KeyRange) -> bool {
        self.parts(range).all(|(_, piece)| piece.holder == server)
    }

    /// The most moves of any part of `range`.
    pub fn moves_of(&self, range: &KeyRange) -> u64 {
        self.parts(range).map(|(_, piece)| piece.moves).max().unwrap_or(0)
    }

    /// The range around `key` that has one holder.
    pub fn around(&self, key: &Key) -> Moved {
        let Self::Ranges(pieces) = self else {
            return Moved { range: KeyRange::all(), to: self.server_of(key), moves: 0 };
        };
        let (place, start) =
            at(pieces, key).map_or((0, Key::smallest()), |(place, piece)| (place, piece.first.clone()));
        let end = pieces.get(place + 1).map(|next| KeyBound::Before(next.first.clone()));
        let (to, moves) = pieces.get(place).map_or((ServerId(0), 0), |piece| (piece.holder, piece.moves));
        Moved { range: KeyRange { start, end }, to, moves }
    }

    /// Notes that a range has moved, unless more moves of it are known. A map by hash stays as it
    /// is.
    pub fn learn(&mut self, moved: &Moved) {
        let older = |(part, piece): (KeyRange, &Piece)| (piece.moves < moved.moves).then_some(part);
        let parts: Vec<KeyRange> = self.parts(&moved.range).filter_map(older).collect();
        parts.iter().for_each(|part| self.assign(part, moved.to, moved.moves));
    }

    /// Learns all that another map knows.
    pub fn learn_all(&mut self, other: &Self) {
        for (range, piece) in other.parts(&KeyRange::all()) {
            self.learn(&Moved { range, to: piece.holder, moves: piece.moves });
        }
    }

    fn assign(&mut self, range: &KeyRange, holder: ServerId, moves: u64) {
        let behind = range.behind();
        let Self::Ranges(pieces) = self else { return };
        let rest = behind.as_ref().and_then(|key| at(pieces, key)).map(|(_, piece)| piece.clone());
        let rest = behind.clone().zip(rest).map(|(first, piece)| Piece { first, ..piece });
        let from = pieces.partition_point(|piece| piece.first < range.start);
        let until = behind.map_or(pieces.len(), |key| pieces.partition_point(|piece| piece.first <= key));
        let new = [Piece { first: range.start.clone(), holder, moves }];
        pieces.splice(from..until.max(from), new.into_iter().chain(rest));
        pieces.dedup_by(|next, before| (next.holder, next.moves) == (before.holder, before.moves));
    }

    /// Number of ranges in the map.
    pub fn len(&self) -> usize {
        if let Self::Ranges(pieces) = self { pieces.len() } else { 1 }
    }

    /// Returns true if the map has no range.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The map in the item under [`Key::of_map`], and the configured one if there is none.
    ///
    /// # Errors
    /// The item holds no map.
    pub fn stored(item: Option<&Item>, configured: &Partition) -> Result<Self, String> {
        let Some(item) = item else { return Ok(Self::from(configured)) };
        Self::read(&item.value).ok_or_else(|| "the stored map of keys to servers is damaged".to_owned())
    }

    /// The map that these writes store, if one of them does.
    pub(crate) fn written(writes: &[Write]) -> Option<Self> {
        let map = writes.iter().find(|write| write.key == Key::of_map())?;
        Self::read(map.value.as_ref()?)
    }

    fn read(value: &Value) -> Option<Self> {
        let is_whole = |map: &Self| match map {
            Self::Hash(_) => false,
            Self::Ranges(pieces) => {
                pieces.first().is_some_and(|piece| piece.first == Key::smallest())
                    && pieces.is_sorted_by(|left, right| left.first < right.first)
            }
        };
        postcard::from_bytes(value.as_bytes()).ok().filter(is_whole)
    }

    /// The write that stores this map as it is after a move.
    ///
    /// # Errors
    /// The map has too many ranges then, or too many bytes of keys.
    pub(crate) fn after(&self, moving: &Moving) -> Result<Write, LimitError> {
        let mut map = self.clone();
        map.assign(&moving.range, moving.to, moving.moves);
        let value = Value::new(postcard::to_allocvec(&map).unwrap_or_default());
        let value = value.ok().filter(|_| map.len() <= MAX_PIECES).ok_or(LimitError::Map { ranges: map.len() })?;
        Ok(Write { key: Key::of_map(), value: Some(value) })
    }

    /// Returns true if everything that `transaction` reads and writes concerns one server. An empty
    /// transaction concerns none, and a move two.
    pub(crate) fn is_on_one_server(&self, transaction: &Transaction) -> bool {
        let reads = transaction.reads.iter().map(|read| self.server_of(&read.key));
        let writes = transaction.writes.iter().map(|write| self.server_of(&write.key));
        let scans = transaction.scans.iter().flat_map(|scan| self.pieces(&scan.range)).map(|(_, server)| server);
        let mut servers = reads.chain(writes).chain(scans);
        transaction.moving.is_none() && servers.next().is_some_and(|first| servers.all(|server| server == first))
    }

    /// Checks that the parts of the transaction's scans are not too many, nor too large together
    /// with all else: one server may hold all of it.
    ///
    /// # Errors
    /// The limit that they exceed.
    pub(crate) fn validate(&self, transaction: &Transaction) -> Result<(), LimitError> {
        let uncut: usize = transaction.scans.iter().map(|scan| scan.range.bytes()).sum();
        let (mut items, mut bytes) = (0, transaction.bytes() - uncut);
        for (part, _) in transaction.scans.iter().flat_map(|scan| self.runs(&scan.range)) {
            items += 1;
            bytes += part.bytes();
            if items > MAX_PARTS {
                return Err(LimitError::TooManyItems { items });
            }
            if bytes > MAX_CUT_BYTES {
                return Err(LimitError::TooManyBytes { bytes });
            }
        }
        Ok(())
    }

    /// The part of `transaction` that concerns each server.
    pub fn split(&self, transaction: Transaction) -> BTreeMap<ServerId, Transaction> {
        if let Some(moving) = transaction.moving.clone() {
            return split_move(transaction, moving);
        }
        let mut parts: BTreeMap<ServerId, Transaction> = BTreeMap::new();
        for read in transaction.reads {
            parts.entry(self.server_of(&read.key)).or_default().reads.push(read);
        }
        for write in transaction.writes {
            parts.entry(self.server_of(&write.key)).or_default().writes.push(write);
        }
        for (server, scan) in transaction.scans.into_iter().flat_map(|scan| self.split_scan(scan)) {
            parts.entry(server).or_default().scans.push(scan);
        }
        parts
    }

    /// The parts of a scan, which has found keys in order and within its range.
    fn split_scan(&self, ScanRead { range, found }: ScanRead) -> Vec<(ServerId, ScanRead)> {
        if let Self::Hash(partition) = self {
            let mut by_server: BTreeMap<ServerId, Vec<_>> = BTreeMap::new();
            for (key, version) in found {
                by_server.entry(partition.server_of(&key)).or_default().push((key, version));
            }
            let part = |server| {
                let found = by_server.remove(&server).unwrap_or_default();
                (server, ScanRead { range: range.clone(), found })
            };
            return partition.servers().into_iter().map(part).collect();
        }
        let mut rest = found.into_iter().peekable();
        let part = |(run, server): (KeyRange, ServerId)| {
            let found = std::iter::from_fn(|| rest.next_if(|(key, _)| run.contains(key))).collect();
            (server, ScanRead { range: run, found })
        };
        self.runs(&range).map(part).collect()
    }
}

/// Place and piece of a key in a map by ranges.
fn at<'a>(pieces: &'a [Piece], key: &Key) -> Option<(usize, &'a Piece)> {
    let place = pieces.partition_point(|piece| piece.first <= *key).checked_sub(1)?;
    pieces.get(place).map(|piece| (place, piece))
}

/// A move in two parts: who gives the range deletes what the scan has found there; who takes it
/// writes that, and has found nothing there.
fn split_move(transaction: Transaction, moving: Box<Moving>) -> BTreeMap<ServerId, Transaction> {
    let Transaction { scans, writes, .. } = transaction;
    let (from, to, moving) = (moving.from, moving.to, Some(moving));
    let nothing = scans.iter().map(|scan| ScanRead { range: scan.range.clone(), found: Vec::new() }).collect();
    let deletions = writes.iter().map(|write| Write { key: write.key.clone(), value: None }).collect();
    let given = Transaction { scans, writes: deletions, moving: moving.clone(), ..Transaction::default() };
    let taken = Transaction { scans: nothing, writes, moving, ..Transaction::default() };
    BTreeMap::from([(from, given), (to, taken)])
}

impl Maps {
    pub(crate) fn new(held: Map) -> Self {
        Self { known: held.clone(), held }
    }

    /// The server's own map has changed.
    pub(crate) fn hold(&mut self, map: Map) {
        self.held = map;
        self.known.learn_all(&self.held);
        if self.is_full() {
            self.known = self.held.clone();
        }
    }

    /// Learns from another server where a range is.
    pub(crate) fn learn(&mut self, moved: &Moved) {
        self.known.learn(moved);
        if self.is_full() {
            // Hints are in no log and can be had again; but not this one, without an end.
            self.known = self.held.clone();
            self.known.learn(moved);
        }
    }

    fn is_full(&self) -> bool {
        self.known.len() > self.held.len() + MAX_PIECES
    }

    /// Learns from the hints of one refusal.
    pub(crate) fn learn_hints(&mut self, hints: &[Moved]) {
        hints.iter().take(MAX_HINTS).for_each(|moved| self.learn(moved));
    }

    /// Places of keys and ranges that server `me` does not hold: as many hints as one refusal
    /// carries, the first one around the first key.
    pub(crate) fn hints(&self, me: ServerId, keys: &[&Key], ranges: &[KeyRange]) -> Vec<Moved> {
        let mut hints = Hints::default();
        for key in keys {
            hints.around(key, || self.hint(me, key));
        }
        for range in ranges {
            let mut next = Some(range.start.clone());
            while let Some(key) = next.filter(|key| range.contains(key) && !hints.are_enough()) {
                next = hints.around(&key, || self.hint(me, &key));
            }
        }
        hints.found
    }

    /// The range around a key that server `me` does not hold, and the server that does.
    fn hint(&self, me: ServerId, key: &Key) -> Moved {
        let known = self.known.around(key);
        if known.to == me { self.held.around(key) } else { known }
    }
}

/// Hints of one refusal.
#[derive(Default)]
struct Hints {
    found: Vec<Moved>,
    bytes: usize,
}

impl Hints {
    fn are_enough(&self) -> bool {
        self.found.len() >= MAX_HINTS || self.bytes >= MAX_HINT_BYTES
    }

    /// Adds the hint about a key, unless there is one already, or there are enough. Returns the
    /// first key behind what is known, if there is one.
    fn around(&mut self, key: &Key, hint: impl FnOnce() -> Moved) -> Option<Key> {
        if let Some(known) = self.found.iter().find(|moved| moved.range.contains(key)) {
            return known.range.behind();
        }
        if self.are_enough() {
            return None;
        }
        let hint = hint();
        let behind = hint.range.behind();
        self.bytes += hint.range.bytes();
        self.found.push(hint);
        behind
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;
    use crate::core::TranxId;

    fn key(bytes: &'static str) -> Key {
        Key::new(bytes).unwrap()
    }

    fn map() -> Map {
        Map::from(&Partition::Ranges(vec![(key(""), ServerId(1)), (key("h"), ServerId(2)), (key("p"), ServerId(1))]))
    }

    fn range(start: &'static str, end: &'static str) -> KeyRange {
        KeyRange::until(key(start), key(end))
    }

    fn learned(mut map: Map, range: KeyRange, to: u16, moves: u64) -> Map {
        map.learn(&Moved { range, to: ServerId(to), moves });
        map
    }

    /// The holders of the keys "a" to "z".
    fn holders(map: &Map) -> String {
        (b'a'..=b'z').map(|c| map.server_of(&Key::new(vec![c]).unwrap()).0.to_string()).collect()
    }

    #[test]
    fn learn_gives_the_range_and_no_other_key_to_its_holder() {
        let within = learned(map(), range("c", "e"), 3, 1);
        assert_eq!(holders(&within), "11331112222222211111111111");
        let across = learned(map(), range("g", "q"), 3, 1);
        assert_eq!(holders(&across), "11111133333333331111111111");
        let all = learned(map(), KeyRange::all(), 3, 1);
        assert_eq!(holders(&all), "3".repeat(26));
        assert_eq!(all.len(), 1);
        let through = learned(map(), KeyRange::through(key("b"), key("b")), 3, 1);
        assert_eq!((holders(&through).as_str(), through.server_of(&key("b\0")).0), ("13111112222222211111111111", 1));
        assert_eq!(learned(map(), range("c", "c"), 3, 1), map());
    }

    #[test]
    fn learn_believes_more_moves_whatever_is_heard_last() {
        let moved = learned(map(), range("c", "e"), 3, 2);
        assert_eq!(learned(moved.clone(), range("a", "f"), 2, 1), {
            let before = learned(moved.clone(), range("a", "c"), 2, 1);
            learned(before, range("e", "f"), 2, 1)
        });
        assert_eq!(holders(&learned(moved, range("d", "e"), 2, 3)), "11321112222222211111111111");
    }

    #[test]
    fn pieces_are_parts_of_the_range_with_one_holder_each() {
        let pieces = map().pieces(&range("g", "q"));
        let expected = [(range("g", "h"), 1), (range("h", "p"), 2), (range("p", "q"), 1)];
        assert_eq!(pieces, expected.map(|(range, server)| (range, ServerId(server))));
        assert!(map().holds(ServerId(2), &range("h", "p")) && !map().holds(ServerId(2), &range("h", "q")));
        assert_eq!(map().pieces(&range("q", "g")), []);
    }

    #[test]
    fn stored_map_is_read_again_and_damage_is_named() {
        let moving = Moving { range: range("c", "e"), from: ServerId(1), to: ServerId(2), moves: 1 };
        let write = map().after(&moving).unwrap();
        let item = Item { value: write.value.clone().unwrap(), version: TranxId { server: ServerId(1), number: 1 } };
        let partition = Partition::Hash(vec![ServerId(1)]);
        assert_eq!(Map::stored(Some(&item), &partition).unwrap(), learned(map(), range("c", "e"), 2, 1));
        assert_eq!(Map::stored(None, &partition).unwrap(), Map::Hash(partition.clone()));
        let damaged = Item { value: Value::new("?").unwrap(), ..item };
        assert!(Map::stored(Some(&damaged), &partition).unwrap_err().contains("damaged"));
    }

    #[test]
    fn map_with_too_many_ranges_is_refused() {
        let pieces = (0..MAX_PIECES as u32).map(|n| {
            let first = if n == 0 { Key::smallest() } else { Key::new(n.to_be_bytes().to_vec()).unwrap() };
            Piece { first, holder: ServerId(n as u16 % 2), moves: 0 }
        });
        let full = Map::Ranges(pieces.collect());
        let moving = |end: &'static str| Moving {
            range: KeyRange::until(key("a"), key(end)),
            from: ServerId(1),
            to: ServerId(2),
            moves: 1,
        };
        assert_eq!(full.after(&moving("b")), Err(LimitError::Map { ranges: MAX_PIECES + 2 }));
    }

    #[test]
    fn first_pieces_end_where_the_next_one_begins() {
        let (first, until) = map().first_pieces(&range("g", "q"), 2);
        assert_eq!((first.len(), until), (2, Some(key("p"))));
        let (all, until) = map().first_pieces(&range("g", "q"), 3);
        assert_eq!((all.len(), until), (3, None));
    }

    #[test]
    fn scans_that_are_cut_into_too_many_parts_are_refused() {
        let pieces = (0..1000_u32).map(|n| {
            let first = if n == 0 { Key::smallest() } else { Key::new(n.to_be_bytes().to_vec()).unwrap() };
            Piece { first, holder: ServerId(n as u16 % 2), moves: 0 }
        });
        let map = Map::Ranges(pieces.collect());
        let scans = |count| {
            let scans = vec![ScanRead { range: KeyRange::all(), found: vec![] }; count];
            map.validate(&Transaction { scans, ..Transaction::default() })
        };
        assert_eq!((scans(8), scans(9)), (Ok(()), Err(LimitError::TooManyItems { items: MAX_PARTS + 1 })));
    }

    /// A map of ranges that begin with keys of 4,000 bytes; each has had another number of moves.
    fn map_of_long_keys(ranges: u8, holder: impl Fn(u8) -> u16) -> Map {
        let piece = |n| Piece {
            first: if n == 0 { Key::smallest() } else { Key::new(vec![n; 4000]).unwrap() },
            holder: ServerId(holder(n)),
            moves: n.into(),
        };
        Map::Ranges((0..ranges).map(piece).collect())
    }

    #[test]
    fn parts_of_scans_are_bounded_together_with_all_else() {
        // The parts of one scan of everything have about 2 MB.
        let map = map_of_long_keys(250, |n| u16::from(n % 2) + 1);
        let write =
            |n: u8| Write { key: Key::new(vec![n]).unwrap(), value: Some(Value::new(vec![0; 1 << 20]).unwrap()) };
        let of = |scans, writes| Transaction {
            scans: vec![ScanRead { range: KeyRange::all(), found: vec![] }; scans],
            writes: (0..writes).map(write).collect(),
            ..Transaction::default()
        };
        assert_eq!((map.validate(&of(6, 0)), map.validate(&of(2, 7))), (Ok(()), Ok(())));
        let too_large =
            |scans, writes| matches!(map.validate(&of(scans, writes)), Err(LimitError::TooManyBytes { .. }));
        assert!(too_large(7, 0) && too_large(3, 7));
        // Keys that bound a scan count once, where it is not cut.
        let [start, end] = [b'a', b'b'].map(|byte| Key::new(vec![byte; 4000]).unwrap());
        let scans = vec![ScanRead { range: KeyRange::until(start, end), found: vec![] }; 900];
        assert_eq!(map_of_long_keys(1, |_| 1).validate(&Transaction { scans, ..of(0, 0) }), Ok(()));
    }

    #[test]
    fn hints_beyond_the_limit_are_forgotten_but_for_the_last() {
        let mut maps = Maps::new(map());
        for n in 0..=MAX_PIECES as u32 {
            let start = Key::new([&b"q"[..], &n.to_be_bytes()].concat()).unwrap();
            let moved = Moved { range: KeyRange::through(start.clone(), start.clone()), to: ServerId(3), moves: 1 };
            maps.learn(&moved);
            assert_eq!(maps.known.server_of(&start), ServerId(3));
            assert!(maps.known.len() <= MAX_PIECES + maps.held.len());
        }
    }

    #[test]
    fn split_gives_each_server_its_part_of_a_scan() {
        let version = TranxId { server: ServerId(1), number: 1 };
        let found = vec![(key("a"), version), (key("k"), version)];
        let whole = Transaction { scans: vec![ScanRead { range: KeyRange::all(), found }], ..Default::default() };
        let parts = map().split(whole);
        let scans = |server: u16| parts[&ServerId(server)].scans.clone();
        let last = KeyRange { start: key("p"), end: None };
        let first = ScanRead { range: range("", "h"), found: vec![(key("a"), version)] };
        assert_eq!(scans(1), [first, ScanRead { range: last, found: vec![] }]);
        assert_eq!(scans(2), [ScanRead { range: range("h", "p"), found: vec![(key("k"), version)] }]);
    }

    #[test]
    fn split_by_hash_gives_each_server_the_whole_range_and_its_own_keys() {
        let version = TranxId { server: ServerId(1), number: 1 };
        let found: Vec<(Key, TranxId)> = (b'a'..=b'z').map(|c| (Key::new(vec![c]).unwrap(), version)).collect();
        let map = Map::from(&Partition::Hash(vec![ServerId(2), ServerId(1)]));
        let scans = vec![ScanRead { range: KeyRange::all(), found: found.clone() }];
        let parts = map.split(Transaction { scans, ..Transaction::default() });
        for (server, part) in &parts {
            let own = found.iter().filter(|(key, _)| map.server_of(key) == *server).cloned().collect();
            assert_eq!(part.scans, [ScanRead { range: KeyRange::all(), found: own }]);
        }
        assert_eq!(parts.len(), 2);
    }

    #[test]
    fn ranges_next_to_each_other_at_one_server_are_one_part_of_a_scan() {
        // One key of each range was found.
        let map = map_of_long_keys(250, |n| u16::from(n >= 200) + 1);
        let version = TranxId { server: ServerId(1), number: 1 };
        let found: Vec<(Key, TranxId)> = (0..250).map(|n| (Key::new(vec![n; 4001]).unwrap(), version)).collect();
        let scans = vec![ScanRead { range: KeyRange::all(), found: found.clone() }];
        let whole = Transaction { scans, ..Transaction::default() };
        assert_eq!(map.validate(&whole), Ok(()));
        let parts = map.split(whole);
        let second = Key::new(vec![200; 4000]).unwrap();
        let first = KeyRange::until(Key::smallest(), second.clone());
        let of = |server, range, found: &[_]| (ServerId(server), vec![ScanRead { range, found: found.to_vec() }]);
        let expected = [of(1, first, &found[..200]), of(2, KeyRange { start: second, end: None }, &found[200..])];
        assert_eq!(parts.into_iter().map(|(server, part)| (server, part.scans)).collect::<Vec<_>>(), expected);
        assert_eq!(map.first_pieces(&KeyRange::all(), 1).1, Some(Key::new(vec![200; 4000]).unwrap()));
    }
}
