"""What the runner's benches share: suites on disk, the stub in its own process, timed commands."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import helpers
import main as m
from helpers import ANSWERS, OPS, PROGRAM, Script

__all__ = [
    "ANSWERS",
    "ENVIRON",
    "OPS",
    "PROGRAM",
    "Bars",
    "Script",
    "Timed",
    "helpers",
    "load",
    "m",
    "stub",
    "suite",
    "timed",
]


_BYTECODE = tempfile.TemporaryDirectory(prefix="minieval-bench-")
ENVIRON = {**os.environ, "PYTHONPYCACHEPREFIX": _BYTECODE.name}  # compiled once, as if installed
ENVIRON.pop("PYTHONDONTWRITEBYTECODE", None)


class Timed(NamedTuple):
    """One command: exit code, seconds, CPU seconds, peak memory in MB, what it printed."""

    code: int
    wall_s: float
    cpu_s: float
    peak_mb: float
    out: str
    err: str


_LAUNCHER = """
import os, sys, time
started = time.perf_counter()
child = os.fork()
if not child:
    os.execvp(sys.argv[1], sys.argv[1:])
_, status, used = os.wait4(child, 0)
wall = time.perf_counter() - started
print(os.waitstatus_to_exitcode(status), wall, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024)
"""


def timed(argv: Sequence[str], folder: Path) -> Timed:
    """A command from start to exit, by a small launcher: a child's peak memory starts at its
    parent's, which here is more than what is measured."""
    names = [str(folder / f"timed.{stream}") for stream in ("out", "err")]
    shell = ["/bin/sh", "-c", 'exec "$@" >"$0.out" 2>"$0.err"', str(folder / "timed"), *argv]
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", _LAUNCHER, *shell], stdout=subprocess.PIPE, env=ENVIRON
    )
    code, *figures = done.stdout.split()
    texts = (Path(name).read_text("utf-8", "replace") for name in names)
    return Timed(int(code), *map(float, figures), *texts)  # type: ignore[arg-type]


def suite(folder: Path, cases: int, **extra: Any) -> tuple[str, str]:
    """Paths of a suite whose cases want `ok`, in a JSONL file, and of the stub's answers to it."""
    wants = {"assert": [{"type": "equals", "value": "ok"}]}
    with open(folder / "cases.jsonl", "w", encoding="utf-8") as file:
        for i in range(cases):
            file.write(json.dumps({"id": f"c{i}", "input": f"question {i}", **wants, **extra}) + "\n")
    head = {"name": "bench", "prompt": "Reply with ok.\n\n{{input}}", "cases": "cases.jsonl"}
    (folder / "suite.json").write_text(json.dumps(head), "utf-8")
    with open(folder / "answers.json", "w", encoding="utf-8") as file:
        file.write('{"models": {"m": {"answers": {')
        file.writelines(f'{", " if i else ""}"c{i}": "ok"' for i in range(cases))
        file.write("}}}}")
    return str(folder / "suite.json"), str(folder / "answers.json")


@contextlib.contextmanager
def stub(suite: str, answers: str, faults: Sequence[Mapping[str, Any]] = ()) -> Iterator[str]:
    """The URL of `serve-stub` in a process of its own."""
    more = [word for fault in faults for word in ("--fault", json.dumps(fault))]
    argv = [*PROGRAM, "serve-stub", "--suite", suite, "--answers", answers, *more]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, env=ENVIRON) as child:
        assert child.stdout is not None
        try:
            yield child.stdout.readline().split(" at ")[-1].strip()
        finally:
            child.kill()


def load() -> str:
    """The machine's load, to be read beside every figure."""
    return "load %.1f %.1f %.1f on %d cores" % (*os.getloadavg(), os.cpu_count() or 0)


class Bars:
    """A table of figures against their bars; `exit_code` is 1 when one was missed."""

    def __init__(self) -> None:
        self.exit_code = 0
        print(f"{'what':54} {'figure':>10} {'bar':>10}")

    def at_most(self, what: str, figure: float, bar: float, unit: str = "") -> None:
        """Prints one figure, which may not be above its bar."""
        self._row(what, f"{figure:.2f}{unit}", f"{bar:.2f}{unit}", figure <= bar)

    def holds(self, what: str, found: object, wanted: object) -> None:
        """Prints one fact, which must be as wanted."""
        self._row(what, str(found), str(wanted), found == wanted)

    def _row(self, what: str, figure: str, bar: str, met: bool) -> None:
        self.exit_code = self.exit_code if met else 1
        print(f"{what:54} {figure:>10} {bar:>10}{'' if met else '  MISSED'}", flush=True)
