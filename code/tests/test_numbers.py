"""Numbers in text: the numbers a person would read, and a reason where two could be read."""

from __future__ import annotations

import sys
import unittest
from decimal import Decimal
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import main


def values(text: str) -> list[Decimal | None]:
    """Every number of a text, None for an ambiguous one."""
    return [number.value for number in main.find_numbers(text)]


class Reading(unittest.TestCase):
    def assert_reads(self, table: dict[str, list[str]]) -> None:
        for text, expected in table.items():
            with self.subTest(text=text):
                self.assertEqual(values(text), [Decimal(number) for number in expected])

    def assert_ambiguous(self, *texts: str) -> None:
        for text in texts:
            with self.subTest(text=text):
                value, reason = main.read_number(text, "last")
                self.assertIsNone(value)
                self.assertIn("ambiguous", reason)

    def test_punctuation_after_a_number_belongs_to_the_sentence(self) -> None:
        # helm#4337: a comma after the last number swallowed it
        self.assert_reads(
            {
                "There are 72 clips, altogether.": ["72"],
                "72, in total": ["72"],
                "It is 72.": ["72"],
                "72,": ["72"],
                "(72)": ["72"],
                "72:": ["72"],
                "**72**!": ["72"],
                "Is it 72…": ["72"],
            }
        )

    def test_well_formed_thousands_are_one_number(self) -> None:
        # opencompass#2647
        self.assert_reads(
            {
                "1,536": ["1536"],
                "$80,000 then $130,000": ["80000", "130000"],
                "\\boxed{$9{,}500}": ["9500"],
                "$11,\\!111$": ["11111"],
                "1,234,567.5": ["1234567.5"],
                "1\u00a0234\u00a0567": ["1234567"],
                "1\u202f234": ["1234"],
            }
        )

    def test_what_a_locale_could_read_in_two_ways_is_ambiguous(self) -> None:
        self.assert_ambiguous("1,5", "1.536,00", "1,23,456", "1,2,3", "0,536", "1,536,00")
        self.assert_ambiguous("1'536", "1 536", "12 345 678", "1\u00a0234,5", "1,5-2,5", "–5")
        self.assert_reads({"1.536": ["1.536"], "1, 2, 3": ["1", "2", "3"]})

    def test_signs_need_to_stand_at_the_number(self) -> None:
        self.assert_reads(
            {
                "-5": ["-5"],
                "+5": ["5"],
                "\u22125": ["-5"],
                "-$5": ["-5"],
                "€-5": ["-5"],
                "(-5)": ["-5"],
                "x=-5": ["-5"],
                "- 5 apples": ["5"],
                "-.5": ["-0.5"],
            }
        )

    def test_currency_and_percent_may_stand_beside(self) -> None:
        table = {"50%": ["50"], "$1,000": ["1000"], "€ 9.99": ["9.99"], "9.99€": ["9.99"]}
        self.assert_reads({**table, "100 %": ["100"], "\\$5": ["5"], "5/month": ["5"]})

    def test_exponents_are_read(self) -> None:
        self.assert_reads({"1e3": ["1000"], "1.5E-3": ["0.0015"], "2e\u22123": ["0.002"]})

    def test_digits_glued_to_a_letter_are_no_number(self) -> None:
        self.assert_reads(
            {
                "IPv4 has 32 bits": ["32"],
                "room B12, floor 3": ["3"],
                "2nd place": [],
                "H2O": [],
                "3.5k": [],
                "2M": [],
                "GPT-4": [],
                "0x1F": [],
                "user_42": [],
                "12345 Main St": ["12345"],
                "port:6443": ["6443"],
                "a 32-bit word": ["32"],
                "𝐱5": [],
            }
        )

    def test_a_magnitude_is_never_dropped(self) -> None:
        texts = ("3.5 million", "6.02 × 10^23", "6.02\\times 10^{23}", "10²", "2^10", "10**-3")
        self.assert_reads({text: [] for text in texts})

    def test_parts_of_dates_times_versions_and_fractions_are_no_numbers(self) -> None:
        texts = ["2026-11-30", "2026-11-30T10:30:00Z", "10:30", "30/11/2026", "Python 3.11.7"]
        texts += [
            "x_{1}",
            "2+2",
            "km/5",
            "v1.2",
            "10.0.0.1",
            "1/2",
            "1 / 2",
            "\\frac{1}{2}",
            "½",
            "5½",
            "fe80::1",
        ]
        self.assert_reads({text: [] for text in texts})

    def test_a_range_is_two_numbers_and_its_hyphen_no_sign(self) -> None:
        two = ["5", "10"]
        self.assert_reads({"5-10": two, "5–10": two, "$5-$10": two, "5%-10%": two})

    def test_only_ascii_digits_are_digits(self) -> None:
        self.assert_reads({"٤٢": [], "４２": [], "①": [], "1\u200b5": []})

    def test_words_for_no_number_are_no_numbers(self) -> None:
        # a comparison with NaN is False, so `fail if off by more` would pass it
        self.assert_reads({"nan": [], "NaN": [], "The result is inf": [], "-Infinity": []})


class Picking(unittest.TestCase):
    def test_first_last_and_only(self) -> None:
        self.assertEqual(main.read_number("from 3 to 5", "first")[0], 3)
        self.assertEqual(main.read_number("from 3 to 5", "last")[0], 5)
        self.assertEqual(main.read_number("it is 5", "only")[0], 5)

    def test_only_fails_with_the_numbers_it_saw(self) -> None:
        value, reason = main.read_number("from 3 to 5", "only")
        self.assertIsNone(value)
        self.assertIn("2 numbers", reason)
        self.assertIn("3, 5", reason)

    def test_an_ambiguous_number_fails_only_where_it_is_picked(self) -> None:
        self.assertIsNone(main.read_number("1,5 then 7", "first")[0])
        self.assertEqual(main.read_number("1,5 then 7", "last")[0], 7)

    def test_no_number_says_what_was_passed_over(self) -> None:
        self.assertEqual(main.read_number("none"), (None, "no plain number"))
        self.assertIn("'3.5k'", main.read_number("3.5k")[1])


class Comparing(unittest.TestCase):
    def test_the_tolerance_is_inclusive_in_decimal(self) -> None:
        # in binary 2.68 - 2.675 = 0.005000000000000338
        near = [main.within(Decimal(n), Decimal("2.675"), Decimal("0.005")) for n in ("2.68", "2.67")]
        self.assertEqual(near, [True, True])
        self.assertFalse(main.within(Decimal("2.6801"), Decimal("2.675"), Decimal("0.005")))

    def test_without_a_tolerance_only_the_target_will_do(self) -> None:
        self.assertTrue(main.within(Decimal("1536.0"), Decimal(1536)))
        self.assertFalse(main.within(Decimal("1536." + "0" * 60 + "1"), Decimal(1536)))

    def test_a_relative_tolerance_is_a_share_of_the_target(self) -> None:
        for number, expected in (("-101", True), ("-99", True), ("-101.01", False)):
            near = main.within(Decimal(number), Decimal(-100), None, Decimal("0.01"))
            self.assertEqual(near, expected)


class HostileText(unittest.TestCase):
    def test_numerals_too_large_to_compare_are_no_plain_numbers(self) -> None:
        for numeral in ("1e999999999", "9" * 100_000, "1e" + "9" * 100_000):
            self.assertIn("no plain number", main.read_number(numeral)[1])
        self.assertEqual(main.read_number("9" * 1000)[0], 10**1000 - 1)

    def test_long_runs_are_read_in_linear_time(self) -> None:
        # a quadratic reader needs minutes for these
        for piece in ("1,", "1.", "1-", "1e", ".,", "1:", "{,}1", "-", "1 / ", "123 ", "1**"):
            main.read_number(piece * (100_000 // len(piece)), "last")


class Export(unittest.TestCase):
    def test_the_javascript_holds_nothing_that_promptfoo_s_templates_would_touch(self) -> None:
        made = main.render_numeric_javascript(Decimal(1536), Decimal("0.5"), None, "last")
        for mark in ("{{", "{%", "{#", "SETTINGS", "PATTERNS"):
            self.assertNotIn(mark, made)
        self.assertTrue(made.isascii())


if __name__ == "__main__":
    unittest.main()
