"""What the same work costs minieval and other runners, and what each makes of trouble, in one run.

    npm --prefix code/tests/oracles ci
    python3 -m venv /tmp/inspect && /tmp/inspect/bin/pip install inspect_ai openai
    python3 -m venv /tmp/lm-eval && /tmp/lm-eval/bin/pip install 'lm_eval[api]'
    python3 code/tests/bench/bench_peers.py [--promptfoo FILE] [--inspect PYTHON] [--lm-eval PYTHON]

All ask minieval's stub the same prompts, each with its defaults but for the
number of calls at a time; what has not ended after a minute of trouble gets one Ctrl-C, then is
killed. lm-eval, which cannot continue a run, is not in that row. The issue's figures stand beside the
measured ones. Exit code 1 when minieval is not better where that is claimed, 3 when a peer is missing.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import contextlib
import itertools
import json
import re
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Callable, NamedTuple

sys.path.extend(str(folder) for folder in Path(__file__).resolve().parents[:2])

from oracles.test_promptfoo_oracle import NODE, PROMPTFOO, quiet_environment
from rehearsal import ENVIRON, PROGRAM, Bars, Script, Timed, load, m, stub, suite, timed

JOBS, CASES, FEW_JOBS = 32, 100, 4
WORK_LIMIT_S = 300
TROUBLE_LIMIT_S = 60  # refused, promptfoo says so after 80 s and ends after 330 s
CUT_OFF = (124, 137)  # the exit codes of `timeout`
STATED = {"promptfoo": (30, 23, 390), "Inspect": (69, 49, 197)}  # seconds, CPU seconds, MB: issue 3
REFUSED, OUTAGE, WRONG = "connections refused", "every call: 500", "half the answers wrong"
ONE, MALFORMED, KILLED = "one call in 100: 500", "one call in 100: malformed", "killed, resumed"
TROUBLES: Mapping[str, Mapping[str, Any]] = {
    REFUSED: {},
    OUTAGE: {"status": 500},
    WRONG: {},
    ONE: {"case": "c50", "status": 500},
    MALFORMED: {"case": "c50", "body": '{"choices": [{"mess'},
    KILLED: {"delay_s": 0.1},
}
PROMPT = "Reply with ok.\n\n"  # of rehearsal's suite
INSPECT_TASK = f"""
import json
from inspect_ai import Task, task
from inspect_ai.dataset import Sample
from inspect_ai.scorer import exact

@task
def bench():
    cases = [json.loads(line) for line in open("cases.jsonl")]
    asked = [Sample(id=case["id"], input={PROMPT!r} + case["input"], target="ok") for case in cases]
    return Task(dataset=asked, scorer=exact())
"""
LM_EVAL_TASK = f"""
task: bench
dataset_path: json
dataset_kwargs: {{data_files: cases.jsonl}}
test_split: train
output_type: generate_until
generation_kwargs: {{until: []}}
doc_to_text: {json.dumps(PROMPT + "{{input}}")}
doc_to_target: ok
metric_list: [{{metric: exact_match}}]
"""


class Left(NamedTuple):
    """What a runner's own output holds: answers, and its totals of cases passed and asked."""

    answers: int = 0
    passed: int = 0
    asked: int = 0


class Minieval:
    """A runner: its commands in a folder, where it also is at home, and what it leaves there."""

    name = "minieval"

    def __init__(self, *program: str) -> None:
        self.program = list(program)

    def within(self, folder: Path, argv: Sequence[str], **variables: str) -> list[str]:
        known = {**quiet_environment(folder), "HOME": str(folder), **variables}
        pairs = [f"{key}={value}" for key, value in known.items()]
        return ["env", "-i", "-C", str(folder), *pairs, *self.program, *argv]

    def ask(self, folder: Path, url: str, jobs: int) -> list[str]:
        argv = ["run", "--suite", "suite.json", "--base-url", url, "--model", "m", "--out", "out.json"]
        compiled = ENVIRON["PYTHONPYCACHEPREFIX"]
        return self.within(folder, [*argv, "-j", str(jobs)], PYTHONPYCACHEPREFIX=compiled)

    def resume(self, folder: Path, url: str, jobs: int) -> list[str]:
        return [*self.ask(folder, url, jobs), "--resume"]

    def left(self, folder: Path) -> Left:
        cases = read(folder / "out.json").get("cases", [])
        answers = sum(sample["error"] is None for case in cases for sample in case["samples"])
        return Left(answers, sum(case["verdict"] == "pass" for case in cases), len(cases))


class Promptfoo(Minieval):
    name = "promptfoo"
    quiet = ["--no-cache", "--no-table", "--no-progress-bar", "--no-share", "-o", "out.json"]

    def ask(self, folder: Path, url: str, jobs: int) -> list[str]:
        argv = [*PROGRAM, "promptfoo-config", "--suite", str(folder / "suite.json"), "--base-url", url]
        argv += ["--model", "m", "--out", str(folder / "config.yaml")]
        subprocess.run(argv, check=True, env=ENVIRON, stderr=subprocess.DEVNULL)
        return self.within(folder, ["eval", "-c", "config.yaml", "-j", str(jobs), *self.quiet])

    def resume(self, folder: Path, url: str, jobs: int) -> list[str]:
        return self.within(folder, ["eval", "--resume", "latest", "-j", str(jobs), *self.quiet])

    def left(self, folder: Path) -> Left:
        found = read(folder / "out.json").get("results", {"results": [], "stats": {}})
        stats = [found["stats"].get(key, 0) for key in ("successes", "failures", "errors")]
        answers = sum("output" in (row.get("response") or {}) for row in found["results"])
        return Left(answers, stats[0], sum(stats))


class Inspect(Minieval):
    name = "Inspect"

    def ask(self, folder: Path, url: str, jobs: int) -> list[str]:
        (folder / "bench.py").write_text(INSPECT_TASK, "utf-8")
        model = ["--model", "openai-api/stub/m", "--max-samples", str(jobs)]
        return self._command(folder, url, ["eval", "bench.py", *model], jobs)

    def resume(self, folder: Path, url: str, jobs: int) -> list[str]:
        return self._command(folder, url, ["eval-retry", self._log(folder)], jobs)

    def left(self, folder: Path) -> Left:
        dump = subprocess.check_output(self.within(folder, ["log", "dump", self._log(folder)]))
        found = json.loads(dump)
        samples = found.get("samples") or []
        answers = sum(bool(row["output"]["choices"]) and not row.get("error") for row in samples)
        results = found.get("results")
        if not results or not results["scores"]:
            return Left(answers)
        score = results["scores"][0]
        passed = round(score["metrics"]["mean"]["value"] * score["scored_samples"])
        return Left(answers, passed, results["total_samples"])

    def _command(self, folder: Path, url: str, argv: Sequence[str], jobs: int) -> list[str]:
        more = ["--max-connections", str(jobs), "--display", "plain", "--log-dir", "logs"]
        return self.within(folder, [*argv, *more], STUB_BASE_URL=url, STUB_API_KEY="not-a-key")

    def _log(self, folder: Path) -> str:
        return str(max((folder / "logs").iterdir()))  # a name begins with the time


class LmEval(Minieval):
    name = "lm-eval"

    def ask(self, folder: Path, url: str, jobs: int) -> list[str]:
        (folder / "bench.yaml").write_text(LM_EVAL_TASK, "utf-8")
        where = f"model=m,base_url={url}/chat/completions,num_concurrent={jobs}"
        argv = ["run", "--model", "local-chat-completions", "--model_args", where, "--tasks", "bench"]
        argv += ["--include_path", ".", "--apply_chat_template", "--output_path", "out", "--log_samples"]
        return self.within(folder, argv, HF_HUB_OFFLINE="1")

    def left(self, folder: Path) -> Left:
        texts = [path.read_text("utf-8") for path in folder.glob("out/*/samples_*.jsonl")]
        rows = [json.loads(line) for text in texts for line in text.splitlines()]
        passed = sum(row["exact_match"] == 1 for row in rows)
        return Left(sum(bool(row["resps"][0][0]) for row in rows), passed, len(rows))


class Found(NamedTuple):
    """How a command ended, what its output holds, and what it said."""

    code: int
    wall_s: float
    calls: int  # that the stub had
    left: Left
    lines: int
    says: str


Of = Mapping[str, Found]
CLAIMS: Sequence[tuple[str, str, Callable[[Of], bool]]] = (  # true of minieval, and not of the peer
    ("promptfoo", "outage told from wrong answers", lambda of: of[OUTAGE].code != of[WRONG].code),
    ("promptfoo", "refused: ended in a minute", lambda of: of[REFUSED].code not in CUT_OFF),
    ("promptfoo", "refused: said so", lambda of: "refused" in of[REFUSED].says.lower()),
    ("promptfoo", "totals right once resumed", lambda of: of[KILLED].left == Left(CASES, CASES, CASES)),
    ("Inspect", "an errored run exits not 0", lambda of: of[MALFORMED].code != 0),
    ("lm-eval", "99 answers left, 500", lambda of: of[ONE].left.answers == CASES - 1),
    ("lm-eval", "99 answers left, malformed", lambda of: of[MALFORMED].left.answers == CASES - 1),
)


def read(path: Path) -> Any:
    """The JSON document; an empty one when there is no file."""
    return json.loads(path.read_text("utf-8")) if path.exists() else {}


def limited(argv: Sequence[str], limit_s: int) -> list[str]:
    return ["timeout", "-s", "INT", "-k", "10", str(limit_s), *argv]


def version(argv: Sequence[str]) -> str:
    """What is installed, as this command prints it; empty when there is nothing."""
    with contextlib.suppress(OSError, subprocess.CalledProcessError):
        return subprocess.check_output(argv, text=True, stderr=subprocess.DEVNULL).strip()
    return ""


def work(peers: Sequence[Minieval], bars: Bars, root: Path, rounds: int, cases: int) -> None:
    """One-sample cases that cost the endpoint nothing, from start to exit; medians count."""
    rows: dict[str, list[Timed]] = {peer.name: [] for peer in peers}
    with stub(*suite(root, cases)) as url:
        for _, peer in itertools.product(range(rounds), peers):
            folder = Path(tempfile.mkdtemp(dir=root))
            suite(folder, cases)
            rows[peer.name].append(timed(limited(peer.ask(folder, url, JOBS), WORK_LIMIT_S), folder))
            assert peer.left(folder) == Left(cases, cases, cases), (peer.name, rows[peer.name][-1])
    what = {"wall_s": "wall", "cpu_s": "CPU", "peak_mb": "peak memory"}
    figures = {
        name: [statistics.median(getattr(row, column) for row in found) for column in what]
        for name, found in rows.items()
    }
    ours = figures["minieval"]
    for name, theirs in figures.items():
        times = " ".join(f"{their / own:.1f}" for their, own in zip(theirs, ours))
        stated = "; stated %d s, %d s, %d MB" % STATED[name] if name in STATED else ""
        row = (name, *theirs, times, stated)
        print("  %-9s wall %.2f s, CPU %.2f s, peak %.0f MB, times minieval's %s%s" % row)
        for word, their, own in zip(what.values(), theirs, ours):
            if name in STATED:
                bars.at_most(f"{cases:,} cases at 0 ms, -j {JOBS}: {word}, of {name}'s", own / their, 1)


def meet(peer: Minieval, trouble: str, folder: Path) -> Found:
    """A runner in one kind of trouble; the stub is in this process, so that its calls are counted."""
    where, answers = suite(folder, CASES)
    if trouble == WRONG:
        said = Path(answers).read_text("utf-8")
        Path(answers).write_text(said.replace('"ok"', '"no"', CASES // 2), "utf-8")
    parsed = m.load_suite(where)
    script = Script(parsed, m.load_script(parsed, answers).models, [TROUBLES[trouble]])
    with m.stub_server(script) as server:
        threading.Thread(target=server.serve_forever, args=(0.005,), daemon=True).start()
        url = server.base_url
        if trouble == REFUSED:
            with socket.create_server(("127.0.0.1", 0)) as free:
                url = f"http://127.0.0.1:{free.getsockname()[1]}/v1"
        argv = peer.ask(folder, url, FEW_JOBS if trouble == KILLED else JOBS)
        if trouble == KILLED:
            with subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as child:
                while child.poll() is None and len(script.asked) < CASES // 2:
                    time.sleep(0.01)
                child.kill()
            argv = peer.resume(folder, url, FEW_JOBS)
        found = timed(limited(argv, TROUBLE_LIMIT_S), folder)
        server.shutdown()
    lines = [" ".join(line.split()) for line in f"{found.err}\n{found.out}".splitlines()]
    why = [line for line in lines if trouble == REFUSED and "refused" in line.lower()]
    last = [line for line in lines if re.search("[a-z]", line)]
    says = (why or last or [""])[-1]
    return Found(found.code, found.wall_s, len(script.calls), peer.left(folder), len(lines), says)


def troubles(peers: Sequence[Minieval], bars: Bars, root: Path) -> None:
    """Each runner in each trouble, three at a time: they wait more than they work."""
    head = ("trouble", "runner", "exit", "s", "calls", "answers", "passed", "lines", "says")
    print("%-26s %-9s %4s %5s %5s %7s %7s %5s  %s" % head)
    found: dict[str, dict[str, Found]] = {peer.name: {} for peer in peers}
    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        futures: dict[tuple[str, str], concurrent.futures.Future[Found]] = {}
        for trouble, peer in itertools.product(TROUBLES, peers):
            if trouble != KILLED or not isinstance(peer, LmEval):
                folder = Path(tempfile.mkdtemp(dir=root))
                futures[trouble, peer.name] = pool.submit(meet, peer, trouble, folder)
        for (trouble, name), future in futures.items():
            one = found[name][trouble] = future.result()
            print(f"{trouble:26} {name:9} {one.code:4} {one.wall_s:5.1f} {one.calls:5}", end=" ")
            passed = f"{one.left.passed}/{one.left.asked}"
            print(f"{one.left.answers:7} {passed:>7} {one.lines:5}  {one.says[:80]}", flush=True)
    for name, what, good in CLAIMS:
        if name in found:
            both = ("yes" if good(found[whose]) else "no" for whose in ("minieval", name))
            bars.holds(f"{what}: minieval/{name}", "/".join(both), "yes/no")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--promptfoo", default=str(PROMPTFOO), metavar="FILE", help="its entrypoint.js")
    parser.add_argument("--inspect", default="/tmp/inspect/bin/python", metavar="PYTHON")
    parser.add_argument("--lm-eval", default="/tmp/lm-eval/bin/python", metavar="PYTHON")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--cases", type=int, default=1_000)
    parser.add_argument("--only", choices=("work", "troubles"))
    args = parser.parse_args()
    node, package = NODE or "node", str(Path(args.promptfoo).resolve().parents[2] / "package.json")
    installed = "import importlib.metadata as found; print(found.version(%r))"
    wanted: Mapping[Minieval, Sequence[str]] = {
        Promptfoo(node, args.promptfoo): [node, "-p", f"require({package!r}).version"],
        Inspect(args.inspect, "-m", "inspect_ai"): [args.inspect, "-c", installed % "inspect_ai"],
        LmEval(args.lm_eval, "-m", "lm_eval"): [args.lm_eval, "-c", installed % "lm_eval"],
    }
    peers = [Minieval(*PROGRAM)]
    for peer, argv in wanted.items():
        found = version(argv)
        print(f"{peer.name} {found or 'is MISSING: ' + ' '.join(peer.program)}")
        peers += [peer] if found else []
    print(load())
    bars = Bars()
    with tempfile.TemporaryDirectory() as folder:
        if args.only != "troubles":
            work(peers, bars, Path(folder), args.rounds, args.cases)
        if args.only != "work":
            troubles(peers, bars, Path(folder))
    print(load())
    return bars.exit_code or (3 if len(peers) <= len(wanted) else 0)


if __name__ == "__main__":
    sys.exit(main())
