"""Every command as a shell sees it: what it prints where, and the code it leaves with."""

from __future__ import annotations

import argparse
import io
import json
import os
import re
import subprocess
import sys
import unittest
from pathlib import Path
from typing import Any
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import main as m
from helpers import ANSWERS, CODE, OPS, PROGRAM, Result, StubTestCase, run, shipped_script, world


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

    def test_an_endpoint_that_no_flag_names_comes_from_the_environment_with_its_own_key(self) -> None:
        url, keys = "http://from-environ/v1", {"MODEL_API_KEY": "m", "OPENAI_API_KEY": "o"}
        for flags, environ, found in (
            ({}, {"MODEL_BASE_URL": url, **keys}, (url, "MODEL_API_KEY")),
            ({}, {"MODEL_BASE_URL": url, "OPENAI_API_KEY": "o"}, (url, "OPENAI_API_KEY")),
            ({"api_key_env": "AZ"}, {"MODEL_BASE_URL": url, **keys}, (url, "AZ")),
            ({"base_url": "http://flag"}, {"MODEL_BASE_URL": url, **keys}, ("http://flag", "OPENAI_API_KEY")),
            ({}, keys, (None, "OPENAI_API_KEY")),
        ):
            with self.subTest(flags=flags, environ=environ):
                args = argparse.Namespace(**{"base_url": None, "api_key_env": None, **flags})
                args = m.with_endpoint(args, environ)
                self.assertEqual((args.base_url, args.api_key_env), found)

    def test_the_command_that_goes_on_is_the_one_that_was_given(self) -> None:
        installed = self.path("mini eval")
        Path(installed).touch()
        for argv, words in (
            (["/a b/main.py", "run", "--out", "r s"], "python3 '/a b/main.py' run --out 'r s' --resume"),
            (["main.py", "run", "--resume", "-q"], "python3 main.py run -q --resume"),
            (["main.py"], "python3 main.py run --resume"),
            ([installed, "run"], f"'{installed}' run --resume"),
            (["-c", "run"], "minieval run --resume"),
        ):
            with self.subTest(argv=argv), mock.patch.object(sys, "argv", argv):
                self.assertEqual(m.resume_command(m.RunOptions()), words)
        url = "http://me:canary@h/v1"
        for options in (m.RunOptions(base_url=url), m.RunOptions(judge_base_url=url)):
            with mock.patch.object(sys, "argv", ["main.py", "run", "--url", url]):
                said = m.resume_command(options)
            self.assertRegex(said, "^python3 main.py run --url .*h/v1.* --resume$")
            self.assertNotIn("canary", said)

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
        here = world()._replace(sleep=mock.Mock(side_effect=KeyboardInterrupt))
        self.assertEqual(m.main(argv, here), 130)
        assert isinstance(here.stdout, io.StringIO)
        self.assertRegex(here.stdout.getvalue(), r"judge-v1 at http://127\.0\.0\.1:\d+/v1\n")
        taken = m.stub_server(shipped_script())
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

    def test_who_asks_for_no_command_that_exists_is_told_of_all(self) -> None:
        heads = {command.name.split()[0] for command in m.COMMANDS}
        for words in ("--help", "rum"):
            result = run(words)
            self.assertEqual(heads - set(re.findall(r"[a-z-]+", result.out + result.err)), set())


class BadInputTest(StubTestCase):
    def test_a_bad_flag_is_bad_input_and_names_it(self) -> None:
        suite = self.suite()
        asked = ("run", "--suite", suite, "--base-url", "http://127.0.0.1:9", "--model", "m")
        table: list[tuple[tuple[str, ...], str]] = [
            ((), "COMMAND"), (("rum",), "rum"), (("run",), "--suite"), (("ledger",), "ACTION"),
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

    def test_the_code_stands_when_nobody_can_be_told(self) -> None:
        closed = io.StringIO()
        closed.close()
        for stream in (closed, None):  # None is what Python makes of `2>&-`
            here = world()._replace(**dict.fromkeys(("stdout", "stderr"), stream))
            with self.subTest(stream=stream):
                self.assertEqual([m.main([word], here) for word in ("bad", "--help")], [2, 0])
                with mock.patch.object(m, "STATS", None):
                    self.assertEqual(m.main(["stats", "mcnemar", "8", "1"], here), 70)

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
