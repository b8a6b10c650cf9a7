"""Seeded mutations of JSON, JSONL and XML that know the structure, and a minimiser for what fails."""

from __future__ import annotations

import copy
import json
import random
import re
from collections.abc import Iterator
from typing import Any, Callable
from xml.etree import ElementTree

ODD_TEXTS = (
    "", " ", "ok", "\n", "\u2028", "\x00", "\x1b[31m", "::error::x", "\ud800", "]]>", "<b>&amp;", "{{input}}",
    "{{x}}", "%s %d {0}", "not-equals", "2026-02-30", "9999-12-31", "1e999", "-0", "１２", "ﬁ", "e\u0301",
    "(", "(a+)+$", "/a/i", "a" * 3_000, "'ok'", '"', "../x", "c0", "c1", "<think>", "```json\n{}\n```", "1,5",
)  # fmt: skip
ODD_VALUES: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 2, 0.5, -0.0, 1e308, 5e-324, 10_000, 2**63, 10**30, -(10**400), 1e-9, [], {},
    [[]], [None], {"": None}, [1, 2], {"type": "equals", "value": "ok"}, {"a": {"a": {"a": []}}},
    {"type": "json-schema", "value": {}}, float("nan"), float("inf"),
)  # fmt: skip
RAW_BYTES = (b"\xff", b"\xef\xbb\xbf", b"\x00", b"\r\n", b'"', b"}", b"[", b",", b"\\ud800", b"NaN", b"1e999")
Path = tuple[Any, ...]


def places(value: Any, path: Path = ()) -> Iterator[Path]:
    """Every path of keys and indexes in a JSON value."""
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield from places(item, (*path, key))


def at(value: Any, path: Path) -> Any:
    for step in path:
        value = value[step]
    return value


def odd_value(rng: random.Random, donor: Any) -> Any:
    """A value that a careless reader trips over, or a piece of another document."""
    kind = rng.random()
    if kind < 0.3:
        return rng.choice(ODD_TEXTS)
    if kind < 0.65:
        return copy.deepcopy(rng.choice(ODD_VALUES))
    if kind < 0.67:
        return f"@deep {rng.choice((3, 90, 450, 600, 950, 5_000))}"
    return copy.deepcopy(at(donor, rng.choice(list(places(donor)))))


def mutated(value: Any, donor: Any, rng: random.Random) -> Any:
    """The value with one to three changes of structure."""
    value = copy.deepcopy(value)
    change = rng.choice((_change, _change_gently))
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        found = list(places(value))
        # shallow places are few and deep ones many: give both a chance
        depth = rng.randint(0, max(map(len, found)))
        path = rng.choice([place for place in found if len(place) == depth])
        if not path:
            value = odd_value(rng, donor) if rng.random() < 0.1 else value
            continue
        change(at(value, path[:-1]), path[-1], rng, donor)
    return value


def _change(parent: Any, last: Any, rng: random.Random, donor: Any) -> None:
    item, kind = parent[last], rng.random()
    if kind < 0.15:
        del parent[last]
    elif kind < 0.25 and isinstance(parent, list):
        parent.insert(last, copy.deepcopy(item))
    elif kind < 0.35 and isinstance(parent, dict):
        parent[rng.choice([*ODD_TEXTS, *parent, str(last).upper(), f"not-{last}"])] = item
    elif kind < 0.5:
        other = rng.choice(list(parent) if isinstance(parent, dict) else range(len(parent)))
        parent[last], parent[other] = parent[other], parent[last]
    elif kind < 0.6 and isinstance(item, str):
        cut = rng.randint(0, len(item))
        parent[last] = item[:cut] + rng.choice(ODD_TEXTS) + item[cut:]
    elif kind < 0.7 and isinstance(item, (int, float)):
        parent[last] = rng.choice((-item, item + 1, item * 1000, item % 7 + 0.5, str(item), bool(item)))
    else:
        parent[last] = odd_value(rng, donor)


def _change_gently(parent: Any, last: Any, rng: random.Random, donor: Any) -> None:
    """Another value of the same kind, so that a careful reader lets it in."""
    item = parent[last]
    if isinstance(item, bool):
        parent[last] = not item
    elif isinstance(item, int):
        parent[last] = rng.choice((0, 1, 2, 3, item + 1, 10_000, 10**9, 2**53 + 1))
    elif isinstance(item, float):
        parent[last] = rng.choice((0.0, 1e-300, 5e-324, 0.1, 1.0, 999999999999.9, item * 3))
    elif isinstance(item, str):
        cut = rng.randint(0, len(item))
        parent[last] = rng.choice(
            (item[:cut] + rng.choice(ODD_TEXTS) + item[cut:], rng.choice(ODD_TEXTS) or "x")
        )
    elif isinstance(parent, list) and isinstance(item, dict):
        twin = copy.deepcopy(item)
        if isinstance(twin.get("id"), str):
            twin["id"] += rng.choice(ODD_TEXTS) + "'"
        parent.insert(rng.randint(0, len(parent)), twin) if rng.random() < 0.5 else parent.remove(item)
    elif isinstance(item, list):
        rng.shuffle(item)
    elif isinstance(parent, dict) and rng.random() < 0.5:
        del parent[last]


def json_bytes(value: Any, rng: random.Random) -> bytes:
    text = json.dumps(value, ensure_ascii=rng.random() < 0.5, indent=rng.choice((None, None, 1)))
    text = re.sub(r'"@deep (\d+)"', lambda found: nested(int(found[1])), text)
    return text.encode("utf-8", "surrogatepass")


def nested(depth: int) -> str:
    return "[" * depth + "1" + "]" * depth


def mangled(data: bytes, rng: random.Random) -> bytes:
    """The bytes cut, or with a piece put in, doubled or taken out."""
    a, b = sorted((rng.randint(0, len(data)), rng.randint(0, len(data))))
    return rng.choice((
        data[:a], data[:a] + rng.choice(RAW_BYTES) + data[a:], data[:a] + data[b:], data[:b] + data[a:],
        data[:a] + bytes(rng.randrange(256) for _ in range(4)) + data[a:], rng.choice(RAW_BYTES) + data,
        data[:a] + b"[" * 2_000, re.sub(rb'"(\w+)": ', rb'"\1": 1, "\1": ', data, count=1),
    ))  # fmt: skip


def mutated_json(value: Any, donor: Any, rng: random.Random) -> bytes:
    """A mutated document: in its structure four times out of five, else in its bytes."""
    if rng.random() < 0.8:
        return json_bytes(mutated(value, donor, rng), rng)
    return mangled(json_bytes(value, rng), rng)


def mutated_lines(rows: list[Any], donor: Any, rng: random.Random, fixed: int = 0) -> bytes:
    """JSON Lines with some of the rows mutated, after the first `fixed`."""
    lines = [json_bytes(row, random.Random(0)).replace(b"\n", b"") for row in rows]
    for _ in range(rng.randint(1, 3)):
        i = rng.randrange(fixed, len(lines))
        lines[i] = mutated_json(rows[i], donor, rng).replace(b"\n", rng.choice((b"", b"\n")))
    return b"\n".join(lines) + rng.choice((b"\n", b"", b"\n\n", b"\r\n"))


def mutated_xml(text: str, rng: random.Random) -> bytes:
    """A mutated XML document, likewise."""
    if rng.random() < 0.3:
        return mangled(text.encode("utf-8"), rng)
    root = ElementTree.fromstring(text)
    for _ in range(rng.randint(1, 4)):
        parent = rng.choice(list(root.iter()))
        element = rng.choice(list(root.iter()))
        kind = rng.random()
        if kind < 0.3:
            names = [*element.attrib, "name", "classname", "time", "message"]
            element.set(rng.choice(names), xml_odd_text(rng))
        elif kind < 0.5 and len(parent):
            parent.remove(rng.choice(list(parent)))
        elif kind < 0.7:
            parent.append(copy.deepcopy(element))
        elif kind < 0.85:
            element.tag = rng.choice(
                ("testcase", "failure", "error", "skipped", "x", "rerunFailure", "testsuite")
            )
        else:
            element.text = xml_odd_text(rng)
    return ElementTree.tostring(root)


def xml_odd_text(rng: random.Random) -> str:
    return re.sub("[\x00-\x08\x1b\ud800-\udfff]", "?", rng.choice(ODD_TEXTS))


# -- Minimising ------------------------------------------------------------------------------------


def smaller(data: bytes) -> Iterator[bytes]:
    """Simpler variants of an input, the boldest first: of its JSON, its lines, or its bytes."""
    try:
        value = json.loads(data)
        found = sorted(places(value), key=len)
    except (ValueError, RecursionError):
        lines = data.split(b"\n")
        for i in range(len(lines) if len(lines) > 1 else 0):
            yield b"\n".join(lines[:i] + lines[i + 1 :])
            for variant in smaller(lines[i]) if lines[i][:1] == b"{" else ():
                yield b"\n".join([*lines[:i], variant, *lines[i + 1 :]])
        size = len(data) // 2
        while size:
            for start in range(0, len(data), size):
                yield data[:start] + data[start + size :]
            size //= 2
        return
    for path in found:
        if path:
            without = copy.deepcopy(value)
            del at(without, path[:-1])[path[-1]]
            yield json.dumps(without).encode()
            item = at(value, path)
            for simple in (None, "", 0, item[: len(item) // 2] if isinstance(item, str) else 0):
                if item not in (None, "", 0) and simple != item:
                    changed = copy.deepcopy(value)
                    at(changed, path[:-1])[path[-1]] = simple
                    yield json.dumps(changed).encode()


def minimised(data: bytes, fails: Callable[[bytes], bool], tries: int = 1_500) -> bytes:
    """The smallest input found that still fails."""
    left = tries
    progress = True
    while progress and left > 0:
        progress = False
        for variant in smaller(data):
            left -= 1
            if len(variant) < len(data) and fails(variant):
                data, progress = variant, True
                break
            if left <= 0:
                break
    return data
