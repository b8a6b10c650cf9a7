"""Coverage of the statistics room's intervals, by seeded simulation: `python simulate_interval.py`.

Prints one table per interval: the world, how often the 95 % interval held the truth, and the
binomial standard error of that figure. Exit 1 when a row falls below the promise by more than
three standard errors. Options: `--suites N` (per row), `--seed N`.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import math
import pathlib
import random
import sys
from collections.abc import Sequence
from typing import Callable, Optional

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))

import main

Draw = Callable[[], Optional[bool]]
Row = tuple[str, float, float, Draw]  # world, lowest and highest coverage allowed, one draw


@functools.cache
def tango(regressed: int, improved: int, n: int) -> tuple[float, float]:
    still = n - regressed - improved
    return main.effect_interval([-1] * regressed + [1] * improved + [0] * still)


def one_sample(rng: random.Random, n: int, drop: float, discordance: float) -> Draw:
    regress, improve = (discordance + drop) / 2, (discordance - drop) / 2

    def draw() -> bool:
        moves = rng.choices((-1, 1, 0), (regress, improve, 1 - regress - improve), k=n)
        low, high = tango(moves.count(-1), moves.count(1), n)
        return low <= -drop <= high

    return draw


def passes(rng: random.Random, samples: int, rate: float) -> int:
    return sum(rng.random() < rate for _ in range(samples))


def several_samples(
    rng: random.Random, n: int, samples: int, shape: tuple[float, float], drop: float, sizes: tuple[int, ...]
) -> Draw:
    """Cases with rates from a beta law, in groups; a share `drop` of these loses everything."""
    layout = [group for group in range(n) for _ in range(sizes[group % len(sizes)])][:n]

    def draw() -> bool:
        differences: list[str] = []
        truth = drop * shape[0] / (shape[0] + shape[1])
        for place, group in enumerate(layout):
            if place == 0 or layout[place - 1] != group:
                rate, lost = rng.betavariate(*shape), rng.random() < drop
            after = 0 if lost else passes(rng, samples, rate)
            differences.append(f"{after - passes(rng, samples, rate)}/{samples}")
        low, high = main.effect_interval(differences, layout)
        return low <= -truth <= high

    return draw


def effect_rows(rng: random.Random) -> list[Row]:
    rows: list[Row] = []
    for n in (20, 50, 200):
        for drop, discordance in ((0.0, 0.1), (0.0, 0.3), (0.1, 0.2), (0.2, 0.2)):
            world = f"n={n} samples=1 drop={drop} discordance={discordance}"
            highest = 0.985 if n >= 50 else 1.0
            rows.append((world, 0.94, highest, one_sample(rng, n, drop, discordance)))
    for n in (20, 50, 200):
        for shape, drop in (((8.0, 1.0), 0.0), ((0.5, 0.2), 0.0), ((8.0, 1.0), 0.2)):
            world = f"n={n} samples=5 rates=beta{shape} lost={drop}"
            rows.append((world, 0.94, 1.0, several_samples(rng, n, 5, shape, drop, (1,))))
    for samples, sizes in itertools.product((1, 5), ((5,), (1, 2, 9))):
        world = f"n=200 samples={samples} groups of {sizes}, rates=beta(4, 1) lost=0.15"
        rows.append((world, 0.94, 1.0, several_samples(rng, 200, samples, (4.0, 1.0), 0.15, sizes)))
    return rows


def kappa_draw(rng: random.Random, n: int, rate: float, sens: float, spec: float) -> Draw:
    cells = (rate * sens, (1 - rate) * (1 - spec), rate * (1 - sens), (1 - rate) * spec)
    judge = cells[0] + cells[1]
    chance = judge * rate + (1 - judge) * (1 - rate)
    truth = (cells[0] + cells[3] - chance) / (1 - chance)

    def draw() -> bool | None:
        seen = rng.choices(range(4), cells, k=n)
        kappa = main.cohen_kappa(*(seen.count(cell) for cell in range(4)))
        return None if kappa is None else kappa.low <= truth <= kappa.high

    return draw


def kappa_rows(rng: random.Random) -> list[Row]:
    return [
        (
            f"n={n} human pass rate={rate} sens={sens} spec={spec}",
            0.93,
            1.0,
            kappa_draw(rng, n, rate, sens, spec),
        )
        for n in (30, 50, 200)
        for rate, sens, spec in (
            (0.5, 0.9, 0.9),
            (0.7, 0.95, 0.85),
            (0.7, 0.99, 0.98),
            (0.8, 0.95, 0.6),
            (0.6, 0.6, 0.7),
        )
    ]


def corrected_draw(rng: random.Random, n: int, labels: int, rate: float, sens: float, spec: float) -> Draw:
    def draw() -> bool | None:
        passed = passes(rng, n, rate * sens + (1 - rate) * (1 - spec))
        true_pass, true_fail = passes(rng, labels, sens), passes(rng, labels, spec)
        corrected = main.rogan_gladen(passed, n, true_pass, labels, true_fail, labels)
        return None if corrected is None else corrected.low <= rate <= corrected.high

    return draw


def corrected_rows(rng: random.Random) -> list[Row]:
    return [
        (
            f"n={n} labels=2x{labels} rate={rate} sens={sens} spec={spec}",
            0.93,
            1.0,
            corrected_draw(rng, n, labels, rate, sens, spec),
        )
        for n, labels in ((50, 20), (200, 20), (200, 100))
        for rate, sens, spec in ((0.5, 0.9, 0.8), (0.9, 0.95, 0.9), (0.7, 0.8, 0.7), (0.97, 0.98, 0.9))
    ]


def print_recovery(rng: random.Random, suites: int) -> None:
    """What the corrected rate is off on average, beside what the raw rate is off."""
    print(f"\n{'mean error of the pass rate, n=200 labels=2x100':52} {'corrected':>9} {'raw':>8}")
    for rate, sens, spec in ((0.3, 0.9, 0.8), (0.7, 0.8, 0.7), (0.9, 0.95, 0.9), (0.97, 0.98, 0.9)):
        found, raw = 0.0, 0.0
        for _ in range(suites):
            passed = passes(rng, 200, rate * sens + (1 - rate) * (1 - spec))
            labels = passes(rng, 100, sens), 100, passes(rng, 100, spec), 100
            corrected = main.rogan_gladen(passed, 200, *labels)
            found += (corrected.rate if corrected else passed / 200) - rate
            raw += passed / 200 - rate
        print(
            f"rate={rate} sens={sens} spec={spec}".ljust(52), f"{found / suites:+9.4f} {raw / suites:+8.4f}"
        )


def print_table(title: str, rows: Sequence[Row], suites: int) -> int:
    """Simulate the rows and print them; the number of rows that break the promise."""
    print(f"\n{title}, {suites} suites a row\n")
    print(f"{'world':62} {'coverage':>8} {'s.e.':>6}  {'undefined':>9}")
    broken = 0
    for world, lowest, highest, draw in rows:
        seen = [draw() for _ in range(suites)]
        defined = [held for held in seen if held is not None]
        rate = sum(defined) / len(defined)
        error = math.sqrt(max(rate * (1 - rate), 1 / suites) / len(defined))
        failed = not lowest - 3 * error <= rate <= highest + 3 * error
        broken += failed
        undefined = len(seen) - len(defined)
        print(f"{world:62} {rate:8.4f} {error:6.4f}  {undefined:9d}{'  BROKEN' * failed}")
    return broken


def run(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--suites", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=20240)
    options = parser.parse_args(argv)
    rng = random.Random(options.seed)
    broken = print_table("Effect interval (95 %)", effect_rows(rng), options.suites)
    broken += print_table("Cohen's kappa (95 %)", kappa_rows(rng), options.suites)
    broken += print_table("Corrected pass rate (95 %)", corrected_rows(rng), options.suites)
    print_recovery(rng, options.suites)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(run())
