"""Calibration: a judge against people's labels, and the record that binds it to its verdicts."""

from __future__ import annotations

import json
import random
import sys
import unittest
from pathlib import Path
from typing import Any
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import builders
import main as m
from helpers import CODE, RUBRIC, Result, RunTestCase, run

LABELS = str(CODE / "fixtures" / "human-labels.jsonl")
YES, NO, MUTE = (m.JudgeVerdict(passed, "r") for passed in (True, False, None))


def items(*rows: tuple[int, m.JudgeVerdict, bool], **keys: Any) -> list[m.JudgedItem]:
    """So many items with this verdict of the judge and this label of a person."""
    return [
        m.JudgedItem(m.LabelledItem("o", "r", (human,), **keys), (verdict,))
        for n, verdict, human in rows
        for _ in range(n)
    ]


def table(both: int, judge: int, human: int, neither: int) -> m.Calibration:
    rows = ((both, YES, True), (judge, YES, False), (human, NO, True), (neither, NO, False))
    return m.calibrate(items(*rows))


class FiguresTest(unittest.TestCase):
    def kappa(self, *counts: int) -> float:
        kappa = table(*counts).kappa
        assert kappa is not None
        return kappa.value

    def test_kappa_is_what_it_is_by_hand(self) -> None:
        self.assertEqual(self.kappa(6, 0, 0, 4), 1.0)
        self.assertEqual(self.kappa(5, 5, 0, 0), 0.0, "a judge that passes all, labels in balance")
        self.assertEqual(self.kappa(0, 0, 5, 5), 0.0, "a judge that fails all")
        self.assertEqual(self.kappa(0, 5, 5, 0), -1.0)
        # 20, 5, 10, 15: agreed 35/50 = 0.7; by chance 0.5 x 0.6 + 0.5 x 0.4 = 0.5; (0.7 - 0.5) / 0.5
        self.assertAlmostEqual(self.kappa(20, 5, 10, 15), 0.4, delta=1e-15)
        # 45, 15, 25, 15: agreed 0.60; by chance 0.6 x 0.7 + 0.4 x 0.3 = 0.54; 0.06 / 0.46
        self.assertAlmostEqual(self.kappa(45, 15, 25, 15), 3 / 23, delta=1e-15)

    def test_the_confusion_counts_judge_against_people(self) -> None:
        found = table(4, 3, 2, 1)
        counts = (found.both_pass, found.judge_only, found.human_only, found.both_fail)
        self.assertEqual((counts, found.items, found.agreement), ((4, 3, 2, 1), 10, 0.5))
        self.assertEqual(len(found.disagreements), 5)

    def test_kappa_of_one_class_is_undefined_and_not_computed(self) -> None:
        for counts in ((9, 0, 0, 0), (0, 0, 0, 9)):
            self.assertIsNone(table(*counts).kappa)
            said = m.render_calibration(table(*counts), "judge-v1", 0.6)
            self.assertIn("kappa is undefined", said)
            self.assertNotRegex(said, r"kappa -?[0-9]|nan")

    def test_an_unreadable_reply_is_no_pass_and_is_counted(self) -> None:
        found = m.calibrate(items((2, MUTE, True), (1, MUTE, False), (3, YES, True)))
        self.assertEqual((found.unreadable, found.human_only, found.both_fail), (3, 2, 1))

    def test_the_people_are_their_own_ceiling(self) -> None:
        labels = ((True, True, True), (True, True, False), (False, False, False), (True,))
        judged = [m.JudgedItem(m.LabelledItem("o", "r", humans), (YES,)) for humans in labels]
        found = m.calibrate(judged)
        self.assertEqual(found.people_agreement, 7 / 9)  # 3 + 1 + 3 of 3 pairs each
        self.assertEqual((found.both_pass, found.judge_only), (3, 1), "the majority is the label")
        self.assertIn("agree with each other 0.78", m.render_calibration(found, "j", 0.6))
        self.assertIsNone(table(1, 1, 1, 1).people_agreement)

    def test_false_passes_on_critical_items_stand_apart(self) -> None:
        lax, critical = items((9, YES, False), (9, NO, False), (9, YES, True)), {"critical": True}
        found = m.calibrate([*lax, *items((2, YES, False), (3, NO, False), (4, YES, True), **critical)])
        self.assertEqual((found.critical_false_passes, found.critical_fails, found.judge_only), (2, 5, 11))
        said = m.render_calibration(found, "j", 0.6)
        self.assertIn("false passes on critical items 2 of 5", said)
        self.assertIn("false passes 11 of 23", said)

    def test_a_judge_that_contradicts_itself_is_said_to(self) -> None:
        item = m.LabelledItem("o", "r", (True,))
        verdicts = ((YES, YES, YES), (YES, NO, YES), (NO, MUTE, NO), (NO, NO, NO))
        found = m.calibrate([m.JudgedItem(item, row) for row in verdicts])
        self.assertEqual((found.contradictions, found.both_pass, found.human_only), (2, 2, 2))
        self.assertIn("contradicted itself on 2 items", m.render_calibration(found, "j", 0.6))

    def test_a_simulated_judge_is_corrected_to_the_true_rate_that_its_raw_rate_misses(self) -> None:
        rng, true, sens, spec = random.Random(7), 0.5, 0.95, 0.7  # the judge passes 0.625 of them
        raw, corrected, covered = 0.0, 0.0, 0
        for _ in range(400):
            passed, good, bad = (
                sum(rng.random() < share for _ in range(100))
                for share in (true * sens + (1 - true) * (1 - spec), sens, spec)
            )
            found = m.rogan_gladen(passed, 100, good, 100, bad, 100)
            assert found is not None
            raw, corrected = raw + passed / 100 - true, corrected + found.rate - true
            covered += found.low <= true <= found.high
        self.assertAlmostEqual(raw / 400, 0.125, delta=0.01)
        self.assertAlmostEqual(corrected / 400, 0, delta=0.01)
        self.assertGreaterEqual(covered / 400, 0.93)


class CalibrateTest(RunTestCase):
    def labels(self, *lines: Any) -> str:
        texts = (line if isinstance(line, str) else json.dumps(line) for line in lines)
        Path(self.path("labels.jsonl")).write_text("\n".join(texts), "utf-8")
        return self.path("labels.jsonl")

    def calibrate(self, labels: str, *more: str, judge: str = "keyword") -> Result:
        argv = ("calibrate", "--labels", labels, "--judge", judge, "--out", self.path("record.json"))
        return run(*argv, *more)

    def record(self, judge: str = "judge-v1", **changes: Any) -> str:
        """A record of a judge with sensitivity 0.9 and specificity 0.8, by 20 labels each."""
        found = m.calibration_document(table(18, 4, 2, 16), judge, [judge], "0" * 64, 0.6, "2026-11-30")
        Path(self.path("made.json")).write_text(json.dumps({**found, **changes}))
        return self.path("made.json")

    def test_the_shipped_labels_measure_the_stub_judge(self) -> None:
        stub = self.serve(self.suite(1))
        result = self.calibrate(LABELS, "--judge-base-url", stub.url, "--repeats", "2", judge="judge-v1")
        self.assert_says(result, 0, "12 labelled items", "agreement", "false passes", "kappa")
        found = self.document("record.json")
        self.assertEqual(len(stub.calls), 24)
        known = {"judge": "judge-v1", "served": ["judge-v1"], "items": 12, "contradictions": 0}
        self.assertEqual({key: found[key] for key in known}, known)
        self.assertEqual(found["prompt_sha256"], m.JUDGE_PROMPT_SHA256)
        self.assertEqual(found["labels_sha256"], m.file_sha256(LABELS))
        self.assertEqual(sum(found["confusion"].values()), 12)
        self.assertEqual(self.calibrate(LABELS).out.split("kappa")[1], result.out.split("kappa")[1])

    def test_below_the_bar_or_undefined_is_no(self) -> None:
        pair = [
            {"output": "ok", "rubric": "'ok'", "human": True},
            {"output": "x", "rubric": "'ok'", "human": False},
        ]
        good = self.labels(*pair * 5)
        self.assert_says(self.calibrate(good), 0, "kappa 1.00", "at or above")
        bad = self.labels(*pair * 5, *({**row, "human": not row["human"]} for row in pair * 3))
        self.assert_says(self.calibrate(bad), 1, "BELOW --min-kappa 0.6", "judge passed, people not: 'ok'")
        self.assert_says(self.calibrate(bad, "--min-kappa", "0.2"), 0)
        self.assert_says(self.calibrate(self.labels(pair[0], pair[0])), 1, "kappa is undefined")
        self.assertIsNone(self.document("record.json")["kappa"])

    def test_a_judge_out_of_reach_measures_nothing(self) -> None:
        stub = self.serve(self.suite(1), faults=[{"every": 1, "status": 401}])
        result = self.calibrate(LABELS, "--judge-base-url", stub.url, judge="judge-v1")
        self.assert_says(result, 1, "the judge could not be asked")
        self.assertFalse(Path(self.path("record.json")).exists())
        self.assert_says(self.calibrate(LABELS, judge="judge-v1"), 2, "--judge-base-url")

    def test_a_judge_that_never_replies_is_given_up_before_its_calls_time_out(self) -> None:
        stub = self.serve(self.suite(1), faults=[{"delay_s": 1}])
        with mock.patch.object(m, "FIRST_REPLY_S", 0.2):
            result = self.calibrate(LABELS, "--judge-base-url", stub.url, judge="judge-v1")
        self.assert_says(result, 1, "the judge could not be asked: the", "no answer in 0.2 s")

    def test_hostile_labels_are_bad_input_and_name_the_line(self) -> None:
        good: dict[str, Any] = {"output": "ok", "rubric": "says 'ok'", "human": True}
        odd: tuple[Any, ...] = ("true", 1, None, [], "yes")
        odd_humans: tuple[Any, ...] = ([], [1], [True, False], "yes", [None])
        texts = (
            '{"output": ', "[]", "null", '"x"', "NaN", "{}", "[" * 50_000, '{"human": true, "human": false}',
        )  # fmt: skip
        for line in (
            *texts,
            *({**good, "human": value} for value in odd),
            *({**good, "output": value} for value in (5, None, ["ok"])),
            *({**good, "rubric": value} for value in (5, "", None)),
            *({**good, "critical": 1}, {**good, "humans": [True]}, {**good, "extra": 1}),
            {key: value for key, value in good.items() if key != "human"},
            *({"output": "o", "rubric": "'o'", "humans": humans} for humans in odd_humans),
        ):
            with self.subTest(line=str(line)[:60]):
                self.assert_says(self.calibrate(self.labels(good, line)), 2, "labels.jsonl", "line 2")
        for text in ("", "\n \n"):
            self.assert_says(self.calibrate(self.labels(text)), 2, "no label")
        self.assert_says(self.calibrate(self.labels({**good, "rubric": "polite?"})), 2, "phrase")
        loud = {"output": "\x1b[2J\n::error::ok", "rubric": "'no'", "human": True, "note": "n"}
        self.assertNotIn("\x1b", self.calibrate(self.labels(loud, good)).out)

    def judged(self, record: str, *more: str, judge: str = "judge-v1", out: str = "r.json") -> Result:
        suite = self.suite(10, dict.fromkeys(range(10), RUBRIC))
        stub = self.serve(suite, c0="no", c1="no", c2="no")
        return self.ask(suite, stub, "--judge", judge, "--calibration", record, *more, out=out)

    def test_a_record_of_another_judge_or_prompt_is_refused_before_anything_is_asked(self) -> None:
        for changes, judge, words in (
            ({"judge": "judge-v2"}, "judge-v1", "measured the judge 'judge-v2', not 'judge-v1'"),
            ({"prompt_sha256": "0" * 64}, "judge-v1", "another judge prompt: calibrate again"),
            ({"prompt_sha256": None}, "judge-v1", "another judge prompt"),
            ({}, "keyword", "measured the judge 'judge-v1', not 'keyword'"),
            ({"schema": "minieval/calibration/2"}, "judge-v1", "update minieval"),
            ({"confusion": {"both_pass": 1}}, "judge-v1", "confusion"),
            ({"confusion": dict.fromkeys(m.CONFUSION, 10**400)}, "judge-v1", "at most 10**12"),
            ({"kappa": {"value": "high"}}, "judge-v1", "kappa"),
        ):
            record = self.record(**changes)
            with self.subTest(changes=changes, judge=judge):
                self.assert_says(self.judged(record, judge=judge), 2, "made.json", words)
                self.assertFalse(Path(self.path("r.json")).exists())

    def test_run_and_gate_show_kappa_and_the_rate_corrected_for_the_judges_errors(self) -> None:
        # 7 of 10 passed; (0.7 + 0.8 - 1) / (0.9 + 0.8 - 1) = 5/7; kappa (34 x 40 - 800) / (1600 - 800) = 0.7
        words = "rubrics 7 of 10 by a judge of kappa 0.70: corrected for its errors 0.71"
        self.assert_says(self.judged(self.record()), 0, words)
        rate = m.rubric_rate(m.load_run(self.path("r.json")))
        assert rate is not None and rate.corrected is not None
        self.assertAlmostEqual(rate.corrected.rate, 5 / 7, delta=1e-12)
        self.assertLess(rate.corrected.low, 0.55, "the interval carries the judge's uncertainty too")
        self.judged(self.record(), out="b.json")
        both = ("--baseline", self.path("b.json"), "--candidate", self.path("r.json"))
        result = run("gate", *both, "--out", self.path("g.json"), "--markdown", self.path("g.md"))
        self.assert_says(result, 0, words)
        self.assertIn(words, Path(self.path("g.md")).read_text("utf-8"))
        rubrics = self.document("g.json")["candidate"]["rubrics"]
        self.assertEqual((rubrics["passed"], rubrics["n"]), (7, 10))
        document = self.document("r.json")
        for key, value in (("judge", "judge-v9"), ("prompt_sha256", "1" * 64)):
            other = {**document, "calibration": {**document["calibration"], key: value}}
            Path(self.path("b.json")).write_text(json.dumps(other))
            self.assert_says(run("gate", *both), 2, "b.json", "measured another judge")

    def test_only_the_rubrics_of_first_samples_are_counted(self) -> None:
        rubric, other = (m.AssertionResult(kind, True, "") for kind in ("rubric", "equals"))
        record = {"confusion": dict(zip(m.CONFUSION, (18, 2, 2, 18))), "kappa": None}
        samples = (m.Sample(0, assertions=(rubric, other)), m.Sample(1, assertions=(rubric,)))
        found = m.rubric_rate(builders.run([m.CaseResult("a", "sha", samples)], calibration=record))
        assert found is not None
        self.assertEqual((found.passed, found.n, found.kappa), (1, 1, None))
        self.assertIsNone(m.rubric_rate(builders.run([builders.case("a", "1")], calibration=record)))

    def test_a_judge_too_weak_to_correct_for_is_said_to_be(self) -> None:
        weak = dict(zip(m.CONFUSION, (10, 10, 10, 10)))
        self.assert_says(self.judged(self.record(confusion=weak)), 0, "too weak to correct for")


if __name__ == "__main__":
    unittest.main()
