"""JSON text: what two parsers could read in two ways is refused, saying what and where."""

from __future__ import annotations

import hashlib
import sys
import unittest
from decimal import Decimal
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import main


class StrictReading(unittest.TestCase):
    def refusal(self, text: str, *, decimals: bool = False) -> str:
        with self.assertRaises(main.JsonError) as caught:
            main.parse_json(text, decimals=decimals)
        return str(caught.exception)

    def test_every_kind_of_value_is_read(self) -> None:
        text = ' {"a": [1, 2.5, -0.0, 1e2, true, false, null, "\\u00e9"]}\n'
        expected = {"a": [1, 2.5, -0.0, 100.0, True, False, None, "é"]}
        self.assertEqual(main.parse_json(text), expected)

    def test_a_syntax_error_names_line_and_column(self) -> None:
        self.assertIn("line 2 column 7", self.refusal('{"a": 1,\n "b": x}'))

    def test_empty_text_is_no_json(self) -> None:
        for text in ("", "  \n\t"):
            self.assertIn("empty", self.refusal(text))

    def test_a_duplicate_key_is_named_at_any_depth(self) -> None:
        # RFC 8259 section 4: the behaviour of receivers is unpredictable
        self.assertIn("'amount'", self.refusal('[{"x": {"amount": 9999, "amount": 5}}]'))
        self.assertIn("'a'", self.refusal('{"a": 1, "\\u0061": 2}'))

    def test_python_s_extra_constants_are_not_json(self) -> None:
        for word in ("NaN", "Infinity", "-Infinity"):
            for decimals in (False, True):
                self.assertIn(word, self.refusal(f"[{word}]", decimals=decimals))

    def test_a_float_beyond_the_range_is_refused_and_not_made_infinite(self) -> None:
        for text in ("1e400", "-1e400", "[1.5e999]"):
            self.assertIn("too large", self.refusal(text))
        self.assertEqual(main.parse_json("1e400", decimals=True), Decimal("1e400"))

    def test_an_exponent_beyond_decimal_s_range_is_refused(self) -> None:
        self.assertIn("out of range", self.refusal("1e99999999999999999999999", decimals=True))

    def test_decimals_keep_what_was_written_and_integers_stay_exact(self) -> None:
        value = main.parse_json("[2.675, 9007199254740993, 1e999999999]", decimals=True)
        self.assertEqual(value, [Decimal("2.675"), 9007199254740993, Decimal("1e999999999")])
        self.assertIs(type(value[1]), int)

    def test_numbers_have_the_same_length_limit_on_every_python(self) -> None:
        self.assertEqual(main.parse_json("-" + "9" * 4300), -(10**4300) + 1)
        for decimals in (False, True):
            for text in ("9" * 4301, "0." + "1" * 5000, "1" * 1_000_000):
                self.assertIn("too long", self.refusal(text, decimals=decimals))

    def test_deep_nesting_is_refused_whatever_the_stack_holds(self) -> None:
        for opening in ("[", '{"a":'):
            self.assertIn("nested too deeply", self.refusal(opening * 100_000))
        self.assertTrue(main.parse_json("[" * 200 + "]" * 200))
        text = '["' + "[" * 5000 + '\\"' + "{" * 5000 + '"]'
        self.assertEqual(len(main.parse_json(text)[0]), 10_001)
        self.assertEqual(main.parse_json("[" + "[]," * 5000 + "[]]"), [[]] * 5001)

    def test_brackets_inside_strings_are_no_nesting(self) -> None:
        text = '["' + "[" * 5000 + '\\"' + "{" * 5000 + '"]'
        self.assertEqual(len(main.parse_json(text)[0]), 10001)
        self.assertEqual(main.parse_json("[" + "[]," * 5000 + "[]]"), [[]] * 5001)

    def test_hostile_quotes_cost_linear_time(self) -> None:
        self.refusal('"' + '\\"' * 200_000 + "[" * 600)

    def test_a_raw_newline_in_a_string_is_refused_unless_it_is_asked_for(self) -> None:
        text = '{"a": "one\ntwo"}'
        self.assertIn("line 1", self.refusal(text))
        self.assertEqual(main.parse_json(text, lenient_strings=True), {"a": "one\ntwo"})

    def test_lone_surrogates_are_kept_for_the_writers_to_escape(self) -> None:
        self.assertEqual(main.parse_json('"ok \\ud83d"'), "ok \ud83d")

    def test_trailing_text_is_refused(self) -> None:
        self.refusal("1 2")
        self.refusal('{"a": 1}\n```')


class CanonicalText(unittest.TestCase):
    def test_equal_values_have_one_text(self) -> None:
        self.assertEqual(main.canonical_json({"b": 1, "a": ["é"]}), '{"a":["\\u00e9"],"b":1}')

    def test_lone_surrogates_can_be_digested(self) -> None:
        self.assertEqual(main.canonical_json("\ud83d"), '"\\ud83d"')
        self.assertEqual(len(main.sha256_of("\ud83d")), 64)

    def test_nan_never_reaches_a_digest(self) -> None:
        with self.assertRaises(ValueError):
            main.canonical_json(float("nan"))

    def test_the_digest_is_that_of_the_canonical_text(self) -> None:
        # printf '{"a":1}' | sha256sum
        expected = hashlib.sha256(b'{"a":1}').hexdigest()
        self.assertEqual(main.sha256_of({"a": 1}), expected)


if __name__ == "__main__":
    unittest.main()
