//! The 16 bytes before every message: length, number, number of the message it answers, kind.

use super::WireError;

/// Size of a header in bytes: four numbers of 32 bits, the least significant byte first.
pub const HEADER_BYTES: usize = 16;
/// The longest message, header included, as MongoDB has it.
pub const MAX_MESSAGE_BYTES: usize = 48_000_000;

/// The 16 bytes at the beginning of every message, from which a reader learns how much to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Length of the whole message in bytes, the header included: 16 to 48,000,000.
    pub length_bytes: usize,
    /// Number that the sender gave to the message; it is repeated in the answer.
    pub request_id: i32,
    /// Number of the message that this one answers; 0 in a request.
    pub response_to: i32,
    /// Kind of the message that follows.
    pub op_code: OpCode,
}

/// The kinds of messages that are in use. Older ones end the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpCode {
    /// `OP_REPLY`: the answer to an `OP_QUERY`, in the first handshake of old drivers.
    Reply,
    /// `OP_QUERY`: how old drivers ask, today in the first handshake only.
    Query,
    /// `OP_COMPRESSED`: another message in compressed form.
    Compressed,
    /// `OP_MSG`: a command or its answer, the kind of nearly all messages.
    Msg,
}

impl OpCode {
    pub(crate) const fn number(self) -> i32 {
        match self {
            Self::Reply => 1,
            Self::Query => 2004,
            Self::Compressed => 2012,
            Self::Msg => 2013,
        }
    }

    pub(crate) fn of(number: i32) -> Result<Self, WireError> {
        [Self::Reply, Self::Query, Self::Compressed, Self::Msg]
            .into_iter()
            .find(|code| code.number() == number)
            .ok_or(WireError::OpCode(number))
    }
}

impl Header {
    /// Reads the header of a message.
    ///
    /// ```
    /// use mongowire::wire::{Header, OpCode, WireError};
    ///
    /// let bytes: Vec<u8> = [26_i32, 7, 0, 2013].into_iter().flat_map(i32::to_le_bytes).collect();
    /// let header = Header::decode(bytes.first_chunk().unwrap())?;
    /// assert_eq!((header.op_code, header.payload_bytes()), (OpCode::Msg, 10));
    ///
    /// // Text in front of a connection, such as HTTP, is no message.
    /// assert!(matches!(Header::decode(b"GET / HTTP/1.1\r\n"), Err(WireError::Length(_))));
    /// # Ok::<(), WireError>(())
    /// ```
    ///
    /// # Errors
    /// [`WireError::Length`], [`WireError::OpCode`]: the beginning of the next message, or the
    /// meaning of this one, is unknown.
    pub fn decode(bytes: &[u8; HEADER_BYTES]) -> Result<Self, WireError> {
        let mut cursor = super::cursor::Cursor::new(bytes);
        let length = cursor.i32()?;
        let length_bytes = usize::try_from(length)
            .ok()
            .filter(|length| (HEADER_BYTES..=MAX_MESSAGE_BYTES).contains(length))
            .ok_or(WireError::Length(length.into()))?;
        let (request_id, response_to) = (cursor.i32()?, cursor.i32()?);
        Ok(Self { length_bytes, request_id, response_to, op_code: OpCode::of(cursor.i32()?)? })
    }

    /// Number of bytes of the message that follow the header: read as many before decoding.
    pub fn payload_bytes(&self) -> usize {
        self.length_bytes - HEADER_BYTES
    }

    /// The header as it is sent.
    pub(crate) fn encode(&self) -> [u8; HEADER_BYTES] {
        // Lengths come from messages in memory; one of 2 GB would be refused by every peer.
        let length = i32::try_from(self.length_bytes).unwrap_or(i32::MAX);
        let mut bytes = [0; HEADER_BYTES];
        let numbers = [length, self.request_id, self.response_to, self.op_code.number()];
        for (place, number) in bytes.chunks_exact_mut(4).zip(numbers) {
            place.copy_from_slice(&number.to_le_bytes());
        }
        bytes
    }
}

/// Sets the length of a message that begins with a header, now that it is known.
pub(super) fn set_length(message: &mut [u8]) {
    let length = i32::try_from(message.len()).unwrap_or(i32::MAX);
    if let Some(place) = message.first_chunk_mut() {
        *place = length.to_le_bytes();
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;

    fn header(length: i32, op_code: i32) -> Result<Header, WireError> {
        let bytes: Vec<u8> = [length, 7, -8, op_code].into_iter().flat_map(i32::to_le_bytes).collect();
        Header::decode(&bytes.try_into().unwrap())
    }

    #[test]
    fn headers_are_read_as_they_were_written() {
        let one = header(16, 2013).unwrap();
        assert_eq!(one, Header { length_bytes: 16, request_id: 7, response_to: -8, op_code: OpCode::Msg });
        assert_eq!(Header::decode(&one.encode()), Ok(one));
        assert!(header(48_000_000, 2012).is_ok());
    }

    #[test]
    fn lengths_and_kinds_outside_their_range_are_refused() {
        for length in [i32::MIN, -1, 0, 15, 48_000_001, i32::MAX] {
            assert_eq!(header(length, 2013), Err(WireError::Length(length.into())));
        }
        for kind in [0, 2, 2001, 2002, 2005, 2010, i32::MAX, -1] {
            assert_eq!(header(16, kind), Err(WireError::OpCode(kind)));
        }
    }
}
