"""JSON Schema: the schema's own faults are found at parse, an answer's first fault is named."""

from __future__ import annotations

import re
import sys
import unittest
from decimal import Decimal
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import main

DRAFT_7 = "http://json-schema.org/draft-07/schema#"
DRAFT_2020 = "https://json-schema.org/draft/2020-12/schema"


def search(pattern: str, text: str) -> bool:
    return re.search(pattern, text) is not None


def violation(schema: Any, answer: str) -> str | None:
    instance = main.parse_json(answer, decimals=True)
    return main.schema_violation(main.parse_schema(schema), instance, search)


class SchemaCase(unittest.TestCase):
    def assert_valid(self, schema: Any, *answers: str) -> None:
        for answer in answers:
            with self.subTest(schema=str(schema)[:80], answer=answer[:60]):
                self.assertIsNone(violation(schema, answer))

    def assert_invalid(self, schema: Any, *answers: str) -> None:
        for answer in answers:
            with self.subTest(schema=str(schema)[:80], answer=answer[:60]):
                self.assertIsNotNone(violation(schema, answer))

    def assert_too_large(self, schema: Any, instance: Any) -> None:
        # not a violation, which the `not-` form would turn into a pass
        with self.assertRaises(main.SchemaError) as caught:
            main.schema_violation(main.parse_schema(schema), instance, search)
        self.assertIn("too large or nested too deeply", str(caught.exception))

    def refusal(self, schema: Any) -> str:
        with self.assertRaises(main.SchemaError) as caught:
            main.parse_schema(schema)
        return str(caught.exception)


class Numbers(SchemaCase):
    def test_a_zero_fraction_is_an_integer(self) -> None:
        # JSON Schema 2020-12 Core 4.2.3
        self.assert_valid({"type": "integer"}, "3", "3.0", "1e2", "-0.0", "1e999999999", "25e-0")
        self.assert_invalid({"type": "integer"}, "3.5", "1e-999999999", "true", '"3"')

    def test_true_is_not_a_number_at_any_depth(self) -> None:
        self.assert_invalid({"type": "number"}, "true", "false")
        self.assert_invalid({"enum": [1]}, "true")
        self.assert_invalid({"const": False}, "0")
        self.assert_invalid({"const": {"a": [False]}}, '{"a": [0]}')

    def test_equal_numbers_are_equal_however_they_are_written(self) -> None:
        self.assert_valid({"const": 1.0}, "1", "1.00", "10e-1")
        self.assert_valid({"enum": [0.1]}, "0.1", "0.10")
        self.assert_valid({"const": 100}, "1e2")

    def test_big_integers_keep_their_precision(self) -> None:
        self.assert_invalid({"maximum": 9007199254740992}, "9007199254740993")
        self.assert_valid({"maximum": 9007199254740992}, "9007199254740992")

    def test_bounds_are_compared_in_decimal(self) -> None:
        self.assert_valid({"minimum": 0.1, "maximum": 0.3}, "0.1", "0.3")
        self.assert_invalid({"exclusiveMinimum": 0.1}, "0.1")
        self.assert_invalid({"exclusiveMaximum": 0.3}, "0.3", "1e999999999")
        self.assert_invalid({"minimum": 1}, "1e-999999999", "-1e999999999")

    def test_multiple_of_is_decimal_arithmetic_and_always_a_verdict(self) -> None:
        self.assert_valid({"multipleOf": 0.01}, "19.99", "4.35", "0", "0.0", "-0.07")
        self.assert_invalid({"multipleOf": 0.01}, "19.995")
        self.assert_valid({"type": "integer", "multipleOf": 0.5}, "1e308", "1" + "0" * 400)
        self.assert_valid({"multipleOf": 7}, "7e999999999", "-14")
        self.assert_invalid({"multipleOf": 7}, "1e999999999", "1e-999999999")
        self.assert_valid({"multipleOf": 0.125}, "1", "1e3")
        self.assert_invalid({"multipleOf": 0.125}, "0.1")


class StringsArraysObjects(SchemaCase):
    def test_lengths_count_code_points(self) -> None:
        self.assert_valid({"maxLength": 2}, '"💩💩"', '"\\ud83d\\udca9"')
        self.assert_valid({"minLength": 2}, '"e\u0301"')
        self.assert_invalid({"maxLength": 2.0}, '"foo"')

    def test_unique_items_sees_through_order_and_spelling(self) -> None:
        unique = {"uniqueItems": True}
        self.assert_valid(unique, "[true, 1]", "[[false], [0]]", '["1", 1]', "[null, false]")
        self.assert_invalid(unique, "[1, 1.0]", '[{"a":1,"b":2}, {"b":2,"a":1}]', "[[1], [1e0]]")
        self.assertEqual(violation(unique, "[1, 2, 1]"), "at $: items 0 and 2 are equal, and must all differ")

    def test_unique_items_is_quick_on_long_arrays(self) -> None:
        # multiples of 2**61 - 1 share one hash in CPython
        items = ",".join(str(n * (2**61 - 1)) for n in range(20_000))
        self.assert_valid({"uniqueItems": True}, f"[{items}]")

    def test_items_follow_prefix_items(self) -> None:
        pair = {"prefixItems": [{"type": "integer"}, {"type": "string"}], "items": False}
        self.assert_valid(pair, "[]", "[1]", '[1, "a"]')
        self.assert_invalid(pair, '["a"]', '[1, "a", 2]')

    def test_counts_of_items_and_properties(self) -> None:
        self.assert_valid({"minItems": 1, "maxItems": 2.0}, "[1]", "[1, 2]", '"text"')
        self.assert_invalid({"minItems": 1, "maxItems": 2}, "[]", "[1, 2, 3]")
        self.assert_valid({"minProperties": 1, "maxProperties": 1}, '{"a": 1}', "[]")
        self.assert_invalid({"minProperties": 1, "maxProperties": 1}, "{}", '{"a": 1, "b": 2}')

    def test_additional_properties_are_those_not_named(self) -> None:
        closed = {"properties": {"a": {}}, "additionalProperties": False}
        self.assert_valid(closed, '{"a": 1}')
        self.assertEqual(violation(closed, '{"b": 1}'), "at $.b: not allowed here")
        self.assert_invalid({"additionalProperties": {"type": "string"}}, '{"a": 1}')


class Messages(SchemaCase):
    def test_the_place_and_the_wrong_value_are_named(self) -> None:
        schema = {"properties": {"status": {"enum": ["Running", "Pending"]}}}
        expected = 'at $.status: "Runing" is not one of ["Running", "Pending"]'
        self.assertEqual(violation(schema, '{"status": "Runing"}'), expected)

    def test_a_missing_property_is_named(self) -> None:
        found = violation({"items": {"required": ["a"]}}, '[{"a": 1}, {}]')
        self.assertEqual(found, 'at $[1]: required property "a" is missing')

    def test_odd_keys_are_quoted_and_lone_surrogates_escaped(self) -> None:
        schema = {"additionalProperties": {"type": "null"}}
        self.assertIn('$["a b"]', violation(schema, '{"a b": 1}') or "")
        self.assertIn("\\ud83d", violation(schema, '{"a": "\\ud83d"}') or "")

    def test_alternatives_say_why_each_did_not_fit(self) -> None:
        schema = {"anyOf": [{"type": "string"}, {"minimum": 5}]}
        found = violation(schema, "3") or ""
        self.assertIn('not of type "string"', found)
        self.assertIn("is below 5", found)

    def test_long_values_are_cut(self) -> None:
        self.assertLess(len(violation({"type": "null"}, f'"{"x" * 9999}"') or ""), 150)
        self.assertLess(len(violation({"const": 1}, f"[{'[1],' * 9999}1]") or ""), 150)


class Combinations(SchemaCase):
    def test_all_any_one_not(self) -> None:
        self.assert_invalid({"allOf": [{"type": "integer"}, {"minimum": 5}]}, "4", '"a"')
        self.assert_valid({"anyOf": [{"type": "string"}, {"minimum": 5}]}, '"a"', "5")
        one = {"oneOf": [{"type": "integer"}, {"minimum": 2}]}
        self.assert_valid(one, "1", "2.5")
        self.assert_invalid(one, "3", "1.5")
        self.assert_invalid({"not": {"type": "string"}}, '"a"')

    def test_alternatives_that_cost_two_to_the_depth_are_cut_off(self) -> None:
        defs: dict[str, Any] = {"s60": {"type": "string"}}
        for n in range(60):
            defs[f"s{n}"] = {"anyOf": [{"$ref": f"#/$defs/s{n + 1}"}] * 2}
        self.assert_too_large({"$ref": "#/$defs/s0", "$defs": defs}, 1)

    def test_a_deep_answer_is_refused_without_a_traceback(self) -> None:
        schema = {"items": {"$ref": "#"}, "maxItems": 3}
        self.assert_valid(schema, "[" * 100 + "]" * 100)
        deep: list[Any] = []
        for _ in range(50_000):
            deep = [deep]
        self.assert_too_large(schema, deep)
        keywords: list[dict[str, Any]] = [{"const": 1}, {"uniqueItems": True}, {"enum": [[]]}]
        for keyword in keywords:
            self.assert_too_large(keyword, [deep])


class References(SchemaCase):
    def test_siblings_of_a_reference_count_since_2019_and_not_before(self) -> None:
        # 2020-12 Core 8.2.3.1; draft-07 Core 8.3: other properties are ignored
        modern = {
            "$schema": DRAFT_2020,
            "$defs": {"n": {"type": "string"}},
            "properties": {"a": {"$ref": "#/$defs/n", "minLength": 3}},
        }
        self.assert_invalid(modern, '{"a": "b"}')
        old = {
            "$schema": DRAFT_7,
            "definitions": {"n": {"type": "string"}},
            "properties": {"a": {"$ref": "#/definitions/n", "minLength": 3}},
        }
        self.assert_valid(old, '{"a": "b"}')
        self.assert_invalid(old, '{"a": 1}')

    def test_pointer_escapes_are_decoded(self) -> None:
        names = {"a/b": "#/$defs/a~1b", "c%d": "#/$defs/c%25d", "t~x": "#/$defs/t~0x", "~1": "#/$defs/~01"}
        for name, reference in names.items():
            schema = {"$defs": {name: {"type": "integer"}}, "$ref": reference}
            self.assert_valid(schema, "1")
            self.assert_invalid(schema, '"1"')

    def test_a_recursive_schema_that_makes_progress_is_fine(self) -> None:
        node = {"type": "object", "properties": {"k": {"$ref": "#"}}, "additionalProperties": False}
        self.assert_valid(node, '{"k": {"k": {}}}')
        self.assertEqual(violation(node, '{"k": {"x": 1}}'), "at $.k.x: not allowed here")

    def test_a_loop_without_progress_is_refused(self) -> None:
        a, b = {"allOf": [{"$ref": "#/$defs/b"}]}, {"not": {"$ref": "#/$defs/a"}}
        self.assertIn("loop", self.refusal({"$defs": {"a": a, "b": b}, "type": "null"}))
        self.assertIn("loop", self.refusal({"$ref": "#"}))

    def test_a_reference_must_lead_to_a_schema_in_this_document(self) -> None:
        self.assertIn("cannot resolve '#/$defs/x'", self.refusal({"$ref": "#/$defs/x"}))
        self.assertIn("cannot resolve", self.refusal({"const": {}, "not": {"$ref": "#/const"}}))
        self.assertIn("cannot resolve", self.refusal({"$ref": "#name"}))
        for remote in ("https://example.com/s.json", "other.json#/a", "file:///etc/passwd"):
            self.assertIn("not fetched", self.refusal({"$ref": remote}))


class SchemaFaults(SchemaCase):
    def test_a_mistyped_keyword_is_refused_with_its_place_and_the_nearest_word(self) -> None:
        self.assertEqual(
            self.refusal({"type": "object", "properties": {"s": {"minLenght": 5}}}),
            "at #/properties/s: 'minLenght' is not supported (did you mean 'minLength'?)",
        )
        self.assertIn("'required'", self.refusal({"requierd": ["a"]}))
        self.assertIn("at #/$defs/a~1b/not", self.refusal({"$defs": {"a/b": {"not": {"x": 1}}}}))

    def test_a_keyword_that_is_not_supported_is_refused(self) -> None:
        for name in ("format", "if", "contains", "patternProperties", "$anchor", "additionalItems"):
            self.assertIn(f"{name!r} is not supported", self.refusal({"type": "null", name: {}}))

    def test_a_keyword_with_a_value_of_the_wrong_kind_is_refused(self) -> None:
        table: dict[str, list[Any]] = {
            "type": ["strin", [], 3, None, ["null", "null"], True],
            "enum": [[], "a", {}],
            "required": ["a", ["a", "a"], [1]],
            "properties": [[], {"a": 1}],
            "additionalProperties": ["no", None],
            "minLength": [-1, 1.5, "1", True],
            "maximum": ["1", None, True],
            "exclusiveMaximum": [True],
            "multipleOf": [0, -1, "1"],
            "pattern": [1, "(", "*a", "\\"],
            "allOf": [[], {}, [1]],
            "items": [[{}], 1],
            "uniqueItems": [1],
            "$defs": [[], {"a": 1}],
            "$ref": [1],
            "$schema": [1],
            "title": [1],
        }
        for name, wrong in table.items():
            for value in wrong:
                with self.subTest(name=name, value=value):
                    self.assertIn("at #", self.refusal({"const": 1, name: value}))

    def test_the_old_array_form_of_items_is_refused(self) -> None:
        self.assertIn("at #/items: a schema", self.refusal({"items": [{"type": "integer"}]}))

    def test_a_document_that_is_no_schema_is_refused(self) -> None:
        documents: list[Any] = [None, 1, "type", [], [{}]]
        for document in documents:
            self.assertIn("a schema is an object", self.refusal(document))

    def test_a_schema_that_cannot_fail_is_refused(self) -> None:
        for schema in (
            {},
            True,
            {"title": "anything", "$comment": "x", "default": 1},
            {"$defs": {"a": {"type": "null"}}},
        ):
            self.assertIn("never fail", self.refusal(schema))
        self.assert_invalid(False, "1")

    def test_an_identifier_is_accepted_only_where_local_references_keep_their_meaning(self) -> None:
        self.assert_valid({"$id": "https://example.com/s", "type": "integer"}, "1")
        self.assertIn("$id", self.refusal({"properties": {"a": {"$id": "x", "type": "null"}}}))

    def test_a_deep_schema_is_refused_without_a_traceback(self) -> None:
        schema: dict[str, Any] = {"type": "null"}
        for _ in range(50_000):
            schema = {"not": schema}
        self.assertIn("nested too deeply", self.refusal(schema))


class Patterns(SchemaCase):
    def test_patterns_are_unanchored_with_ecma_classes(self) -> None:
        # ECMA-262 22.2.2: \d and \w are ASCII, \s is white space and line ends, `$` the very end
        self.assert_valid({"pattern": "b"}, '"abc"')
        self.assert_invalid({"pattern": "^\\d+$"}, '"42\\n"', '"٤٢"')
        self.assert_invalid({"pattern": "^\\w$"}, '"é"')
        self.assert_valid({"pattern": "^\\s$"}, '"\\ufeff"', '"\\u00a0"', '"\\u2028"')
        self.assert_invalid({"pattern": "^\\s$"}, '"\\u001c"', '"\\u0085"', '"\\u180e"')
        self.assert_valid({"pattern": "^[^\\s]$"}, '"\\u0085"')
        self.assert_valid({"pattern": "^[\\s\\S]$"}, '"\\n"', '"a"')
        self.assert_invalid({"pattern": "^a.b$"}, '"a\\rb"', '"a\\u2029b"')
        self.assert_valid({"pattern": "\\bfoo\\b"}, '"éfoo"')

    def test_ecma_spellings_mean_what_they_mean_there(self) -> None:
        for pattern, text in (
            ("^\\/\\u0041💩\\x41\\n$", "/A💩A\n"),
            ("^{{x}}$", "{{x}}"),
            ("^a{,2}$", "a{,2}"),
            ("^[[&&\\]\\b-]+$", "[&]\b-"),
            ("^(?:ab){1,2}?(?!c)(?=$)$", "abab"),
        ):
            with self.subTest(pattern=pattern):
                self.assertTrue(search(main.ecma_pattern(pattern), text))

    def test_what_is_not_ecma_is_refused(self) -> None:
        odd = ["(?i)a", "(?P<a>b)", "a++", "a{2}+", "a)(b", "\\Z", "(?#c)", "[a-\\d]", "[", "\\"]
        rare = ["\\p{L}", "\\u{41}", "\\ud83d\\udca9", "\\cJ", "(a)\\1", "(?<y>a)", "(?<=a)b", "[]", "[^]"]
        for pattern in [*odd, *rare, "[^]a]", "[\\S]"]:
            with self.subTest(pattern=pattern), self.assertRaises(ValueError):
                main.ecma_pattern(pattern)
        self.assertIn("\\p", self.refusal({"pattern": "\\p{L}"}))

    def test_a_time_limit_on_the_search_passes_through(self) -> None:
        class OutOfTime(Exception):
            pass

        def slow(pattern: str, text: str) -> bool:
            raise OutOfTime

        with self.assertRaises(OutOfTime):
            main.schema_violation(main.parse_schema({"pattern": "a"}), "b", slow)


class PlainInstances(SchemaCase):
    def test_floats_from_a_plain_reader_are_the_decimals_they_were_written_as(self) -> None:
        schema = main.parse_schema({"multipleOf": 0.01, "maximum": Decimal("19.99")})
        self.assertIsNone(main.schema_violation(schema, 19.99, search))


if __name__ == "__main__":
    unittest.main()
