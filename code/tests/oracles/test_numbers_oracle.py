"""The numeric reader against its JavaScript export, run by Node.js."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import sys
import unittest
from decimal import Decimal
from pathlib import Path
from typing import Optional

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import main

NODE = shutil.which("node")

Setting = tuple[str, Optional[str], Optional[str], str, bool]
Verdict = tuple[bool, bool]  # passed, and whether a number was read

WRITTEN = [
    "The total is 72 clips, altogether.",
    "72,",
    "It is 72.",
    "1,536",
    "$80,000 then $130,000",
    "\\boxed{$9{,}500}",
    "1,234,567.5",
    "1\u00a0234\u00a0567",
    "1.536,00",
    "1.536",
    "1,5",
    "50%",
    "€ 9.99",
    "3.5k",
    "2M",
    "1/2",
    "10²",
    "IPv4 has 32 bits",
    "2nd place",
    "Python 3.11.7",
    "v1.2",
    "2026-11-30",
    "10:30",
    "H2O",
    "room B12, floor 3",
    "12345 Main St",
    "nan",
    "inf",
    "",
    "5-10",
    "-5",
    "\u22125",
    "--5",
    "-$5",
    "$5-$10",
    ".5",
    "-.5",
    "...5",
    "1 536",
    "5 100k",
    "–5",
    "5–10",
    "6.02 × 10^23",
    "6.02\\times 10^{23}",
    "2**10",
    "**42**",
    "_42_",
    "1 / 2",
    "\\frac{1}{2}",
    "1e3",
    "1.5E-3",
    "1e\u22125",
    "1e999999999",
    "9" * 2000,
    "3.5 million",
    "1'536",
    "5️⃣",
    "5½",
    "٤٢",
    "答案是42",
    "32-bit",
    "𝐱5",
    "5𝐱",
    "\U0001f4a95",
    "2.68",
    "2.669",
    "2.6799999",
    "é5",
    "5é",
]
PIECES = [
    "1",
    "2",
    "53",
    "536",
    "000",
    "0",
    "2.675",
    "1,536",
    ".",
    ",",
    "-",
    "\u2212",
    "+",
    " ",
    " ",
    "\u00a0",
    "\u202f",
    "$",
    "€",
    "%",
    ":",
    "/",
    "e",
    "E",
    "k",
    "_",
    "^",
    "*",
    "x",
    "é",
    "答",
    "²",
    "–",
    "'",
    "{,}",
    "{",
    "}",
    "(",
    ")",
    "\\",
    "\n",
    "\u200b",
    "½",
    "٤",
    "𝐱",
    "million",
    "×10^3",
]
SETTINGS: list[Setting] = [
    ("2.675", "0.005", None, "first", False),
    ("536", None, "0.01", "last", False),
    ("1536", None, None, "only", False),
    ("2", "1", None, "first", True),
]


def corpus() -> list[str]:
    rng = random.Random(20)
    made = ["".join(rng.choices(PIECES, k=rng.randint(1, 9))) for _ in range(3000)]
    return WRITTEN + made


def python_verdict(text: str, setting: Setting) -> Verdict:
    value, tolerance, relative, pick, negated = setting
    number, _ = main.read_number(text, pick)
    if number is None:
        return False, False
    near = main.within(
        number,
        Decimal(value),
        None if tolerance is None else Decimal(tolerance),
        None if relative is None else Decimal(relative),
    )
    return near is not negated, True


def javascript_verdicts(texts: list[str], setting: Setting) -> list[Verdict]:
    value, tolerance, relative, pick, negated = setting
    body = main.render_numeric_javascript(
        Decimal(value),
        None if tolerance is None else Decimal(tolerance),
        None if relative is None else Decimal(relative),
        pick,
        negated=negated,
    )
    script = (
        "const {body, texts} = JSON.parse(require('fs').readFileSync(0, 'utf8'));"
        "const f = new Function('output', body);"
        "console.log(JSON.stringify(texts.map((t) => f(t))));"
    )
    done = subprocess.run(
        [str(NODE), "-e", script],
        input=json.dumps({"body": body, "texts": texts}),
        capture_output=True,
        encoding="utf-8",
        timeout=60,
        check=True,
    )
    return [(row["pass"], row["reason"].startswith("read ")) for row in json.loads(done.stdout)]


@unittest.skipIf(NODE is None, "node is not installed")
class JavaScriptReadsTheSameNumbers(unittest.TestCase):
    def test_both_readers_give_the_same_verdict_on_every_text(self) -> None:
        texts = corpus()
        for setting in SETTINGS:
            expected = [python_verdict(text, setting) for text in texts]
            self.assertGreater(sum(verdict[0] for verdict in expected), 20)
            for text, mine, other in zip(texts, expected, javascript_verdicts(texts, setting)):
                with self.subTest(text=text[:60], setting=setting):
                    self.assertEqual(mine, other)

    def test_a_hostile_answer_does_not_hang_the_export(self) -> None:
        texts = [piece * 20000 for piece in ("1", "1,", "1.", "1 ", "1-", "1e", "123 ", "{,}1")]
        self.assertEqual(len(javascript_verdicts(texts, SETTINGS[0])), len(texts))


if __name__ == "__main__":
    unittest.main()
