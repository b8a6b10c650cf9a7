"""Contamination against brute force at length: every code point, thousands of corpora."""

from __future__ import annotations

import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import test_contamination as unit


class ExhaustiveTest(unittest.TestCase):
    def test_every_code_point_in_context(self) -> None:
        for point in range(1, 0x110000):
            char = chr(point)
            text = f"a{char}b {char} Z{char}{char}\u0301 \u4e2d{char}<\u0338"
            if unit.main.words(text) != unit.slow_words(text):
                self.fail(f"U+{point:04X}: {unit.main.words(text)}, not {unit.slow_words(text)}")

    def test_thousands_of_random_corpora(self) -> None:
        unit.ExactnessTest.check(self, range(20_000, 26_000))

    def test_a_hundred_random_corpora_with_two_processes(self) -> None:
        unit.ExactnessTest.check(self, range(30_000, 30_100), processes=2, blocks=False)


if __name__ == "__main__":
    unittest.main()
