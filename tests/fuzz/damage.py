"""Damages bytes and JSON anywhere. Seeded."""

import json
import random
import zlib
from collections.abc import Callable, Sequence

NUMBERS = (0, 1, 2, 7, 8, 16, 127, 128, 255, 256, 8192, 8193, 16385, 32767, 32768, 65500, 65535,
           65536, 2**20, 2**24, 2**27, 2**31 - 1, 2**31, 2**32 - 1, 2**40, 2**63 - 1, 2**63,
           2**64 - 1)  # fmt: skip
"""What breaks who computes with a size."""

DEEP = 3000
ODD_VALUES: tuple[Callable[[], object], ...] = (
    lambda: None, lambda: True, lambda: 0, lambda: -1, lambda: 10**30, lambda: 1e308,
    lambda: float("nan"), lambda: "", lambda: "x" * 100_000, lambda: "\x00\x1b[31m\n", lambda: [],
    lambda: {}, lambda: [None, 2**31, 2**31, 3], lambda: [1] * 10_000, lambda: "../../etc/passwd",
    lambda: {"class_name": "Lambda", "config": {}}, lambda: "\ud800", lambda: 2**31 - 1,
)  # fmt: skip


def mutated(original: bytes, chance: random.Random, others: Sequence[bytes] = ()) -> bytes:
    """Valid bytes with one to four injuries; others are spliced in."""
    if chance.random() < 0.03:
        return chance.choice([b"", original[:1], bytes(len(original)), *others])
    data = bytearray(original)
    for _ in range(chance.choice([1, 1, 1, 2, 4])):
        place = int(len(data) * chance.random() ** chance.choice([1, 3]))  # more often at the front
        part = bytes(data[place : place + chance.choice([1, 2, 4, 8, 64, 1024])])
        first, width = int.from_bytes(part[:8]), min(len(part), 8)
        number = chance.choice([*NUMBERS, first + 1, first - 1, first * 2, len(data), place])
        data[place : place + len(part)] = chance.choice([
            b"", part * chance.choice([2, 50]), chance.randbytes(len(part)),
            (first ^ 1 << chance.randrange(8 * width + 1)).to_bytes(9)[9 - width :] + part[8:],
            *((number % 2 ** (8 * width)).to_bytes(width, order) + part[8:]
              for order in ("big", "little")),
        ])  # fmt: skip
    if others and chance.random() < 0.05:
        other = chance.choice(others)
        data[chance.randrange(len(data) + 1) :] = other[chance.randrange(len(other) + 1) :]
    if chance.random() < 0.1:
        del data[chance.randrange(len(data) + 1) :]
    return mended(bytes(data)) if chance.random() < 0.8 else bytes(data)


def mended(data: bytes) -> bytes:
    """The bytes with checksums that hold again, where it is a PNG; others go without."""
    new, at = bytearray(data), 8
    while data.startswith(b"\x89PNG\r\n\x1a\n") and at + 12 <= len(data):
        end = at + 12 + int.from_bytes(data[at : at + 4])
        if end > len(data):
            break
        new[end - 4 : end] = zlib.crc32(data[at + 4 : end - 4]).to_bytes(4)
        at = end
    return bytes(new)


def mutated_json(text: str, chance: random.Random) -> str:
    """JSON with one to three values left out, repeated or replaced by odd ones."""
    value = json.loads(text)
    for _ in range(chance.choice([1, 1, 2, 3])):
        places = list(_places(value))
        if not places:
            break
        holder, key = chance.choice(places)
        what = chance.randrange(8)
        if what == 0:
            del holder[key]
        elif what == 1 and isinstance(holder, list):
            holder[key:key] = [holder[key]] * chance.choice([1, 30])
        elif what == 2 and isinstance(holder[key], int | float) and holder[key] < 10**30:
            holder[key] = chance.choice([-holder[key], holder[key] * 2, chance.choice(NUMBERS)])
        elif what == 3:
            other, its_key = chance.choice(places)
            holder[key] = json.loads(json.dumps(other.get(its_key) if isinstance(other, dict)
                                                else None))  # fmt: skip
        else:
            holder[key] = chance.choice(ODD_VALUES)()
    if chance.random() < 0.03:
        return "[" * DEEP + "]" * DEEP
    return json.dumps(value)


def _places(value: object):
    """Every (list or object, index or key) in a JSON value."""
    items = (
        list(value.items()) if isinstance(value, dict)
        else list(enumerate(value)) if isinstance(value, list) else []
    )  # fmt: skip
    for key, inner in items:
        yield value, key
        yield from _places(inner)
