"""How fast and how big the contamination check is, as ratios measured in one run.

    python3 code/tests/bench/bench_contamination.py [--mb 40] [--rounds 3] [--large-mb 0]

The floor is what any Python check must do: parse the JSON, lower the text, split it. The texts are
English that the machine has (licences, /usr/share/doc, Perl's and Python's documentation), and
seeded chains of words made from them. Ends with exit code 1 when a bar is missed.
"""

from __future__ import annotations

import argparse
import collections
import concurrent.futures
import glob
import io
import json
import os
import pydoc_data.topics
import random
import re
import string
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Callable

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
import main

N = 8
LEGAL = ("/usr/share/common-licenses/*", "/usr/share/doc/*/copyright")
MANUALS = ("/usr/share/perl/*/pod/*.pod", "/usr/share/doc/**/*.txt", "/usr/share/doc/**/README*")


def shipped_text(patterns: tuple[str, ...]) -> list[str]:
    """Paragraphs of the files the machine has under these patterns."""
    found = []
    for path in sorted({path for pattern in patterns for path in glob.glob(pattern, recursive=True)}):
        if os.path.isfile(path) and not path.endswith(".gz"):
            text = Path(path).read_text("utf-8", "replace")
            found += [part for part in re.split(r"\n\s*\n", text) if len(part) > 60]
    return list(dict.fromkeys(found))


def python_text() -> list[str]:
    """Paragraphs of Python's own documentation: another domain than licences and manuals."""
    texts = list(pydoc_data.topics.topics.values())
    for path in sorted(glob.glob(os.path.join(os.path.dirname(os.__file__), "*.py"))):
        source = Path(path).read_text("utf-8", "replace")
        texts += re.findall(r'"""(.*?)"""', source, re.DOTALL)
    parts = [part for text in texts for part in re.split(r"\n\s*\n", text) if len(part) > 60]
    return [
        part
        for part in parts
        if not re.search("(?i)licen[sc]e|copyright|warrant|redistrib|modification", part)
    ]


class Chain:
    """Seeded text in which any three words in a row stood so in the source."""

    def __init__(self, paragraphs: list[str], seed: int) -> None:
        self.rng = random.Random(seed)
        self.words = " ".join(paragraphs).split()
        self.after: dict[tuple[str, str], list[int]] = {}
        for at in range(len(self.words) - 2):
            self.after.setdefault((self.words[at], self.words[at + 1]), []).append(at + 2)

    def text(self, size: int) -> str:
        at = self.rng.randrange(len(self.words) - 2)
        out = self.words[at : at + 2]
        while len(out) < size:
            at = self.rng.choice(self.after.get((out[-2], out[-1]), [0]))
            out.append(self.words[at])
        return " ".join(out)


def make_cases(chain: Chain, count: int) -> list[main.Case]:
    return [main.Case(str(i), chain.text(45), (), "", reference=chain.text(8)) for i in range(count)]


def write_corpus(path: str, paragraphs: list[str], mb: float, seed: int) -> None:
    rng = random.Random(seed)
    size = 0
    with open(path, "w", encoding="utf-8") as stream:
        while size < mb * 1e6:
            text = "\n\n".join(rng.choice(paragraphs) for _ in range(rng.randint(1, 8)))
            line = json.dumps({"text": text, "source": "bench"}, ensure_ascii=False) + "\n"
            size += len(line.encode())
            stream.write(line)


def repeat(path: str, target: str, mb: float) -> None:
    data = Path(path).read_bytes()
    with open(target, "wb") as stream:
        while stream.tell() < mb * 1e6:
            stream.write(data)


def multilingual(seed: int) -> list[str]:
    """Made-up Russian, Chinese, Hindi, Greek and accented text."""
    rng = random.Random(seed)
    alphabets = ("абвгдежзиклмнопрст", "αβγδεζηθικλμνξοπρσ", "कखगघचछजझटठडतथदनपमयरल", "aeéioçlmnàrstöü")
    out = []
    for _ in range(4000):
        letters = rng.choice(alphabets)
        vocabulary = ["".join(rng.choices(letters, k=rng.randint(2, 9))) for _ in range(80)]
        out.append(" ".join(rng.choices(vocabulary, k=80)))
        out.append("".join(chr(rng.randint(0x4E00, 0x7FFF)) for _ in range(120)) + "。")
    return out


def floor(path: str) -> int:
    count = 0
    with open(path, "rb") as stream:
        for line in stream:
            count += len(json.loads(line)["text"].lower().split())
    return count


def scan(index: main.SuiteIndex, path: str, processes: int = 1) -> main.Tally:
    tasks = main.list_tasks([path], "", main.real_world())
    quiet = main.real_world()._replace(stderr=io.StringIO())
    return main.scan_corpus(index, tasks, False, processes, quiet)


def janitor_like(cases: list[main.Case], path: str, mb: float) -> float:
    """MB/s of the way of lm-evaluation-harness's Janitor without its C++ module.

    Every n-gram of the corpus with where it starts and ends, folded one by one, looked up in a set.
    """
    fold = str.maketrans(string.ascii_uppercase, string.ascii_lowercase, string.punctuation)

    def spans(text: str) -> Iterator[tuple[str, int, int]]:
        window: collections.deque[tuple[str, int, int]] = collections.deque(maxlen=N)
        for match in re.finditer(r"\S+", text):
            window.append((match.group(), match.start(), match.end()))
            if len(window) == N:
                yield " ".join(word for word, _, _ in window), window[0][1], window[-1][2]

    def grams(text: str) -> list[str]:
        found = text.translate(fold).split()
        return [" ".join(found[at : at + N]) for at in range(len(found) - N + 1)]

    dirty = {gram for case in cases for gram in grams(case.input + " " + (case.reference or ""))}
    began, done, hits = time.process_time(), 0, 0
    with open(path, encoding="utf-8") as stream:
        for line in stream:
            text = json.loads(line)["text"]
            hits += sum(gram.translate(fold) in dirty for gram, _start, _end in spans(text))
            done += len(line)
            if done > mb * 1e6:
                break
    return done / 1e6 / (time.process_time() - began)


def cpu_seconds(work: Callable[..., object], *args: Any) -> float:
    """Of this process: other work on the machine disturbs it less than the clock on the wall."""
    began = time.process_time()
    work(*args)
    return time.process_time() - began


def seconds(work: Callable[..., object], *args: Any) -> float:
    began = time.perf_counter()
    work(*args)
    return time.perf_counter() - began


def peak_mb(count: int, path: str, chain: Chain) -> float:
    """Peak memory of a whole process that scans the corpus for a suite of so many cases."""
    cases = [[case.id, case.input, case.reference] for case in make_cases(chain, count)]
    with tempfile.NamedTemporaryFile("w", suffix=".json", delete=False) as stream:
        json.dump(cases, stream)
    child = (
        "import sys, json, types; sys.argv[0] = 'bench';"
        f"sys.path.insert(0, {str(Path(__file__).parent)!r}); import bench_contamination as b;"
        "c = [types.SimpleNamespace(id=i, input=t, reference=r) for i, t, r in json.load(open(sys.argv[1]))];"
        "x = b.main.index_cases(c, b.N); del c; b.scan(x, sys.argv[2]);"
        "print(b.peak_kb())"
    )
    command = [sys.executable, "-c", child, stream.name, path]
    out = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    os.unlink(stream.name)
    return int(out) / 1e3


def peak_kb() -> int:
    """VmHWM where there is one: on Linux ru_maxrss may be the parent's, kept over the exec."""
    if os.path.exists("/proc/self/status"):
        return int(re.findall(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text())[0])
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak // 1024 if sys.platform == "darwin" else peak


class Bars:
    missed = 0

    def show(self, label: str, value: float, bar: float | None = None, most: bool = False) -> None:
        good = bar is None or (value <= bar if most else value >= bar)
        self.missed += not good
        mark = (
            "" if bar is None else f"   (bar: {'<' if most else '>='} {bar:g}) {'ok' if good else 'MISSED'}"
        )
        print(f"{label:<58}{value:9.2f}{mark}", flush=True)


def bench(mb: float, rounds: int, large_mb: float, folder: str) -> int:
    bars = Bars()
    manuals = shipped_text(LEGAL + MANUALS)
    python = python_text()
    print(f"English shipped here: {sum(map(len, manuals)) / 1e6:.1f} MB of licences and manuals,"
          f" {sum(map(len, python)) / 1e6:.1f} MB of Python documentation")  # fmt: skip
    english, mixed = os.path.join(folder, "english.jsonl"), os.path.join(folder, "mixed.jsonl")
    write_corpus(english, manuals, mb, 1)
    write_corpus(mixed, multilingual(3), mb / 4, 2)
    other, same = Chain(python, 4), Chain(manuals, 5)
    sizes = (20, 200, 2_000, 20_000)
    indexes = {("other domain", size): main.index_cases(make_cases(other, size), N) for size in sizes}
    indexes["same domain", 2_000] = main.index_cases(make_cases(same, 2_000), N)
    best: dict[object, float] = {}
    for _ in range(rounds):  # floor and scans in turn: what slows the machine slows both
        best["floor"] = min(best.get("floor", 1e9), cpu_seconds(floor, english))
        for key, index in indexes.items():
            best[key] = min(best.get(key, 1e9), cpu_seconds(scan, index, english))
    bars.show("floor, MB/s", mb / best["floor"])
    for domain, size in indexes:
        spent = best[domain, size]
        bar = {200: 0.5, 20_000: 0.35}.get(size) if domain == "other domain" else None
        bars.show(f"{size} cases, {domain}, MB/s", mb / spent)
        bars.show(f"{size} cases, {domain}, share of the floor", best["floor"] / spent, bar)
    index = indexes["other domain", 200]
    mixed_floor = min(cpu_seconds(floor, mixed) for _ in range(rounds))
    mixed_scan = min(cpu_seconds(scan, index, mixed) for _ in range(rounds))
    bars.show("200 cases, multilingual, MB/s", mb / 4 / mixed_scan)
    bars.show("200 cases, multilingual, share of its floor", mixed_floor / mixed_scan)
    slow = janitor_like(make_cases(Chain(python, 4), 200), english, min(mb, 6))
    bars.show("Janitor's way in Python, MB/s", slow)
    bars.show("times as fast as Janitor's way", mb / best["other domain", 200] / slow, 10)
    longer = os.path.join(folder, "longer.jsonl")
    repeat(english, longer, 5 * mb)
    bench_processes(bars, index, longer, rounds)
    bench_memory(bars, folder, english, other, large_mb)
    return 1 if bars.missed else 0


def bench_processes(bars: Bars, index: main.SuiteIndex, path: str, rounds: int) -> None:
    rounds_seen = []
    with concurrent.futures.ProcessPoolExecutor(2) as pool:
        list(pool.map(floor, [os.devnull] * 2))
        for _ in range(rounds):
            alone = seconds(floor, path)
            gain = 2 * alone / seconds(lambda: list(pool.map(floor, [path] * 2)))
            rounds_seen.append((gain, seconds(scan, index, path, 1) / seconds(scan, index, path, 2)))
    gain, ratio = max(rounds_seen, key=lambda seen: min(seen))
    bars.show("two floors at once: what the machine gives", gain)
    bars.show("two processes against one", ratio, 1.7 if gain >= 1.85 else None)
    if gain < 1.85:
        print("  (the cores were not idle: no bar)")


def bench_memory(bars: Bars, folder: str, path: str, chain: Chain, large_mb: float) -> None:
    for count, most in ((2_000, 100), (20_000, 600)):
        bars.show(f"peak memory at {count} cases, MB", peak_mb(count, path, chain), most, most=True)
    if large_mb:
        large = os.path.join(folder, "large.jsonl")
        repeat(path, large, large_mb)
        label = f"peak memory at 2000 cases over {large_mb:g} MB, MB"
        bars.show(label, peak_mb(2_000, large, chain), 100, most=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--mb", type=float, default=40)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--large-mb", type=float, default=0, help="also a corpus of this size")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        sys.exit(bench(options.mb, options.rounds, options.large_mb, scratch))
