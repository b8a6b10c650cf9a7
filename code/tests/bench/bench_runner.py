"""What `run` and `gate` cost against a bare http.client loop, as ratios in one run.

    python3 code/tests/bench/bench_runner.py [--rounds 5] [--only PART ...]

The stub runs in another process; runner and bare loop take turns as processes of their own, from
start to exit; medians count. Exit code 1 when a bar is missed.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Callable

sys.path.insert(0, str(Path(__file__).resolve().parent))

from rehearsal import ANSWERS, OPS, PROGRAM, Bars, Timed, load, m, stub, suite, timed

JOBS = 32
CALLS = 1_000
MANY = 100_000
HERE = Path(__file__).resolve()
BARE = [sys.executable, str(HERE.with_name("bare_loop.py"))]
IMPORTS = [sys.executable, "-c", "import argparse, json, urllib.request"]


def ask(where: str, url: str, out: Path, *more: str) -> Timed:
    """`run` of model m, which must end well."""
    argv = [*PROGRAM, "run", "--suite", where, "--base-url", url, "--model", "m", "--out", str(out), *more]
    found = timed(argv, out.parent)
    assert found.code == 0, found
    return found


def median(rows: Sequence[Timed], column: str) -> float:
    return float(statistics.median(getattr(row, column) for row in rows))


def calls(bars: Bars, folder: Path, rounds: int) -> None:
    """A thousand calls that cost nothing, then 50 ms each."""
    where, answers = suite(folder, CALLS)
    jobs = ("-j", str(JOBS))
    bare, ours, slow, start, floor = [], [], [], [], []
    with stub(where, answers) as url:
        for _ in range(rounds):
            bare.append(timed([*BARE, url, str(CALLS), str(JOBS)], folder))
            ours.append(ask(where, url, folder / "r.json", *jobs))
    with stub(where, answers, [{"delay_s": 0.05}]) as url:
        for _ in range(rounds):
            slow.append(ask(where, url, folder / "r.json", *jobs))
            dry = [*PROGRAM, "run", "--suite", where, "--model", "m", "--dry-run"]
            start.append(timed(dry, folder))
            floor.append(timed([*BARE, url, "0", str(JOBS)], folder))
    for name, rows in (("bare loop", bare), ("run", ours)):
        wall, cpu = median(rows, "wall_s"), median(rows, "cpu_s")
        print(f"  {name}: wall {wall:.2f} s, CPU {cpu:.2f} s, peak {median(rows, 'peak_mb'):.0f} MB")
    for column, word in (("cpu_s", "CPU"), ("wall_s", "wall")):
        ratio = statistics.median(getattr(a, column) / getattr(b, column) for a, b in zip(ours, bare))
        bars.at_most(f"1,000 calls at 0 ms, -j {JOBS}: {word}, times the bare loop", ratio, 1.6)
        net = (median(ours, column) - median(start, column)) / (median(bare, column) - median(floor, column))
        print(f"  the same without start-up (a dry run; the bare loop with no call): {net:.2f}")
    bars.at_most("  peak memory", max(row.peak_mb for row in ours), 60, " MB")
    rounds_s = -(-CALLS // JOBS) * 0.05
    bar = 1.15 * rounds_s + median(start, "wall_s")
    bars.at_most(f"1,000 calls at 50 ms, -j {JOBS}: wall", median(slow, "wall_s"), bar, " s")


def many(bars: Bars, folder: Path) -> None:
    """A hundred thousand samples: many of each case, and many cases."""
    for cases, samples in ((1_000, 100), (MANY, 1)):
        where, answers = suite(folder, cases)
        with stub(where, answers) as url:
            found = ask(where, url, folder / "many.json", "-j", str(JOBS), "--samples", str(samples))
        print(f"  {cases} x {samples}: wall {found.wall_s:.0f} s, CPU {found.cpu_s:.0f} s")
        bars.at_most(f"{cases:,} cases x {samples} samples: peak memory", found.peak_mb, 200, " MB")


def start_up(bars: Bars, folder: Path, rounds: int) -> None:
    """`--version` from bytecode against the imports that any such program needs."""
    pairs = [(timed([*PROGRAM, "--version"], folder), timed(IMPORTS, folder)) for _ in range(4 * rounds)]
    ours, theirs = (statistics.median(pair[i].wall_s for pair in pairs) for i in (0, 1))
    print(f"  --version {ours * 1000:.0f} ms, the three imports {theirs * 1000:.0f} ms")
    bars.at_most("start-up: --version, times the three imports", ours / theirs, 1.5)


def make_results(path: str, cases: int, seed: int) -> None:
    """A results file as a run of so many cases leaves it, one in twenty failing."""
    rng = random.Random(seed)
    found = []
    for i in range(cases):
        passed = rng.random() < 0.95
        results = (m.AssertionResult("equals", passed, "equal" if passed else "read 'no'"),)
        sample = m.Sample(0, output="ok" if passed else "no", latency_ms=rng.uniform(50, 90))
        sample = sample._replace(cost_usd=1e-5, model="m", assertions=results)
        found.append(m.CaseResult(f"c{i}", f"{i:064x}", (sample,), f"{i:064x}"))
    names = ("suite_name", "suite_path", "suite_sha256", "prompt_sha256", "model", "endpoint")
    known: dict[str, Any] = dict(zip(names, ("bench", "suite.json", "s", "p", "m", "http://127.0.0.1/v1")))
    run = m.Run(**known, cases=tuple(found), started="2026-06-15T08:00:00Z", finished="2026-06-15T09:00:00Z")
    m.write_text(path, m.render_results(run))


def gate(bars: Bars, folder: Path) -> None:
    """Two results files of many cases, in one thread: its CPU time is its wall time when let alone."""
    paths = [str(folder / f"{name}.json") for name in ("baseline", "candidate")]
    for seed, path in enumerate(paths):
        made = timed([sys.executable, str(HERE), "--make", path, str(MANY), str(seed)], folder)
        assert made.code == 0, made.err
    found = timed([*PROGRAM, "gate", "--baseline", paths[0], "--candidate", paths[1]], folder)
    assert found.code in (0, 1), found
    print(f"  gate: wall {found.wall_s:.1f} s, peak {found.peak_mb:.0f} MB, {len(found.out)} characters")
    bars.at_most(f"gate over two results files of {MANY:,} cases: CPU", found.cpu_s, 10, " s")


def fail_fast(bars: Bars, folder: Path) -> None:
    """The shipped regressed model, five samples a case, the default four calls at a time."""
    with stub(OPS, ANSWERS) as url:
        words = [*PROGRAM, "run", "--suite", OPS, "--base-url", url, "--judge", "judge-v1", "--samples", "5"]
        runs = []
        for model, more in (
            ("ops-v1", []),
            ("ops-v2-regressed", ["--baseline", str(folder / "ops-v1"), "--fail-fast"]),
        ):
            found = timed([*words, "--model", model, "--out", str(folder / model), *more], folder)
            document = json.loads((folder / model).read_text("utf-8"))
            paid = sum(s["attempts"] for case in document["cases"] for s in case["samples"])
            runs.append((found.code, paid, bool(document["incomplete"])))
    (_, whole, _), (code, paid, incomplete) = runs
    print(f"  fail-fast: {paid} of {whole} calls")
    bars.holds("fail-fast on ops-v2-regressed: exit code", code, 1)
    bars.holds("fail-fast: the file is marked incomplete", incomplete, True)
    bars.at_most("fail-fast: share of the calls that were made", paid / whole, 0.07)


def main() -> int:
    if sys.argv[1:2] == ["--make"]:
        make_results(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
        return 0
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", nargs="+", default=[], metavar="PART")
    args = parser.parse_args()
    print(load())
    bars = Bars()
    parts: dict[str, Callable[[Path], None]] = {
        "start-up": lambda folder: start_up(bars, folder, args.rounds),
        "calls": lambda folder: calls(bars, folder, args.rounds),
        "fail-fast": lambda folder: fail_fast(bars, folder),
        "gate": lambda folder: gate(bars, folder),
        "many": lambda folder: many(bars, folder),
    }
    for name, part in parts.items():
        if not args.only or name in args.only:
            with tempfile.TemporaryDirectory() as folder:
                part(Path(folder))
    print(load())
    return bars.exit_code


if __name__ == "__main__":
    sys.exit(main())
