"""The gate's rules: critical cases, what is missing, budgets, judges, quarantine."""

from __future__ import annotations

import sys
import unittest
from pathlib import Path
from typing import Any, Callable

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import main as m
from builders import JUDGE, KEYWORD, TODAY, GateTest, beside, case, flips, gate, kinds, run


class Critical(GateTest):
    def test_any_pass_to_fail_of_a_critical_case_rejects_whichever_run_calls_it_critical(self) -> None:
        for before, after in ((True, True), (True, False), (False, True)):
            with self.subTest(before=before, after=after):
                sides = beside(case("k", "1", critical=before), case("k", "0", critical=after))
                self.assert_rejected(gate(sides), "critical", "k went from pass to fail")
        self.assertEqual(gate(beside(case("k", "1"), case("k", "0"))).decision, "ACCEPT")

    def test_its_strict_verdict_decides_and_its_min_pass(self) -> None:
        for before, after, min_pass, lost in (
            ("11111", "11110", None, True),
            ("11110", "00000", None, False),  # it failed before: listed, not regressed
            ("00000", "11111", None, False),
            ("11111", "11110", 4, False),
            ("11110", "11100", 4, True),
        ):
            with self.subTest(before=before, after=after, min_pass=min_pass):
                sides = beside(
                    case("k", before, critical=True, min_pass=min_pass),
                    case("k", after, critical=True, min_pass=min_pass),
                )
                self.assertEqual("critical" in kinds(gate(sides)), lost)

    def test_the_bar_is_not_lowered_by_asking_more_samples_or_a_lower_min_pass(self) -> None:
        # 23 of 25 was the bar; 23 of 100 keeps the digest and is no longer that bar
        for marks, min_pass in (("1" * 7 + "0" * 18 + "1" * 75, 23), ("1" * 7 + "0" * 18, 5)):
            with self.subTest(samples=len(marks), min_pass=min_pass):
                before = case("k", "1" * 25, critical=True, min_pass=23)
                sides = beside(before, case("k", marks, critical=True, min_pass=min_pass))
                self.assert_rejected(gate(sides), "critical")

    def test_failures_beyond_the_compared_seeds_are_never_silent(self) -> None:
        report = gate(beside(case("k", "1", critical=True), case("k", "10000", critical=True)))
        if report.decision == "ACCEPT":
            self.assert_noted(report, "critical, and failing on seeds that the baseline was not asked: k")

    def test_the_report_is_honest_about_what_one_critical_case_shows(self) -> None:
        lost = gate(beside(case("k", "11111", critical=True), case("k", "11110", critical=True)))
        self.assert_noted(lost, "k: 4 of 5, baseline 5 of 5", "does not show", "Fisher p = 0.50")
        both = gate(beside(case("k", "0", critical=True), case("k", "0", critical=True)))
        self.assert_noted(both, "critical, and failing in both runs: k")
        self.assertEqual(both.decision, "ACCEPT")

    def test_a_case_in_another_group_than_in_the_baseline_cannot_be_compared(self) -> None:
        # one group for all would switch the test off: nothing flips but the whole
        before = run([case(name, "1") for name in "abc"])
        after = run([case(name, "1")._replace(group="g") for name in "abc"])
        self.assert_rejected(gate((before, after)), "groups", "a, b, c")
        self.assertNotIn("groups", kinds(gate((before, after), "allow_edited")))
        self.assertNotIn("groups", kinds(gate((after, after))))

    def test_new_critical_cases_are_judged_by_themselves(self) -> None:
        steady = case("steady", "1")
        for marks, critical, rejected in (("0", True, True), ("1", True, False), ("0", False, False)):
            with self.subTest(marks=marks, critical=critical):
                report = gate((run([steady]), run([steady, case("new", marks, critical=critical)])))
                self.assertEqual("critical" in kinds(report), rejected)
                self.assert_noted(report, "new cases, not compared: new")

    def test_edited_cases_are_left_out_and_listed_and_reject_when_critical(self) -> None:
        rows: tuple[tuple[bool, str, tuple[str, ...], set[str]], ...] = (
            (False, "0", (), set()),
            (True, "1", (), {"edited"}),
            (True, "1", ("allow_edited",), set()),
            (True, "0", ("allow_edited",), {"critical"}),
        )
        for critical, marks, allowed, why in rows:
            with self.subTest(critical=critical, marks=marks, allowed=allowed):
                sides = beside(case("k", "1", critical=critical), case("k", marks, sha256="other"))
                report = gate(sides, *allowed)
                self.assertEqual(kinds(report), why)
                self.assertEqual([pair.id for pair in report.pairing.pairs], ["steady"])
                self.assert_noted(report, "edited cases, left out of the comparison: k")


class WhatIsNotThere(GateTest):
    def test_a_case_that_left_the_comparison_rejects_however_it_left(self) -> None:
        gone, steady = case("gone", "0"), case("steady", "1")
        rows: tuple[tuple[dict[str, Any] | None, str], ...] = (
            (None, "missing"),
            ({"skip": "flaky"}, "skipped"),
            ({"golden": True}, "missing"),
            ({"golden": True, "skip": "flaky"}, "skipped"),
        )
        for change, kind in rows:
            with self.subTest(change):
                left = [] if change is None else [gone._replace(**change)]
                self.assert_rejected(gate((run([gone, steady]), run([steady, *left]))), kind, "gone")

    def test_a_skipped_or_golden_case_of_the_baseline_is_new_in_the_candidate(self) -> None:
        for old in (case("k", "", skip="later"), case("k", "1", golden=True)):
            report = gate(beside(old, case("k", "0", critical=True)))
            self.assert_rejected(report, "critical", "new, critical and failing")

    def test_a_skip_is_always_shown(self) -> None:
        skipped = case("s", "", skip="no endpoint yet", critical=True)
        self.assert_noted(gate(beside(skipped, skipped)), "skipped: s: no endpoint yet")

    def test_provider_errors_in_either_run_reject(self) -> None:
        for before, after, role in (
            ("e", "1", "baseline"),
            ("1", "e", "candidate"),
            ("11", "1e", "candidate"),
        ):
            with self.subTest(before=before, after=after):
                report = gate(beside(case("a", before), case("a", after)))
                self.assert_rejected(report, "provider errors", f"case of the {role}")
        outage = run([case("a", "e")])
        lost = gate((outage, outage))
        self.assert_rejected(lost, "provider errors")
        found = lost.comparison
        self.assertEqual((found.test, found.effect, found.p, found.interval), ("none", 0, 1.0, (-1.0, 1.0)))
        self.assertEqual((found.discordant, found.units), (0, 0))
        steady = case("steady", "1")
        self.assert_rejected(gate((run([steady]), run([steady, case("new", "e")]))), "provider errors")

    def test_an_error_lifts_no_rate(self) -> None:
        # D11: 80 of 90 answered against 80 of 100 is no improvement
        before, after = (
            run(case(f"c{i}", "1" if i < 80 else last[i >= 90]) for i in range(100)) for last in ("00", "0e")
        )
        report = gate((before, after), "require_improvement")
        self.assert_rejected(report, "provider errors", "10 of 100 samples")
        self.assertEqual((report.comparison.effect, len(report.pairing.pairs)), (0, 90))

    def test_a_case_without_a_sample_is_never_left_out_quietly(self) -> None:
        one, none, steady = (case("a", marks, critical=True) for marks in ("1", "", "1"))
        steady = steady._replace(id="steady")
        for number, (before, after) in enumerate((
            (run([one, steady]), run([none, steady])),
            (run([none, steady]), run([one, steady])),
            (run([one]), run([none])),
            (run([steady]), run([steady, none])),
            (run([one, steady]), run([none._replace(sha256="other"), steady])),
        )):  # fmt: skip
            with self.subTest(number):
                try:
                    report = gate((before, after), "allow_edited")
                except m.UsageError:
                    continue
                self.assertEqual(report.decision, "REJECT")

    def test_nothing_to_compare_is_bad_input_and_never_a_pass(self) -> None:
        # D19
        a, skipped = case("a", "1"), case("a", "", skip="later")
        golden, edited = a._replace(golden=True), a._replace(sha256="other")
        for number, (before, after) in enumerate((
            ([], []), ([a], []), ([], [a]), ([a], [case("b", "1")]), ([skipped], [skipped]), ([a], [skipped]),
            ([golden], [golden]), ([a], [golden]), ([a], [edited]),
        )):  # fmt: skip
            with self.subTest(number), self.assertRaisesRegex(m.UsageError, "nothing to evaluate"):
                gate((run(before), run(after)))

    def test_an_incomplete_run_is_refused(self) -> None:
        whole, cut = run([case("a", "1")]), run([case("a", "1")], incomplete="3 of 20 asked")
        for role, sides in (("baseline", (cut, whole)), ("candidate", (whole, cut))):
            with self.subTest(role), self.assertRaisesRegex(m.UsageError, f"{role} run is incomplete"):
                gate(sides)


Figures = Callable[[int], dict[str, Any]]


def budgeted(
    of_call: Figures, n: int = 20, of_base: Figures = lambda i: {}, /, **policy: Any
) -> m.GateReport:
    """A gate over n passing cases whose calls cost and took what `of_call` says of their index."""
    before, after = (run(case(f"c{i}", "1", **of(i)) for i in range(n)) for of in (of_base, of_call))
    return gate((before, after), **policy)


class Budgets(GateTest):
    def test_p95_latency_is_held_and_the_budget_itself_is_met(self) -> None:
        for slow, limit, rejected in ((1, 500, False), (2, 500, True), (2, 900, False), (2, 899.9, True)):
            with self.subTest(slow=slow, limit=limit):
                latencies = [900.0] * slow + [100.0] * 20
                report = budgeted(lambda i: {"latency_ms": latencies[i]}, max_p95_latency_ms=limit)  # noqa: B023
                self.assertEqual(kinds(report), {"latency"} if rejected else set())

    def test_cost_is_held_per_call_in_all_and_by_ratio_in_decimal(self) -> None:
        for cost, key, limit, rejected in (
            (0.1, "max_cost_per_call_usd", 0.1, False),
            (0.1, "max_cost_per_call_usd", 0.0999, True),
            (0.1, "max_total_cost_usd", 2.0, False),
            (0.1, "max_total_cost_usd", 1.99, True),
            (0.0011, "max_cost_ratio", 1.1, False),  # 1.1 * 0.001 is not 0.0011 in binary
            (0.0012, "max_cost_ratio", 1.1, True),
            (0.0, "max_cost_per_call_usd", 0, False),
            (1e-9, "max_cost_per_call_usd", 0, True),
        ):
            with self.subTest(cost=cost, key=key, limit=limit):
                report = budgeted(lambda i: {"cost_usd": cost}, **{key: limit})  # noqa: B023
                self.assertEqual(kinds(report), {"cost"} if rejected else set())

    def test_an_unknown_figure_never_meets_a_budget_even_if_only_one_call_hides_it(self) -> None:
        for key, limit, kind in (
            ("cost_usd", "max_cost_per_call_usd", "cost"),
            ("cost_usd", "max_total_cost_usd", "cost"),
            ("cost_usd", "max_cost_ratio", "cost"),
            ("latency_ms", "max_p95_latency_ms", "latency"),
            ("latency_ms", "max_p95_latency_ratio", "latency"),
        ):
            for hidden in (120, 1):
                with self.subTest(limit=limit, hidden=hidden):
                    figures: list[dict[str, Any]] = [{key: None}] * hidden + [{}] * 120
                    self.assert_rejected(budgeted(figures.__getitem__, 120, **{limit: 1e9}), kind)
        self.assertEqual(budgeted(lambda i: {"cost_usd": None, "latency_ms": None}).decision, "ACCEPT")

    def test_an_unknown_baseline_fails_a_ratio(self) -> None:
        report = budgeted(lambda i: {}, 20, lambda i: {"cost_usd": None}, max_cost_ratio=2)
        self.assert_rejected(report, "cost", "unknown")
        for unknown, why in ((1, "unknown, and the policy has a ratio"), (21, "not 99")):
            figures: list[dict[str, Any]] = [{"latency_ms": None}] * unknown + [{}] * 120
            report = budgeted(lambda i: {}, 120, figures.__getitem__, max_p95_latency_ratio=2)
            self.assert_rejected(report, "latency", why)

    def test_a_latency_ratio_is_refused_under_a_hundred_calls(self) -> None:
        for n, latency, why in ((99, 100.0, {"latency"}), (100, 150.0, set()), (100, 151.0, {"latency"})):
            with self.subTest(n=n, latency=latency):
                report = budgeted(lambda i: {"latency_ms": latency}, n, max_p95_latency_ratio=1.5)  # noqa: B023
                self.assertEqual(kinds(report), why)

    def test_a_budget_rejects_whatever_the_quality(self) -> None:
        report = gate(flips(0, 6, 20), max_cost_per_call_usd=0.0001)
        self.assertEqual((report.verdict, kinds(report)), ("improved", {"cost"}))


class JudgeChange(GateTest):
    def judged(self, old: Any, new: Any, allow: bool = False, **changes: Any) -> m.GateReport:
        before, after = (
            run([case("r", "1", **changes), case("b", "1")], judge=judge) for judge in (old, new)
        )
        return gate((before, after), *["allow_judge_change"] * allow)

    def test_another_judge_or_judge_prompt_makes_rubric_cases_incomparable(self) -> None:
        for other in (KEYWORD, {**JUDGE, "prompt_sha256": "bb"}, None):
            with self.subTest(other):
                self.assert_rejected(self.judged(JUDGE, other, has_rubric=True), "judge", "r")
                allowed = self.judged(JUDGE, other, allow=True, has_rubric=True)
                self.assertEqual(allowed.decision, "ACCEPT")
                self.assert_noted(allowed, "the judge differs")
                self.assertEqual(self.judged(JUDGE, other).decision, "ACCEPT")  # no rubric to judge
        self.assertEqual(self.judged(JUDGE, dict(JUDGE), has_rubric=True).decision, "ACCEPT")

    def test_a_rubric_result_is_a_rubric_case_even_without_the_flag(self) -> None:
        rubric = (m.AssertionResult("rubric", True, "says so"),)
        self.assert_rejected(self.judged(JUDGE, KEYWORD, assertions=rubric), "judge")


class QuarantineRule(GateTest):
    def waived(self, before: str, after: str, until: str = TODAY, **changes: Any) -> m.GateReport:
        entry = m.Quarantine("q", "ann", "OPS-7", until, "2026-05-01")
        return gate(beside(case("q", before, **changes), case("q", after, **changes)), quarantine=(entry,))

    def test_only_mixed_results_are_waived(self) -> None:
        for before, after, waived in (
            ("11111", "11011", True),
            ("00000", "00001", True),
            ("11111", "00000", False),  # 0 of 5 is a regression even in quarantine
            ("11110", "00000", False),
            ("00000", "11111", False),
            ("11111", "11111", False),
            ("1", "0", False),
        ):
            with self.subTest(before=before, after=after):
                pairing = self.waived(before, after).pairing
                self.assertEqual([pair.id for pair in pairing.quarantined], ["q"] * waived)
                self.assertEqual("q" in [pair.id for pair in pairing.pairs], not waived)
        said = ("quarantined until 2026-06-15, since 2026-05-01: q 4 of 5", "ann", "OPS-7")
        self.assert_noted(self.waived("11111", "11110"), *said)

    def test_a_critical_case_is_never_waived(self) -> None:
        self.assert_rejected(self.waived("11111", "11110", critical=True), "critical", "q")

    def test_a_quarantine_ends_with_its_last_day(self) -> None:
        for until, ended in (("2026-06-14", True), (TODAY, False), ("2027-01-01", False)):
            with self.subTest(until):
                self.assertEqual("quarantine" in kinds(self.waived("11", "10", until)), ended)
        self.assert_rejected(self.waived("11", "11", "2026-06-14"), "quarantine", "ann", "OPS-7")

    def test_an_early_year_is_an_early_date(self) -> None:
        source = {"case": "q", "owner": "ann", "ticket": "OPS-7", "until": "0999-12-31"}
        (entry,) = m.parse_policy("policy", {"quarantine": [source]}).quarantine
        self.assertLess(entry.until, TODAY)  # compared as texts


if __name__ == "__main__":
    unittest.main()
