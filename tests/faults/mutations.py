"""Corrupted and hostile bytes from valid files, each a function of a seed, to drive readers with."""

from __future__ import annotations

import gzip
import io
import json
import random
import re
import struct
import zipfile
from collections.abc import Callable
from typing import Any

__all__ = ["SHARE_OF_MUTATIONS", "mutate", "nonsense"]

SHARE_OF_MUTATIONS = 0.9  # of all tries; the others are nonsense

_NUMBERS = (
    *(b"0", b"-1", b"1", b"255", b"1e400", b"-1e400", b"NaN", b"Infinity", b"0.5", b"1e12", b"1e308"),
    *(b"2147483648", b"4294967296", b"1000000000000", b"9223372036854775807", b"9223372036854775808"),
    b"9" * 40,
)
_TOKENS = (
    *(b"\0", b"\n", b"\r\n", b",", b";", b"\t", b"'", b'"', b"\\", b"{", b"}", b"[", b"]", b"=", b"%", b"?"),
    *(b"@data", b"@attribute", b"null", b"true", b"../", b"/etc/passwd", b"<!DOCTYPE a>", b"&lol;", b"</"),
    *(b"\xff\xfe", b"\xef\xbb\xbf", b"\xc3\x28", "é".encode(), "\u202e".encode(), b"PK\x05\x06", b"\x1f\x8b"),
    *(b"[" * 3000, b"{" * 50, b"'" * 200, b"a" * 5000, b"\x80\x04cos\nsystem\n", b"descr", b"|O"),
)
_VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1, 10**12, 2**63, -(2**63), 10**40, 0.5, 1e308, float("nan"), float("inf")),
    *("", "x", "../x", "/etc/passwd", "\0", "\ud800", "a" * 5000, "os:system", "1e400", "[]"),
    *([], {}, [[]], [None], [10**12, 10**12], {"": {}}, [0] * 300),
)
_WORDS = ("<B", "<H", "<I", "<Q", ">H", ">I", ">Q")


def nonsense(valid: bytes, draws: random.Random) -> bytes:
    """Bytes that have nothing of a valid file but, at times, its beginning and its length."""
    start = valid[: draws.choice((0, 0, 4, 8, 16))]
    size = draws.choice((0, 1, 16, 200, len(valid)))
    return start + draws.randbytes(size)


def mutate(valid: bytes, other: bytes, draws: random.Random) -> bytes:
    """A valid file with one to four changes; `other` is a second one, to splice with."""
    for wrap in _WRAPPERS:
        inner = wrap(valid, other, draws) if draws.random() < 0.6 else None
        if inner is not None:
            return inner
    return _changed(valid, other, draws)


def _changed(valid: bytes, other: bytes, draws: random.Random) -> bytes:
    content = valid
    for _ in range(draws.choice((1, 1, 1, 2, 4))):
        content = draws.choice(_CHANGES)(content, other, draws)
    return content


def _flip_bits(content: bytes, _: bytes, draws: random.Random) -> bytes:
    changed = bytearray(content)
    for _ in range(min(len(changed), draws.choice((1, 1, 3, 10)))):
        changed[draws.randrange(len(changed))] ^= 1 << draws.randrange(8)
    return bytes(changed)


def _overwrite(content: bytes, _: bytes, draws: random.Random) -> bytes:
    """A number of one to eight bytes at a random place becomes an extreme one."""
    form = draws.choice(_WORDS)
    size = struct.calcsize(form)
    limit = 256**size
    value = draws.choice(
        (0, 1, limit - 1, limit // 2, limit // 2 - 1, 10**12 % limit, draws.randrange(limit))
    )
    place = draws.randrange(max(1, len(content) - size + 1))
    return content[:place] + struct.pack(form, value) + content[place + size :]


def _truncate(content: bytes, _: bytes, draws: random.Random) -> bytes:
    return content[: draws.randrange(len(content) + 1)]


def _cut(content: bytes, _: bytes, draws: random.Random) -> bytes:
    start, end = _span(content, draws)
    return content[:start] + content[end:]


def _duplicate(content: bytes, _: bytes, draws: random.Random) -> bytes:
    start, end = _span(content, draws)
    return content[:end] + content[start:end] * draws.choice((1, 1, 2, 20)) + content[end:]


def _splice(content: bytes, other: bytes, draws: random.Random) -> bytes:
    return content[: draws.randrange(len(content) + 1)] + other[draws.randrange(len(other) + 1) :]


def _number(content: bytes, _: bytes, draws: random.Random) -> bytes:
    places = list(re.finditer(rb"-?\d+(\.\d+)?", content))
    if not places:
        return _flip_bits(content, b"", draws)
    place = draws.choice(places)
    return content[: place.start()] + draws.choice(_NUMBERS) + content[place.end() :]


def _insert(content: bytes, _: bytes, draws: random.Random) -> bytes:
    place = draws.randrange(len(content) + 1)
    return content[:place] + draws.choice(_TOKENS) + content[place:]


def _swap_lines(content: bytes, _: bytes, draws: random.Random) -> bytes:
    lines = content.split(b"\n")
    first, second = draws.randrange(len(lines)), draws.randrange(len(lines))
    lines[first], lines[second] = lines[second], lines[first]
    return b"\n".join(lines)


def _span(content: bytes, draws: random.Random) -> tuple[int, int]:
    start = draws.randrange(len(content) + 1)
    return start, min(len(content), start + draws.choice((1, 4, 16, 100, len(content))))


_CHANGES: tuple[Callable[[bytes, bytes, random.Random], bytes], ...] = (
    *(_flip_bits, _overwrite, _truncate, _cut, _duplicate, _splice, _number, _number, _insert, _swap_lines),
)


def _in_zip(valid: bytes, other: bytes, draws: random.Random) -> bytes | None:
    """A zip file whose checksums are right and one of whose members is changed, missing or renamed."""
    if not valid.startswith(b"PK"):
        return None
    with zipfile.ZipFile(io.BytesIO(valid)) as archive:
        members = [(info.filename, archive.read(info), info.compress_type) for info in archive.infolist()]
    chosen = draws.randrange(len(members))
    change = draws.random()
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for number, (name, content, kind) in enumerate(members):
            if number == chosen and change < 0.05:
                continue
            if number == chosen and change < 0.1:
                name = draws.choice(members)[0] + draws.choice(("", "x", ".npy", "/../../x"))
            elif number == chosen:
                content = _changed(content, draws.choice(members)[1], draws)
            entry = zipfile.ZipInfo(name)
            archive.writestr(entry, content, compress_type=kind)
    return packed.getvalue()


def _in_gzip(valid: bytes, other: bytes, draws: random.Random) -> bytes | None:
    if not valid.startswith(b"\x1f\x8b"):
        return None
    second = gzip.decompress(other) if other.startswith(b"\x1f\x8b") else other
    return gzip.compress(_changed(gzip.decompress(valid), second, draws), mtime=0)


def _in_json(valid: bytes, other: bytes, draws: random.Random) -> bytes | None:
    """Valid JSON, or lines of it, with one value of the wrong kind or size."""
    if not valid.startswith((b"{", b"[")):
        return None
    lines = [valid] if valid.count(b"\n{") == 0 else valid.splitlines()
    chosen = draws.randrange(len(lines))
    try:
        lines[chosen] = json.dumps(_replaced(json.loads(lines[chosen]), draws)).encode()
    except ValueError:
        return None  # it only looked like JSON
    return b"\n".join(lines) + b"\n"


def _in_safetensors(valid: bytes, other: bytes, draws: random.Random) -> bytes | None:
    """A safetensors file whose header is valid JSON, one of its values or of the nested ones replaced."""
    if valid[8:10] != b'{"':
        return None
    (size,) = struct.unpack("<Q", valid[:8])
    header = json.loads(valid[8 : 8 + size])
    about = header.get("__metadata__", {})
    nested = [name for name, text in about.items() if text.startswith("{")]
    if nested and draws.random() < 0.7:
        name = draws.choice(nested)
        about[name] = json.dumps(_replaced(json.loads(about[name]), draws))
    else:
        header = _replaced(header, draws)
    packed = json.dumps(header).encode()
    return struct.pack("<Q", len(packed)) + packed + valid[8 + size :]


def _replaced(value: Any, draws: random.Random) -> Any:
    """A JSON value with one of its parts replaced, dropped or renamed, at a random depth."""
    if isinstance(value, dict) and value and draws.random() < 0.9:
        name = draws.choice(list(value))
        change = draws.random()
        if change < 0.08:
            return {key: part for key, part in value.items() if key != name}
        if change < 0.12:
            return {
                draws.choice(("", "x", "../x", "kind")) if key == name else key: value[key] for key in value
            }
        return value | {name: _replaced(value[name], draws)}
    if isinstance(value, list) and value and draws.random() < 0.8:
        place = draws.randrange(len(value))
        return [*value[:place], _replaced(value[place], draws), *value[place + 1 :]]
    return draws.choice(_VALUES)


_WRAPPERS = (_in_zip, _in_gzip, _in_json, _in_safetensors)
