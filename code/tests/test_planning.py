"""Planning: how often a policy rejects an unchanged model, against what can be worked out by hand."""

from __future__ import annotations

import math
import random
import sys
import unittest
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import main as m
from builders import case, run

TRIALS = 4000


class FalseAlarms(unittest.TestCase):
    def assert_share(self, kind: str, share: float, cases: list[m.CaseResult], n: int, **policy: Any) -> None:
        runs = [run(cases, samples=len(cases[-1].samples))]
        found = m.false_alarms(runs, m.Policy(**policy), n, TRIALS, random.Random(1))
        self.assertEqual(set(found.causes), {kind} if share else set())
        error = math.sqrt(share * (1 - share) / TRIALS)
        self.assertLessEqual(abs(found.causes[kind] / TRIALS - share), 4 * error)
        self.assertEqual(found.rejected, found.causes[kind])

    def test_a_critical_case_rejects_when_it_passes_first_and_not_again(self) -> None:
        for n, share in ((1, 1 / 4), (3, 1 / 8 * 7 / 8)):
            coin = case("coin", "10", critical=True)
            self.assert_share("critical", share, [coin, case("steady", "11")], n)

    def test_a_case_keeps_its_own_samples_and_bar(self) -> None:
        coin = case("coin", "1000", critical=True)
        self.assert_share("critical", 1 / 4**4 * (1 - 1 / 4**4), [coin, case("steady", "1")], 1)
        coin = case("coin", "10", critical=True, min_pass=1)
        self.assert_share("critical", 3 / 4 * 1 / 4, [coin, case("steady", "11")], 5)
        coin = case("coin", "110", critical=True, min_pass=2)
        self.assert_share("critical", 20 / 27 * 7 / 27, [coin, case("steady", "111")], 1)

    def test_a_case_that_never_failed_never_fails(self) -> None:
        self.assert_share("critical", 0.0, [case(f"c{i}", "11", critical=True) for i in range(9)], 5)

    def test_latencies_and_costs_are_drawn_as_they_were_seen(self) -> None:
        cases = [case("slow", "1", latency_ms=900.0, cost_usd=0.002), *(case(f"c{i}", "1") for i in range(9))]
        self.assert_share("latency", 1 - 0.9**10, cases, 1, max_p95_latency_ms=500.0)
        self.assert_share("cost", 1 - 0.9**10, cases, 1, max_cost_per_call_usd=0.001)
        self.assert_share("cost", 1 - 0.9**30, cases, 3, max_cost_per_call_usd=0.001)
        self.assert_share("cost", 1.0, [case("free", "1", cost_usd=None)], 1, max_cost_per_call_usd=0.001)
        cases = [case("mute", "1", latency_ms=None), case("told", "1")]
        self.assert_share("latency", 3 / 4, cases, 1, max_p95_latency_ms=500.0)

    def test_what_has_no_answer_is_left_out(self) -> None:
        cases, policy = (
            [case("gone", "1e", critical=True), case("steady", "11")],
            m.Policy(max_cost_ratio=1.5),
        )
        self.assertEqual(m.false_alarms([run(cases, samples=2)], policy, 2, 50, random.Random(1)).rejected, 0)
        with self.assertRaisesRegex(m.UsageError, "no answered case"):
            m.false_alarms([run(cases[:1])], policy, 2, 50, random.Random(1))

    def test_a_quarantine_that_is_over_is_in_force_all_the_same(self) -> None:
        policy = m.Policy(quarantine=(m.Quarantine("coin", "ann", "T-1", until="2020-01-01"),))
        runs = [run([case("coin", "10"), case("steady", "11")], samples=2)]
        self.assertEqual(m.false_alarms(runs, policy, 2, 50, random.Random(1)).rejected, 0)

    def test_the_cases_that_never_failed_are_counted_with_the_fewest_samples_of_one(self) -> None:
        for cases, counted in (
            ([case("a", "111"), case("b", "11"), case("c", "10")], (2, 2)),
            ([case("c", "10")], (0, 0)),
        ):
            found = m.false_alarms([run(cases, samples=2)], m.Policy(), 2, 1, random.Random(1))
            self.assertEqual((found.never_failed, found.fewest), counted)


if __name__ == "__main__":
    unittest.main()
