"""promptfoo, reading the config that minieval writes, must reach minieval's verdicts.

Both ask the same stub over HTTP: promptfoo with the generated config as it is, minieval by `run`.
promptfoo and Node.js come from the lock file in this folder (`npm ci`).
"""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import unittest
from collections.abc import Iterator
from typing import Any, NamedTuple

HERE = pathlib.Path(__file__).resolve().parent
CODE = HERE.parents[1]
MAIN = CODE / "main.py"
PROMPTFOO = HERE / "node_modules" / "promptfoo" / "dist" / "src" / "entrypoint.js"
OLDEST_NODE = (22, 22)
MODELS = ("ops-v1", "ops-v2-regressed", "ops-v2-improved")
JUDGE = "judge-v1"


def node_program() -> str | None:
    """A Node.js that promptfoo accepts: the one from the lock file, or the machine's own."""
    own = sorted(HERE.glob("node_modules/node-*/bin/node*"))
    for program in [*map(str, own), *filter(None, [shutil.which("node")])]:
        with contextlib.suppress(OSError, subprocess.SubprocessError):
            said = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=60)
            found = re.match(r"v(\d+)\.(\d+)\.", said.stdout)
            if found and (int(found[1]), int(found[2])) >= OLDEST_NODE:
                return program
    return None


NODE = node_program()


def quiet_environment(folder: pathlib.Path) -> dict[str, str]:
    """An environment in which promptfoo talks to the stub only, and keeps its files in `folder`."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.upper().startswith(("OPENAI_", "PROMPTFOO_")) and "PROXY" not in name.upper()
    }
    return {
        **kept,
        "OPENAI_API_KEY": "not-a-key",
        "PROMPTFOO_CACHE_PATH": str(folder / "cache"),
        "PROMPTFOO_CONFIG_DIR": str(folder / "config"),
        "PROMPTFOO_LOG_DIR": str(folder / "log"),
        "PROMPTFOO_DISABLE_REMOTE_GENERATION": "1",
        "PROMPTFOO_DISABLE_SHARING": "1",
        "PROMPTFOO_DISABLE_TELEMETRY": "1",
        "PROMPTFOO_DISABLE_UPDATE": "1",
    }


def minieval(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(MAIN), *arguments], capture_output=True, text=True, encoding="utf-8", timeout=120
    )


@contextlib.contextmanager
def stub_server(suite: pathlib.Path, answers: pathlib.Path) -> Iterator[str]:
    """`minieval serve-stub` on a free port; gives the base URL that it prints."""
    command = [sys.executable, "-u", str(MAIN), "serve-stub", "--port", "0"]
    command += ["--suite", str(suite), "--answers", str(answers)]
    server = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, encoding="utf-8"
    )
    assert server.stdout is not None
    too_late = threading.Timer(30, server.kill)
    too_late.start()
    try:
        found = None
        for line in server.stdout:
            found = re.search(r"http://127\.0\.0\.1:\d+/v1", line)
            if found:
                break
        too_late.cancel()
        if not found:
            raise AssertionError(f"serve-stub printed no base URL: {' '.join(command)}")
        yield found[0]
    finally:
        too_late.cancel()
        server.kill()
        server.wait()
        server.stdout.close()


class Grade(NamedTuple):
    """What one program made of one answer: the verdict, and each assertion's in order."""

    passed: bool
    assertions: list[tuple[str, bool]]
    reasons: list[str]  # of the rubric assertions


Grades = dict[tuple[str, str], Grade]  # by model and case id


def promptfoo_grades(config: pathlib.Path, folder: pathlib.Path) -> Grades:
    """Run promptfoo on `config` and read what it found."""
    out = folder / "out.json"
    command = [NODE or "node", str(PROMPTFOO), "eval", "-c", str(config), "-o", str(out)]
    command += ["--no-cache", "--no-table", "--no-progress-bar", "--no-share", "-j", "1"]
    ran = subprocess.run(
        command,
        env=quiet_environment(folder),
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=300,
    )
    if ran.returncode not in (0, 100) or not out.exists():  # 100: some tests failed
        raise AssertionError(f"promptfoo ended with {ran.returncode}:\n{ran.stdout}\n{ran.stderr}")
    grades: Grades = {}
    for row in json.loads(out.read_text(encoding="utf-8"))["results"]["results"]:
        model = row["provider"]["id"].rpartition(":")[2]
        case = row["testCase"]["description"]
        if row["failureReason"] == 2 or "gradingResult" not in row:
            raise AssertionError(f"promptfoo could not grade {model}, {case}: {row.get('error')}")
        parts = row["gradingResult"]["componentResults"]
        if (model, case) in grades:
            raise AssertionError(f"promptfoo graded {model}, {case} twice")
        grades[model, case] = Grade(
            row["success"],
            [(part["assertion"]["type"], part["pass"]) for part in parts],
            [part["reason"] for part in parts if part["assertion"]["type"] == "llm-rubric"],
        )
    return grades


def minieval_grades(results: dict[str, Any], model: str) -> Grades:
    """The same from a results file of `minieval run`."""
    grades: Grades = {}
    for case in results["cases"]:
        if case["verdict"] == "skipped":
            continue
        if case["verdict"] not in ("pass", "fail"):
            raise AssertionError(f"minieval could not grade {model}, {case['id']}: {case}")
        [sample] = case["samples"]
        parts = sample["assertions"]
        grades[model, case["id"]] = Grade(
            case["verdict"] == "pass",
            [(part["type"], part["passed"]) for part in parts],
            [part["detail"] for part in parts if part["type"] == "rubric"],
        )
    return grades


def both_grades(suite: pathlib.Path, answers: pathlib.Path, models: tuple[str, ...]) -> tuple[Grades, Grades]:
    """What minieval and promptfoo find for every model and case of a suite."""
    ours: Grades = {}
    with tempfile.TemporaryDirectory() as name, stub_server(suite, answers) as base_url:
        folder = pathlib.Path(name)
        config = folder / "promptfooconfig.yaml"
        asked = ["promptfoo-config", "--suite", str(suite), "--base-url", base_url]
        asked += [word for model in models for word in ("--model", model)]
        made = minieval(*asked, "--judge-model", JUDGE, "--out", str(config))
        if made.returncode != 0:
            raise AssertionError(f"promptfoo-config ended with {made.returncode}: {made.stderr}")
        for model in models:
            out = folder / f"{model}.json"
            asked = ["run", "--suite", str(suite), "--base-url", base_url, "--model", model]
            asked += ["--judge", JUDGE, "--judge-base-url", base_url, "--out", str(out)]
            ran = minieval(*asked)
            if ran.returncode != 0:
                raise AssertionError(f"run of {model} ended with {ran.returncode}: {ran.stderr}")
            ours.update(minieval_grades(json.loads(out.read_text(encoding="utf-8")), model))
        return ours, promptfoo_grades(config, folder)


@unittest.skipUnless(PROMPTFOO.exists(), "promptfoo is not installed: npm ci in code/tests/oracles")
@unittest.skipUnless(NODE, "no Node.js 22.22 or newer: npm ci in code/tests/oracles brings one")
class ShippedSuite(unittest.TestCase):
    ours: Grades
    theirs: Grades

    @classmethod
    def setUpClass(cls) -> None:
        suite = CODE / "suites" / "ops-assistant.json"
        answers = CODE / "fixtures" / "stub-answers.json"
        cls.ours, cls.theirs = both_grades(suite, answers, MODELS)

    def test_all_sixty_verdicts_agree(self) -> None:
        ours = {key: grade.passed for key, grade in self.ours.items()}
        theirs = {key: grade.passed for key, grade in self.theirs.items()}
        self.assertEqual(len(ours), 60)
        self.assertEqual(theirs, ours)
        passes = [sum(ours[key] for key in ours if key[0] == model) for model in MODELS]
        self.assertEqual(passes, [13, 6, 19])

    def test_every_assertion_agrees_not_only_the_case(self) -> None:
        for key, grade in self.ours.items():
            with self.subTest(key=key):
                ours = [passed for _, passed in grade.assertions]
                self.assertEqual([passed for _, passed in self.theirs[key].assertions], ours)

    def test_the_nine_rubric_grades_agree_with_the_judges_reason_word_for_word(self) -> None:
        ours = {key: grade.reasons for key, grade in self.ours.items() if grade.reasons}
        theirs = {key: grade.reasons for key, grade in self.theirs.items() if grade.reasons}
        self.assertEqual(sum(map(len, ours.values())), 9)
        self.assertTrue(all(reason for reasons in ours.values() for reason in reasons))
        self.assertEqual(theirs, ours)


HOSTILE_TEXTS = (
    "plain",
    "{{ input }} and {{ nothing }}",
    "{% raw %} {% endraw %} {% if x %}",
    "{# a comment #} {{{ three }}} {{",
    "a closing #} and }} and %}",
    "{{ env.HOME }} {{ env.HOME | upper }}",
    "file:///etc/hostname",
    "package:fs:readFileSync",
    "=SUM(1)",
    "ends in a newline\n",
    "  indented\n\n\ttabs, and a blank line",
    "\"quoted\", 'quoted', back\\slash, \\n, #, &, *, !, |, >, %, @, `",
    "- role: system",
    "[1, 2.0, 1e3]",
    '{"a":  1.0}',
    "1.0",
    "null",
    "no",
    "2026-01-01",
    "naïve – 日本語 😀 e\u0301 \u00a0 \u2028 \u0085",
    "$& $1 $$",
    "a,b",
)


def hostile_suite() -> tuple[dict[str, Any], dict[str, Any]]:
    """A suite whose texts mean something to templates, YAML or promptfoo, and its stub answers."""
    cases = []
    answers = {}
    for number, text in enumerate(HOSTILE_TEXTS):
        name = f"case-{number:02}"
        answers[name] = text
        word = re.findall("[A-Za-z0-9]+", text)[0]
        cases.append(
            {
                "id": name,
                "input": text,
                "assert": [
                    {"type": "equals", "value": text},
                    {"type": "contains", "value": text},
                    {"type": "not-contains", "value": f"{text}{text}"},
                    {"type": "contains-all", "value": [text, text[:1]]},
                    {"type": "starts-with", "value": text},
                    {"type": "max-chars", "value": len(text)},
                    {"type": "rubric", "value": f"Says '{word}', {{{{ not a name }}}}."},
                ],
            }
        )
    schema = {
        "$defs": {"name": {"type": "string", "pattern": "^[{#]{1,2}$"}},
        "type": "object",
        "properties": {"{{ input }}": {"$ref": "#/$defs/name"}, "file://x": {"type": "integer"}},
        "required": ["{{ input }}"],
    }
    for name, answer in (
        ("schema-pass", '{"{{ input }}": "{#", "file://x": 3.0}'),
        ("schema-fail", '{"{{ input }}": "{{{", "file://x": 3}'),
    ):
        answers[name] = answer
        cases.append({"id": name, "input": name, "assert": [{"type": "json-schema", "value": schema}]})
    for name, answer in (
        ("number-pass", "about 1,536 MiB of {{ memory }}"),
        ("number-fail", "IPv4, then 12.5%"),
        ("number-none", "version 1.2.3 of 2026-01-01"),
    ):
        answers[name] = answer
        cases.append({"id": name, "input": name, "assert": [{"type": "numeric", "value": 1536}]})
    suite = {
        "name": "hostile",
        "prompt": "Braces stay: { {x} {{{{ %} #} {% if %} {# c #}.\nQuestion: {{input}}",
        "cases": cases,
    }
    script = {"models": {"m": {"answers": answers}, JUDGE: {"judge": True}}}
    return suite, script


@unittest.skipUnless(PROMPTFOO.exists(), "promptfoo is not installed: npm ci in code/tests/oracles")
@unittest.skipUnless(NODE, "no Node.js 22.22 or newer: npm ci in code/tests/oracles brings one")
class HostileTexts(unittest.TestCase):
    """The stub knows a case by its prompt, so a prompt that promptfoo changed gets no answer."""

    def test_text_that_looks_like_a_template_is_text_in_the_exported_config(self) -> None:
        suite, answers = hostile_suite()
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            paths = folder / "suite.json", folder / "answers.json"
            for path, document in zip(paths, (suite, answers)):
                path.write_text(json.dumps(document), encoding="utf-8")
            ours, theirs = both_grades(*paths, ("m",))
        for key, grade in ours.items():
            with self.subTest(key=key):
                self.assertEqual(theirs[key].passed, grade.passed)
                self.assertEqual(
                    [passed for _, passed in theirs[key].assertions],
                    [passed for _, passed in grade.assertions],
                )
                self.assertEqual(theirs[key].reasons, grade.reasons)
        self.assertEqual(len(theirs), len(ours))


if __name__ == "__main__":
    unittest.main()
