"""Assertions: what passes, what fails, and a detail that a human can act on.

Rows marked B.. are re-created from public bug reports (reported oddities, group B).
"""

from __future__ import annotations

import json
import re
import sys
import unittest
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import main as m


def search(pattern: str, text: str) -> int | None:
    found = re.search(pattern, text)
    return found.start() if found else None


def keyword(rubric: str, output: str) -> m.JudgeVerdict:
    return m.keyword_judge(rubric, output)


TOOLS = m.Tools(search, keyword)


def check(kind: str, value: Any, output: str, tools: m.Tools = TOOLS, **options: Any) -> Any:
    assertion = m.parse_assertion({"type": kind, "value": value, **options})
    return m.check_assertion(assertion, output, tools)


# One row a type: its value, an answer that passes, one that fails, words of the failing detail.
ROWS: dict[str, tuple[Any, str, str, tuple[str, ...]]] = {
    "equals": ("6443", "6443", "6442", ("'6443'", "'6442'", "character 4")),
    "contains": ("df -h", "run df -h now", "run du", ("'df -h'",)),
    "icontains": ("Straße", "STRASSE 5", "Strase", ("'Straße'", "any case")),
    "contains-all": (["a", "b", "c"], "cab", "c", ("'a'", "'b'", "of 3")),
    "contains-any": (["a", "b"], "xb", "xyz", ("'a'", "'b'", "none")),
    "starts-with": ("kubectl", "kubectl get", "run kubectl", ("'run kub'", "'kubectl'")),
    "max-chars": (3, "abc", "abcd", ("4", "3")),
    "regex": (r"^\d+$", "42", "42 of", (r"'^\\d+$'".replace("\\\\", "\\"),)),
    "json-schema": ({"required": ["a"]}, '{"a": 1}', "{}", ('"a"', "at $")),
    "numeric": (43.2, "43.2 minutes", "43.3 minutes", ("43.3", "43.2")),
    "rubric": ("names 'a' and 'b'", "a b", "a", ("missing 'b'",)),
}


class EveryType(unittest.TestCase):
    def test_each_passes_and_fails_with_a_detail_that_names_what_was_wrong(self) -> None:
        self.assertEqual(set(ROWS), set(m.ASSERTION_TYPES))
        for kind, (value, good, bad, words) in ROWS.items():
            with self.subTest(kind=kind):
                self.assertTrue(check(kind, value, good).passed)
                failed = check(kind, value, bad)
                self.assertFalse(failed.passed)
                for word in words:
                    self.assertIn(word, failed.detail)

    def test_each_deterministic_type_has_a_not_form_that_is_the_opposite(self) -> None:
        for kind, (value, good, bad, _) in ROWS.items():
            with self.subTest(kind=kind):
                if kind == "rubric":
                    with self.assertRaises(ValueError):
                        m.parse_assertion({"type": "not-rubric", "value": value})
                    continue
                passed, failed = check(f"not-{kind}", value, bad), check(f"not-{kind}", value, good)
                self.assertEqual((passed.passed, failed.passed), (True, False))
                self.assertEqual(failed.type, f"not-{kind}")
                self.assertTrue(failed.detail)

    def test_an_empty_answer_satisfies_no_negative_form(self) -> None:  # B11
        for kind in ROWS.keys() - {"rubric"}:
            for output in ("", "   ", "\n", "\u00a0"):
                result = check(f"not-{kind}", ROWS[kind][0], output)
                self.assertFalse(result.passed, (kind, output))

    def test_an_answer_that_cannot_be_read_fails_both_forms(self) -> None:
        def stopped(pattern: str, text: str) -> int | None:
            raise m.RegexTimeout("'(a+)+$' was stopped after 2 s on this answer")

        tools = m.Tools(stopped)
        for kind, value, output, word in (
            ("json-schema", {"required": ["a"]}, "not json", "JSON"),
            ("json-schema", {"required": ["a"]}, '{"a": 1} {"a": 1}', "JSON"),
            ("json-schema", {"pattern": "(a+)+$"}, '"aaa!"', "stopped"),
            ("numeric", 5, "five", "no plain number"),
            ("numeric", 5, "1,5", "ambiguous"),
            ("regex", "(a+)+$", "aaa!", "stopped"),
        ):
            for form in ("", "not-"):
                result = check(form + kind, value, output, tools)
                self.assertFalse(result.passed, (form, kind))
                self.assertIn(word, result.detail)

    def test_each_says_what_it_does_and_what_it_is_in_promptfoo(self) -> None:
        for kind, known in m.ASSERTION_TYPES.items():
            for form in ("", "not-") if known.negatable else ("",):
                mapped = known.promptfoo(m.parse_assertion({"type": form + kind, "value": ROWS[kind][0]}))
                self.assertTrue(mapped["type"] and mapped["value"], kind)
                negated = str(mapped["type"]).startswith("not-") or mapped["type"] == "javascript"
                self.assertEqual(negated or not form, True, "the not- form is not lost")
            self.assertRegex(known.help, r"^\S.{10,}[^.]$")

    def test_a_detail_of_a_hostile_answer_is_one_short_printable_line(self) -> None:
        output = "\x1b[31m\n\u202e::error::" * 5000
        for kind in ROWS.keys() - {"rubric", "json-schema"}:
            detail = check(kind, ROWS[kind][0], output).detail
            self.assertTrue(detail.isprintable(), kind)
            self.assertLess(len(detail), 400, kind)

    def test_an_assertion_that_cannot_fail_is_refused(self) -> None:  # B09
        for kind in ("contains", "icontains", "starts-with", "regex", "rubric"):
            for value in ("", None):
                self.refused({"type": kind, "value": value})
        nothing: list[Any] = [{}]
        for value in ("x|", "(?:)", ".*", "^", "$", "a*", r"(?s).*", "(|b)"):
            self.refused({"type": "regex", "value": value}, "cannot fail")
        for schema in (*nothing, {"title": "x"}):
            self.refused({"type": "json-schema", "value": schema}, "never fail")
        self.refused({"type": "json-schema", "value": True})
        for texts in (*nothing, [], [""], ["a", ""], "a"):
            self.refused({"type": "contains-all", "value": texts})

    def test_a_value_of_another_kind_is_never_turned_into_a_text(self) -> None:  # B12
        self.assertTrue(check("equals", 42, "42").passed)
        for kind, value in (("contains", 3.0), ("equals", True), ("contains", ["a", "b"])):
            self.refused({"type": kind, "value": value}, "text")

    def refused(self, source: Any, *words: str) -> None:
        with self.subTest(source=source), self.assertRaises(ValueError) as caught:
            m.parse_assertion(source)
        for word in words:
            self.assertIn(word, str(caught.exception))


class Texts(unittest.TestCase):
    def test_equals_is_byte_exact_and_names_an_invisible_difference(self) -> None:
        for value, output, hint in (
            ("caf\u00e9", "cafe\u0301", "Unicode form (equal after NFC)"),  # B01
            ("5", "\u00a05", "white space"),  # B05
            ("5", "5\n", "white space"),
            ("5", "\u200b5", "U+200B"),
            ("5", "\ufeff5", "U+FEFF"),
            ("ab", "abc", "character 3"),
            ("ab", "", "character 1"),
        ):
            result = check("equals", value, output)
            self.assertFalse(result.passed)
            self.assertIn(hint, result.detail)
        self.assertTrue(check("equals", "", "").passed)

    def test_contains_hints_at_another_case_or_form_without_passing_it(self) -> None:
        rows = (("5 kg", "5\u00a0kg", "NFKC"), ("OK", "ok", "another case"), ("a", "b", "'a'"))
        for value, output, hint in (*rows, ("5 kg", "5\u200b kg", "5 kg")):  # B05
            result = check("contains", value, output)
            self.assertFalse(result.passed)
            self.assertIn(hint, result.detail)

    def test_icontains_folds_case_as_unicode_does(self) -> None:  # B03
        for value, output in (("STRASSE", "Stra\u00dfe 5"), ("k", "273 \u212a"), ("MASSE", "Ma\u017fse")):
            self.assertTrue(check("icontains", value, output).passed, value)

    def test_max_chars_counts_code_points(self) -> None:
        self.assertTrue(check("max-chars", 2, "\U0001f4a9\U0001f4a9").passed)
        self.assertFalse(check("max-chars", 1, "e\u0301").passed)

    def test_regex_is_python_search(self) -> None:  # B06
        for output, passed in (("42", True), ("42\n", True), ("42\nrm -rf", False), ("\u09ea\u09e8", True)):
            self.assertEqual(check("regex", r"^\d+$", output).passed, passed, output)
        self.assertIn("character 3", check("regex", "b+", "aabb").detail)

    def test_no_pattern_can_hang_the_gate(self) -> None:  # B07
        timed = m.TimedSearch(0.2)
        self.addCleanup(timed.close)
        for form in ("", "not-"):
            result = check(form + "regex", "^(a+)+$", "a" * 40 + "!", m.Tools(timed))
            self.assertFalse(result.passed)
            self.assertIn("0.2 s", result.detail)
        self.assertTrue(check("regex", "^(a+)+$", "aaa", m.Tools(timed)).passed)


class Numeric(unittest.TestCase):
    def test_the_number_is_read_as_a_person_would(self) -> None:
        rows: list[tuple[str, Any]] = [
            *(("The total is 72 clips, altogether.", 72), ("It is 72.", 72), ("72,", 72)),  # B13
            *(("The answer is 72, in total.", 72), ("1,536", 1536), ("1,234,567.5", 1234567.5)),  # B14
            *(("$80,000 then $130,000", 130000), ("\\boxed{$9{,}500}", 9500), ("1 234 567", None)),
            *(("1.536,00", None), ("1.536", 1.536), ("1,5", None)),  # B16
            *(("50%", 50), ("$1,000", 1000), ("\u20ac 9.99", 9.99), ("3.5k", None)),  # B18
            *(("2M", None), ("1/2", None), ("10\u00b2", None), ("\u22125", -5), ("-5e3", -5000)),
            *(("IPv4 has 32 bits", 32), ("2nd place", None), ("Python 3.11.7", None)),  # B19
            *(("v1.2", None), ("2026-11-30", None), ("10:30", None), ("H2O", None)),
            *(("room B12, floor 3", 3), ("12345 Main St", 12345)),
            *(("nan", None), ("NaN", None), ("The result is inf", None)),  # B21
        ]
        for output, number in rows:
            with self.subTest(output=output):
                target = 1 if number is None else number
                self.assertEqual(check("numeric", target, output, pick="last").passed, number is not None)

    def test_tolerances_are_inclusive_and_decimal(self) -> None:
        for value, output, options, passed in (
            (2.675, "2.68", {"tolerance": 0.005}, True),
            (2.675, "2.6801", {"tolerance": 0.005}, False),
            ("0.3", "0.1 + 0.2", {"tolerance": "0.2"}, True),
            (200, "202", {"relative_tolerance": 0.01}, True),
            (-200, "-202.1", {"relative_tolerance": 0.01}, False),
            (0, "0.0001", {"relative_tolerance": 0.5}, False),
            (1536, "1,536.0", {}, True),
        ):
            self.assertEqual(check("numeric", value, output, **options).passed, passed, output)

    def test_pick_chooses_the_number(self) -> None:
        for pick, passed in (("first", 1), ("last", 3), ("only", None)):
            for value in (1, 2, 3):
                result = check("numeric", value, "1 then 2 then 3", pick=pick)
                self.assertEqual(result.passed, value == passed)
        self.assertIn("3 numbers", check("numeric", 1, "1 then 2 then 3", pick="only").detail)

    def test_a_rule_that_is_no_number_is_refused(self) -> None:  # B21, B22
        rules: list[dict[str, Any]] = [
            *({"value": v} for v in ("NaN", "inf", "1,5", "five", None, True, [1], "")),
            *({"value": 5, "tolerance": t} for t in ("NaN", -0.1, None, True, "inf")),
            {"value": 5, "pick": "all"},
            {"value": 5, "pick": ["first"]},
            {"value": 5, "tolerance": 1, "relative_tolerance": 0.1},
        ]
        for rule in rules:
            with self.subTest(rule=rule), self.assertRaises(ValueError):
                m.parse_assertion({"type": "numeric", **rule})


class JsonSchema(unittest.TestCase):
    def verdicts(self, *rows: tuple[Any, str, bool]) -> None:
        for schema, output, valid in rows:
            with self.subTest(schema=schema, output=output[:40]):
                self.assertEqual(check("json-schema", schema, output).passed, valid)

    def test_a_fenced_answer_fails_as_a_parser_downstream_would(self) -> None:  # B25
        schema = {"type": "object", "required": ["a"]}
        fenced = '```json\n{"a":1}\n```'
        self.verdicts((schema, fenced, False), (schema, f"Sure!\n{fenced}\nBye", False))
        self.verdicts((schema, '{"a":"```py\\nx={}\\n```"}', True), (schema, '{"a":"use `x`"}', True))
        self.assertIn("fence", check("json-schema", schema, fenced).detail)

    def test_json_that_two_parsers_read_in_two_ways_fails(self) -> None:  # B27
        schema = {"properties": {"amount": {"maximum": 10}}}
        for output, word in (
            ('{"amount":9999,"amount":5}', "duplicate key 'amount'"),
            ('{"amount":NaN}', "NaN"),
            ('{"amount":5} trailing', "JSON"),
            ("", "empty"),
            ("[" * 100_000, "too deeply"),
            ("9" * 10_000, "too long"),
        ):
            result = check("json-schema", schema, output)
            self.assertEqual((result.passed, word in result.detail), (False, True), result.detail)

    def test_numbers_are_mathematical(self) -> None:  # B29, B30, B33
        integer = {"type": "integer"}
        self.verdicts(({**integer, "maximum": 2**53}, str(2**53 + 1), False))
        self.verdicts((integer, "3.0", True), (integer, "3.5", False), (integer, "1e2", True))
        self.verdicts(({**integer, "multipleOf": 0.5}, "1e308", True))
        self.verdicts(({"multipleOf": 0.5}, "1" + "0" * 400, True), ({"multipleOf": 0.01}, "19.99", True))

    def test_true_is_not_one_at_any_depth(self) -> None:  # B31, checked there with jsonschema 4.26
        unique = {"uniqueItems": True}
        self.verdicts(
            *(({"type": "integer"}, "true", False), ({"type": "number"}, "false", False)),
            *((unique, "[true,1]", True), (unique, "[[false],[0]]", True), (unique, "[1,1.0]", False)),
            (unique, '[{"a":1,"b":2},{"b":2,"a":1}]', False),
            *(({"enum": [1]}, "true", False), ({"const": False}, "0", False)),
            *(({"const": [False]}, "[0]", False), ({"const": 1.0}, "1", True)),
        )

    def test_references_are_local_and_their_siblings_follow_the_draft(self) -> None:  # B35, B36
        word = {"n": {"type": "string"}}
        now = {"$defs": word, "properties": {"a": {"$ref": "#/$defs/n", "minLength": 3}}}
        old = {
            "$schema": "http://json-schema.org/draft-07/schema#",
            "definitions": word,
            "properties": {"a": {"$ref": "#/definitions/n", "minLength": 3}},
        }
        self.verdicts((now, '{"a":"b"}', False), (old, '{"a":"b"}', True), (old, '{"a":1}', False))
        names = {"a/b": "a~1b", "c%d": "c%25d", "t~x": "t~0x"}
        escaped = {
            "$defs": {name: {"type": "integer"} for name in names},
            "properties": {p[0]: {"$ref": f"#/$defs/{p}"} for p in names.values()},
        }
        self.verdicts(*((escaped, json.dumps({p[0]: "3"}), False) for p in names.values()))
        tree = {"properties": {"k": {"$ref": "#"}}, "additionalProperties": False}
        self.verdicts((tree, '{"k":{"k":{}}}', True), (tree, '{"k":{"x":{}}}', False))

    def test_lengths_count_code_points_and_may_be_written_as_two_point_zero(self) -> None:  # B41
        self.verdicts(
            ({"maxLength": 2}, '"\U0001f4a9\U0001f4a9"', True), ({"maxLength": 2.0}, '"foo"', False)
        )
        self.verdicts(
            ({"minLength": 2}, '"\u00e9"', False), ({"prefixItems": [True], "items": False}, "[1,2]", False)
        )

    def test_a_fault_of_the_schema_is_found_before_any_answer(self) -> None:  # B33, B36, B38, B40
        loop = {"allOf": [{"$ref": "#/$defs/b"}]}, {"allOf": [{"$ref": "#/$defs/a"}]}
        for schema, *words in (
            ({"multipleOf": 0}, "multipleOf"),
            ({"$defs": {"a": loop[0], "b": loop[1]}, "$ref": "#/$defs/a"}, "loop"),
            ({"$ref": "#/$defs/missing"}, "missing"),
            ({"$ref": "https://example.com/s.json"}, "example.com"),
            ({"items": [{"type": "integer"}]}, "items"),
            ({"type": "object", "requierd": ["a"]}, "requierd", "required"),
            ({"properties": {"s": {"minLenght": 5}}}, "minLenght", "#/properties/s"),
            ({"patternProperties": {"a": {}}}, "patternProperties"),
            ({"type": "strnig"}, "strnig"),
            ({"pattern": "("}, "pattern"),
            (None, "null"),
        ):
            with self.subTest(schema=schema), self.assertRaises(ValueError) as caught:
                m.parse_assertion({"type": "json-schema", "value": schema})
            for said in words:
                self.assertIn(said, str(caught.exception))


class Rubric(unittest.TestCase):
    def test_without_a_judge_it_says_which_flag_is_missing(self) -> None:
        with self.assertRaisesRegex(m.UsageError, "--judge"):
            check("rubric", "says 'a'", "a", m.Tools(search))

    def test_an_unreadable_judge_is_a_failed_assertion_marked_so(self) -> None:
        tools = m.Tools(search, lambda rubric, output: m.JudgeVerdict(None, "judge said hm"))
        result = check("rubric", "is kind", "a", tools)
        self.assertEqual((result.passed, result.unreadable_judge), (False, True))
        self.assertEqual(result.detail, "judge said hm")
        self.assertFalse(check("numeric", 1, "one").unreadable_judge)

    def test_the_verdict_of_the_judge_is_the_result_with_its_reason(self) -> None:
        for passed in (True, False):
            verdict = m.JudgeVerdict(passed, "because")
            result = check("rubric", "R", "O", m.Tools(search, lambda *asked, v=verdict: v))
            self.assertEqual((result.passed, result.detail), (passed, "because"))


if __name__ == "__main__":
    unittest.main()
