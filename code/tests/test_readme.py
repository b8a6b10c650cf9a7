"""The README is true: its commands are run and their output compared, its tables are complete.

How the README is read:

- A block ```console holds `$ ` command lines (a trailing backslash continues one) and the output
  expected after each. An output line `...` stands for any number of lines. `$ echo $?` shows the
  exit code of the command before it; a command without it must exit 0. A command that ends in `&`
  is a server: it is left running, and its port is whatever the machine had free.
- A comment `<!-- file: NAME -->` before a block saves the block under this name.
- Commands in blocks of other kinds are not run, but they must parse, here and in `outputs/`.

The blocks run in order in one temporary folder, with a copy of `code/`. Servers and `demo` run as
processes of their own, the other commands in this one, through `main.main`, which is quicker.
"""

from __future__ import annotations

import argparse
import difflib
import gc
import io
import os
import queue
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import threading
import types
import unittest
import unittest.mock
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

CODE = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(CODE))

import main  # noqa: E402

README = CODE.parent / "README.md"
TEXT = README.read_text(encoding="utf-8") if README.exists() else ""
OUTPUTS = CODE.parent / "outputs"

PROGRAM = "python3 code/main.py"
LIMIT_S = 60
PROGRESS = re.compile(r"(minieval: )?\d+ of \d+, [\d.]+/s(, \d+ errors)?, \d+ s left")
VARYING = (  # what differs from machine to machine, in the README and in the output alike
    (re.compile(r"p95 latency \d+ ms"), "p95 latency N ms"),
    (re.compile(r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"), "TIME"),
    (re.compile(r"^files in \S+$", re.M), "files in FOLDER"),
)
FOREIGN_FLAGS = {"--help", "--revision", "--version"}  # vllm, ollama, argparse
FOREIGN_FLAGS |= {"--array", "--pipe", "--block", "--previous"}  # sbatch, GNU parallel, kubectl
COMMAND = re.compile(rf"""(["'])?{re.escape(PROGRAM)} ((?(1)(?!\1)[^\n]|[^|&;>\n`])+)""")
FILLED_IN = re.compile(r"\$\{\{[^}]*\}\}|\$\w+|\{\}")  # by a workflow, a shell, GNU parallel


class Block(NamedTuple):
    """One fenced block: its language, its lines, the file it is saved as, and its line number."""

    language: str
    lines: tuple[str, ...]
    file: str | None
    line: int


class Step(NamedTuple):
    """One command of a console block with the output that the README shows."""

    command: str
    expected: tuple[str, ...]
    code: int
    line: int


def blocks(text: str) -> Iterator[Block]:
    """The fenced blocks of a Markdown text."""
    found = re.compile(r"(?:<!-- file: (\S+) -->\n)?^```(\w+)\n(.*?)^```$", re.M | re.S)
    for match in found.finditer(text):
        line = text.count("\n", 0, match.start(2)) + 1
        yield Block(match[2], tuple(match[3].splitlines()), match[1], line)


def steps(block: Block) -> list[Step]:
    """The commands of a console block; `echo $?` becomes the code of the command before it."""
    found: list[Step] = []
    lines = list(enumerate(block.lines, block.line + 1))
    while lines:
        number, line = lines.pop(0)
        if not line.startswith("$ "):
            if not found:
                raise AssertionError(f"README.md:{number}: output without a command")
            found[-1] = found[-1]._replace(expected=(*found[-1].expected, line))
            continue
        while line.endswith("\\") and lines:
            line = line[:-1].rstrip() + " " + lines.pop(0)[1].strip()
        if line == "$ echo $?":
            found[-1] = found[-1]._replace(code=int(lines.pop(0)[1]))
        else:
            found.append(Step(line[2:], (), 0, number))
    return found


def normal(text: str) -> str:
    """The text without progress, trailing blanks, and what varies."""
    lines = [line.rstrip() for line in text.replace("\r", "\n").split("\n")]
    text = "\n".join(line for line in lines if not PROGRESS.fullmatch(line)).strip("\n")
    for pattern, word in VARYING:
        text = pattern.sub(word, text)
    return text


def mismatch(expected: tuple[str, ...], got: str) -> str | None:
    """None when the output is as expected, else both side by side."""
    wanted, got = normal("\n".join(expected)), normal(got)
    at, lines, loose = 0, got.split("\n"), False
    for line in wanted.split("\n"):
        if line == "...":
            loose = True
            continue
        found = next((i for i in range(at, len(lines)) if lines[i] == line), None)
        if found is None or (found > at and not loose):
            break
        at, loose = found + 1, False
    else:
        if loose or at == len(lines):
            return None
    diff = difflib.unified_diff(wanted.split("\n"), lines, "README", "output", lineterm="")
    return "\n".join(diff)


class Shell:
    """Runs console steps in one folder. Servers live until `close`."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._servers: list[subprocess.Popen[str]] = []
        self._ports: dict[str, str] = {}  # as the README has it: as it is
        kept = ("PATH", "SYSTEMROOT", "LD_LIBRARY_PATH", "PYENV_ROOT", "HOME", "USERPROFILE")
        self._environ = {name: os.environ[name] for name in kept if name in os.environ}
        self._environ.update(PYTHONIOENCODING="utf-8", COLUMNS="80")
        self._environ.update(dict.fromkeys(("TMPDIR", "TEMP", "TMP"), folder))

    def run(self, command: str) -> tuple[str, int]:
        """The output (stdout and stderr, as a terminal mixes them) and exit code of a command."""
        if command.endswith("&"):
            return self._serve(command[:-1])
        for shown, port in self._ports.items():
            command = command.replace(f":{shown}", f":{port}")
        words = self._words(command)
        output, code = self._spawn(words) if words[0] == "demo" else self._call(words)
        return self._shown(output), code

    def _words(self, command: str) -> list[str]:
        if not command.startswith(PROGRAM + " "):
            raise AssertionError(f"the README may only show `{PROGRAM}`, not `{command}`")
        return shlex.split(command[len(PROGRAM) :])

    def _spawn(self, words: list[str]) -> tuple[str, int]:
        done = subprocess.run(
            [sys.executable, "code/main.py", *words],
            cwd=self._folder,
            env={**self._environ, "PYTHONUNBUFFERED": "1"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            timeout=LIMIT_S,
        )
        return done.stdout, done.returncode

    def _call(self, words: list[str]) -> tuple[str, int]:
        terminal = io.StringIO()
        world = main.real_world()._replace(
            stdout=terminal, stderr=terminal, stdin=io.StringIO(), environ=self._environ
        )
        here = os.getcwd()
        os.chdir(self._folder)
        try:
            argv = unittest.mock.patch.object(sys, "argv", ["code/main.py", *words])
            with argv, warnings.catch_warnings():  # they would print into the next output
                warnings.simplefilter("ignore")
                code = main.main(words, world)
                gc.collect()
        finally:
            os.chdir(here)
        return terminal.getvalue(), code

    def _serve(self, command: str) -> tuple[str, int]:
        port = re.search(r"--port (\d+)", command)
        assert port is not None, f"a server needs its --port: {command}"
        server = subprocess.Popen(
            [sys.executable, "code/main.py", *self._words(command.replace(port[0], "--port 0"))],
            cwd=self._folder,
            env={**self._environ, "PYTHONUNBUFFERED": "1"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
        )
        self._servers.append(server)
        line = first_line(server)
        used = re.search(r":(\d+)/", line)
        if used is None:
            raise AssertionError(f"`{command}` did not start: {line!r}")
        self._ports[port[1]] = used[1]
        return self._shown(line), 0

    def _shown(self, text: str) -> str:
        for shown, port in self._ports.items():
            text = text.replace(f"127.0.0.1:{port}", f"127.0.0.1:{shown}")
        return text

    def close(self) -> None:
        """Ends the servers that it started."""
        for server in self._servers:
            server.kill()
            server.wait()
            if server.stdout is not None:
                server.stdout.close()


def first_line(process: subprocess.Popen[str]) -> str:
    """The first line that a process prints, or '' when none comes in time."""
    assert process.stdout is not None
    stream, found = process.stdout, queue.SimpleQueue[str]()
    threading.Thread(target=lambda: found.put(stream.readline()), daemon=True).start()
    try:
        return found.get(timeout=LIMIT_S)
    except queue.Empty:
        return ""


def section(title: str) -> str:
    """The text under a heading, up to the next heading."""
    match = re.search(rf"^#+ {re.escape(title)}\n(.*?)(?=^#+ |\Z)", outside_blocks(), re.M | re.S)
    if match is None:
        raise AssertionError(f"the README has no section {title!r}")
    return match[1]


def outside_blocks() -> str:
    """The README without its fenced blocks."""
    return re.sub(r"^```\w*\n.*?^```$", "", TEXT, flags=re.M | re.S)


def rows(text: str) -> list[list[str]]:
    """The cells of each table row, without heads and rules."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    rules = [i for i, row in enumerate(cells) if set(row[0]) <= set("-:")]
    return [row for i, row in enumerate(cells) if i not in rules and i + 1 not in rules]


def first_words(text: str) -> list[str]:
    """What stands in backquotes in the first cell of each row that begins with it."""
    cells = [row[0] for row in rows(text) if row[0].startswith("`")]
    return [word for cell in cells for word in re.findall(r"`([^`]+)`", cell)]


def parsers() -> dict[str, argparse.ArgumentParser]:
    """Every command with its parser, `stats mcnemar` and the like among them."""
    found: dict[str, argparse.ArgumentParser] = {}

    def walk(parser: argparse.ArgumentParser, name: str) -> None:
        for action in parser._actions:
            if isinstance(action, argparse._SubParsersAction):
                for word, child in action.choices.items():
                    found[f"{name} {word}".strip()] = child
                    walk(child, f"{name} {word}".strip())

    walk(main.build_parser(), "")
    return found


@unittest.skipUnless(README.exists(), "README.md lies beside code/ only in the repository")
class Transcripts(unittest.TestCase):
    def test_every_console_block_prints_what_the_readme_shows(self) -> None:
        folder = tempfile.mkdtemp(prefix="minieval-readme-")
        self.addCleanup(shutil.rmtree, folder, ignore_errors=True)
        unwanted = shutil.ignore_patterns("tests", "__pycache__", ".*")
        shutil.copytree(CODE, os.path.join(folder, "code"), ignore=unwanted)
        shell = Shell(folder)
        self.addCleanup(shell.close)
        count = 0
        for block in blocks(TEXT):
            if block.file is not None:
                text = "\n".join(block.lines) + "\n"
                Path(folder, block.file).write_text(text, encoding="utf-8")
            for step in steps(block) if block.language == "console" else ():
                count += 1
                with self.subTest(f"README.md:{step.line}: {step.command}"):
                    output, code = shell.run(step.command)
                    self.assertEqual(code, step.code, f"exit code {code}; output:\n{output}")
                    problem = mismatch(step.expected, output)
                    self.assertIsNone(problem, f"the output differs:\n{problem}")
        self.assertGreater(count, 15, "the README shows its commands in ```console blocks")

    def test_the_figures_of_the_shipped_suite_are_shown(self) -> None:
        shown = "\n".join(
            line for block in blocks(TEXT) if block.language == "console" for line in block.lines
        )
        for figure in (  # issue 2, "What it must show"
            "ops-v1                    13 of 20  95 % interval (0.43 to 0.82)",
            "ops-v2-regressed           6 of 20  (0.15 to 0.52)",
            "8 regressed, 1 improved",
            "effect -0.35",
            "p = 0.0391",
            "REJECT (quality: regressed)",
            "ops-v2-improved           19 of 20",
            "p = 0.0312",
            "ACCEPT (quality: improved)",
            "$0.001852 per call, over the budget of $0.0005",
            "11 of 20 cases passed",
            "1 of 5 passed (0.04 to 0.62)",
            "3 of 5 passed (0.23 to 0.88)",
            "FLAGGED slo-downtime: 100 % (25 of 25 n-grams)",
            "incident-json: 16 % (9 of 56 n-grams)",
            "FLAGGED redact-email: 100 % (31 of 31 n-grams)",
            "168 cases show it with power 0.8",
        ):
            self.assertIn(figure, shown)

    def test_the_pytest_hook_writes_the_log_that_the_ledger_reads(self) -> None:
        source = next(block for block in blocks(TEXT) if block.file == "conftest.py")
        hook: dict[str, Any] = {}
        exec(compile("\n".join(source.lines), "conftest.py", "exec"), hook)
        with tempfile.TemporaryDirectory() as folder:
            log = Path(folder, "log.jsonl")
            environ = {"MODEL_RUN_LOG": str(log), "MODEL_RUN_ID": "run-1"}
            with unittest.mock.patch.dict(os.environ, environ):
                for when, outcome in (  # a test that passes, one that fails, one without set-up
                    ("setup", "passed"), ("call", "passed"), ("teardown", "passed"),
                    ("call", "failed"), ("setup", "failed"), ("call", "skipped"),
                ):  # fmt: skip
                    report = types.SimpleNamespace(when=when, nodeid="test_a", outcome=outcome)
                    for word in ("passed", "failed", "skipped"):
                        setattr(report, word, outcome == word)
                    hook["pytest_runtest_logreport"](report)
            rows = main.parse_run_log(log.read_text(encoding="utf-8"))
        self.assertEqual([row.passed for row in rows], [True, False, False])
        self.assertEqual({(row.run, row.case) for row in rows}, {("run-1", "test_a")})

    def test_an_ellipsis_stands_for_lines_and_nothing_else_does(self) -> None:
        self.assertIsNone(mismatch(("a", "...", "c"), "a\nb\nb\nc\n"))
        self.assertIsNone(mismatch(("a", "..."), "a\nb"))
        self.assertIsNone(mismatch(("p95 latency 3 ms",), "p95 latency 41 ms\n1 of 2, 3.0/s, 0 s left"))
        for expected in (("a", "c"), ("a",), ("b", "..."), ("...", "b"), ("a", "...", "d")):
            self.assertIsNotNone(mismatch(expected, "a\nb\nc"), expected)

    def test_the_exit_code_shown_belongs_to_the_command_before_it(self) -> None:
        block = Block("console", ("$ one \\", "    two", "out", "$ echo $?", "3"), None, 10)
        self.assertEqual(steps(block), [Step("one two", ("out",), 3, 11)])


@unittest.skipUnless(README.exists(), "README.md lies beside code/ only in the repository")
class Tables(unittest.TestCase):
    def test_every_command_has_a_row(self) -> None:
        commands = [name for name in parsers() if " " not in name]
        self.assertEqual(first_words(section("Commands")), commands)

    def test_every_flag_named_exists(self) -> None:
        known = {flag for parser in parsers().values() for flag in parser._option_string_actions}
        for path in (README, *sorted(OUTPUTS.glob("*.md"))):
            named = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", path.read_text(encoding="utf-8")))
            self.assertEqual(named - known - FOREIGN_FLAGS, set(), path.name)

    def test_commands_that_are_not_run_parse(self) -> None:
        runbooks = [path.read_text(encoding="utf-8") for path in sorted(OUTPUTS.glob("*.md"))]
        shown = [block for block in blocks(TEXT) if block.language != "console"]
        texts = ["\n".join(block.lines) for block in shown] + runbooks
        commands = [
            FILLED_IN.sub("1", found[2])
            for text in texts
            for found in COMMAND.finditer(re.sub(r"\\\n\s*", "", text))
        ]
        self.assertGreater(len(commands), 15)
        for command in commands:
            with self.subTest(command):
                words = shlex.split(command, comments=True)
                if words != ["COMMAND", "--help"]:
                    main.build_parser().parse_args(words)

    def test_the_case_that_the_prompt_shows_is_one_that_prove_accepts(self) -> None:
        prompt = (OUTPUTS / "prompt-write-eval-cases.md").read_text(encoding="utf-8")
        cases = next(block for block in blocks(prompt) if block.language == "json")
        with tempfile.TemporaryDirectory() as folder:
            suite = Path(folder, "suite.json")
            suite.write_text(
                '{"name": "s", "prompt": "{{input}}", "cases": ' + "\n".join(cases.lines) + "}", "utf-8"
            )
            told = io.StringIO()
            world = main.real_world()._replace(stdout=told, stderr=told)
            code = main.main(["prove", "--suite", str(suite), "--strict"], world)
        self.assertEqual(code, 0, told.getvalue())

    def test_every_setting_of_the_hook_and_the_workflow_is_described(self) -> None:
        shipped = CODE / "fixtures" / "init"
        hook = (shipped / "pre-push").read_text(encoding="utf-8")
        settings = {*re.findall(r'^: "\$\{(\w+)=', hook, re.M), "MODEL_API_KEY"}
        described = section("In CI and before a push")
        self.assertEqual(set(first_words(described)), settings)
        workflow = (shipped / "eval-gate.yml").read_text(encoding="utf-8")
        for name in set(re.findall(r"\b(?:vars|secrets)\.(\w+)", workflow)):
            self.assertIn(f"`{name}`", described.rpartition("\n|")[2])

    def test_the_decision_table_knows_every_state_of_the_ledger(self) -> None:
        table = section("The ledger: how often, not whether")
        shown = ", ".join(row[0] for row in rows(table))
        template = CODE.parent / ".github" / "pull_request_template.md"
        states = [row[0] for row in rows(template.read_text(encoding="utf-8"))]
        self.assertGreater(len(states), 8)
        self.assertEqual([state for state in states if state not in shown], [])

    def test_the_assertion_table_is_the_registry(self) -> None:
        shown = {row[0].strip("`"): row[1] for row in rows(section("Assertions"))}
        known = {name: kind.help for name, kind in main.ASSERTION_TYPES.items()}
        self.assertEqual(shown, known)
        positive = [name for name, kind in main.ASSERTION_TYPES.items() if not kind.negatable]
        self.assertEqual(positive, ["rubric"], "the README says which types have no not- form")

    def test_every_key_of_a_suite_is_described(self) -> None:
        shown = first_words(section("Suite"))
        known = [*main.SUITE_FIELDS, *main.CASE_FIELDS, *main.POLICY_FIELDS]
        self.assertEqual(sorted(shown), sorted(known))
        for key in main.PRICE_FIELDS:
            self.assertIn(f"`{key}`", section("Suite"))

    def test_every_fault_of_the_stub_is_described(self) -> None:
        shown = first_words(section("The stub and its faults"))
        self.assertEqual(sorted(shown), sorted(main.FAULT_FIELDS))

    def test_the_exit_codes_are_the_constants(self) -> None:
        known = [value for name, value in vars(main).items() if name.startswith("EXIT_")]
        self.assertEqual([int(row[0]) for row in rows(section("Exit codes"))], sorted(known))

    def test_the_cases_needed_are_the_gates_own(self) -> None:
        # The fewest cases whose power reaches 0.8: one fewer misses it. `cases_needed` itself
        # also looks ahead, and takes seconds for the last rows; test_statistics checks it.
        _, marker, table = TEXT.partition("<!-- table: cases-needed -->\n")
        self.assertTrue(marker)
        for cells in rows(table.split("\n\n")[0]):
            drop, discordance, least, cases = map(float, cells)
            n = int(cases)
            with self.subTest(cells):
                self.assertGreaterEqual(main.power(n, drop, discordance, 0.05, least), 0.8)
                self.assertLess(main.power(n - 1, drop, discordance, 0.05, least), 0.8)

    def test_the_paths_named_exist(self) -> None:
        for path in re.findall(r"`((?:code|outputs|\.ci|\.github)/[\w./-]*)`", TEXT):
            if path != "code/__init__.py":
                self.assertTrue((README.parent / path).exists(), path)

    def test_lines_fit_and_nothing_shouts(self) -> None:
        output = {
            number
            for block in blocks(TEXT)
            for number in range(block.line + 1, block.line + 1 + len(block.lines))
            if block.language == "console"
        }
        for number, line in enumerate(TEXT.splitlines(), 1):
            if not line.startswith("|") and (number not in output or line.startswith("$ ")):
                self.assertLessEqual(len(line), 100, f"README.md:{number}")
            self.assertNotRegex(line, "[\U0001f000-\U0001ffff\u2600-\u27bf]", f"README.md:{number}")


if __name__ == "__main__":
    unittest.main()
