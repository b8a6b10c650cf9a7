"""Contamination against brute force at length: every code point, thousands of corpora."""

from __future__ import annotations

import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from test_contamination import assert_exact, assert_word_rule


class ExhaustiveTest(unittest.TestCase):
    def test_every_code_point_in_context(self) -> None:
        assert_word_rule(self, range(1, 0x110000))

    def test_thousands_of_random_corpora(self) -> None:
        assert_exact(self, range(20_000, 26_000))

    def test_a_hundred_random_corpora_with_two_processes(self) -> None:
        assert_exact(self, range(30_000, 30_100), processes=2)


if __name__ == "__main__":
    unittest.main()
