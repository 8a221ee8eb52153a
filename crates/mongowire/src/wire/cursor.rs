//! Reading of bytes that may end anywhere: each read checks what is left, and nothing panics.

use super::WireError;

/// The part of a payload that is not read yet.
pub(super) struct Cursor<'a> {
    rest: &'a [u8],
}

impl<'a> Cursor<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// All bytes that are not read yet.
    pub(super) fn rest(&self) -> &'a [u8] {
        self.rest
    }

    pub(super) fn bytes(&mut self, count: usize) -> Result<&'a [u8], WireError> {
        let (bytes, rest) =
            self.rest.split_at_checked(count).ok_or(WireError::Malformed("a message ends within one of its parts"))?;
        self.rest = rest;
        Ok(bytes)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], WireError> {
        let (bytes, rest) =
            self.rest.split_first_chunk().ok_or(WireError::Malformed("a message ends within one of its parts"))?;
        self.rest = rest;
        Ok(*bytes)
    }

    pub(super) fn u8(&mut self) -> Result<u8, WireError> {
        Ok(u8::from_le_bytes(self.array()?))
    }

    pub(super) fn u32(&mut self) -> Result<u32, WireError> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    pub(super) fn i32(&mut self) -> Result<i32, WireError> {
        Ok(i32::from_le_bytes(self.array()?))
    }

    /// Text that ends with a zero byte.
    pub(super) fn cstring(&mut self) -> Result<&'a str, WireError> {
        let end = self.rest.iter().position(|byte| *byte == 0).ok_or(WireError::Malformed("text without an end"))?;
        let text = std::str::from_utf8(self.bytes(end)?).map_err(|_| WireError::Malformed("text that is no UTF-8"))?;
        self.bytes(1)?;
        Ok(text)
    }

    /// A part that begins with its own length, which is `least` or more and counts itself. The
    /// length is in the answer.
    pub(super) fn sized(&mut self, least: usize) -> Result<&'a [u8], WireError> {
        let declared = Self::new(self.rest).i32()?;
        match usize::try_from(declared) {
            Ok(length) if length >= least => self.bytes(length),
            _ => Err(WireError::Malformed("a part is shorter than it can be")),
        }
    }
}
