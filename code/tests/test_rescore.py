"""Rescoring stored answers, and the baseline that is replaced on the record."""

from __future__ import annotations

import json
import sys
import unittest
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from helpers import RUBRIC, Result, RunTestCase, run

NO = {"assert": [{"type": "equals", "value": "no"}]}
CLOSE = {"assert": [{"type": "icontains", "value": "ok"}]}


class RescoreTest(RunTestCase):
    def rescore(self, suite: str, *, results: str = "r.json", out: str = "new.json") -> Result:
        argv = ("rescore", "--results", self.path(results), "--suite", suite)
        return run(*argv, *(("--out", self.path(out)) if out else ()))

    def asked(self, cases: Any = 4, changes: Any = (), *flags: str, **answers: Any) -> None:
        """A run of such a suite in r.json."""
        suite = self.suite(cases, changes)
        self.stub = self.serve(suite, **answers)
        self.assertLess(self.ask(suite, self.stub, *flags).code, 2)

    def test_edited_assertions_meet_the_stored_answers_and_flips_are_printed(self) -> None:
        self.asked(c2="OK")
        calls = len(self.stub.calls)
        result = self.rescore(self.suite(changes={1: NO, 2: CLOSE}))
        self.assert_says(result, 0, "c1: pass to fail", "c2: fail to pass", "2 of 4 cases flipped")
        self.assertNotIn("c0", result.out)
        self.assertEqual(self.verdicts("new.json"), ["pass", "fail", "pass", "pass"])
        self.assertEqual(len(self.stub.calls), calls, "no call")
        before, after = self.document("r.json")["cases"], self.document("new.json")["cases"]
        self.assertEqual([before[i] for i in (0, 3)], [after[i] for i in (0, 3)], "the others stay")
        kept = ("output", "latency_ms", "prompt_tokens", "attempts", "model")
        for old, new in zip(before, after):
            for key in kept:
                self.assertEqual(old["samples"][0].get(key), new["samples"][0].get(key))

    def test_without_out_it_only_says_what_would_flip(self) -> None:
        self.asked()
        before = Path(self.path("r.json")).read_bytes()
        self.assert_says(self.rescore(self.suite(changes={0: NO}), out=""), 0, "1 of 4 cases flipped")
        self.assertEqual(Path(self.path("r.json")).read_bytes(), before)

    def test_rescoring_under_the_same_suite_changes_nothing(self) -> None:
        self.asked(3)
        self.assert_says(self.rescore(self.suite(3)), 0, "0 of 3 cases flipped")
        self.assertEqual(self.document("new.json"), self.document("r.json"))

    def test_a_rescored_baseline_stays_paired_where_the_old_one_loses_the_edited_cases(self) -> None:
        self.asked(6)
        edited = self.suite(6, dict.fromkeys(range(4), CLOSE))
        self.rescore(edited)
        self.ask(edited, self.serve(edited), out="candidate.json")
        candidate = ("--candidate", self.path("candidate.json"))
        self.assert_says(
            run("gate", "--baseline", self.path("r.json"), *candidate), 0, "2 pairs", "c0, c1, c2"
        )
        paired = run("gate", "--baseline", self.path("new.json"), *candidate)
        self.assert_says(paired, 0, "6 pairs: 0 regressed")
        self.assertNotIn("edited", paired.out)

    def test_a_case_that_was_asked_something_else_is_refused_and_named(self) -> None:
        self.asked()
        for changes, words in (
            ({1: {"input": "another", **NO}}, "case 'c1': its input or prompt changed too"),
            ({1: {"vars": {"x": "1"}, "input": "q{{x}}{{x}}", **NO}}, "case 'c1'"),
        ):
            self.assert_says(self.rescore(self.suite(changes=changes)), 2, words, "run it again")
        asked_politely = self.suite(changes={2: NO}, prompt="Please: {{input}}")
        self.assert_says(self.rescore(asked_politely), 2, "prompt changed")
        for same_cases in ({"prompt": "Please: {{input}}"}, {"thinking": "strip"}):
            self.assert_says(self.rescore(self.suite(**same_cases)), 2, "prompt changed")
        self.assert_says(self.rescore(self.suite(3)), 2, "'c3': is in the results, not in the suite")
        self.assertFalse(Path(self.path("new.json")).exists())

    def test_answers_that_were_not_kept_or_not_described_are_refused(self) -> None:
        self.asked(2, (), "--no-outputs")
        self.assert_says(self.rescore(self.suite(2, {0: NO})), 2, "case 'c0'", "--no-outputs")
        self.asked(2)
        document = self.document("r.json")
        for case in document["cases"]:
            del case["asked_sha256"]
        Path(self.path("r.json")).write_text(json.dumps(document))
        self.assert_says(self.rescore(self.suite(2, {0: NO})), 2, "do not say what it was asked")

    def test_a_missing_answer_stays_an_error(self) -> None:
        suite = self.suite(3)
        stub = self.serve(suite, faults=[{"case": "c1", "status": 400}])
        self.assert_says(self.ask(suite, stub), 1)
        self.assert_says(self.rescore(self.suite(3, dict.fromkeys(range(3), NO))), 0, "2 of 3")
        self.assertEqual(self.verdicts("new.json"), ["fail", "error", "fail"])

    def test_rubrics_are_rescored_by_the_keyword_judge_and_by_no_other(self) -> None:
        edited = {"assert": [*RUBRIC["assert"], {"type": "max-chars", "value": 1}]}
        for judge, code, words in (("keyword", 0, "c0: pass to fail"), ("judge-v1", 2, "asks no judge")):
            self.asked(2, {0: RUBRIC}, "--judge", judge)
            self.assert_says(self.rescore(self.suite(2, {0: edited})), code, words)

    def test_every_sample_is_scored_again_and_the_bar_moves_with_the_suite(self) -> None:
        self.asked(1, {0: {"samples": 4, "min_pass": 3}}, c0=["ok", "OK", "no", "ok"])
        self.assertEqual(self.verdicts(), ["fail"])
        suite = self.suite(1, {0: {"samples": 4, "min_pass": 3, "critical": True, "tags": ["t"], **CLOSE}})
        self.assert_says(self.rescore(suite), 0, "c0: fail to pass")
        (case,) = self.document("new.json")["cases"]
        self.assertEqual((case["critical"], case["tags"]), (True, ["t"]))
        strict = self.suite(1, {0: {"samples": 4, **CLOSE}})
        self.assert_says(self.rescore(strict, results="new.json"), 0, "c0: pass to fail")


class BaselineTest(RunTestCase):
    def setUp(self) -> None:
        super().setUp()
        suite = self.suite(3)
        for name, answers in (("first.json", {"c1": "no"}), ("second.json", {"c2": "no"})):
            self.ask(suite, self.serve(suite, **answers), out=name)

    def update(self, candidate: str, reason: str, **environ: str) -> Result:
        argv = ("baseline", "update", "--baseline", self.path("base.json"))
        return run(*argv, "--candidate", self.path(candidate), "--reason", reason, environ=environ)

    def log(self) -> str:
        return Path(self.path("base.json.decisions.jsonl")).read_text("utf-8")

    def test_the_baseline_is_the_candidate_and_the_record_says_what_changed(self) -> None:
        self.assert_says(self.update("first.json", "the first"), 0, "base.json is now m")
        self.assertEqual(self.document("base.json"), self.document("first.json"))
        (first,) = map(json.loads, self.log().splitlines())
        self.assertEqual(first["cases"]["c1"], {"old": None, "new": "fail"})
        self.update("second.json", "model 2 shipped ✓")
        self.assertEqual(self.document("base.json"), self.document("second.json"))
        second = json.loads(self.log().splitlines()[1])
        changed = {"c1": {"old": "fail", "new": "pass"}, "c2": {"old": "pass", "new": "fail"}}
        self.assertEqual(second["cases"], changed)
        self.assertEqual((second["reason"], second["when"][:10]), ("model 2 shipped ✓", "2026-11-30"))
        self.assertTrue(second["who"] and second["environment"]["source_sha256"])

    def test_the_log_is_appended_to_and_never_rewritten(self) -> None:
        logs = [""]
        for index in range(4):
            self.update(("first.json", "second.json")[index % 2], f"reason {index}")
            logs.append(self.log())
        for before, after in zip(logs, logs[1:]):
            self.assertTrue(after.startswith(before))
            self.assertEqual(after.count("\n"), before.count("\n") + 1)

    def test_the_gate_prints_the_last_date_and_reason(self) -> None:
        gate = ("gate", "--baseline", self.path("base.json"), "--candidate", self.path("second.json"))
        self.update("first.json", "older")
        self.update("first.json", "labels were wrong")
        said = "the baseline was last replaced on 2026-11-30T12:00:00Z: labels were wrong"
        result = run(*gate, "--markdown", self.path("g.md"), "--out", self.path("g.json"))
        self.assert_says(result, 0, said)
        self.assertNotIn("older", result.out)
        self.assertIn(said, self.document("g.json")["notes"])
        self.assertIn("labels were wrong", Path(self.path("g.md")).read_text("utf-8"))

    def test_a_reason_may_not_be_empty_and_an_unfinished_run_is_no_baseline(self) -> None:
        self.update("first.json", "good")
        before = (Path(self.path("base.json")).read_bytes(), self.log())
        self.assert_says(self.update("second.json", " \n"), 2, "--reason")
        document = self.document("second.json")
        Path(self.path("cut.json")).write_text(json.dumps({**document, "incomplete": "interrupted"}))
        self.assert_says(self.update("cut.json", "r"), 2, "is incomplete (interrupted)")
        self.assert_says(self.update("none.json", "r"), 2, "none.json")
        suite = self.suite(3)
        self.ask(suite, self.serve(suite, faults=[{"case": "c1", "status": 400}]), out="gap.json")
        self.assert_says(self.update("gap.json", "r"), 2, "1 sample without an answer, so no baseline")
        self.assertEqual((Path(self.path("base.json")).read_bytes(), self.log()), before)

    def test_a_log_that_cannot_be_read_stops_the_gate_and_is_named(self) -> None:
        self.update("first.json", "good")
        with open(self.path("base.json.decisions.jsonl"), "a", encoding="utf-8") as file:
            file.write('{"cut": ')
        gate = ("gate", "--baseline", self.path("base.json"), "--candidate", self.path("first.json"))
        self.assert_says(run(*gate), 2, "base.json.decisions.jsonl: line 2")

    def test_a_reason_cannot_act_on_the_terminal_or_the_report(self) -> None:
        self.update("first.json", "\x1b[2J::error::<script>x</script>\nACCEPT")
        gate = ("gate", "--baseline", self.path("base.json"), "--candidate", self.path("first.json"))
        result = run(*gate, "--markdown", self.path("g.md"))
        self.assertEqual(("\x1b" in result.out, "\nACCEPT\n" in result.out), (False, False))
        self.assertNotIn("<script>", Path(self.path("g.md")).read_text("utf-8"))


if __name__ == "__main__":
    unittest.main()
