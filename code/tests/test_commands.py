"""Every command as a shell sees it: what it prints where, and the code it leaves with."""

from __future__ import annotations

import contextlib
import io
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
from helpers import ANSWERS, CODE, OPS, PROGRAM, Result, Script, StubTestCase, run, world

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


CHANGELOG = str(CODE / "suites" / "changelog.json")
CHANGELOG_ANSWERS = str(CODE / "fixtures" / "stub-changelog-answers.json")


def shipped_script(path: str = OPS) -> Script:
    suite = m.load_suite(path)
    return Script(suite, m.load_script(suite, ANSWERS if path == OPS else CHANGELOG_ANSWERS).models, ())


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


class CommandTest(StubTestCase):
    def test_the_tour_ends_with_the_scripted_verdicts_and_where_the_files_are(self) -> None:
        result = run("demo", "--out", self.path("tour"))
        self.assert_says(result, 0, f"files in {self.path('tour')}")
        tail = result.out[result.out.rindex("\nverdicts\n") :].split("\n")[2:5]
        self.assertEqual(
            [" ".join(line.split()) for line in tail],
            [
                "ops-v2-regressed REJECT (quality: regressed)",
                "ops-v2-improved ACCEPT (quality: improved)",
                "ops-v2-large REJECT (quality: improved)",
            ],
        )
        self.assertEqual(len(os.listdir(self.path("tour"))), 7)

    def test_the_tour_is_no_when_a_verdict_is_not_as_scripted(self) -> None:
        with mock.patch.dict(m.DEMO_VERDICTS, {"ops-v2-large": ("ACCEPT", "improved")}):
            self.assert_says(run("demo", "--out", self.path("tour")), 1)

    def test_stats_print_one_figure_and_as_json_one_object(self) -> None:
        table: list[tuple[list[str], str, Any]] = [
            (["mcnemar", "8", "1"], "0.0390625", 0.0390625),
            (["pass-at-k", "5", "3", "1"], "0.6", 0.6),
            (["min-discordant", "0.05"], "6", 6),
        ]
        for words, text, value in table:
            self.assertEqual(run("stats", *words), Result(0, text + "\n", ""))
            self.assertEqual(json.loads(run("stats", *words, "--json").out), {"value": value})
        interval = json.loads(run("stats", "wilson", "13", "20", "--json").out)
        self.assertEqual([round(interval[key], 2) for key in ("low", "high")], [0.43, 0.82])
        for words in (["mcnemar", "8"], ["mcnemar", "8", "-1"], ["wilson", "21", "20"], ["x", "1"]):
            self.assert_says(run("stats", *words), 2)

    def test_a_promptfoo_configuration_goes_to_stdout_or_whole_into_a_file(self) -> None:
        argv = ("promptfoo-config", "--suite", OPS, "--base-url", "http://h:1", "--model", "m")
        judged = (*argv, "--judge-model", "judge-v1")
        printed = run(*judged)
        self.assert_says(printed, 0, "llm-rubric")
        self.assert_says(run(*judged, "--out", self.path("c.yaml")), 0, "wrote")
        self.assertEqual(Path(self.path("c.yaml")).read_text("utf-8"), printed.out)
        self.assert_says(run(*argv), 2)
        self.assert_says(run(*judged, "--out", str(self.folder)), 2)

    def test_serve_stub_prints_where_it_is_and_leaves_on_an_interrupt(self) -> None:
        argv = ("serve-stub", "--suite", OPS, "--answers", ANSWERS)
        here = world()
        object.__setattr__(here, "sleep", mock.Mock(side_effect=KeyboardInterrupt))
        self.assertEqual(m.main(argv, here), 130)
        assert isinstance(here.stdout, io.StringIO)
        self.assertRegex(here.stdout.getvalue(), r"judge-v1 at http://127\.0\.0\.1:\d+/v1\n")
        taken = m.StubServer(shipped_script())
        self.addCleanup(taken.server_close)
        self.assert_says(run(*argv, "--port", str(taken.server_address[1])), 2, "cannot be opened")

    def test_the_offline_commands_answer_without_an_endpoint(self) -> None:
        labels = str(CODE / "fixtures" / "human-labels.jsonl")
        table: list[tuple[tuple[str, ...], str]] = [
            (("plan", "--drop", "0.1", "--discordance", "0.2"), "cases"),
            (("prove", "--suite", OPS), "fault"),
            (("calibrate", "--labels", labels, "--judge", "keyword"), "kappa"),
        ]
        for argv, word in table:
            with self.subTest(command=argv[0]):
                self.assert_says(run(*argv), 0, word)
                self.assertIsInstance(json.loads(run(*argv, "--json").out), dict)

    def test_help_and_version_are_done_and_go_to_stdout(self) -> None:
        self.assertEqual(run("--version"), Result(0, f"minieval {m.__version__}\n", ""))
        for words in ((), ("run",), ("gate",), ("stats", "wilson")):
            result = run(*words, "--help")
            self.assertEqual((result.code, result.err), (0, ""))
            self.assertIn("usage: minieval", result.out)
            result.out.encode("ascii")  # a console of any encoding can show it


class BadInputTest(StubTestCase):
    def test_a_bad_flag_is_bad_input_and_names_it(self) -> None:
        suite = self.suite()
        asked = ("run", "--suite", suite, "--base-url", "http://127.0.0.1:9", "--model", "m")
        table: list[tuple[tuple[str, ...], str]] = [
            ((), "COMMAND"), (("rum",), "rum"), (("run",), "--suite"),
            (("serve-stub", "--port", "65536"), "--port"), (("gate", "--alpha", "0"), "--alpha"),
            ((*asked[:4], "127.0.0.1:9", "--model", "m"), "--base-url"),
        ]  # fmt: skip
        flags = "--sampels 2, --samples 0, -j x, --max-cost-usd nan, --timeout inf, --sample 2"
        for flag in f"{flags}, --min-pass-rate 50, --header X-Y".split(", "):
            table.append(((*asked, *flag.split()), flag.split()[0]))
        for argv, words in table:
            with self.subTest(argv=argv[-2:]):
                self.assert_says(run(*argv), 2, words)

    def test_a_bad_file_is_bad_input_whatever_reads_it(self) -> None:
        bad = {
            "cut.json": b'{"name": "s", "cases": [', "empty.json": b"", "list.json": b"[]",
            "nul.json": b"\0", "deep.json": b"[" * 50_000, "latin.json": b'{"name": "\xe9"}',
            "newer.json": b'{"schema": "minieval/results/9"}', "number.json": b"1e999",
            "none.json": None, "twice.json": b'{"name": "a", "name": "b"}',
        }  # fmt: skip
        suite = self.suite()
        for name, data in bad.items():
            path = self.path(name)
            if data is not None:
                Path(path).write_bytes(data)
            endpoint = ("--base-url", "http://127.0.0.1:9", "--model", "m")
            for argv in (
                ("run", "--suite", path, *endpoint),
                ("gate", "--baseline", path, "--candidate", path),
                ("serve-stub", "--suite", suite, "--answers", path),
                ("promptfoo-config", "--suite", path, *endpoint),
                ("prove", "--suite", path),
                ("plan", "--suite", path),
                ("rescore", "--results", path, "--suite", suite),
                ("calibrate", "--labels", path, "--judge", "keyword"),
                ("run", "--suite", suite, *endpoint, "--fail-fast", "--baseline", path),
            ):
                with self.subTest(name=name, command=argv[0]):
                    self.assert_says(run(*argv), 2, path)

    def test_nothing_to_evaluate_is_never_a_pass(self) -> None:
        suite = self.suite(2, {0: {"skip": "broken"}, 1: {"golden": True}})
        endpoint = ("--base-url", "http://127.0.0.1:9", "--model", "m")
        self.assert_says(run("run", "--suite", suite, *endpoint), 2, "nothing to evaluate")
        self.assert_says(run("run", "--suite", self.suite(0), *endpoint), 2)

    def test_an_output_that_cannot_stand_is_refused_before_the_first_request(self) -> None:
        suite = self.suite()
        self.stack.callback(os.chdir, os.getcwd())
        os.chdir(self.folder)  # where a file without a name would go
        before = Path(suite).read_text()
        stub = self.serve(suite)
        asked = ("run", "--suite", suite, "--base-url", stub.url, "--model", "m")
        good = self.path("good.json")
        table: list[tuple[str, ...]] = [
            ("--out", "/proc/nope/r.json"), ("--out", str(self.folder)), ("--out", ""), ("--out", suite),
            ("--junit", "/proc/nope/j.xml"), ("--junit", ""), ("--junit", self.path("n" * 300)),
            ("--out", good, "--junit", good), ("--out", good, "--junit", self.path("./good.json")),
            ("--out", suite, "--model", "n"), ("--out", good, "--fail-fast", "--baseline", good),
        ]  # fmt: skip
        for flags in table:
            with self.subTest(flags=flags):
                self.assert_says(run(*asked, *flags), 2)
        self.assertEqual((stub.calls, Path(suite).read_text()), ([], before))
        self.assert_says(run(*asked, "--out", self.path("new/dir/r.json")), 0)

    def test_rubrics_need_a_judge_and_the_keyword_judge_needs_phrases(self) -> None:
        endpoint = ("--base-url", "http://127.0.0.1:9", "--model", "m")
        self.assert_says(run("run", "--suite", OPS, *endpoint), 2, "--judge")


class BoundaryTest(StubTestCase):
    def test_a_bug_is_70_with_a_traceback_on_stderr(self) -> None:
        with mock.patch.object(m, "stats_document", side_effect=ZeroDivisionError("planted")):
            result = run("stats", "mcnemar", "8", "1")
        self.assert_says(result, 70, "ZeroDivisionError: planted", "this is a bug in minieval")
        self.assertEqual(result.out, "")

    def test_an_interrupt_is_130(self) -> None:
        with mock.patch.object(m, "stats_document", side_effect=KeyboardInterrupt):
            self.assert_says(run("stats", "mcnemar", "8", "1"), 130, "interrupted")

    def test_a_console_of_any_encoding_shows_a_run_and_the_files_are_utf_8(self) -> None:
        ok = [{"type": "equals", "value": "✓"}]
        suite = self.suite([{"id": "✓ 通过", "input": "q", "assert": ok}], name="naïve ✓")
        stub = self.serve(suite, **{"✓ 通过": "😀"})
        argv = [*PROGRAM, "run", "--suite", suite, "--base-url", stub.url]
        argv += ["--model", "m", "--out", self.path("r.json"), "--junit", self.path("j.xml")]
        for encoding in ("cp1252", "ascii"):
            environ = {**os.environ, "PYTHONIOENCODING": encoding, "PYTHONUTF8": "0", "LC_ALL": "C"}
            done = subprocess.run(argv, capture_output=True, env=environ, timeout=20)
            self.assertEqual((done.returncode, b"Traceback" in done.stderr), (0, False), done)
            for name in ("r.json", "j.xml"):
                self.assertIn("通过", Path(self.path(name)).read_text("utf-8"))


if __name__ == "__main__":
    unittest.main()
