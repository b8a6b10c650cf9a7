"""Runs in a line, for the tests of the gate and of what reports on it."""

from __future__ import annotations

import sys
import unittest
from collections.abc import Iterable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import main as m

TODAY = "2026-06-15"
KEYWORD = {"model": "keyword", "prompt_sha256": None}
JUDGE = {"model": "judge-v1", "prompt_sha256": "aa"}
OF_CASE = m.CaseResult._fields
Sides = tuple[m.Run, m.Run]


def sample(seed: int, mark: str, **changes: Any) -> m.Sample:
    """A sample that passed (1), failed (0) or has no answer (e)."""
    if mark == "e":
        return m.Sample(seed, error=("connection", "refused"))
    known: dict[str, Any] = {"output": "x", "latency_ms": 100.0, "cost_usd": 0.001}
    results = (m.AssertionResult("equals", mark == "1", "read 'x'"),)
    return m.Sample(seed, **{**known, "assertions": results, **changes})


def case(name: str, marks: str, **changes: Any) -> m.CaseResult:
    """A case with a sample for each mark; other words are of the case, or else of its samples."""
    of_case = {key: value for key, value in changes.items() if key in OF_CASE}
    of_sample = {key: value for key, value in changes.items() if key not in OF_CASE}
    samples = tuple(sample(seed, mark, **of_sample) for seed, mark in enumerate(marks))
    return m.CaseResult(**{"id": name, "sha256": "sha", "samples": samples, **of_case})


def run(cases: Iterable[m.CaseResult], **changes: Any) -> m.Run:
    names = ("suite_name", "suite_path", "suite_sha256", "prompt_sha256", "model", "endpoint")
    known = dict(zip(names, ("ops", "suites/ops.json", "s", "p", "model", "http://e")))
    return m.Run(**{**known, "cases": tuple(cases), "started": "2026-06-15T08:00:00Z", **changes})


def flips(lost: int, won: int, n: int, **changes: Any) -> Sides:
    """Two runs of n cases at one sample: the first `lost` regressed, the next `won` improved."""
    before = "1" * lost + "0" * won + "1" * (n - lost - won)
    after = "0" * lost + "1" * (n - lost)
    return (
        run(case(f"c{i}", mark, **changes) for i, mark in enumerate(before)),
        run(case(f"c{i}", mark, **changes) for i, mark in enumerate(after)),
    )


def beside(before: m.CaseResult, after: m.CaseResult) -> Sides:
    """Two runs of the case in question beside one that did not change."""
    return run((before, case("steady", "1"))), run((after, case("steady", "1")))


def gate(sides: Sides, *allowed: str, **policy: Any) -> m.GateReport:
    options: dict[str, Any] = dict.fromkeys(allowed, True)
    return m.gate(*sides, m.Policy(**policy), m.GateOptions(**options, today=TODAY))


def kinds(report: m.GateReport) -> set[str]:
    return {reason.kind for reason in report.reasons}


class GateTest(unittest.TestCase):
    def assert_rejected(self, report: m.GateReport, kind: str, *words: str) -> None:
        text = "; ".join(f"{reason.kind}: {reason.text}" for reason in report.reasons)
        self.assertEqual(report.decision, m.REJECT, (text, report.notes))
        self.assertIn(kind, kinds(report), text)
        for word in words:
            self.assertIn(word, text)

    def assert_noted(self, report: m.GateReport, *words: str) -> None:
        for word in words:
            self.assertIn(word, "\n".join(report.notes))
