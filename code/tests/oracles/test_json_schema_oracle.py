"""The JSON Schema room against jsonschema 4.26 (Draft 2020-12) on a seeded random corpus."""

from __future__ import annotations

import json
import random
import re
import sys
import unittest
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import main

try:
    import jsonschema
except ImportError:
    jsonschema = None  # type: ignore[assignment]

NAMES = ["a", "b", "c"]
SCALARS = [None, True, False, 0, 1, 1.0, 2, 2.5, -3, 1e3, "", "a", "ab", "abc", "é1", "💩", "42"]
PATTERNS = ["^a", "b$", "[0-9]+", "^[a-c]*$", "a|4", "^.$", "(ab){1,2}", "[^a]"]


def random_value(rng: random.Random, depth: int = 3) -> Any:
    shape = rng.random()
    if depth and shape < 0.25:
        return [random_value(rng, depth - 1) for _ in range(rng.randint(0, 4))]
    if depth and shape < 0.55:
        names = rng.sample(NAMES, rng.randint(0, 3))
        return {name: random_value(rng, depth - 1) for name in names}
    return rng.choice(SCALARS)


def random_schema(rng: random.Random, depth: int = 3) -> Any:
    if rng.random() < 0.06:
        return rng.random() < 0.6
    made: dict[str, Any] = {}
    for _ in range(rng.randint(1, 3)):
        name, value = random_keyword(rng, depth)
        made[name] = value
    return made


def random_keyword(rng: random.Random, depth: int) -> tuple[str, Any]:
    count = rng.choice([0, 1, 2, 2.0, 3])
    bound = rng.choice([-3, 0, 1, 1.0, 2.5, 1000])
    kinds = ["null", "boolean", "integer", "number", "string", "array", "object"]
    plain = [
        ("type", rng.choice(kinds)),
        ("type", rng.sample(kinds, 2)),
        ("enum", [random_value(rng, 1) for _ in range(3)]),
        ("const", random_value(rng, 2)),
        *[(name, count) for name in ("minLength", "maxLength", "minItems", "maxItems")],
        *[(name, count) for name in ("minProperties", "maxProperties")],
        *[(name, bound) for name in ("minimum", "maximum")],
        *[(name, bound) for name in ("exclusiveMinimum", "exclusiveMaximum")],
        ("multipleOf", rng.choice([1, 2, 0.5, 1.25])),
        ("pattern", rng.choice(PATTERNS)),
        ("required", rng.sample(NAMES, rng.randint(0, 2))),
        ("uniqueItems", rng.random() < 0.8),
    ]
    if not depth or rng.random() < 0.4:
        return rng.choice(plain)
    below = [random_schema(rng, depth - 1) for _ in range(rng.randint(1, 3))]
    return rng.choice(
        [
            ("properties", dict(zip(NAMES, below))),
            ("properties", dict(zip(NAMES, below))),
            ("additionalProperties", below[0]),
            ("items", below[0]),
            ("items", below[0]),
            ("prefixItems", below),
            ("allOf", below),
            ("anyOf", below),
            ("oneOf", below),
            ("not", below[0]),
            ("$ref", "#/$defs/" + rng.choice(["word", "t~0r~1ee%25"])),
        ]
    )


def search(pattern: str, text: str) -> bool:
    return re.search(pattern, text) is not None


DEFS = {
    "word": {"type": "string", "minLength": 2},
    "t~r/ee%": {"type": "object", "properties": {"a": {"$ref": "#/$defs/t~0r~1ee%25"}}},
}


@unittest.skipIf(jsonschema is None, "jsonschema is not installed")
class JsonschemaAgrees(unittest.TestCase):
    def test_both_give_the_same_verdict_on_random_schemas_and_values(self) -> None:
        rng = random.Random(2020)
        verdicts = {True: 0, False: 0}
        for _ in range(1500):
            schema = random_schema(rng)
            if not isinstance(schema, dict):
                continue
            document = {**schema, "$defs": DEFS}
            try:
                mine = main.parse_schema(document)
            except main.SchemaError as error:
                self.assertIn("can never fail", str(error))
                other = jsonschema.Draft202012Validator(document)
                for _ in range(8):
                    self.assertTrue(other.is_valid(random_value(rng)), document)
                continue
            other = jsonschema.Draft202012Validator(document)
            for _ in range(8):
                value = random_value(rng)
                text = json.dumps(value)
                read = main.parse_json(text, decimals=True)
                valid = main.schema_violation(mine, read, search) is None
                self.assertEqual(valid, other.is_valid(value), (json.dumps(document), text))
                verdicts[valid] += 1
        self.assertGreater(min(verdicts.values()), 2000)

    def test_a_schema_that_jsonschema_calls_malformed_is_refused(self) -> None:
        rng = random.Random(7)
        wrong = [-1, 1.5, "1", None, [], {}, [1], ["a", "a"], True, "(", "nothing"]
        names = sorted({random_keyword(rng, 2)[0] for _ in range(2000)})
        for name in names:
            for value in wrong:
                schema = {name: value}
                try:
                    jsonschema.Draft202012Validator.check_schema(schema)
                except jsonschema.SchemaError:
                    with self.subTest(schema=schema), self.assertRaises(main.SchemaError):
                        main.parse_schema(schema)


if __name__ == "__main__":
    unittest.main()
