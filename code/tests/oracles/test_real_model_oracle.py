"""A real model end to end: llama.cpp's own server, 135 million parameters, ten questions.

What the model answers is its own affair; what minieval makes of the answers is checked against
sums done here. The server's venv is described in requirements-real-model.txt; its interpreter is
named by MINIEVAL_REAL_MODEL_PYTHON.
"""

from __future__ import annotations

import json
import math
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import threading
import unittest
from fractions import Fraction
from typing import Any

HERE = pathlib.Path(__file__).resolve().parent
CODE = HERE.parents[1]
MAIN = CODE / "main.py"
SUITE = CODE / "fixtures" / "real-model-suite.json"
PYTHON = os.environ.get("MINIEVAL_REAL_MODEL_PYTHON", "")
MODEL = "smollm2-135m-instruct"
POEM = "Write a short poem about the sea.\n\nTitle: {{input}}"


def minieval(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(MAIN), *arguments], capture_output=True, text=True, encoding="utf-8", timeout=300
    )


def verdicts(results: dict[str, Any]) -> dict[str, str]:
    return {case["id"]: case["verdict"] for case in results["cases"]}


def outputs(results: dict[str, Any]) -> dict[str, list[str]]:
    return {case["id"]: [one["output"] for one in case["samples"]] for case in results["cases"]}


def two_sided_binomial_tail(b: int, c: int) -> float:
    """McNemar's exact p, written out."""
    n = b + c
    p = Fraction(2 * sum(math.comb(n, k) for k in range(min(b, c) + 1)), 2**n)
    return float(p) if p < 1 else 1.0


@unittest.skipUnless(
    PYTHON and pathlib.Path(PYTHON).exists(),
    "MINIEVAL_REAL_MODEL_PYTHON names no interpreter: see requirements-real-model.txt",
)
class RealModel(unittest.TestCase):
    server: subprocess.Popen[str]
    base_url: str
    folder: pathlib.Path
    first: dict[str, Any]
    again: dict[str, Any]
    poem: dict[str, Any]

    @classmethod
    def setUpClass(cls) -> None:
        cls.server = subprocess.Popen(
            [PYTHON, str(HERE / "serve_real_model.py")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        cls.addClassCleanup(cls.stop_server)
        too_late = threading.Timer(120, cls.server.kill)
        too_late.start()
        assert cls.server.stdout is not None
        cls.base_url = cls.server.stdout.readline().strip()
        too_late.cancel()
        if not re.fullmatch(r"http://127\.0\.0\.1:\d+/v1", cls.base_url):
            raise AssertionError(f"the model's server printed {cls.base_url!r}, no base URL")
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        poem = {**json.loads(SUITE.read_text(encoding="utf-8")), "prompt": POEM}
        poem_suite = cls.folder / "poem-suite.json"
        poem_suite.write_text(json.dumps(poem), encoding="utf-8")
        cls.first = cls.run_suite(SUITE, "first.json")
        cls.again = cls.run_suite(SUITE, "again.json")
        cls.poem = cls.run_suite(poem_suite, "poem.json")

    @classmethod
    def stop_server(cls) -> None:
        """A closed standard input ends the server; a server that stays is killed."""
        assert cls.server.stdin is not None and cls.server.stdout is not None
        cls.server.stdin.close()
        try:
            cls.server.wait(timeout=10)
        except subprocess.TimeoutExpired:
            cls.server.kill()
            cls.server.wait()
        cls.server.stdout.close()

    @classmethod
    def run_suite(cls, suite: pathlib.Path, name: str) -> dict[str, Any]:
        out = cls.folder / name
        asked = ["run", "--suite", str(suite), "--base-url", cls.base_url, "--model", MODEL]
        ran = minieval(*asked, "-j", "1", "--out", str(out))
        if ran.returncode != 0:
            raise AssertionError(f"run ended with {ran.returncode}: {ran.stderr}")
        results: dict[str, Any] = json.loads(out.read_text(encoding="utf-8"))
        return results

    def gate(self, baseline: str, candidate: str, *more: str) -> tuple[int, dict[str, Any]]:
        files = ["--baseline", str(self.folder / baseline)]
        files += ["--candidate", str(self.folder / candidate)]
        ran = minieval("gate", *files, *more, "--json")
        self.assertIn(ran.returncode, (0, 1, 3), ran.stderr)
        decided: dict[str, Any] = json.loads(ran.stdout)
        return ran.returncode, decided

    def test_ten_cases_are_answered_without_a_provider_error(self) -> None:
        for results in (self.first, self.again, self.poem):
            self.assertEqual(len(results["cases"]), 10)
            self.assertLessEqual(set(verdicts(results).values()), {"pass", "fail"})
            self.assertTrue(all(text for texts in outputs(results).values() for text in texts))

    def test_the_model_knows_some_of_it_so_that_a_gate_has_something_to_lose(self) -> None:
        self.assertGreaterEqual(list(verdicts(self.first).values()).count("pass"), 6)

    def test_at_temperature_zero_the_second_run_repeats_the_first(self) -> None:
        self.assertEqual(outputs(self.again), outputs(self.first))
        self.assertEqual(verdicts(self.again), verdicts(self.first))

    def test_the_gate_accepts_the_same_prompt(self) -> None:
        code, decided = self.gate("first.json", "again.json")
        self.assertEqual((code, decided["decision"], decided["p"]), (0, "ACCEPT", 1))

    def test_ten_cases_cannot_show_that_no_more_than_one_percent_was_lost(self) -> None:
        code, decided = self.gate("first.json", "again.json", "--margin", "0.01")
        self.assertEqual((code, decided["decision"]), (3, "INCONCLUSIVE"))

    def test_the_gate_decides_between_two_prompts_by_mcnemar(self) -> None:
        before, after = verdicts(self.first), verdicts(self.poem)
        lost = [name for name in before if (before[name], after[name]) == ("pass", "fail")]
        won = [name for name in before if (before[name], after[name]) == ("fail", "pass")]
        p = two_sided_binomial_tail(len(lost), len(won))
        regressed = p < 0.05 and len(lost) > len(won)
        code, decided = self.gate("first.json", "poem.json")
        self.assertEqual(code, 1 if regressed else 0)
        self.assertEqual([case["id"] for case in decided["regressed"]], lost)
        self.assertEqual([case["id"] for case in decided["improved"]], won)
        self.assertAlmostEqual(decided["p"], p, delta=1e-12)


if __name__ == "__main__":
    unittest.main()
