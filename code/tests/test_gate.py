"""The gate's verdict: the paired test, its notes, several candidates, an anchor."""

from __future__ import annotations

import functools
import sys
import unittest
from fractions import Fraction
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import main as m
from builders import JUDGE, KEYWORD, TODAY, GateTest, Sides, beside, case, flips, gate, kinds, run


class Quality(GateTest):
    def test_verdicts_at_their_edges(self) -> None:
        above = 0.03125 + sys.float_info.epsilon
        # p of McNemar: (5, 0) 0.0625, (6, 0) 0.03125, (8, 1) 0.0390625, (7, 1) 0.0703125
        rows: tuple[tuple[tuple[int, int, int], dict[str, float], str], ...] = (
            ((0, 0, 20), {}, "no significant difference"),
            ((5, 0, 20), {}, "no significant difference"),
            ((6, 0, 20), {}, "regressed"),
            ((0, 6, 20), {}, "improved"),
            ((8, 1, 20), {}, "regressed"),
            ((7, 1, 20), {}, "no significant difference"),
            ((6, 0, 20), {"alpha": 0.03125}, "no significant difference"),  # p equal to alpha is not below it
            ((6, 0, 20), {"alpha": above}, "regressed"),
            ((7, 0, 100), {"min_effect": 0.07}, "regressed"),
            ((29, 0, 100), {"min_effect": 0.29}, "regressed"),  # though 0.29 * 100 < 29 in binary
            ((7, 0, 100), {"min_effect": 0.0701}, "regressed, below the minimum effect"),
            ((0, 7, 101), {"min_effect": 0.07}, "improved, below the minimum effect"),
        )
        for (lost, won, n), policy, verdict in rows:
            with self.subTest(lost=lost, won=won, n=n, policy=policy):
                report = gate(flips(lost, won, n), **policy)
                self.assertEqual(report.verdict, verdict)
                self.assertEqual(report.decision, "REJECT" if verdict == "regressed" else "ACCEPT")
                self.assertEqual(report.comparison.effect, Fraction(won - lost, n))

    def test_cases_are_paired_by_id_and_never_by_position(self) -> None:
        # D12
        report = gate((run(case(name, "1") for name in "abc"), run(case(name, "1") for name in "cad")))
        self.assertEqual([pair.id for pair in report.pairing.pairs], ["a", "c"])
        self.assertEqual([new.id for new in report.pairing.new], ["d"])
        self.assert_rejected(report, "missing", "b of the baseline")
        self.assert_noted(report, "new cases, not compared: d")

    def test_one_sample_without_groups_takes_mcnemar_and_all_else_the_sign_flip(self) -> None:
        for before, after, group, test in (
            ("1", "0", None, m.MCNEMAR),
            ("1", "0", "g", m.SIGN_FLIP),
            ("11111", "11110", None, m.SIGN_FLIP),
            ("11", "10", None, m.SIGN_FLIP),
            ("1", "11110", None, m.MCNEMAR),  # compared on the one seed that both have
        ):
            with self.subTest(before=before, after=after, group=group):
                report = gate(beside(case("a", before, group=group), case("a", after, group=group)))
                self.assertEqual((report.comparison.test, len(report.pairing.pairs)), (test, 2))
        forced = m.gate(*flips(6, 0, 20), m.Policy(), m.GateOptions(test=m.SIGN_FLIP))
        self.assertEqual((forced.comparison.test, forced.comparison.p), (m.SIGN_FLIP, 0.03125))

    def test_identical_samples_of_one_case_are_one_pair(self) -> None:
        # D15: five of ten cases lost is 2/2**5, however many equal samples each of them has
        before = run(case(f"c{i}", "1" * 20) for i in range(10))
        after = run(case(f"c{i}", ("0" if i < 5 else "1") * 20) for i in range(10))
        report = gate((before, after))
        self.assertEqual((report.comparison.p, report.decision), (0.0625, "ACCEPT"))

    def test_cases_of_a_group_count_once_whichever_run_names_the_group(self) -> None:
        plain = flips(8, 0, 20)
        before, after = (
            run(c._replace(group="g" if i < 8 else None) for i, c in enumerate(side.cases)) for side in plain
        )
        for sides in ((plain[0], after), (before, plain[1]), (before, after)):
            self.assertEqual(gate(sides).comparison.p, 1.0)

    def test_a_case_without_a_group_counts_by_itself_beside_those_that_have_one(self) -> None:
        plain = flips(6, 0, 20)
        sides = (run((*side.cases[:-1], side.cases[-1]._replace(group="g"))) for side in plain)
        found = gate((next(sides), next(sides))).comparison
        self.assertEqual((found.test, found.p, found.units), (m.SIGN_FLIP, 0.03125, 20))

    def test_unequal_sample_counts_are_compared_on_the_first_seeds(self) -> None:
        # D14: as rates, 1 against 5 samples would call an unchanged model regressed
        report = gate(beside(case("a", "1"), case("a", "10000")))
        self.assertEqual((report.comparison.effect, report.decision), (0, "ACCEPT"))
        self.assert_noted(report, "sample counts differ in 1 cases: compared on the first seeds")
        fewer = gate(beside(case("a", "10000"), case("a", "0")))
        self.assertEqual(fewer.comparison.effect, Fraction(-1, 2))

    def test_sample_counts_without_a_common_measure_are_bad_input_and_no_traceback(self) -> None:
        primes = [p for p in range(2, 110) if all(p % q for q in range(2, p))]
        before, after = (
            run(case(f"c{p}", "1" * (p - 1) + "01"[(i + j) % 2]) for i, p in enumerate(primes))
            for j in (0, 1)
        )
        try:
            gate((before, after))
        except m.UsageError as error:
            self.assertIn("sample", str(error))

    def test_every_alpha_that_a_policy_may_hold_gates_and_reports(self) -> None:
        for alpha in (1e-9, 0.001, 0.002, 0.01, 0.1, 0.4999):
            for lost in (0, 1, 3, 20):
                with self.subTest(alpha=alpha, lost=lost):
                    m.parse_policy("policy", {"alpha": alpha})
                    m.render_gate(gate(flips(lost, 0, 20), alpha=alpha))
        for alpha in (0, 1e-17, 1e-310, 5e-324, 0.75, 1, -0.05):
            with self.subTest(alpha), self.assertRaises(m.UsageError):
                m.parse_policy("policy", {"alpha": alpha})

    def test_an_improvement_can_be_required(self) -> None:
        self.assertEqual(gate(flips(0, 6, 20), "require_improvement").decision, "ACCEPT")
        self.assert_rejected(gate(flips(0, 5, 20), "require_improvement"), "improvement", "required")
        below = gate(flips(0, 6, 20), "require_improvement", min_effect=0.5)
        self.assert_rejected(below, "improvement", "below the minimum effect")

    def test_a_tag_named_twice_counts_once(self) -> None:
        tagged = run((case("a", "1", tags=("x", "x")), case("b", "1", tags=("x",))))
        self.assertEqual(gate((tagged, tagged)).tag_effects, [("x", 2, 0)])


class SeveralCandidates(GateTest):
    def many(self, *sides: Sides, **options: Any) -> list[m.GateReport]:
        candidates = [candidate for _, candidate in sides]
        policies = [candidate.policy for candidate in candidates]
        return m.gate_many(sides[0][0], candidates, policies, m.GateOptions(today=TODAY, **options))

    def test_holm_corrects_improved_over_all_candidates(self) -> None:
        alone, two = self.many(flips(0, 6, 20)), self.many(flips(0, 6, 20), flips(0, 6, 20))
        self.assertEqual(
            [(report.verdict, report.comparison.holm_p) for report in alone], [("improved", None)]
        )
        self.assertEqual([report.verdict for report in two], ["no significant difference"] * 2)
        self.assertEqual([report.decision for report in two], ["ACCEPT"] * 2)
        self.assert_noted(two[0], "Holm p = 0.0625")
        two = self.many(flips(0, 7, 20), flips(0, 7, 20))  # 2/2**7 twice is 0.03125
        self.assertEqual([report.verdict for report in two], ["improved"] * 2)
        baseline, candidate = flips(0, 6, 20)
        edge = candidate._replace(policy=m.Policy(alpha=0.0625))  # a Holm p equal to alpha is not below it
        two = self.many((baseline, edge), (baseline, edge))
        self.assertEqual([report.verdict for report in two], ["no significant difference"] * 2)
        for report in self.many(flips(0, 6, 20), flips(0, 6, 20), require_improvement=True):
            self.assert_rejected(report, "improvement", "is required")

    def test_a_regression_is_never_corrected_away(self) -> None:
        for report in self.many(*[flips(6, 0, 20)] * 5):
            self.assert_rejected(report, "quality", "regressed")
            self.assertEqual(report.verdict, "regressed")

    def anchored(self, anchor: m.Run, baseline: m.Run, candidate: m.Run) -> m.GateReport:
        report = gate((baseline, candidate))
        self.assertEqual(report.decision, "ACCEPT")
        return m.with_anchor(report, gate((anchor, candidate)))

    def test_the_anchor_sees_what_a_rolling_baseline_forgives(self) -> None:
        anchor, candidate = flips(6, 0, 20)
        lost = self.anchored(anchor, candidate, candidate)
        self.assert_rejected(lost, "anchor", "quality: regressed")
        same = self.anchored(candidate, candidate, candidate)
        self.assertEqual(same.decision, "ACCEPT")
        self.assert_noted(same, "against the anchor model: no significant difference")

    def test_a_budget_or_a_quarantine_that_ended_is_held_once_and_not_against_the_anchor_too(self) -> None:
        over: dict[str, Any] = {"max_p95_latency_ms": 1.0, "max_total_cost_usd": 0.001}
        waiver = m.Quarantine("c9", "ann", "OPS-7", "2026-01-01")
        report = gate(flips(0, 0, 20), **over, quarantine=(waiver,))
        self.assertEqual(kinds(report), {"latency", "cost", "quarantine"})
        self.assertEqual(m.with_anchor(report, report).reasons, report.reasons)

    def test_an_anchor_that_lost_a_critical_case_or_cannot_be_compared_is_never_a_pass(self) -> None:
        steady, failing = case("steady", "1"), case("k", "0", critical=True, has_rubric=True)
        candidate = run((failing, steady), judge=KEYWORD)
        for why, anchor in (
            ("critical", run((case("k", "1", critical=True), steady), judge=KEYWORD)),
            ("provider errors", run((case("k", "e"), steady), judge=KEYWORD)),
            ("judge", run((failing._replace(critical=False), steady), judge=JUDGE)),
        ):
            with self.subTest(why):
                report = self.anchored(anchor, candidate, candidate)
                self.assertEqual(report.decision, "REJECT", report.notes)

    def test_an_improvement_over_the_baseline_is_not_required_over_the_anchor_too(self) -> None:
        # the last release lost six cases that this candidate brings back
        baseline, candidate = flips(0, 6, 20)
        report = gate((baseline, candidate), "require_improvement")
        held = m.with_anchor(report, gate((candidate, candidate), "require_improvement"))
        self.assertEqual(held.decision, "ACCEPT", held.reasons)

    def test_no_note_rounds_a_p_to_zero_or_onto_alpha(self) -> None:
        # (40, 0) has p 2e-12; (150, 117) has p 0.04998, which four digits would print as 0.0500
        anchor, candidate = flips(40, 0, 60)
        near = self.anchored(*flips(150, 117, 267)[:1], *[flips(150, 117, 267)[1]] * 2)
        self.assert_noted(near, "0.04998")
        fisher = gate(beside(case("k", "1" * 25, critical=True), case("k", "0" * 25, critical=True)))
        for report in (self.anchored(anchor, candidate, candidate), fisher):
            said = "\n".join((*report.notes, *(reason.text for reason in report.reasons)))
            self.assertNotRegex(said, r"p = 0\.0+(?!\d)")

    def test_a_case_that_was_lost_whole_leaves_the_question_of_enough_cases_answered(self) -> None:
        report = gate(flips(1, 1, 20), non_inferiority_margin=0.02)
        self.assertEqual(report.decision, "INCONCLUSIVE")
        self.assertRegex(report.reasons[0].text, r"about \d+ cases|no number of cases")


class Notes(GateTest):
    def noted(self, before: Any, after: Any, of_before: Any = None, of_after: Any = None) -> m.GateReport:
        """A gate of two runs that differ only in these values of the runs or of their samples."""
        return gate((
            run((case(f"c{i}", "1", **(of_before or {})) for i in range(20)), **before),
            run((case(f"c{i}", "1", **(of_after or {})) for i in range(20)), **after),
        ))  # fmt: skip

    def test_equal_runs_are_said_to_be_equal_and_to_show_nothing(self) -> None:
        report = self.noted({}, {})
        self.assertEqual(len(report.notes), 2, report.notes)
        self.assert_noted(report, "0 discordant cases: fewer than 6 can never reach alpha 0.05")

    def test_what_changed_beside_the_model_is_said(self) -> None:
        loose = {"policy": m.Policy(max_cost_per_call_usd=0.5)}
        for before, after, words in (
            ({}, {"prompt_sha256": "q"}, "the prompt differs"),
            ({}, {"prompt_sha256": "q", "model": "new"}, "two causes, one effect"),
            ({"request": {"top_p": 1}}, {"request": {"top_p": 0.5}}, "request parameters differ: top_p"),
            ({"request": {"stop": None}}, {}, "request parameters differ: stop"),
            ({"samples": 1}, {"samples": 5}, "samples a case differ: 1 and 5"),
            ({"concurrency": 1}, {"concurrency": 8}, "concurrency differs (1 and 8)"),
            ({"judge": JUDGE}, {"judge": KEYWORD}, "the judge differs: judge-v1 and keyword"),
            (loose, {}, "max_cost_per_call_usd: the candidate's is applied"),  # says where they differ
            (loose, loose, "max_cost_per_call_usd: the one asked for is applied"),
        ):
            with self.subTest(words):
                self.assert_noted(self.noted(before, after), words)

    def test_one_cause_is_not_said_to_be_two(self) -> None:
        for change in ({"prompt_sha256": "q"}, {"model": "new"}):
            self.assertNotIn("two causes", "\n".join(self.noted({}, change).notes))

    def test_where_a_policy_was_asked_for_no_note_says_that_the_candidates_is_applied(self) -> None:
        before, after = (run([case("a", "1")], policy=m.Policy(max_cost_ratio=ratio)) for ratio in (2, 3))
        said = [note for note in gate((before, after), max_cost_ratio=4).notes if "max_cost_ratio" in note]
        self.assertTrue(said)
        self.assertFalse([note for note in said if "the candidate's is applied" in note], said)

    def test_what_served_the_answers_and_the_judge_is_said(self) -> None:
        for before, after, words in (
            (
                {"model": "model"},
                {"model": "model-2"},
                "the candidate asked for model and was served model-2",
            ),
            ({"fingerprint": "fp_1"}, {"fingerprint": "fp_2"}, "the system fingerprint differs"),
            ({"server": "vllm"}, {}, "the server differs between the runs: vllm; none"),
            ({"judge_model": "j-1"}, {"judge_model": "j-2"}, "j-2"),
        ):
            with self.subTest(words):
                self.assert_noted(self.noted({}, {}, before, after), words)
        two = run((case("a", "1", model="m-1"), case("b", "1", model="m-2")))
        self.assert_noted(gate((two, two)), "the served model changed within the candidate run: m-1, m-2")

    def test_answers_to_look_at_are_counted_in_both_runs(self) -> None:
        unreadable = (m.AssertionResult("rubric", False, "chatty", True),)
        rows: tuple[tuple[dict[str, Any], str], ...] = (
            ({"flags": ("truncated",)}, "20 truncated answers"),
            ({"flags": ("filtered",)}, "20 filtered answers"),
            ({"flags": ("no_text",)}, "20 answers without text"),
            ({"flags": ("thinking",)}, "20 answers with a <think> block"),
            ({"flags": ("speaks_to_judge",)}, "20 answers that speak to their judge"),
            ({"assertions": unreadable}, "20 unreadable judge replies"),
        )
        for change, words in rows:
            with self.subTest(words):
                self.assert_noted(self.noted({}, {}, {}, change), f"candidate: {words}")
                self.assert_noted(self.noted({}, {}, change, {}), f"baseline: {words}")

    def test_a_loss_within_noise_is_said(self) -> None:
        self.assert_noted(gate(flips(4, 1, 20)), "a net loss of 15.0 points is within noise")

    def test_too_few_groups_to_ever_reach_alpha_are_said_too(self) -> None:
        two = (
            run(c._replace(group="ab"[i % 2]) for i, c in enumerate(side.cases)) for side in flips(20, 0, 20)
        )
        report = gate((next(two), next(two)))  # two groups lost everything: p = 2/2**2
        self.assertEqual((report.verdict, report.comparison.p), ("no significant difference", 0.5))
        self.assert_noted(report, "can never reach alpha")

    def test_where_interval_and_test_disagree_the_test_is_said_to_decide(self) -> None:
        report = gate(flips(5, 0, 40))
        self.assertEqual((report.comparison.p, kinds(report)), (0.0625, set()))
        self.assertLess(report.comparison.interval.high, 0)
        self.assert_noted(report, "the test decides")


class NonInferiority(GateTest):
    def test_the_interval_decides_reject_inconclusive_or_nothing(self) -> None:
        for sides, margin, decision in (
            (flips(0, 0, 20), 0.2, "ACCEPT"),
            (flips(0, 0, 20), 0.1, "INCONCLUSIVE"),
            (flips(0, 0, 20), 0.0, "INCONCLUSIVE"),
            (flips(10, 0, 20), 0.1, "REJECT"),
            (flips(10, 0, 20), 1.0, "ACCEPT"),
        ):
            with self.subTest(margin=margin, decision=decision):
                report = gate(sides, non_inferiority_margin=margin, min_effect=0.6)
                self.assertEqual(report.decision, decision)
        text = gate(flips(0, 0, 20), non_inferiority_margin=0.1).reasons[0].text
        self.assertRegex(text, r"about \d+ cases .* would settle it")

    def test_a_limit_at_the_margin_itself_is_within_it(self) -> None:
        report = gate(flips(0, 0, 20), non_inferiority_margin=0.1)
        for low, high, decision in (
            (-0.1, 0.1, "ACCEPT"),
            (-0.101, 0.1, "INCONCLUSIVE"),
            (-0.2, -0.1, "INCONCLUSIVE"),
            (-0.2, -0.101, "REJECT"),
        ):
            found = report.comparison._replace(interval_found=functools.partial(m.Interval, low, high))
            held = m.ruled(report._replace(comparison=found))
            self.assertEqual(held.decision, decision)
            self.assertEqual(kinds(held), set() if decision == "ACCEPT" else {"non-inferiority"})

    def test_reject_outweighs_inconclusive(self) -> None:
        before, after = flips(0, 0, 20)
        report = gate((before, run(after.cases[1:])), non_inferiority_margin=0.1)
        self.assertEqual(kinds(report), {"missing", "non-inferiority"})
        self.assertEqual(report.decision, "REJECT")


if __name__ == "__main__":
    unittest.main()
