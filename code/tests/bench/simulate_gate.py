"""What the gate does to simulated suites, against what it promises: `python simulate_gate.py`.

Every verdict comes from the shipped `main.gate`. One table a promise; a row that misses its bar by
more than three standard errors is marked MISSED, and then the exit code is 1. Options: `--suites N`
a row, `--seed N`, `--only TABLE` (repeatable). All tables take some minutes; `timing` wants a quiet
machine, and holds processor seconds to the bars.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import math
import pathlib
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

BENCH = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(BENCH.parents[1]), str(BENCH)]

import main
import simulate_interval

Counts = tuple[int, int]  # samples of the baseline and of the candidate
POLICY, OPTIONS = main.Policy(), main.GateOptions(today="2026-01-01")
RATES = (4.0, 1.0)  # the beta law of the cases' pass rates, of mean 0.8


class Row(NamedTuple):
    """A figure that must lie from `low` to `high`, give or take three standard errors."""

    world: str
    figure: float
    low: float = -math.inf
    high: float = math.inf
    error: float = 0.0


@functools.lru_cache(maxsize=None)
def sample(seed: int, passed: bool, latency_ms: float = 100.0) -> main.Sample:
    results = (main.AssertionResult("equals", passed, ""),)
    return main.Sample(seed, "", assertions=results, latency_ms=latency_ms, cost_usd=0.001)


def case(name: str, passes: Iterable[bool], group: str | None = None) -> main.CaseResult:
    return main.CaseResult(name, "sha", tuple(itertools.starmap(sample, enumerate(passes))), group=group)


def run_of(cases: Iterable[main.CaseResult], samples: int = 1) -> main.Run:
    return main.Run("s", "s.json", "s", "p", "model", "http://e", tuple(cases), samples=samples)


def drawn(rng: random.Random, rates: Sequence[float], samples: int, size: int) -> main.Run:
    """A run; the cases of one group share their luck, sample by sample."""
    cases: list[main.CaseResult] = []
    for start in range(0, len(rates), size):
        luck = [rng.random() for _ in range(samples)]
        for i in range(start, min(start + size, len(rates))):
            group = f"g{start}" if size > 1 else None
            cases.append(case(f"c{i}", [u < rates[i] for u in luck], group))
    return run_of(cases, samples)


def share_row(world: str, hits: int, of: int, low: float = 0.0, high: float = 1.0) -> Row:
    rate = hits / of
    return Row(world, rate, low, high, math.sqrt(max(rate * (1 - rate), 1 / of) / of))


def verdicts(rng: random.Random, suites: int, n: int, counts: Counts, size: int, lost: float) -> Iterator[Row]:
    """Significance and coverage where nothing changed, or a share `lost` of the groups broke."""
    seen = {"regressed": 0, "improved": 0, "covered": 0}
    truth = -lost * RATES[0] / sum(RATES)
    for _ in range(suites):
        before = [rng.betavariate(*RATES) for _ in range(n)]
        broken = [rng.random() < lost for _ in range(0, n, size)]
        after = [0.0 if broken[i // size] else rate for i, rate in enumerate(before)]
        sides = (drawn(rng, rates, k, size) for rates, k in zip((before, after), counts))
        found = main.gate(*sides, POLICY, OPTIONS).comparison
        seen["covered"] += found.interval.low <= truth <= found.interval.high
        if found.verdict != main.NO_DIFFERENCE:
            seen[found.verdict] += 1
    world = f"n={n} samples={counts[0]}/{counts[1]} groups of {size} lost={lost}"
    if not lost:
        wrong = seen["regressed"] + seen["improved"]
        yield share_row(world + ": significant", wrong, suites, high=POLICY.alpha)
        yield share_row(world + ": regressed", seen["regressed"], suites, high=POLICY.alpha)
    highest = 0.985 if counts == (1, 1) and n >= 50 and size == 1 else 1.0
    yield share_row(world + ": interval covers", seen["covered"], suites, 0.94, highest)


def errors(rng: random.Random, suites: int) -> Iterator[Row]:
    for n, counts in itertools.product((20, 50, 200), ((1, 1), (5, 5), (1, 5))):
        for size, lost in itertools.product((1, 2 if n == 20 else 5), (0.0, 0.15)):
            yield from verdicts(rng, suites, n, counts, size, lost)


def coverage(rng: random.Random, suites: int) -> Iterator[Row]:
    """One sample a case, exactly: the score interval dips and swells about 0.95, as Wilson's does."""
    for n, share in itertools.product((20, 50, 200), (0.05, 0.1, 0.2, 0.3)):
        cells = [exact_coverage(n, part / 4 * share, share) for part in range(5)]
        shown = f"n={n} {share:g} of cases change, covered {min(cells):.4f} to {max(cells):.4f}; mean"
        swollen = n * share < 5  # too few changed cases for any interval to be exact
        yield Row(shown, sum(cells) / 5, 0.94, 1.0 if n < 50 or swollen else 0.985)
        yield Row("  its lowest, over drops from none to all of these", min(cells), 0.93)


def exact_coverage(n: int, drop: float, share: float) -> float:
    covered = total = 0.0
    for m, regressed in ((m, b) for m in range(n + 1) for b in range(m + 1)):
        chance = binomial(m, n, share) * binomial(regressed, m, (1 + drop / share) / 2)
        if chance > 1e-8:
            low, high = simulate_interval.tango(regressed, m - regressed, n)
            covered += chance * (low <= -drop <= high)
            total += chance
    return covered / total


def binomial(k: int, n: int, rate: float) -> float:
    return float(math.comb(n, k)) * rate**k * (1 - rate) ** (n - k)


@functools.lru_cache(maxsize=None)
def gated(n: int, lost: int, won: int, min_effect: float) -> str:
    before = [False] * won + [True] * (n - won)
    after = [True] * (n - lost) + [False] * lost
    sides = (run_of(case(f"c{i}", [one]) for i, one in enumerate(side)) for side in (before, after))
    return main.gate(*sides, replace(POLICY, min_effect=min_effect), OPTIONS).verdict


def power(rng: random.Random, suites: int) -> Iterator[Row]:
    """At one sample the gate sees counts alone, so that each table of counts is gated once."""
    plans = [(20, 0.2, 0.2, 0.05), (20, 0.37, 0.37, 0.0), (50, 0.2, 0.3, 0.1), (165, 0.1, 0.2, 0.0)]
    for drop, share, least in ((0.2, 0.2, 0.05), (0.1, 0.1, 0.05), (0.1, 0.2, 0.05), (0.05, 0.1, 0.02)):
        plans.append((main.cases_needed(drop, share, 0.8, 0.05, least) or 0, drop, share, least))
    for n, drop, share, least in plans:
        weights = ((share + drop) / 2, (share - drop) / 2, 1 - share)
        hits = 0
        for _ in range(5 * suites):
            moves = rng.choices("-+0", weights, k=n)
            hits += gated(n, moves.count("-"), moves.count("+"), least) == main.REGRESSED
        planned = main.power(n, drop, share, 0.05, least)
        world = f"n={n} drop={drop} discordance={share} minimum={least} planned {planned:.3f}"
        yield share_row(world, hits, 5 * suites, planned - 0.02, planned + 0.02)


def observed(critical: int, samples: int, min_pass: int | None) -> main.Run:
    """Twenty cases as 100 samples show them: `critical` of them pass 98, the others 90; 3 are slow."""
    cases = []
    for i in range(20):
        key = i < critical
        samples_of = tuple(sample(s, s >= (2 if key else 10), 3000.0 if s < 3 else 100.0) for s in range(100))
        found = main.CaseResult(f"c{i}", "sha", samples_of, critical=key, min_pass=min_pass if key else None)
        cases.append(found)
    return run_of(cases, samples)


def false_alarms(rng: random.Random, suites: int) -> Iterator[Row]:
    budget = replace(POLICY, max_p95_latency_ms=2000.0)
    for samples, expected in ((1, 0.17), (5, 0.31)):
        found = main.false_alarms([observed(3, samples, None)], budget, samples, suites, rng)
        world = f"20 cases, 3 critical at 0.98, 3 % slow calls, {samples} sample(s), all causes"
        yield share_row(world, found.rejected, suites, expected - 0.01, expected + 0.01)
        for kind, count in sorted(found.causes.items()):
            yield share_row(f"  of which {kind}", count, suites)


def min_pass(rng: random.Random, suites: int) -> Iterator[Row]:
    """How often sound critical cases alone reject, by `samples` and `min_pass`, through the gate."""
    for number, rate, samples, least, low, high in (
        (3, 0.98, 5, None, 0.23, 0.25), (3, 0.98, 25, 23, 0.03, 0.045), (1, 0.98, 25, None, 0.23, 0.25),
        (1, 0.98, 25, 23, 0.0, 0.02), (1, 0.97, 25, None, 0.24, 0.26), (1, 0.97, 25, 23, 0.03, 0.045),
    ):  # fmt: skip
        rejected = 0
        for _ in range(suites):
            sides = [drawn(rng, [rate] * number, samples, 1) for _ in range(2)]
            held = [
                replace(run, cases=tuple(replace(c, critical=True, min_pass=least) for c in run.cases))
                for run in sides
            ]
            rejected += main.gate(*held, POLICY, OPTIONS).decision == main.REJECT
        world = f"{number} critical at {rate}, {samples} samples, min_pass {least or 'all'}: rejected"
        yield share_row(world, rejected, suites, low, high)


def anchor(rng: random.Random, suites: int) -> Iterator[Row]:
    """200 cases; each of eight releases breaks four cases more (2 points) for good."""
    chains = max(1, suites // 10)
    rolling, anchored = [0] * 9, [0] * 9
    for _ in range(chains):
        rates = [rng.betavariate(30, 1) for _ in range(200)]
        first = previous = drawn(rng, rates, 1, 1)
        caught = [False, False]
        for release in range(1, 9):
            rates = [0.0 if i < 4 * release else rate for i, rate in enumerate(rates)]
            new = drawn(rng, rates, 1, 1)
            report = main.gate(previous, new, POLICY, OPTIONS)
            held = main.with_anchor(report, main.gate(first, new, POLICY, OPTIONS))
            caught[0] |= report.decision != main.ACCEPT
            caught[1] |= any(reason.kind == "anchor" for reason in held.reasons)
            rolling[release] += caught[0]
            anchored[release] += caught[1]
            previous = new
    for release in (1, 2, 4, 6, 8):
        world = f"{2 * release} points in all: a gate against the last release has caught it"
        yield share_row(world, rolling[release], chains, high=0.5)
        yield share_row("  the anchor has", anchored[release], chains, low=0.9 if release >= 6 else 0.0)


def holm(rng: random.Random, suites: int) -> Iterator[Row]:
    """Five candidates, one baseline, 60 cases: none changed; then one of them broke 15 cases."""
    counts = {"alone": 0, "together": 0, "hidden": 0, "lost": 0}
    for _ in range(suites):
        rates = [rng.betavariate(2, 2) for _ in range(60)]
        before, *others = [drawn(rng, rates, 1, 1) for _ in range(6)]
        alone = [main.gate(before, run, POLICY, OPTIONS).verdict for run in others]
        together = [r.verdict for r in main.gate_many(before, others, [POLICY] * 5, OPTIONS)]
        counts["alone"] += main.IMPROVED in alone
        counts["together"] += main.IMPROVED in together
        bad = drawn(rng, [0.0] * 15 + rates[15:], 1, 1)
        verdict = main.gate(before, bad, POLICY, OPTIONS).verdict
        reports = main.gate_many(before, [*others[1:], bad], [POLICY] * 5, OPTIONS)
        counts["lost"] += verdict == main.REGRESSED
        counts["hidden"] += verdict == main.REGRESSED != reports[-1].verdict
    yield share_row("an unchanged one looks improved, gated one by one", counts["alone"], suites)
    yield share_row("  gated together", counts["together"], suites, high=POLICY.alpha)
    yield share_row("a broken one is called regressed", counts["lost"], suites)
    yield Row("  and no longer so beside the others", counts["hidden"], high=0.0)


def timed(world: str, bar: float, words: Sequence[str], largest_mb: float = math.inf) -> Iterator[Row]:
    """A program of its own, started by `words`: its processor seconds and its memory."""
    start = time.perf_counter()
    code = f"import sys; sys.path.insert(0, {str(BENCH.parents[1])!r}); import main; {words[0]}"
    used = (
        "; import time, sys; used = time.process_time()\nif sys.platform == 'win32': peak = 0\nelse: import "
        "resource; peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / "
        "(1 << (20 if sys.platform == 'darwin' else 10))\nprint(used, peak, file=sys.stderr)"
    )
    command = [sys.executable, "-c", code + used, *words[1:]]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)
    seconds, peak = map(float, done.stderr.split()[-2:])
    wall = time.perf_counter() - start
    yield Row(f"{world}: seconds ({wall:.1f} by the wall clock)", seconds, high=bar)
    yield Row(f"{world}: MB", peak, high=largest_mb)


def timing(rng: random.Random, suites: int) -> Iterator[Row]:
    flips = "d = [f'{(1, 2, 3, 4, 5, -1, -2, -3, -4)[i % 9]}/5' for i in range(100000)]; "
    near = flips.replace("[i % 9]", "[i % 9] * (1 if i % 90 < 50 else -1)")
    yield from timed("100,000 differing cases of 5 samples", 2, [flips + "main.sign_flip_test(d)"], 300)
    yield from timed("  the same, near the edge", 2, [near + "main.sign_flip_test(d)"], 300)
    for words in (
        "--drop 0.1 --discordance 0.2 --power 0.8 --min-effect 0.05", "--drop 0.05 --discordance 0.3",
        "--drop 0.01 --discordance 0.5", "--drop 0.2 --discordance 1", "--drop 0.1 --min-effect 0.1",
    ):  # fmt: skip
        yield from timed(f"plan {words}", 2, ["main.main()", "plan", *words.split()])
    with tempfile.TemporaryDirectory() as folder:
        files = [f"{folder}/baseline.json", f"{folder}/candidate.json"]
        for path in files:
            main.write_text(path, main.render_results(drawn(rng, [0.9] * 100_000, 1, 1)))
        words_of_gate = ["main.main()", "gate", "--baseline", files[0], "--candidate", files[1]]
        yield from timed("gate, two files of 100,000 cases", 10, words_of_gate)


TABLES = (errors, coverage, power, false_alarms, min_pass, anchor, holm, timing)


def run(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--suites", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=20260)
    parser.add_argument("--only", action="append", choices=[table.__name__ for table in TABLES])
    options = parser.parse_args(argv)
    missed = 0
    for table in TABLES:
        if options.only and table.__name__ not in options.only:
            continue
        print(f"\n{table.__name__}, {options.suites} suites a row\n\n{'':86}   figure    s.e.  bar")
        for row in table(random.Random(f"{options.seed} {table.__name__}"), options.suites):
            failed = not row.low - 3 * row.error <= row.figure <= row.high + 3 * row.error
            missed += failed
            bar = f"{row.low:.3f} to {row.high:.3f}  {'MISSED' * failed}"
            print(f"{row.world:86} {row.figure:8.4f}  {row.error:6.4f}  {bar}", flush=True)
    print(f"\n{missed} rows miss their bar")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(run())
