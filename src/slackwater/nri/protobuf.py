"""Protocol Buffers' wire format, as far as NRI's messages need it: fields of numbers and of bytes.

Fields are kept as they came, so that a message of which one field is replaced still has all that we
know nothing about. Reads nothing but bytes; whatever is wrong with them is a WireError.

The format is https://protobuf.dev/programming-guides/encoding/.
"""

from collections.abc import Iterator, Mapping

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_WIDTH = {_FIXED64: 8, _FIXED32: 4}
_LARGEST = 2**64 - 1
_SIGN = 2**63
#: Of a 64 bit number in groups of seven.
_LONGEST_VARINT = 10
_LAST_NUMBER = 2**29 - 1


class WireError(Exception):
    """Bytes that are not a message; str() is one clause."""


class WireField:
    """One field as it came: `value` is a number, or the bytes of a text or an inner message. A
    fixed width number is bytes too: nobody here reads one."""

    __slots__ = ("number", "raw", "value")

    def __init__(self, number: int, value: int | bytes, raw: bytes) -> None:
        self.number = number
        self.value = value
        self.raw = raw


def fields_of(data: bytes) -> Iterator[WireField]:
    """In their order. Raises WireError at what is cut off or not in the format."""
    at, end = 0, len(data)
    while at < end:
        start = at
        tag, at = _read_varint(data, at)
        number, kind = tag >> 3, tag & 7
        if not 1 <= number <= _LAST_NUMBER:
            raise WireError(f"field number {number} does not exist")
        value: int | bytes
        if kind == _VARINT:
            value, at = _read_varint(data, at)
        else:
            value, at = _read_bytes(data, at, kind)
        yield WireField(number, value, data[start:at])


def _read_bytes(data: bytes, at: int, kind: int) -> tuple[bytes, int]:
    if kind == _BYTES:
        length, at = _read_varint(data, at)
    elif kind in _WIDTH:
        length = _WIDTH[kind]
    else:
        raise WireError(f"wire type {kind} is not used")
    if length > len(data) - at:
        raise WireError(f"a field of {length} bytes is cut off")
    return data[at : at + length], at + length


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    number = 0
    for shift in range(0, 7 * _LONGEST_VARINT, 7):
        if at >= len(data):
            raise WireError("a number is cut off")
        byte = data[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            if number > _LARGEST:
                raise WireError("a number has more than 64 bits")
            return number, at
    raise WireError("a number has more than 64 bits")


def find_number(data: bytes, number: int) -> int | None:
    """The last one counts, as everywhere in the format. None where the field is missing."""
    found: int | None = None
    for each in fields_of(data):
        if each.number == number:
            if not isinstance(each.value, int):
                raise WireError(f"field {number} is not a number")
            found = each.value
    return found


def find_signed(data: bytes, number: int) -> int | None:
    """Of an int64: two's complement."""
    found = find_number(data, number)
    return found if found is None or found < _SIGN else found - 2 * _SIGN


def find_bytes(data: bytes, number: int) -> bytes | None:
    """A text, or an inner message: of several the last one counts, but parts of one message are
    merged by writing them one after the other (find_message)."""
    found: bytes | None = None
    for each in fields_of(data):
        if each.number == number:
            found = _bytes_of(each)
    return found


def find_message(data: bytes, number: int) -> bytes | None:
    """An inner message, of however many parts."""
    parts = [_bytes_of(each) for each in fields_of(data) if each.number == number]
    return b"".join(parts) if parts else None


def find_text(data: bytes, number: int) -> str:
    """Empty where the field is missing, as the format has it."""
    return _text(find_bytes(data, number) or b"")


def find_texts(data: bytes, number: int) -> Mapping[str, str]:
    """A map of texts: one message for each pair, the key as its field 1 and the value as 2."""
    found: dict[str, str] = {}
    for each in fields_of(data):
        if each.number == number:
            pair = _bytes_of(each)
            found[find_text(pair, 1)] = find_text(pair, 2)
    return found


def _bytes_of(field: WireField) -> bytes:
    if not isinstance(field.value, bytes):
        raise WireError(f"field {field.number} is not a text or a message")
    return field.value


def _text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise WireError("a text is not UTF-8") from None


def number_field(number: int, value: int) -> bytes:
    """Also of a negative int64, which takes ten bytes."""
    return _varint(number << 3 | _VARINT) + _varint(value & _LARGEST)


def bytes_field(number: int, value: bytes) -> bytes:
    return _varint(number << 3 | _BYTES) + _varint(len(value)) + value


def text_field(number: int, value: str) -> bytes:
    return bytes_field(number, value.encode())


def texts_field(number: int, pairs: Mapping[str, str]) -> bytes:
    """A map of texts."""
    return b"".join(
        bytes_field(number, text_field(1, key) + text_field(2, value))
        for key, value in pairs.items()
    )


def replace_field(data: bytes, number: int, field: bytes) -> bytes:
    """The message with this field in place of any of that number; all others as they came."""
    return b"".join(each.raw for each in fields_of(data) if each.number != number) + field


def _varint(value: int) -> bytes:
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)
