"""The suites that ship: the figures that the README shows, and what every stub answer is worth."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import unittest
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock
from xml.etree import ElementTree

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import main as m
from helpers import CHANGELOG, OPS, PROGRAM, Result, Script, StubTestCase, run, shipped_script

MODELS = ("ops-v1", "ops-v2-regressed", "ops-v2-improved", "ops-v2-large")
# One letter a case in suite order, a bracket for a case with several answers.
SHIPPED = {
    "changelog-v1": "pp",
    "changelog-v2": "ff",
    "ops-v1": "pppfppfffppp[ppfpf]fpffpp[pffff]",
    "ops-v2-regressed": "ffpfpfffpfffpfpffffp",
    "ops-v2-improved": "pppfpppppppppppppppp",
    "ops-v2-large": "pppfpppppppppppppppp",
}


def verdict_pattern(suite: m.Suite, script: m.StubScript, model: str) -> str:
    """p or f for each scripted answer, graded as a run grades it; ? where the stub has none."""
    pattern = ""
    with contextlib.closing(m.TimedSearch()) as search:
        tools = m.Tools(search, m.keyword_judge)
        for case in suite.cases:
            answers = script.models[model]["answers"].get(case.id, [])
            letters = ""
            for seed in range(1 if isinstance(answers, str) else max(len(answers), 1)):
                try:
                    text = script.answer(model, m.case_messages(suite, case), seed)
                except LookupError:
                    letters += "?"
                    continue
                results = m.grade(case, m.Reply(text), tools)
                letters += "p" if all(result.passed for result in results) else "f"
            pattern += letters if len(letters) == 1 else f"[{letters}]"
    return pattern


class FigureTest(unittest.TestCase):
    """The figures that the README shows, from the shipped suite and its scripted models."""

    folder: Path
    stub: Script
    results: dict[str, Result]

    @classmethod
    def setUpClass(cls) -> None:
        served = StubTestCase()
        served.setUp()
        cls.addClassCleanup(served.doCleanups)
        cls.folder, cls.stub = served.folder, served.serve_script(shipped_script())
        cls.results = {model: cls.ask(model) for model in MODELS}

    @classmethod
    def ask(cls, model: str, *more: str, judge: str = "judge-v1", out: str = "") -> Result:
        out = str(cls.folder / (out or f"{model}.json"))
        argv = ("run", "--suite", OPS, "--base-url", cls.stub.url, "--model", model, "--out", out)
        return run(*argv, "--judge", judge, *more)

    def gate(self, model: str, *more: str, **parts: Any) -> Result:
        paths = [str(self.folder / f"{name}.json") for name in ("ops-v1", model)]
        return run("gate", "--baseline", paths[0], "--candidate", paths[1], *more, **parts)

    def assert_says(self, result: Result, code: int, *words: str) -> None:
        StubTestCase.assert_says(self, result, code, *words)  # type: ignore[arg-type]

    def test_the_runs_exit_0_whatever_the_pass_rate(self) -> None:
        table = {
            "ops-v1": "13 of 20 cases passed, 95 % interval (0.43 to 0.82)",
            "ops-v2-regressed": "6 of 20 cases passed, 95 % interval (0.15 to 0.52)",
            "ops-v2-improved": "19 of 20 cases passed",
            "ops-v2-large": "19 of 20 cases passed",
        }
        for model, words in table.items():
            with self.subTest(model=model):
                self.assert_says(self.results[model], 0, words)
                self.assertNotIn("cases passed", self.results[model].err)

    def test_the_regressed_candidate_is_rejected_for_quality_and_two_critical_cases(self) -> None:
        result = self.gate("ops-v2-regressed")
        self.assert_says(
            result, 1, "8 regressed", "1 improved", "0.0391", "-0.35",
            "delete-all-namespaces", "redact-email", "-dates",
        )  # fmt: skip
        self.assertEqual(result.out.splitlines()[-1], "REJECT (quality: regressed)")
        regressed = result.out[: result.out.index("because")]
        self.assertIn("cert-expiry", regressed)

    def test_the_improved_candidate_is_accepted(self) -> None:
        result = self.gate("ops-v2-improved")
        self.assert_says(result, 0, "0.0312", "ACCEPT (quality: improved)")
        self.assertEqual(result.err, "")

    def test_the_large_candidate_is_rejected_on_cost_alone(self) -> None:
        result = self.gate("ops-v2-large")
        words = ("$0.001852 per call", "$0.0005", "REJECT (quality: improved)")
        self.assert_says(result, 1, *words)
        self.assertEqual(result.out.count("\n  - "), 1)

    def test_several_candidates_leave_with_the_worst_code(self) -> None:
        worst = str(self.folder / "ops-v2-regressed.json")
        self.assert_says(self.gate("ops-v2-improved", "--candidate", worst), 1, "ACCEPT", "REJECT")

    def test_five_samples_show_what_one_hides(self) -> None:
        result = self.ask("ops-v1", "--samples", "5", judge="keyword", out="five.json")
        self.assert_says(result, 0, "11 of 20 cases passed", "leaked-key (critical)")
        cases = {case["id"]: case for case in json.loads((self.folder / "five.json").read_text())["cases"]}
        self.assertAlmostEqual(cases["crashloop-first-step"]["pass_at_k"]["1"], 0.6)
        self.assertAlmostEqual(cases["leaked-key"]["pass_at_k"]["1"], 0.2)

    def test_the_keyword_judge_gives_the_verdicts_of_the_judge_over_http(self) -> None:
        self.ask("ops-v1", judge="keyword", out="keyword.json")
        documents = [json.loads((self.folder / n).read_text()) for n in ("ops-v1.json", "keyword.json")]
        found = [
            [(a["passed"], a["detail"]) for c in d["cases"] for a in c["samples"][0]["assertions"]]
            for d in documents
        ]
        self.assertEqual(found[0], found[1])

    def test_a_gate_writes_json_junit_and_markdown_and_prints_json_when_asked(self) -> None:
        names = {key: str(self.folder / f"gate.{key}") for key in ("out", "junit", "markdown")}
        flags = [word for key, path in names.items() for word in (f"--{key}", path)]
        result = self.gate("ops-v2-regressed", "--json", *flags)
        document = json.loads(result.out)
        self.assertEqual((result.code, document["decision"]), (1, "REJECT"))
        self.assertEqual(json.loads(Path(names["out"]).read_text()), document)
        root = ElementTree.parse(names["junit"]).getroot()
        self.assertEqual(len(root.findall(".//testcase")), 21)
        self.assertIn("REJECT", Path(names["markdown"]).read_text())

    def test_an_action_gets_summary_annotations_and_outputs_unasked(self) -> None:
        files = {key: str(self.folder / key) for key in ("GITHUB_STEP_SUMMARY", "GITHUB_OUTPUT")}
        result = self.gate("ops-v2-regressed", environ={"GITHUB_ACTIONS": "true", **files})
        self.assertEqual(result.code, 1)
        self.assertIn("REJECT", Path(files["GITHUB_STEP_SUMMARY"]).read_text())
        self.assertIn("decision=REJECT\n", Path(files["GITHUB_OUTPUT"]).read_text())
        commands = [line for line in result.err.splitlines() if line.startswith("::")]
        self.assertTrue(0 < len(commands) <= 10)

    def test_stored_answers_are_scored_again_without_a_call(self) -> None:
        self.ask("ops-v1", judge="keyword", out="keyword.json")
        asked = len(self.stub.calls)
        path = str(self.folder / "keyword.json")
        self.assert_says(run("rescore", "--results", path, "--suite", OPS), 0, "0 of 20 cases flipped")
        self.assertEqual(len(self.stub.calls), asked)

    def test_a_reader_that_goes_away_changes_neither_code_nor_reports(self) -> None:
        out = self.folder / "piped.json"
        paths = [str(self.folder / f"{name}.json") for name in ("ops-v1", "ops-v2-regressed")]
        gate = ["gate", "--baseline", paths[0], "--candidate", paths[1], "--out", str(out)]
        asked = ["run", "--suite", OPS, "--base-url", self.stub.url, "--model", "ops-v1"]
        asked += ["--judge", "keyword", "--out", str(out)]
        table = [(gate, 1, "stdout"), (gate, 1, "closed"), (asked, 0, "both"), (asked, 0, "closed")]
        for argv, code, stream in table if os.name != "nt" else table[::2]:
            with self.subTest(command=argv[0], stream=stream):
                out.unlink(missing_ok=True)
                read, write = os.pipe()
                os.close(read)  # the reader has gone before the first byte
                streams: dict[str, Any] = {"stdout": write, "stderr": subprocess.PIPE}
                if stream == "both":
                    streams["stderr"] = write
                words = [*PROGRAM, *argv]
                if stream == "closed":
                    words = ["sh", "-c", 'exec "$@" >&- 2>&-', "sh", *words]
                done = subprocess.run(words, timeout=20, **streams)
                os.close(write)
                self.assertEqual(done.returncode, code, done)
                self.assertNotIn(b"Traceback", done.stderr or b"")
                self.assertTrue(json.loads(out.read_text()))


class FixtureTest(unittest.TestCase):
    def models(self) -> Iterator[tuple[m.Suite, Script, str]]:
        for path in (OPS, CHANGELOG):
            suite, script = m.load_suite(path), shipped_script(path)
            for model in script.models:
                if model != "judge-v1":
                    yield suite, script, model

    def test_every_shipped_answer_has_the_verdict_that_was_meant(self) -> None:
        found = {parts[2]: verdict_pattern(*parts) for parts in self.models()}
        self.assertEqual(found, SHIPPED)

    def test_deleting_any_one_answer_would_be_seen(self) -> None:
        for suite, script, model in self.models():
            answers = script.models[model]["answers"]
            shape = SHIPPED[model].replace("f", "p")
            for case, said in list(answers.items()):
                for index in range(1 if isinstance(said, str) else len(said)):
                    if isinstance(said, str):
                        del answers[case]
                    else:
                        answers[case] = said[:index] + said[index + 1 :]
                    with mock.patch.object(m, "grade", return_value=()):
                        without = verdict_pattern(suite, script, model)
                    answers[case] = said
                    self.assertNotEqual(without, shape, (model, case, index))


if __name__ == "__main__":
    unittest.main()
