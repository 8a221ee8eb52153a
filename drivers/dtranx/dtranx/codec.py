"""The encoding of messages: what the page calls `u64`, `bytes`, `option`, `list`, structures and
choices.

A structure is a frozen dataclass whose annotations say the types of its fields; `type_of` makes of
an annotation what reads and writes it.
"""

import dataclasses
import types
import typing
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache


class Unreadable(Exception):
    """Bytes are not the message that they should be."""


class Reader:
    """Bytes, and the position up to which they were read."""

    def __init__(self, data: bytes):
        self._data = memoryview(data)
        self._at = 0

    def take(self, count: int) -> bytes:
        """The next so many bytes."""
        end = self._at + count
        if end > len(self._data):
            raise Unreadable(f"it ends after {len(self._data)} bytes")
        taken, self._at = bytes(self._data[self._at : end]), end
        return taken

    def end(self) -> None:
        """Nothing may follow."""
        if self._at != len(self._data):
            raise Unreadable(f"{len(self._data) - self._at} bytes follow it")


@dataclass(frozen=True)
class Type:
    """Writer and reader of the values of one type."""

    write: Callable[[bytearray, typing.Any], None]
    read: Callable[[Reader], typing.Any]


def unsigned(bits: int) -> Type:
    """An integer of so many bits, seven of them in a byte."""

    def write(out: bytearray, value: int) -> None:
        if not 0 <= value < 1 << bits:
            raise ValueError(f"{value} has no place in {bits} bits")
        while value >= 0x80:
            out.append(value & 0x7F | 0x80)
            value >>= 7
        out.append(value)

    def read(reader: Reader) -> int:
        value = 0
        for shift in range(0, bits, 7):
            byte = reader.take(1)[0]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                if value >= 1 << bits:
                    break
                return value
        raise Unreadable(f"an integer has more than {bits} bits")

    return Type(write, read)


def counted(limit: int | None = None) -> Type:
    """Bytes with their length before them."""

    def write(out: bytearray, value: bytes) -> None:
        if limit is not None and len(value) > limit:
            raise ValueError(f"{len(value)} bytes; the limit is {limit}")
        U64.write(out, len(value))
        out += value

    def read(reader: Reader) -> bytes:
        length = U64.read(reader)
        if limit is not None and length > limit:
            raise Unreadable(f"{length} bytes; the limit is {limit}")
        return reader.take(length)

    return Type(write, read)


def fixed(length: int) -> Type:
    """Exactly so many bytes."""

    def write(out: bytearray, value: bytes) -> None:
        if len(value) != length:
            raise ValueError(f"{len(value)} bytes, and not {length}")
        out += value

    return Type(write, lambda reader: reader.take(length))


def option(inner: Type) -> Type:
    """Nothing, which is `None`, or one."""

    def write(out: bytearray, value: typing.Any) -> None:
        out.append(value is not None)
        if value is not None:
            inner.write(out, value)

    return Type(write, lambda reader: inner.read(reader) if _read_bool(reader) else None)


def listed(inner: Type) -> Type:
    """Any number, in order."""

    def write(out: bytearray, values: typing.Sequence) -> None:
        U64.write(out, len(values))
        for value in values:
            inner.write(out, value)

    return Type(write, lambda reader: [inner.read(reader) for _ in range(U64.read(reader))])


def row(inner: list[Type], make: Callable) -> Type:
    """Several, one after the other."""

    def write(out: bytearray, values: typing.Sequence) -> None:
        for part, value in zip(inner, values, strict=True):
            part.write(out, value)

    return Type(write, lambda reader: make(part.read(reader) for part in inner))


def structure(cls: type) -> Type:
    """A dataclass: its fields in order."""
    names = [field.name for field in dataclasses.fields(cls)]
    hints = typing.get_type_hints(cls, include_extras=True)
    fields = row([type_of(hints[name]) for name in names], lambda values: cls(*values))
    return Type(lambda out, value: fields.write(out, [getattr(value, name) for name in names]), fields.read)


def choice(*cases: type) -> Type:
    """One of these dataclasses, which are numbered in this order."""
    numbers = {case: number for number, case in enumerate(cases)}

    def write(out: bytearray, value: typing.Any) -> None:
        U32.write(out, numbers[type(value)])
        type_of(type(value)).write(out, value)

    def read(reader: Reader) -> typing.Any:
        number = U32.read(reader)
        if number >= len(cases):
            raise Unreadable(f"there is no case {number} of {len(cases)}")
        return type_of(cases[number]).read(reader)

    return Type(write, read)


@cache
def type_of(hint: typing.Any) -> Type:
    """Writer and reader for an annotation."""
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Annotated:
        return inner[1]
    if origin is list:
        return listed(type_of(inner[0]))
    if origin is tuple:
        return row([type_of(part) for part in inner], tuple)
    if origin in (types.UnionType, typing.Union) and len(inner) == 2 and inner[1] is type(None):
        return option(type_of(inner[0]))
    if dataclasses.is_dataclass(hint):
        return structure(hint)
    return _PLAIN[hint]


def encode(message: typing.Any, hint: typing.Any = None) -> bytes:
    """A message's bytes, as one of this type; without that, of its own."""
    out = bytearray()
    type_of(hint or type(message)).write(out, message)
    return bytes(out)


def decode(hint: typing.Any, data: bytes) -> typing.Any:
    """The message of this type that these bytes are, and nothing else."""
    reader = Reader(data)
    message = type_of(hint).read(reader)
    reader.end()
    return message


def _read_bool(reader: Reader) -> bool:
    byte = reader.take(1)[0]
    if byte > 1:
        raise Unreadable(f"{byte} is neither 0 nor 1")
    return byte == 1


def _read_text(reader: Reader) -> str:
    try:
        return counted().read(reader).decode()
    except UnicodeDecodeError as error:
        raise Unreadable(str(error)) from None


U8 = Type(lambda out, value: out.append(value), lambda reader: reader.take(1)[0])
U16 = unsigned(16)
U32 = unsigned(32)
U64 = unsigned(64)
_PLAIN = {
    bool: Type(lambda out, value: out.append(value), _read_bool),
    str: Type(lambda out, value: counted().write(out, value.encode()), _read_text),
}
