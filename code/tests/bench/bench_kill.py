"""SIGKILL at fifty moments of a run, then `--resume` until it is done: nothing lost, nothing paid twice.

    python3 code/tests/bench/bench_kill.py [--kills 50] [--seed 1]

Half of the moments are random; the others are hunted: while the results file is being written, at
its rename, before the journal goes, and while a journal line is under way. The stub counts who is
asked what. Exit code 1 when a final results file differs from an undisturbed run's by more than
times, a journalled answer is asked for again, or a kill costs more calls than were in flight.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parent))

from rehearsal import ENVIRON, PROGRAM, Bars, Script, load, m

CASES, SAMPLES, JOBS = 120, 2, 8
MOMENTS = ("random", "temporary file", "rename", "journal line")
TIMES = ("latency_ms", "p95_latency_ms", "started", "finished")
Key = tuple[str, int]


class Kill(NamedTuple):
    """One kill: where the hunter struck, and what the journal held then."""

    place: str
    kept: frozenset[Key]
    asked: int  # calls that the stub had been asked when the process was gone


class Campaign:
    """One results file from the first call to the last, through any number of kills."""

    def __init__(self, folder: Path, suite: str, script: Script) -> None:
        self.folder, self.script = folder, script
        self.out = folder / "r.json"
        self.journal = folder / "r.json.journal"
        self.argv = [*PROGRAM, "run", "--suite", suite, "--base-url", script.url, "--model", "m"]
        self.argv += ["--out", str(self.out), "--samples", str(SAMPLES), "-j", str(JOBS), "-q"]
        self.kills: list[Kill] = []

    def start(self) -> subprocess.Popen[bytes]:
        """A run, or its continuation once there is a journal."""
        more = ["--resume"] if self.journal.exists() else []
        quiet: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
        return subprocess.Popen([*self.argv, *more], env=ENVIRON, **quiet)

    def kept(self) -> frozenset[Key]:
        """The samples whose journal lines are whole."""
        found = set()
        for line in self._journal().split(b"\n")[1:-1]:
            row = json.loads(line)
            found.add((row["case"], row["sample"]["seed"]))
        return frozenset(found)

    def strike(self, moment: str, after_s: float) -> bool:
        """Starts a run and kills it at the moment; False when it was done before."""
        child = self.start()
        until = time.perf_counter() + after_s
        while child.poll() is None:
            if time.perf_counter() >= until if moment == "random" else self._hunted(moment):
                break
        child.send_signal(signal.SIGKILL)
        code = child.wait()
        assert child.stderr is not None
        error = child.stderr.read().decode("utf-8", "replace")
        child.stderr.close()
        if code != -signal.SIGKILL:
            assert code == 0, (code, error)
            return False
        time.sleep(0.05)  # what was in flight reaches the stub
        self.kills.append(Kill(self._where(), self.kept(), len(self.script.asked)))
        return True

    def _journal(self) -> bytes:
        """What stands in the journal; nothing when there is none (any more)."""
        with contextlib.suppress(FileNotFoundError):
            return self.journal.read_bytes()
        return b""

    def _hunted(self, moment: str) -> bool:
        text = self._journal()
        if moment == "journal line":
            return text[-1:] not in (b"", b"\n")
        if len(text) < 2_000:  # `run` tries its output before it asks
            return False
        if moment == "rename":
            return self.out.exists()
        return any(name.startswith(".minieval-") for name in os.listdir(self.folder))

    def _where(self) -> str:
        text = self._journal()
        if self.out.exists():
            return "the file stands, the journal too" if text else "all done"
        if text[-1:] not in (b"", b"\n"):
            return "inside a journal line"
        writing = any(name.startswith(".minieval-") for name in os.listdir(self.folder))
        return "before the rename" if writing else "asking" if text else "before the first call"

    def done(self) -> bool:
        """The results file stands and nothing is left to ask."""
        return self.out.exists() and not self.journal.exists()

    def finish(self) -> Any:
        """Continues to the end and gives the results without their times."""
        if not self.done():
            child = self.start()
            _, error = child.communicate(timeout=120)
            assert child.returncode == 0, error.decode()
        return without_times(json.loads(self.out.read_text("utf-8")))

    def paid_twice(self) -> tuple[int, int]:
        """(journalled samples that were asked again, most calls that one kill cost)."""
        again = most = lost = 0
        for kill in self.kills:
            later = {(str(case), seed) for _, case, seed in self.script.asked[kill.asked :]}
            again += len(later & kill.kept)
            if kill.place == "all done":  # nothing was lost, and the journal is gone
                continue
            cost = kill.asked - len(kill.kept) - lost
            most, lost = max(most, cost), lost + cost
        return again, most


def without_times(value: Any) -> Any:
    """The document without what no two runs share."""
    if isinstance(value, dict):
        return {key: without_times(item) for key, item in value.items() if key not in TIMES}
    return [without_times(item) for item in value] if isinstance(value, list) else value


def write_suite(folder: Path) -> str:
    """Texts, numbers, a JSON answer and a pattern, every tenth of which fails."""
    kinds: list[dict[str, Any]] = [
        {"type": "equals", "value": "ok"},
        {"type": "regex", "value": "^(o|k)+$"},
        {"type": "icontains", "value": "OK"},
    ]
    cases = [
        {"id": f"c{i}", "input": f"q{i}", "assert": [kinds[i % 3]], "critical": i % 7 == 0}
        for i in range(CASES)
    ]
    path = folder / "suite.json"
    path.write_text(json.dumps({"name": "kill", "prompt": "{{input}}", "cases": cases}), "utf-8")
    return str(path)


@contextlib.contextmanager
def counting_stub(suite: str) -> Iterator[Script]:
    """A stub in this process that keeps every question it was asked."""
    parsed = m.load_suite(suite)
    said = {case.id: "no" if i % 10 == 9 else "ok" for i, case in enumerate(parsed.cases)}
    script = Script(parsed, {"m": {"answers": said}}, [{"delay_s": 0.004}])
    server = m.stub_server(script)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    script.url = server.base_url
    yield script
    server.shutdown()
    server.server_close()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    rng = random.Random(args.seed)
    print(f"seed {args.seed}, {load()}")
    kills: list[Kill] = []
    differing = again = most = torn = 0
    with tempfile.TemporaryDirectory() as root, counting_stub(write_suite(Path(root))) as script:
        suite = str(Path(root) / "suite.json")
        folder = Path(root) / "undisturbed"
        folder.mkdir()
        started = time.perf_counter()
        wanted = Campaign(folder, suite, script).finish()
        whole_s = time.perf_counter() - started
        number = 0
        while len(kills) < args.kills:
            number += 1
            folder = Path(root) / f"campaign-{number}"
            folder.mkdir()
            script.asked.clear()
            campaign = Campaign(folder, suite, script)
            for _ in range(rng.randint(1, 4)):
                moment = "random" if rng.random() < 0.5 else rng.choice(MOMENTS[1:])
                if not campaign.strike(moment, rng.uniform(0, whole_s)) or campaign.done():
                    break
            found = campaign.finish()
            differing += found != wanted
            twice, cost = campaign.paid_twice()
            again, most = again + twice, max(most, cost)
            kills += campaign.kills
            left = {name for name in os.listdir(folder) if not name.startswith(".minieval-")}
            torn += left != {"r.json"}
    for place, count in sorted(Counter(kill.place for kill in kills).items()):
        print(f"  {count:3} kills: {place}")
    bars = Bars()
    bars.at_most("kills, fewer than wanted", max(args.kills - len(kills), 0), 0)
    bars.holds("final results that differ from an undisturbed run's", differing, 0)
    bars.holds("journalled answers that were asked for again", again, 0)
    bars.at_most("calls that one kill cost, of those in flight", most, JOBS)
    bars.holds("folders with more than the results file at the end", torn, 0)
    print(f"  {number} campaigns, an undisturbed run takes {whole_s:.2f} s; {load()}")
    return bars.exit_code


if __name__ == "__main__":
    sys.exit(main())
