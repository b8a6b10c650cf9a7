"""The gate: what it rejects, what it says, and what it must never accept quietly."""

from __future__ import annotations

import math
import sys
import unittest
from fractions import Fraction
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import main as m

TODAY = "2026-06-15"
KEYWORD = {"model": "keyword", "prompt_sha256": None}
JUDGE_1 = {"model": "judge-v1", "prompt_sha256": "aa"}


def sample(seed: int, mark: str, **changes: Any) -> m.Sample:
    """A sample that passed (1), failed (0) or has no answer (e)."""
    if mark == "e":
        return m.Sample(seed, error=("connection", "refused"))
    known: dict[str, Any] = {"output": "x", "latency_ms": 100.0, "cost_usd": 0.001}
    results = (m.AssertionResult("equals", mark == "1", "read 'x'"),)
    return m.Sample(seed, **{**known, "assertions": results, **changes})


def case(name: str, marks: str, sha256: str = "sha", **changes: Any) -> m.CaseResult:
    of_case = {key: changes.pop(key) for key in list(changes) if key in CASE_KEYS}
    samples = tuple(sample(seed, mark, **changes) for seed, mark in enumerate(marks))
    return m.CaseResult(name, sha256, samples, **of_case)


CASE_KEYS = set(m.CaseResult.__dataclass_fields__)


def run(*cases: m.CaseResult, **changes: Any) -> m.Run:
    known = ("ops", "ops.json", "s", "p", "model", "http://e")
    names = ("suite_name", "suite_path", "suite_sha256", "prompt_sha256", "model", "endpoint")
    return m.Run(**{**dict(zip(names, known)), "cases": cases, **changes})


def flips(lost: int, won: int, n: int) -> tuple[m.Run, m.Run]:
    """Two runs of n cases at one sample: the first `lost` regressed, the next `won` improved."""
    before = "1" * lost + "0" * won + "1" * (n - lost - won)
    after = "0" * lost + "1" * (n - lost)
    return tuple(  # type: ignore[return-value]
        run(*(case(f"c{i}", mark) for i, mark in enumerate(marks))) for marks in (before, after)
    )


def gate(baseline: m.Run, candidate: m.Run, *allowed: str, **policy: Any) -> m.GateReport:
    options: dict[str, Any] = dict.fromkeys(allowed, True)
    return m.gate(baseline, candidate, m.Policy(**policy), m.GateOptions(**options, today=TODAY))


def gate_cases(before: m.CaseResult, after: m.CaseResult, *allowed: str, **policy: Any) -> m.GateReport:
    """A gate over one case in question, beside one that did not change."""
    steady = case("steady", "1")
    return gate(run(before, steady), run(after, steady), *allowed, **policy)


def kinds(report: m.GateReport) -> set[str]:
    return {reason.kind for reason in report.reasons}


class GateTest(unittest.TestCase):
    def assert_rejected(self, report: m.GateReport, kind: str, *words: str) -> None:
        self.assertEqual(report.decision, m.REJECT, report.notes)
        text = "; ".join(f"{reason.kind}: {reason.text}" for reason in report.reasons)
        self.assertIn(kind, kinds(report), text)
        for word in words:
            self.assertIn(word, text)

    def assert_noted(self, report: m.GateReport, *words: str) -> None:
        text = "\n".join(report.notes)
        for word in words:
            self.assertIn(word, text)


class Quality(GateTest):
    def test_verdicts_at_their_edges(self) -> None:
        # p of McNemar: (5, 0) 0.0625, (6, 0) 0.03125, (8, 1) 0.0390625, (7, 1) 0.0703125
        for lost, won, n, policy, verdict in (
            (0, 0, 20, {}, m.NO_DIFFERENCE),
            (5, 0, 20, {}, m.NO_DIFFERENCE),
            (6, 0, 20, {}, m.REGRESSED),
            (0, 6, 20, {}, m.IMPROVED),
            (8, 1, 20, {}, m.REGRESSED),
            (7, 1, 20, {}, m.NO_DIFFERENCE),
            (6, 0, 20, {"alpha": 0.03125}, m.NO_DIFFERENCE),  # p equal to alpha is not below it
            (6, 0, 20, {"alpha": math.nextafter(0.03125, 1) if hasattr(math, "nextafter") else 0.0313}, m.REGRESSED),
            (7, 0, 100, {"min_effect": 0.07}, m.REGRESSED),  # 7/100 is 0.07 as a fraction
            (29, 0, 100, {"min_effect": 0.29}, m.REGRESSED),  # ... where 100 * 0.29 < 29 in binary
            (7, 0, 100, {"min_effect": 0.0701}, "regressed, below the minimum effect"),
            (0, 7, 101, {"min_effect": 0.07}, "improved, below the minimum effect"),
        ):  # fmt: skip
            with self.subTest(lost=lost, won=won, n=n, policy=policy):
                report = gate(*flips(lost, won, n), **policy)
                self.assertEqual(report.verdict, verdict)
                rejected = m.REJECT if verdict == m.REGRESSED else m.ACCEPT
                self.assertEqual(report.decision, rejected)
                self.assertEqual(report.comparison.effect, Fraction(won - lost, n))

    def test_cases_are_paired_by_id_and_never_by_position(self) -> None:
        # D12
        before, after = run(*(case(c, "1") for c in "abc")), run(*(case(c, "1") for c in "cad"))
        report = gate(before, after)
        self.assertEqual([pair.id for pair in report.pairing.pairs], ["a", "c"])
        self.assertEqual([c.id for c in report.pairing.new], ["d"])
        self.assert_rejected(report, "missing", "b of the baseline")
        self.assert_noted(report, "new cases, not compared: d")

    def test_one_sample_without_groups_takes_mcnemar_and_all_else_the_sign_flip(self) -> None:
        one, five = ("1", "0"), ("11111", "11110")
        for before, after, group, test in (
            (one[0], one[1], None, m.MCNEMAR),
            (one[0], one[1], "g", m.SIGN_FLIP),
            (*five, None, m.SIGN_FLIP),
            (one[0], five[1], None, m.MCNEMAR),  # compared on the one seed that both have
        ):
            with self.subTest(before=before, after=after, group=group):
                report = gate_cases(case("a", before, group=group), case("a", after, group=group))
                self.assertEqual(report.comparison.test, test)
                self.assertEqual(len(report.pairing.pairs), 2)

    def test_identical_samples_of_one_case_are_one_pair(self) -> None:
        # D15: ten cases, twenty equal samples each: five lost of ten is 2/2**5, whatever the samples
        before = run(*(case(f"c{i}", "1" * 20) for i in range(10)))
        after = run(*(case(f"c{i}", ("0" if i < 5 else "1") * 20) for i in range(10)))
        report = gate(before, after)
        self.assertEqual((report.comparison.p, report.decision), (0.0625, m.ACCEPT))

    def test_cases_of_a_group_count_once_even_when_only_one_run_names_the_group(self) -> None:
        before, after = flips(8, 0, 20)
        grouped = tuple(m.replace(c, group="g" if i < 8 else None) for i, c in enumerate(after.cases))
        for pair in ((before, run(*grouped)), (run(*(m.replace(c, group=g.group) for c, g in zip(before.cases, grouped))), after)):  # fmt: skip
            report = gate(*pair)
            self.assertEqual((report.comparison.test, report.comparison.p), (m.SIGN_FLIP, 1.0))

    def test_unequal_sample_counts_are_compared_on_the_first_seeds(self) -> None:
        # D14: as rates, 1 against 5 samples would call an unchanged model regressed
        report = gate_cases(case("a", "1"), case("a", "10000"))
        self.assertEqual((report.comparison.effect, report.decision), (0, m.ACCEPT))
        self.assert_noted(report, "sample counts differ in 1 cases")
        self.assertEqual(gate_cases(case("a", "10000"), case("a", "0")).comparison.effect, Fraction(-1, 2))

    def test_sample_counts_without_a_common_measure_are_bad_input_and_no_traceback(self) -> None:
        primes = [p for p in range(2, 110) if all(p % q for q in range(2, p))]
        before, after = (
            run(*(case(f"c{p}", "1" * (p - 1) + "01"[(i + j) % 2]) for i, p in enumerate(primes)))
            for j in range(2)
        )
        try:
            gate(before, after)
        except m.UsageError as error:
            self.assertIn("same number of samples", str(error))

    def test_an_extreme_alpha_is_refused_or_gates_without_a_traceback(self) -> None:
        for alpha in (1e-9, 0.4999):
            policy = m.parse_policy("policy", {"alpha": alpha})
            m.render_gate(m.gate(*flips(1, 0, 20), policy, m.GateOptions()))
        for alpha in (0, 1e-17, 1e-310, 5e-324, 0.75, 1, -0.05):
            with self.subTest(alpha), self.assertRaises(m.UsageError):
                m.parse_policy("policy", {"alpha": alpha})

    def test_an_improvement_can_be_required(self) -> None:
        self.assertEqual(gate(*flips(0, 6, 20), "require_improvement").decision, m.ACCEPT)
        self.assert_rejected(gate(*flips(0, 5, 20), "require_improvement"), "quality", "required")
        below = gate(*flips(0, 6, 20), "require_improvement", min_effect=0.5)
        self.assert_rejected(below, "quality", "below the minimum effect")


class Critical(GateTest):
    def test_any_pass_to_fail_of_a_critical_case_rejects_whoever_calls_it_critical(self) -> None:
        for before, after in ((True, True), (True, False), (False, True)):
            with self.subTest(before=before, after=after):
                report = gate_cases(case("k", "1", critical=before), case("k", "0", critical=after))
                self.assert_rejected(report, "critical", "k went from pass to fail")
        self.assertEqual(gate_cases(case("k", "1"), case("k", "0")).decision, m.ACCEPT)

    def test_its_strict_verdict_decides_and_its_min_pass(self) -> None:
        for before, after, min_pass, lost in (
            ("11111", "11110", None, True),
            ("11110", "00000", None, False),  # failed before: listed, not regressed
            ("11111", "11110", 4, False),
            ("11110", "11100", 4, True),
            ("00000", "11111", None, False),
            ("1111100000", "11110", 5, False),  # 5 of 10 scales to 3 of 5
            ("1111100000", "11000", 5, True),
        ):
            with self.subTest(before=before, after=after, min_pass=min_pass):
                pair = (case("k", marks, critical=True, min_pass=min_pass) for marks in (before, after))
                self.assertEqual("critical" in kinds(gate_cases(*pair)), lost)

    def test_the_bar_is_not_lowered_by_asking_more_samples_or_a_lower_min_pass(self) -> None:
        # 23 of 25 was the bar; 23 of 100, under the same digest, is no longer that bar
        steady = case("k", "1" * 25, critical=True, min_pass=23)
        for after in (
            case("k", "1" * 7 + "0" * 18 + "1" * 75, critical=True, min_pass=23),
            case("k", "1" * 7 + "0" * 18, critical=True, min_pass=5),
        ):
            self.assert_rejected(gate_cases(steady, after), "critical")

    def test_failures_beyond_the_compared_seeds_are_never_silent(self) -> None:
        report = gate_cases(case("k", "1", critical=True), case("k", "10000", critical=True))
        if report.decision == m.ACCEPT:
            self.assert_noted(report, "critical, and failing on seeds", "k")

    def test_the_report_is_honest_about_what_one_critical_case_shows(self) -> None:
        report = gate_cases(case("k", "11111", critical=True), case("k", "11110", critical=True))
        self.assert_noted(report, "k: 4 of 5, baseline 5 of 5", "does not show", "Fisher p = 1.00")
        report = gate_cases(case("k", "0", critical=True), case("k", "0", critical=True))
        self.assert_noted(report, "critical, and failing in both runs: k")
        self.assertEqual(report.decision, m.ACCEPT)

    def test_no_p_is_ever_printed_as_zero(self) -> None:
        report = gate_cases(case("k", "1" * 25, critical=True), case("k", "0" * 25, critical=True))
        self.assertNotRegex("\n".join(report.notes), r"p = 0\.0+\b(?!\d)")

    def test_new_critical_cases_are_judged_by_themselves(self) -> None:
        a = case("a", "1")
        for marks, critical, rejected in (("0", True, True), ("1", True, False), ("0", False, False)):
            with self.subTest(marks=marks, critical=critical):
                report = gate(run(a), run(a, case("new", marks, critical=critical)))
                self.assertEqual("critical" in kinds(report), rejected)
                self.assert_noted(report, "new cases, not compared: new")

    def test_edited_cases_are_left_out_and_listed_and_reject_when_critical(self) -> None:
        for critical, marks, allowed, kind in (
            (False, "0", (), None),
            (True, "1", (), "edited"),
            (True, "1", ("allow_edited",), None),
            (True, "0", ("allow_edited",), "critical"),
        ):
            with self.subTest(critical=critical, marks=marks, allowed=allowed):
                report = gate_cases(
                    case("k", "1", critical=critical), case("k", marks, "other"), *allowed
                )
                self.assertEqual(kinds(report), {kind} - {None})
                self.assertEqual([p.id for p in report.pairing.pairs], ["steady"])
                self.assert_noted(report, "edited cases, left out of the comparison: k")


class WhatIsNotThere(GateTest):
    def test_a_case_that_left_the_comparison_rejects_however_it_left(self) -> None:
        gone = case("gone", "0")
        for change, kind in (
            (None, "missing"),
            ({"skip": "flaky"}, "skipped"),
            ({"golden": True}, "missing"),
            ({"golden": True, "skip": "flaky"}, "skipped"),
        ):
            with self.subTest(change):
                steady = case("steady", "1")
                left = () if change is None else (m.replace(gone, **change),)
                report = gate(run(gone, steady), run(steady, *left))
                self.assert_rejected(report, kind, "gone")

    def test_a_skip_or_golden_case_of_the_baseline_is_new_in_the_candidate(self) -> None:
        for change in ({"skip": "later"}, {"golden": True}):
            report = gate_cases(case("k", "", **change), case("k", "0", critical=True))
            self.assert_rejected(report, "critical", "new, critical and failing")

    def test_a_skip_is_always_shown(self) -> None:
        both = case("s", "", skip="no endpoint yet", critical=True)
        self.assert_noted(gate_cases(both, both), "skipped: s: no endpoint yet")

    def test_provider_errors_in_either_run_reject(self) -> None:
        for before, after, role in (("e", "1", "baseline"), ("1", "e", "candidate"), ("11", "1e", "candidate")):
            with self.subTest(before=before, after=after):
                report = gate_cases(case("a", before), case("a", after))
                self.assert_rejected(report, "provider errors", f"samples of the {role}")
        everywhere = gate(run(case("a", "e")), run(case("a", "e")))
        self.assert_rejected(everywhere, "provider errors")
        new = gate(run(case("a", "1")), run(case("a", "1"), case("new", "e")))
        self.assert_rejected(new, "provider errors")

    def test_a_case_without_a_sample_is_never_left_out_quietly(self) -> None:
        one, none = case("a", "1", critical=True), case("a", "", critical=True)
        steady = case("steady", "1")
        for before, after in (
            (run(one, steady), run(none, steady)),
            (run(none, steady), run(one, steady)),
            (run(one), run(none)),
            (run(steady), run(steady, none)),
            (run(one, steady), run(m.replace(none, sha256="other"), steady)),
        ):
            with self.subTest(before=before.cases, after=after.cases):
                try:
                    report = gate(before, after, "allow_edited")
                except m.UsageError:
                    continue
                self.assertEqual(report.decision, m.REJECT)

    def test_nothing_to_compare_is_bad_input_and_never_a_pass(self) -> None:
        # D19
        a, skipped = case("a", "1"), case("a", "", skip="later")
        for before, after in (
            (run(), run()),
            (run(a), run()),
            (run(), run(a)),
            (run(a), run(case("b", "1"))),
            (run(skipped), run(skipped)),
            (run(a), run(skipped)),
            (run(m.replace(a, golden=True)), run(m.replace(a, golden=True))),
            (run(a), run(m.replace(a, sha256="other"))),
        ):
            with self.subTest(before=before.cases, after=after.cases):
                self.assertRaisesRegex(m.UsageError, "nothing to evaluate", gate, before, after)

    def test_an_incomplete_run_is_refused(self) -> None:
        whole, cut = run(case("a", "1")), run(case("a", "1"), incomplete="3 of 20 asked")
        for role, before, after in (("baseline", cut, whole), ("candidate", whole, cut)):
            with self.subTest(role):
                self.assertRaisesRegex(m.UsageError, f"{role} run is incomplete", gate, before, after)


class Budgets(GateTest):
    def budget(self, figures: Any, n: int = 20, base: Any = None, **policy: Any) -> m.GateReport:
        """A gate over n cases whose calls cost and took `figures` (a function of the index)."""
        before, after = (
            run(*(case(f"c{i}", "1", **of(i)) for i in range(n)))
            for of in (base or (lambda i: {}), figures)
        )
        return gate(before, after, **policy)

    def test_p95_latency_is_held_and_the_budget_itself_is_allowed(self) -> None:
        for slow, limit, rejected in ((1, 500, False), (2, 500, True), (2, 900, False), (2, 899.9, True)):
            with self.subTest(slow=slow, limit=limit):
                report = self.budget(
                    lambda i, slow=slow: {"latency_ms": 900.0 if i < slow else 100.0},
                    max_p95_latency_ms=limit,
                )
                self.assertEqual(kinds(report), {"latency"} if rejected else set())

    def test_cost_is_held_per_call_in_all_and_by_ratio_in_decimal(self) -> None:
        for cost, policy, rejected in (
            (0.1, {"max_cost_per_call_usd": 0.1}, False),
            (0.1, {"max_cost_per_call_usd": 0.0999}, True),
            (0.1, {"max_total_cost_usd": 2.0}, False),  # 20 * 0.1 is 2 in decimal
            (0.1, {"max_total_cost_usd": 1.99}, True),
            (0.0011, {"max_cost_ratio": 1.1}, False),  # 1.1 * 0.001 in binary is more
            (0.0012, {"max_cost_ratio": 1.1}, True),
            (0.0, {"max_cost_per_call_usd": 0}, False),
            (1e-9, {"max_cost_per_call_usd": 0}, True),
        ):
            with self.subTest(cost=cost, policy=policy):
                report = self.budget(lambda i, cost=cost: {"cost_usd": cost}, **policy)
                self.assertEqual(kinds(report), {"cost"} if rejected else set())

    def test_an_unknown_figure_never_meets_a_budget_even_when_only_one_call_hides_it(self) -> None:
        rows: tuple[tuple[str, dict[str, Any], str], ...] = (
            ("cost_usd", {"max_cost_per_call_usd": 1}, "cost"),
            ("cost_usd", {"max_total_cost_usd": 1}, "cost"),
            ("cost_usd", {"max_cost_ratio": 9}, "cost"),
            ("latency_ms", {"max_p95_latency_ms": 1e9}, "latency"),
            ("latency_ms", {"max_p95_latency_ratio": 9}, "latency"),
        )
        for key, policy, kind in rows:
            for hidden in (120, 1):
                with self.subTest(key=key, policy=policy, hidden=hidden):
                    unknown = self.budget(
                        lambda i, key=key, hidden=hidden: {key: None} if i < hidden else {}, 120, **policy
                    )
                    self.assert_rejected(unknown, kind)
            self.assertEqual(self.budget(lambda i, key=key: {key: None}).decision, m.ACCEPT)

    def test_an_unknown_baseline_fails_a_ratio(self) -> None:
        unknown = self.budget(lambda i: {}, base=lambda i: {"cost_usd": None}, max_cost_ratio=2)
        self.assert_rejected(unknown, "cost", "unknown")

    def test_a_latency_ratio_is_refused_under_a_hundred_calls(self) -> None:
        for n, latency, kind in ((99, 100.0, "latency"), (100, 150.0, None), (100, 151.0, "latency")):
            with self.subTest(n=n, latency=latency):
                report = self.budget(
                    lambda i, latency=latency: {"latency_ms": latency}, n, max_p95_latency_ratio=1.5
                )
                self.assertEqual(kinds(report), {kind} - {None})


class NonInferiority(GateTest):
    def test_the_interval_decides_reject_inconclusive_or_nothing(self) -> None:
        for pair, policy, decision in (
            (flips(0, 0, 20), {"non_inferiority_margin": 0.2}, m.ACCEPT),
            (flips(0, 0, 20), {"non_inferiority_margin": 0.1}, m.INCONCLUSIVE),
            (flips(0, 0, 20), {"non_inferiority_margin": 0.0}, m.INCONCLUSIVE),
            (flips(10, 0, 20), {"non_inferiority_margin": 0.1, "min_effect": 0.6}, m.REJECT),
            (flips(10, 0, 20), {"non_inferiority_margin": 1.0, "min_effect": 0.6}, m.ACCEPT),
        ):
            with self.subTest(policy=policy):
                self.assertEqual(gate(*pair, **policy).decision, decision)
        text = gate(*flips(0, 0, 20), non_inferiority_margin=0.1).reasons[0].text
        self.assertRegex(text, r"about \d+ cases .* would settle it")

    def test_reject_outweighs_inconclusive(self) -> None:
        before, after = flips(0, 0, 20)
        report = gate(before, run(*after.cases[1:]), non_inferiority_margin=0.1)
        self.assertEqual(kinds(report), {"missing", "non-inferiority"})
        self.assertEqual(report.decision, m.REJECT)


class JudgeChange(GateTest):
    def judged(self, *judges: Any, allowed: tuple[str, ...] = (), **changes: Any) -> m.GateReport:
        before, after = (run(case("r", "1", **changes), case("b", "1"), judge=j) for j in judges)
        return gate(before, after, *allowed)

    def test_another_judge_or_judge_prompt_makes_rubric_cases_incomparable(self) -> None:
        for other in (KEYWORD, {**JUDGE_1, "prompt_sha256": "bb"}, None):
            with self.subTest(other):
                self.assert_rejected(self.judged(JUDGE_1, other, has_rubric=True), "judge", "r")
                allowed = self.judged(JUDGE_1, other, has_rubric=True, allowed=("allow_judge_change",))
                self.assertEqual(allowed.decision, m.ACCEPT)
                self.assert_noted(allowed, "the judge differs")
                without = self.judged(JUDGE_1, other)
                self.assertEqual(without.decision, m.ACCEPT)
        self.assertEqual(self.judged(JUDGE_1, dict(JUDGE_1), has_rubric=True).decision, m.ACCEPT)

    def test_a_rubric_result_is_a_rubric_case_even_without_the_flag(self) -> None:
        rubric = {"assertions": (m.AssertionResult("rubric", True, "says so"),)}
        self.assert_rejected(self.judged(JUDGE_1, KEYWORD, **rubric), "judge")


class QuarantineRule(GateTest):
    def waived(self, before: str, after: str, until: str = TODAY, **changes: Any) -> m.GateReport:
        entry = m.Quarantine("q", "ann", "OPS-7", until, "2026-05-01")
        pair = (case("q", marks, **changes) for marks in (before, after))
        return gate_cases(*pair, quarantine=(entry,))

    def test_only_mixed_results_are_waived(self) -> None:
        for before, after, waived in (
            ("11111", "11011", True),
            ("00000", "00001", True),
            ("11111", "00000", False),  # 0 of 5 is a regression even in quarantine
            ("11111", "11111", False),
            ("1", "0", False),
        ):
            with self.subTest(before=before, after=after):
                report = self.waived(before, after)
                self.assertEqual([p.id for p in report.pairing.quarantined], ["q"] * waived)
                self.assertEqual("q" in {p.id for p in report.pairing.pairs}, not waived)
        words = ("quarantined until 2026-06-15, since 2026-05-01: q 4 of 5", "ann", "OPS-7")
        self.assert_noted(self.waived("11111", "11110"), *words)

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
        self.assertLess(entry.until, TODAY)  # as texts


class SeveralCandidates(GateTest):
    def many(self, *pairs: tuple[m.Run, m.Run], **options: Any) -> list[m.GateReport]:
        chosen = m.GateOptions(today=TODAY, **options)
        return m.gate_many(pairs[0][0], [pair[1] for pair in pairs], m.Policy(), chosen)

    def test_holm_corrects_improved_over_all_candidates(self) -> None:
        alone, two = self.many(flips(0, 6, 20)), self.many(flips(0, 6, 20), flips(0, 6, 20))
        self.assertEqual([r.verdict for r in alone], [m.IMPROVED])
        self.assertEqual([r.verdict for r in two], [m.NO_DIFFERENCE] * 2)
        self.assert_noted(two[0], "Holm p = 0.0625")
        self.assertEqual([r.decision for r in two], [m.ACCEPT] * 2)
        for report in self.many(flips(0, 6, 20), flips(0, 6, 20), require_improvement=True):
            self.assert_rejected(report, "quality", "improvement is required")

    def test_a_regression_is_never_corrected_away(self) -> None:
        for report in self.many(*[flips(6, 0, 20)] * 5):
            self.assert_rejected(report, "quality", "regressed")

    def anchored(self, anchor: m.Run, baseline: m.Run, candidate: m.Run) -> m.GateReport:
        report = gate(baseline, candidate)
        self.assertEqual(report.decision, m.ACCEPT)
        return m.with_anchor(report, gate(anchor, candidate))

    def test_the_anchor_sees_what_a_rolling_baseline_forgives(self) -> None:
        anchor, candidate = flips(6, 0, 20)
        report = self.anchored(anchor, candidate, candidate)
        self.assert_rejected(report, "anchor", "regressed against the anchor")
        same = self.anchored(candidate, candidate, candidate)
        self.assertEqual(same.decision, m.ACCEPT)
        self.assert_noted(same, "against the anchor model: no significant difference")

    def test_an_anchor_that_cannot_be_compared_is_never_a_pass(self) -> None:
        steady = case("steady", "1")
        lost = case("k", "0", critical=True, has_rubric=True)
        candidate = run(lost, steady, judge=KEYWORD)
        for why, anchor in (
            ("critical", run(m.replace(case("k", "1"), critical=True), steady, judge=KEYWORD)),
            ("provider errors", run(case("k", "e"), steady, judge=KEYWORD)),
            ("judge", run(m.replace(lost, critical=False), steady, judge=JUDGE_1)),
        ):
            with self.subTest(why):
                report = self.anchored(anchor, candidate, candidate)
                self.assert_rejected(report, "anchor", why)

    def test_no_side_of_alpha_is_rounded_away_in_the_notes(self) -> None:
        # p(1001387, 998613) is 0.0499 and 0.04990150; a p of 1e-9 is not 0.0000
        anchor, candidate = flips(40, 0, 60)
        report = self.anchored(anchor, candidate, candidate)
        self.assertNotIn("p = 0.0000", " ".join((*report.notes, *(r.text for r in report.reasons))))


class Notes(GateTest):
    def noted(self, before: Any, after: Any, of_case: Any = None, n: int = 20) -> m.GateReport:
        """A gate of two equal runs but for the changes to run or cases."""
        sides = (before, after)
        cases = of_case or ({}, {})
        return gate(*(
            run(*(case(f"c{i}", "1", **cases[j]) for i in range(n)), **side) for j, side in enumerate(sides)
        ))  # fmt: skip

    def test_equal_runs_have_only_the_note_that_they_could_show_nothing(self) -> None:
        report = self.noted({}, {})
        self.assertEqual(len(report.notes), 1, report.notes)
        self.assert_noted(report, "0 discordant cases: fewer than 6 can never reach alpha 0.05")

    def test_what_changed_beside_the_model_is_said(self) -> None:
        rows: tuple[tuple[Any, Any, str], ...] = (
            ({}, {"prompt_sha256": "q"}, "the prompt differs"),
            ({}, {"prompt_sha256": "q", "model": "new"}, "two causes, one effect"),
            ({"request": {"top_p": 1}}, {"request": {"top_p": 0.5}}, "request parameters differ: top_p"),
            ({"request": {"stop": None}}, {}, "request parameters differ: stop"),
            ({"samples": 1}, {"samples": 5}, "samples a case differ: 1 and 5"),
            ({"concurrency": 1}, {"concurrency": 8}, "concurrency differs (1 and 8)"),
            ({"judge": JUDGE_1}, {"judge": KEYWORD}, "the judge differs: judge-v1 and keyword"),
            ({"policy": m.Policy(alpha=0.01)}, {}, "policy differs"),
            ({"policy": m.Policy(alpha=0.01)}, {}, "alpha"),  # DESIGN 2: says WHERE the two differ
        )
        for before, after, words in rows:
            with self.subTest(words):
                self.assert_noted(self.noted(before, after), words)

    def test_what_served_the_answers_is_said(self) -> None:
        for before, after, words in (
            ({"model": "model"}, {"model": "model-2"}, "the candidate asked for model and was served"),
            ({"fingerprint": "fp_1"}, {"fingerprint": "fp_2"}, "the system fingerprint differs"),
            ({"server": "vllm"}, {}, "the server differs between the runs: vllm; none"),
            ({"judge_model": "j-1"}, {"judge_model": "j-2"}, "judge"),
        ):
            with self.subTest(words):
                report = self.noted({}, {}, (before, after))
                self.assert_noted(report, words, *after.values())
        two = run(case("a", "1", model="m-1"), case("b", "1", model="m-2"))
        self.assert_noted(gate(two, two), "the served model changed within the candidate run")

    def test_answers_to_look_at_are_counted(self) -> None:
        unreadable = (m.AssertionResult("rubric", False, "chatty", True),)
        for change, words in (
            ({"flags": ("truncated",)}, "20 truncated answers"),
            ({"flags": ("filtered",)}, "20 filtered answers"),
            ({"flags": ("no_text",)}, "20 answers without text"),
            ({"flags": ("thinking",)}, "20 answers with a <think> block"),
            ({"flags": ("speaks_to_judge",)}, "20 answers that speak to their judge"),
            ({"assertions": unreadable}, "20 unreadable judge replies"),
        ):
            with self.subTest(words):
                self.assert_noted(self.noted({}, {}, ({}, change)), f"candidate: {words}")
                self.assert_noted(self.noted({}, {}, (change, {})), f"baseline: {words}")

    def test_a_loss_within_noise_is_said(self) -> None:
        self.assert_noted(gate(*flips(4, 1, 20)), "a net loss of 15.0 points is within noise")

    def test_too_few_groups_to_ever_reach_alpha_are_said_too(self) -> None:
        before, after = flips(20, 0, 20)
        grouped = (run(*(m.replace(c, group=c.id[1]) for c in side.cases[:9])) for side in (before, after))
        few = (run(*(m.replace(c, group="ab"[i % 2]) for i, c in enumerate(side.cases))) for side in (before, after))
        self.assertEqual(gate(*grouped).verdict, m.REGRESSED)
        report = gate(*few)  # two groups lost everything: p = 2/2**2
        self.assertEqual((report.verdict, report.comparison.p), (m.NO_DIFFERENCE, 0.5))
        self.assert_noted(report, "can never reach alpha")

    def test_where_interval_and_test_disagree_the_test_is_said_to_decide(self) -> None:
        report = gate(*flips(5, 0, 40))
        low, high = report.comparison.interval
        self.assertFalse(low <= 0 <= high)
        self.assert_noted(report, "the test decides")

    def test_a_tag_named_twice_counts_once(self) -> None:
        tagged = run(case("a", "1", tags=("x", "x")), case("b", "1", tags=("x",)))
        self.assertEqual(gate(tagged, tagged).tag_effects, [("x", 2, 0)])


if __name__ == "__main__":
    unittest.main()
