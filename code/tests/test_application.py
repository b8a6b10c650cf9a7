"""The application's own road: a program that answers, and the support app in all its versions."""

from __future__ import annotations

import json
import os
import shlex
import sys
import time
import unittest
from pathlib import Path
from typing import Any
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import main as m
from helpers import CODE, Result, Script, StubTestCase, run

APP = CODE / "fixtures" / "support-app"
PYTHON = [sys.executable, "-I", "-S"]
BUGS = {
    "": (),
    "swapped-labels": ("two-messages",),
    "lost-token": ("message[special token after a long text]",),
    "dropped-sentence": ("message[at the length limit]",),
}


def command_line(*words: str) -> str:
    return " ".join(words) if os.name == "nt" else shlex.join(words)


class ProgramTest(StubTestCase):
    def program(self, text: str, name: str = "app.py") -> str:
        """The command line of a program that holds what it was given as `given`."""
        head = "import json, os, sys, time\nsys.stdout.reconfigure(newline='\\n')\n"
        head += "given = json.load(sys.stdin)\n"
        (self.folder / name).write_text(head + text + "\n", "utf-8")
        return command_line(*PYTHON, self.path(name))

    def ask(self, suite: str, line: str, *more: str, **parts: Any) -> Result:
        return run(
            "run", "--suite", suite, "--exec", line, "--out", self.path("r.json"), "-q", *more, **parts
        )

    def samples(self, name: str = "r.json") -> list[Any]:
        return [sample for case in self.document(name)["cases"] for sample in case["samples"]]

    def test_the_program_gets_the_case_as_json_and_never_the_reference(self) -> None:
        suite = self.suite(1, {0: {"vars": {"who": "Ana"}, "input": "hi {{who}} ✓", "reference": "secret"}})
        self.assert_says(self.ask(suite, self.program("print(json.dumps(given))")), 0, "0 of 1 case passed")
        given = json.loads(self.samples()[0]["output"])
        asked = [{"role": "user", "content": "hi Ana ✓"}]
        known = {"id": "c0", "input": "hi Ana ✓", "vars": {"who": "Ana"}, "messages": asked, "seed": 0}
        self.assertEqual(given, known)

    def test_a_program_has_its_own_limit_and_not_that_of_a_first_reply(self) -> None:
        with mock.patch.object(m, "FIRST_REPLY_S", 0.05):
            result = self.ask(self.suite(1), self.program("time.sleep(0.2); print('ok')"))
        self.assert_says(result, 0, "1 of 1 case passed")

    def test_the_answer_is_text_or_an_object_with_an_output(self) -> None:
        whole = {"output": "ok", "model": "m-1", "finish_reason": "length"}
        whole["usage"] = {"prompt_tokens": 7, "completion_tokens": 2}  # type: ignore[assignment]
        odd = {"output": "ok", "model": 5, "usage": {"prompt_tokens": -1, "completion_tokens": True}}
        said = {
            "text": "ok\n", "bare": "ok", "lines": "ok\n\n", "whole": json.dumps(whole),
            "odd": json.dumps(odd), "other": '{"folder": "a"}\n', "number": '{"output": 5}',
            "twice": '{"output": "a", "output": "b"}', "list": '["a"]', "nothing": "",
        }  # fmt: skip
        suite = self.suite(
            [{"id": k, "input": t, "assert": [{"type": "equals", "value": "ok"}]} for k, t in said.items()]
        )
        self.assert_says(self.ask(suite, self.program("sys.stdout.write(given['input'])"), "-j", "8"), 0)
        found = {case["id"]: case["samples"][0] for case in self.document("r.json")["cases"]}
        outputs = {name: sample["output"] for name, sample in found.items()}
        plain = dict.fromkeys(("text", "bare", "whole", "odd"), "ok")
        as_it_came = {key: said[key].rstrip("\n") for key in ("other", "number", "twice", "list", "nothing")}
        self.assertEqual(outputs, {**plain, "lines": "ok\n", **as_it_came})
        keys = ("model", "finish_reason", "prompt_tokens", "completion_tokens")
        self.assertEqual([found["whole"].get(key) for key in keys], ["m-1", "length", 7, 2])
        self.assertEqual([found["odd"].get(key) for key in keys], [None] * 4)

    def test_a_program_that_hangs_is_ended_at_the_deadline_with_its_children(self) -> None:
        mark = self.path("alive")
        child = f"import time; time.sleep(0.5); open({mark!r}, 'w')"
        line = self.program(
            f"import subprocess\nsubprocess.Popen({[*PYTHON, '-c', child]!r})\ntime.sleep(60)"
        )
        started = time.perf_counter()
        result = self.ask(self.suite(1), line, "--timeout", "0.4")
        self.assert_says(result, 1, "the program took over 0.4 s", "NO RESULT")
        self.assertLess(time.perf_counter() - started, 10)
        if os.name != "nt":
            time.sleep(max(0.0, started + 1.3 - time.perf_counter()))
            self.assertFalse(os.path.exists(mark), "a child outlived the deadline")

    def test_a_failure_carries_the_exit_code_and_the_tail_of_stderr_on_one_safe_line(self) -> None:
        line = self.program("sys.stderr.write('x' * 5000 + '\\n\\x1b[31mno label: 503\\n'); sys.exit(3)")
        self.assert_says(self.ask(self.suite(1), line), 1, "the program left with 3", "no label: 503")
        kind, message = (self.samples()[0]["error"][key] for key in ("kind", "message"))
        self.assertEqual((kind, "\n" in message, "\x1b" in message), ("program", False, False))
        self.assertLess(len(message), 600)
        self.assert_says(self.ask(self.suite(1), self.program("sys.exit(4)", "b.py")), 1, "(no stderr)")

    def test_what_cannot_be_read_or_started_is_no_answer(self) -> None:
        bytes_ = self.program("sys.stdout.buffer.write(b'\\xff')")
        self.assert_says(self.ask(self.suite(1), bytes_), 1, "not UTF-8")
        self.assert_says(self.ask(self.suite(1), "/no/such/program"), 2, "cannot be started")
        self.assert_says(self.ask(self.suite(1), " "), 2, "--exec")

    def test_every_sample_has_its_own_seed(self) -> None:
        line = self.program("print(given['id'], given['seed'])")
        self.assert_says(self.ask(self.suite(2), line, "--samples", "3"), 0)
        self.assertEqual(
            [sample["output"] for sample in self.samples()], [f"c{i} {n}" for i in range(2) for n in range(3)]
        )

    def test_a_resumed_run_asks_only_what_has_no_answer(self) -> None:
        log, flag = self.path("asked"), self.path("mended")
        line = self.program(
            f"open({log!r}, 'a').write(given['id'] + '\\n')\n"
            f"sys.exit(9) if given['id'] == 'c1' and not os.path.exists({flag!r}) else print('ok')"
        )
        suite = self.suite(3)
        self.assert_says(self.ask(suite, line), 1, "left with 9", "--resume")
        self.assertTrue(os.path.exists(self.path("r.json.journal")))
        Path(flag).touch()
        self.assert_says(self.ask(suite, line, "--resume"), 0, "3 of 3 cases passed")
        self.assertEqual(sorted(Path(log).read_text().split()), ["c0", "c1", "c1", "c2"])
        self.assertFalse(os.path.exists(self.path("r.json.journal")))

    def test_programs_are_compared_like_models(self) -> None:
        good, bad = self.program("print('ok')"), self.program("print('no')", "b.py")
        suite, out = self.suite(6), self.path("out")
        self.assert_says(
            run("run", "--suite", suite, "--exec", good, "--exec", bad, "--out", out, "-j", "8"), 0
        )
        files = {json.loads(path.read_text())["model"]: str(path) for path in Path(out).iterdir()}
        self.assertEqual(set(files), {good, bad})
        gate = run("gate", "--baseline", files[good], "--candidate", files[bad])
        self.assert_says(gate, 1, "6 regressed", "REJECT")


class SupportAppTest(StubTestCase):
    """The example application against the stub, corrected and with each of its faults."""

    def setUp(self) -> None:
        super().setUp()
        suite = m.load_suite(str(APP / "model.json"))
        self.script = self.serve_script(
            Script(suite, m.load_script(suite, str(APP / "model-answers.json")).models, ())
        )
        self.environ = {"MODEL_BASE_URL": self.script.url, "MODEL_NAME": "support-v1"}

    def line(self, bug: str = "") -> str:
        return command_line(*PYTHON, str(APP / "app.py"), *(("--bug", bug) if bug else ()))

    def run_versions(self) -> dict[str, Any]:
        """Results by bug, of one run that asks every version."""
        lines = {self.line(bug): bug for bug in BUGS}
        words = [word for line in lines for word in ("--exec", line)]
        argv = (
            "run",
            "--suite",
            str(APP / "support.json"),
            *words,
            "--out",
            self.path("out"),
            "-j",
            "8",
            "-q",
        )
        self.assert_says(run(*argv, environ=self.environ), 0, "runs: normalise > truncate > model > map")
        documents = [json.loads(path.read_text("utf-8")) for path in Path(self.path("out")).iterdir()]
        return {lines[document["model"]]: document for document in documents}

    def test_each_fault_turns_its_own_case_red_and_the_corrected_version_is_green(self) -> None:
        found = self.run_versions()
        for bug, red in BUGS.items():
            with self.subTest(bug=bug):
                failed = [case["id"] for case in found[bug]["cases"] if case["verdict"] != "pass"]
                self.assertEqual(failed, list(red))
        empty = next(case for case in found[""]["cases"] if case["id"] == "message[empty]")
        self.assertEqual(empty["samples"][0]["output"], '["review-needed"]')
        self.assertNotIn(None, self.script.calls, "the stub was asked something that model.json lacks")
        self.assertEqual(
            set(self.script.calls), {case.id for case in m.load_suite(str(APP / "model.json")).cases}
        )

    def test_the_rows_are_what_their_labels_say(self) -> None:
        rows = {
            case.id: case.vars["text"] for case in m.load_suite(str(APP / "support.json")).cases if case.group
        }
        self.assertEqual(rows["message[empty]"], "")
        self.assertEqual(len(rows["message[at the length limit]"]), 280)
        marked = rows["message[special token after a long text]"]
        self.assertTrue(len(marked) > 300 and marked.endswith("<|vip|>"))

    def test_the_suite_is_proved_under_strict_and_every_fault_is_caught(self) -> None:
        result = run("prove", "--suite", str(APP / "support.json"), "--strict", "--min-score", "1")
        self.assert_says(result, 0, "PROVED")

    def test_prove_holds_the_suite_against_the_broken_and_the_corrected_version(self) -> None:
        versions = ("--broken", self.line("swapped-labels"), "--fixed", self.line())
        good = self.suite([self.two_messages("support.json")])
        result = run("prove", "--suite", good, *versions, environ=self.environ)
        self.assert_says(result, 0, "(two-messages)", "fixed version: 0 cases red", "PROVED: 7 of 7")
        swapped = run("prove", "--suite", good, *versions[2:], "--broken", self.line(), environ=self.environ)
        self.assert_says(swapped, 1, "broken version: 0 cases red", "NOT PROVED")

    def two_messages(self, name: str) -> Any:
        cases = json.loads((APP / name).read_text("utf-8"))["cases"]
        return next(case for case in cases if case["id"] == "two-messages")

    def test_a_check_that_only_counts_survives_the_swap_in_the_table_and_against_the_application(
        self,
    ) -> None:
        versions = ("--broken", self.line("swapped-labels"), "--fixed", self.line())
        result = run("prove", "--suite", str(APP / "counting.json"), *versions, environ=self.environ)
        survivor = 'two-messages: labels swapped: \'["incidents", "invoices"]\''
        self.assert_says(result, 1, survivor, "broken version: 0 cases red", "NOT PROVED")

    def test_a_version_that_gives_no_answer_proves_nothing(self) -> None:
        environ = {**self.environ, "MODEL_NAME": "nobody"}
        result = run("prove", "--suite", str(APP / "counting.json"), "--broken", self.line(), environ=environ)
        self.assert_says(result, 2, "the application gave no answer", "the stub has no model 'nobody'")


if __name__ == "__main__":
    unittest.main()
