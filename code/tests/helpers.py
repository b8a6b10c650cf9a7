"""What the tests of several rooms share: a world without a machine, small suites, a stub."""

from __future__ import annotations

import contextlib
import datetime
import io
import json
import random
import re
import sys
import tempfile
import threading
import time
import unittest
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TextIO
from unittest import mock

CODE = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(CODE))

import main as m  # noqa: E402

# The program in a process of its own, from bytecode where there is some: half the start-up.
_START = f"import sys; sys.path.insert(0, {str(CODE)!r}); import main; sys.exit(main.main())"
PROGRAM = [sys.executable, "-c", _START]

OPS = str(CODE / "suites" / "ops-assistant.json")
ANSWERS = str(CODE / "fixtures" / "stub-answers.json")
CHANGELOG = str(CODE / "suites" / "changelog.json")
CHANGELOG_ANSWERS = str(CODE / "fixtures" / "stub-changelog-answers.json")
RUBRIC = {"assert": [{"type": "rubric", "value": "says 'ok'"}]}
VOLATILE = re.compile(r'"(latency_ms|p95_latency_ms|started|finished)": [^,}\n]+')
PRICE = {"prompt_usd_per_million": 1.0, "completion_usd_per_million": 1.0}


class Clock:
    """Real time plus what was slept: nothing waits, and everything believes that it did."""

    def __init__(self) -> None:
        self.skipped = 0.0

    def __call__(self) -> float:
        return time.perf_counter() + self.skipped

    def sleep(self, stop: threading.Event, seconds: float) -> bool:
        self.skipped += seconds
        return stop.is_set()


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def world(
    environ: Mapping[str, str] | None = None,
    *,
    stdout: TextIO | None = None,
    stderr: TextIO | None = None,
    clock: Clock | None = None,
) -> m.World:
    """A world of streams in memory, a given environment and a clock that does not wait."""
    clock = clock or Clock()
    return m.World(
        stdout or io.StringIO(),
        stderr or io.StringIO(),
        io.StringIO(),
        environ or {},
        clock,
        lambda: datetime.datetime(2026, 11, 30, 12, tzinfo=datetime.timezone.utc),
        clock.sleep,
        random.Random(1),
    )


class Result(NamedTuple):
    code: int
    out: str
    err: str


def run(*argv: str, environ: Mapping[str, str] | None = None, **parts: Any) -> Result:
    """One command through `main`, as a shell sees it."""
    here = world(environ, **parts)
    code = m.main(argv, here)
    out, err = (
        stream.getvalue() if isinstance(stream, io.StringIO) else "" for stream in (here.stdout, here.stderr)
    )
    return Result(code, out, err)


class Script(m.StubScript):
    """The stub's script that keeps what it was asked: (model, case, seed), answered or not."""

    url = ""

    def __init__(self, *parts: Any) -> None:
        super().__init__(*parts)
        self.calls: list[str | None] = []
        self.asked: list[tuple[str, str | None, int]] = []

    def fault(self, case: str | None) -> Mapping[str, Any]:
        self.calls.append(case)
        return super().fault(case)

    def answer(self, model: str, messages: Any, seed: int) -> str:
        self.asked.append((model, self.case_of(messages), seed))
        return super().answer(model, messages, seed)


def shipped_script(path: str = OPS) -> Script:
    suite = m.load_suite(path)
    return Script(suite, m.load_script(suite, ANSWERS if path == OPS else CHANGELOG_ANSWERS).models, ())


class StubTestCase(unittest.TestCase):
    """A test with a folder of its own, a small suite in it, and a stub that answers."""

    def setUp(self) -> None:
        self.stack = contextlib.ExitStack()
        self.addCleanup(self.stack.close)
        self.folder = Path(self.stack.enter_context(tempfile.TemporaryDirectory()))

    def path(self, name: str) -> str:
        return str(self.folder / name)

    def document(self, name: str) -> Any:
        return json.loads((self.folder / name).read_text("utf-8"))

    def suite(self, cases: Any = 4, changes: Any = (), **extra: Any) -> str:
        """A suite whose cases c0, c1 ... want `ok`: so many, or these; `changes` holds keys of
        cases by index, `extra` keys of the suite."""
        wants_ok = {"assert": [{"type": "equals", "value": "ok"}]}
        if isinstance(cases, int):
            cases = [{"id": f"c{i}", "input": f"q{i}", **wants_ok} for i in range(cases)]
        for index, keys in dict(changes).items():
            cases[index].update(keys)
        document = {"name": "small", "prompt": "{{input}}", "cases": cases, **extra}
        (self.folder / "suite.json").write_text(json.dumps(document), "utf-8")
        return self.path("suite.json")

    def serve(self, suite: str, models: Sequence[str] = ("m",), faults: Any = (), **answers: Any) -> Script:
        """A stub whose models answer `ok`, or what `answers` says for a case."""
        parsed = m.load_suite(suite)
        said = {case.id: answers.get(case.id, "ok") for case in parsed.cases}
        known: dict[str, Any] = {model: {"answers": said} for model in models}
        known["judge-v1"] = {"judge": True}
        return self.serve_script(Script(parsed, known, faults))

    def serve_script(self, script: Script) -> Script:
        server = m.stub_server(script)
        thread = threading.Thread(target=server.serve_forever, args=(0.005,), daemon=True)
        thread.start()
        self.stack.callback(server.server_close)
        self.stack.callback(server.shutdown)
        script.url = server.base_url
        return script

    def assert_says(self, result: Result, code: int, *words: str) -> None:
        """The exit code and every word, in stdout or stderr, and never a traceback by accident."""
        shown = f"\n--- exit {result.code}\n{result.out}\n---\n{result.err}"
        self.assertEqual(result.code, code, shown)
        said = " ".join((result.out + result.err).split())  # lines are wrapped for a terminal
        for word in words:
            self.assertIn(word, said, shown)
        self.assertEqual("Traceback" in result.err, code == m.EXIT_BUG, shown)


class RunTestCase(StubTestCase):
    def ask(self, suite: str, stub: Script, *more: str, out: str = "r.json", **parts: Any) -> Result:
        """`run` of model m into r.json."""
        models = () if "--model" in more else ("--model", "m")
        where = ("--out", self.path(out)) if out else ()
        argv = ("run", "--suite", suite, "--base-url", stub.url, *models, *where, *more)
        with mock.patch.object(sys, "argv", ["main.py", *argv]):
            return run(*argv, **parts)

    def verdicts(self, name: str = "r.json") -> list[str]:
        return [case["verdict"] for case in self.document(name)["cases"]]
