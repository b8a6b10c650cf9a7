"""Scoring: what a reply, a sample, a case and a run count for, and what never counts."""

from __future__ import annotations

import sys
import unittest
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import main as m

TOOLS = m.Tools(lambda pattern, text: None)
TIMEOUT = ("timeout", "no answer in 60 s")


def sample(seed: int, mark: str, **changes: Any) -> m.Sample:
    """A sample that passed (1), failed (0) or has no answer (e)."""
    known: dict[str, Any] = {"latency_ms": 100.0, "cost_usd": 0.001, "output": "x"}
    if mark == "e":
        known = {"error": TIMEOUT, "latency_ms": 60_000.0}
    results = () if mark == "e" else (m.AssertionResult("equals", mark == "1", "read 'x'"),)
    return m.Sample(seed, **{**known, "assertions": results, **changes})


def case(name: str, marks: str, **changes: Any) -> m.CaseResult:
    samples = tuple(sample(seed, mark) for seed, mark in enumerate(marks))
    return m.CaseResult(name, "sha", samples, **changes)


def figures(*cases: m.CaseResult) -> m.Summary:
    return m.summarise(m.Run("suite", "suite.json", "s", "p", "model", "http://e", cases))


def graded(reply: m.Reply, *sources: dict[str, Any]) -> list[bool]:
    assertions = tuple(m.parse_assertion(source) for source in sources)
    return [r.passed for r in m.grade(m.Case("c", "?", assertions, "sha"), reply, TOOLS)]


class Grading(unittest.TestCase):
    CONTAINS = ({"type": "contains", "value": "Paris"}, {"type": "not-contains", "value": "Lyon"})

    def test_every_assertion_is_graded_even_after_one_failed(self) -> None:
        self.assertEqual(graded(m.Reply("Paris"), *self.CONTAINS), [True, True])
        self.assertEqual(graded(m.Reply("Lyon"), *self.CONTAINS), [False, False])

    def test_a_filtered_answer_fails_whatever_partial_text_came(self) -> None:
        reply = m.Reply("Paris", "content_filter", filtered=True)
        self.assertEqual(graded(reply, *self.CONTAINS), [False, False])

    def test_an_answer_without_text_satisfies_no_negative_form(self) -> None:
        for why in ("empty", "tool_calls", "length", "reasoning", "thinking"):
            with self.subTest(why):
                reply = m.Reply("", no_text=why)
                self.assertEqual(graded(reply, *self.CONTAINS), [False, False])
        self.assertEqual(graded(m.Reply(" \n"), *self.CONTAINS), [False, False])

    def test_a_truncated_answer_is_graded_as_it_came(self) -> None:
        self.assertEqual(graded(m.Reply("Paris", "length"), *self.CONTAINS), [True, True])

    def test_what_a_reader_must_know_is_flagged(self) -> None:
        for reply, flags in (
            (m.Reply("x", "stop"), ()),
            (m.Reply("x", None), ()),
            (m.Reply("x", "length"), ("truncated",)),
            (m.Reply("x", "content_filter", filtered=True), ("filtered",)),
            (m.Reply("<think>", thinking=True), ("thinking",)),
            (m.Reply("", "length", no_text="length"), ("truncated", "no_text")),
        ):
            with self.subTest(reply):
                self.assertEqual(m.reply_flags(reply), flags)

    def test_a_judge_that_cannot_be_reached_is_no_verdict(self) -> None:
        def unreachable(rubric: str, output: str) -> m.JudgeVerdict:
            raise m.ProviderError("connection", "refused")

        rubric = m.parse_assertion({"type": "rubric", "value": "says 'Paris'"})
        asked = m.Case("c", "?", (rubric,), "sha")
        with self.assertRaises(m.ProviderError):
            m.grade(asked, m.Reply("Paris"), TOOLS._replace(judge=unreachable))


class SampleAndCaseVerdicts(unittest.TestCase):
    def test_a_sample_passes_only_on_an_answer_that_meets_every_assertion(self) -> None:
        good, bad = (m.AssertionResult("equals", passed, "") for passed in (True, False))
        for results, error, verdict in (
            ((good,), None, "pass"),
            ((good, bad), None, "fail"),
            ((), None, "fail"),  # nothing was asserted, so nothing was shown
            ((good,), TIMEOUT, "error"),  # an outage is never a pass, and never a bad answer
            ((), TIMEOUT, "error"),
        ):
            with self.subTest(results=results, error=error):
                self.assertEqual(m.Sample(0, assertions=results, error=error).verdict, verdict)

    def test_a_case_passes_when_every_sample_does_or_min_pass_of_them(self) -> None:
        for marks, min_pass, verdict in (
            ("1", None, "pass"),
            ("0", None, "fail"),
            ("11111", None, "pass"),
            ("11101", None, "fail"),
            ("11101", 4, "pass"),
            ("11001", 4, "fail"),
            ("1e111", 4, "error"),  # min_pass forgives bad answers, never absent ones
            ("", None, "error"),  # no sample is no evidence
            ("", 1, "error"),
        ):
            with self.subTest(marks=marks, min_pass=min_pass):
                self.assertEqual(case("c", marks, min_pass=min_pass).verdict, verdict)

    def test_a_skip_is_never_a_pass(self) -> None:
        self.assertEqual(case("c", "1", skip="later").verdict, "skipped")


class Summaries(unittest.TestCase):
    def test_skipped_and_golden_cases_are_outside_every_figure(self) -> None:
        found = figures(
            case("a", "1"), case("b", "0"), case("s", "", skip="later"), case("g", "e", golden=True)
        )
        self.assertEqual((found.cases, found.passed, found.errors, found.skipped), (2, 1, 0, 1))
        self.assertEqual((found.samples, found.sample_errors, found.answered), (2, 0, 2))
        self.assertEqual(found.interval, m.wilson_interval(1, 2))

    def test_samples_are_averaged_within_their_case_and_never_pooled(self) -> None:
        # pooled, 20 of 21 samples passed
        found = figures(case("a", "1" * 20), case("b", "0"))
        self.assertEqual(found.pass_at_1, Fraction(1, 2))
        self.assertEqual(found.interval, m.wilson_interval(1, 2))

    def test_a_strict_count_needs_every_sample(self) -> None:
        found = figures(case("a", "11"), case("b", "10"), case("c", "10", min_pass=1))
        self.assertEqual((found.passed, found.cases), (2, 3))

    def test_an_error_stays_in_the_denominator_and_lifts_no_rate(self) -> None:
        # D11: 80 of 90 answered is not an improvement over 80 of 100
        cases = [case(f"c{i}", "1" if i < 80 else "0e"[i >= 90]) for i in range(100)]
        found = figures(*cases)
        self.assertEqual((found.cases, found.passed, found.errors), (100, 80, 10))
        self.assertEqual((found.answered, found.sample_errors), (90, 10))
        self.assertEqual(found.pass_at_1, Fraction(4, 5))

    def test_nothing_asked_has_no_rate_no_interval_and_no_figure(self) -> None:
        for cases in ((), (case("s", "", skip="later"),)):
            found = figures(*cases)
            self.assertIsNone(found.pass_at_1)
            self.assertIsNone(found.interval)
            self.assertIsNone(found.p95_latency_ms)
            self.assertIsNone(found.cost_per_call_usd)

    def test_latencies_are_of_answered_samples(self) -> None:
        # a refused connection fails in a millisecond, a timeout in a minute: neither is a speed
        found = figures(case("a", "1e"), case("b", "1"))
        self.assertEqual(found.latencies_ms, (100.0, 100.0))
        self.assertEqual(found.p95_latency_ms, 100.0)

    def test_p95_is_the_nearest_rank(self) -> None:
        cases = [m.CaseResult(f"c{i}", "s", (sample(0, "1", latency_ms=float(i)),)) for i in range(1, 21)]
        self.assertEqual(figures(*cases).p95_latency_ms, 19.0)
        self.assertEqual(figures(*cases[:19]).p95_latency_ms, 19.0)
        self.assertEqual(figures(cases[6]).p95_latency_ms, 7.0)

    def test_one_unknown_cost_makes_the_cost_unknown(self) -> None:
        known, unknown = case("a", "11"), m.CaseResult("b", "s", (sample(0, "1", cost_usd=None),))
        self.assertEqual(figures(known).cost_per_call_usd, Decimal("0.001"))
        self.assertIsNone(figures(known, unknown).total_cost_usd)
        self.assertIsNone(figures(known, unknown).cost_per_call_usd)

    def test_costs_are_added_in_decimal_and_counted_per_answered_call(self) -> None:
        cents = [m.CaseResult(f"c{i}", "s", (sample(0, "1", cost_usd=0.1),)) for i in range(3)]
        found = figures(*cents, case("e", "e"))
        self.assertEqual(found.total_cost_usd, Decimal("0.3"))  # 0.1 + 0.1 + 0.1 > 0.3 in binary
        self.assertEqual(found.cost_per_call_usd, Decimal("0.1"))

    def test_the_judge_is_counted_apart(self) -> None:
        rubric = m.AssertionResult("rubric", False, "chatty", unreadable_judge=True)
        judged = sample(0, "1", judge_cost_usd=0.5)
        judged = judged._replace(assertions=(*judged.assertions, rubric))
        found = figures(m.CaseResult("a", "s", (judged,)), case("b", "1"))
        self.assertEqual(found.total_cost_usd, Decimal("0.002"))
        self.assertEqual(found.judge_cost_usd, Decimal("0.5"))
        self.assertEqual(found.unreadable_judge, 1)

    def test_flags_retries_and_served_names_are_counted(self) -> None:
        flagged = sample(0, "1", flags=("truncated",), attempts=2, model="b", server="vllm")
        found = figures(m.CaseResult("a", "s", (flagged, sample(1, "1", flags=("truncated",), model="a"))))
        self.assertEqual(dict(found.flags), {"truncated": 2})
        self.assertEqual(found.retried, 1)
        self.assertEqual(found.served["model"], ("a", "b"))
        self.assertEqual(found.served["server"], ("vllm",))
        self.assertEqual(found.served["fingerprint"], ())


if __name__ == "__main__":
    unittest.main()
