"""Mutated suites, results, journals, ledgers, replies and the rest: never a traceback, never a hang.

    python3 code/tests/bench/fuzz.py [--seed 1] [--inputs 20000] [--minutes M] [--only TARGET] [--at I]

Every input goes through `main.main(argv, world)` in process, or through a pure function that may
raise its documented errors and no other. Input number I of a seed is always the same. Exit code 1
when one failed: with the seed, a minimised reproducer and the last frames; or when less than half
of the inputs got past JSON parsing.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import random
import re
import sys
import tempfile
import threading
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Callable, NamedTuple, Optional

sys.path.insert(0, str(Path(__file__).resolve().parent))

import fuzz_readers
import fuzz_targets
from fuzz_lab import TARGETS, Lab
from mutations import minimised
from rehearsal import load

MAKERS = (fuzz_targets, fuzz_readers)  # importing them fills TARGETS
HANG_S = 30.0
SLOW_S = 5.0


class Failure(NamedTuple):
    """What went wrong where: two failures with one signature are one bug."""

    signature: str
    detail: str


Runner = Callable[[bytes], Optional[str]]


def failure_of(run: Runner, data: bytes) -> Failure | None:
    """The failure of one input: an undocumented exception, or a traceback that `main` wrote."""
    try:
        text = run(data)
    except Exception:  # noqa: BLE001 (any exception is what is looked for)
        text = traceback.format_exc()
    if text is None:
        return None
    frames = re.findall(r'File "[^"]*main\.py", line (\d+), in (\S+)\n\s*(.*)', text)
    errors = re.findall(r"^(?!Traceback)[A-Za-z_][\w.]*(?::.*)?$", text, re.MULTILINE)
    line = errors[-1] if errors else text
    place = f"{frames[-1][1]}: {frames[-1][2]}" if frames else ""
    shown = " <- ".join(f"{name}:{number}" for number, name, _ in reversed(frames[-6:]))
    return Failure(f"{line.split(':')[0]} in {place}", f"{line[:300]}\n    {shown}")


def is_json(data: bytes) -> bool:
    """Whether a lenient JSON parser would take the input, or most of its lines."""
    try:
        json.loads(data)
        return True
    except (ValueError, RecursionError):
        pass
    lines = [line for line in data.split(b"\n") if line.strip()]
    good = 0
    for line in lines:
        with contextlib.suppress(ValueError, RecursionError):
            json.loads(line)
            good += 1
    return len(lines) > 1 and 2 * good >= len(lines)


@contextlib.contextmanager
def watchdog(said: list[str]) -> Iterator[list[float]]:
    """Ends the process when one input takes too long; `said` names it."""
    beat = [time.monotonic()]
    over = threading.Event()

    def watch() -> None:
        while not over.wait(1.0):
            if time.monotonic() - beat[0] > HANG_S:
                print(f"\nHANG: over {HANG_S:g} s: {said[-1]}", flush=True)
                for thread, frame in sys._current_frames().items():
                    if thread == threading.main_thread().ident:
                        traceback.print_stack(frame, limit=-12)
                os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
    yield beat
    over.set()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--inputs", type=int, default=20_000)
    parser.add_argument("--minutes", type=float, help="go on as long instead of --inputs")
    parser.add_argument("--only", choices=sorted(TARGETS))
    parser.add_argument("--at", type=int, help="only this input, and show it")
    args = parser.parse_args()
    print(f"seed {args.seed}, {load()}")
    names = [args.only] if args.only else [n for n in TARGETS for _ in range(TARGETS[n].weight)]
    counts: Counter[str] = Counter()
    parsed: Counter[str] = Counter()
    seen: dict[str, int] = {}
    said = [""]
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as folder, watchdog(said) as beat:
        lab = Lab(Path(folder))
        until = math.inf if args.minutes is None else started + 60 * args.minutes
        last = args.inputs if args.minutes is None else sys.maxsize
        for number in range(last) if args.at is None else (args.at,):
            if time.monotonic() >= until:
                break
            rng = random.Random(f"{args.seed}:{number}")
            name = rng.choice(names)
            data, run = TARGETS[name].make(lab, rng)
            said[0] = f"--seed {args.seed} --at {number}" + (f" --only {name}" if args.only else "")
            if args.at is not None:
                print(name, data[:4_000])
            beat[0] = time.monotonic()
            found = failure_of(run, data)
            took = time.monotonic() - beat[0]
            if took > SLOW_S:
                found = found or Failure(f"slow {name}", f"{took:.1f} s")
            counts[name] += 1
            parsed[name] += is_json(data)
            if found is not None:
                seen[found.signature] = seen.get(found.signature, 0) + 1
                if seen[found.signature] == 1:
                    report(name, said[0], found, data, run, beat)
    total, good = sum(counts.values()), sum(parsed.values())
    for name in counts:
        print(f"  {name:18} {counts[name]:7} inputs, {parsed[name] / counts[name]:4.0%} past JSON parsing")
    for signature, count in seen.items():
        print(f"  {count:5} x {signature}")
    xml = sum(counts[name] for name in counts if not TARGETS[name].json)
    share = good / max(total - xml, 1)
    seconds = time.monotonic() - started
    print(f"{total} inputs, {share:.0%} of the JSON ones past parsing, {len(seen)} bugs")
    print(f"{seconds:.0f} s, {load()}")
    return 1 if seen or (share < 0.5 and total >= 100) else 0


def report(name: str, said: str, found: Failure, data: bytes, run: Runner, beat: list[float]) -> None:
    """One failure with the smallest input that still shows it."""

    def fails(variant: bytes) -> bool:
        beat[0] = time.monotonic()
        again = failure_of(run, variant)
        return again is not None and again.signature == found.signature

    small = data if found.signature.startswith("slow") else minimised(data, fails)
    print(f"\nFAILED {name}, {said}\n  {found.signature}\n    {found.detail}")
    print(f"  input {small[:1_500]!r}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
