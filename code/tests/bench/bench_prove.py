"""`prove` and `rescore` on 10,000 cases without a socket: issue 6 allows 5 seconds for each.

python3 code/tests/bench/bench_prove.py [CASES]
"""

from __future__ import annotations

import json
import socket
import sys
import tempfile
import time
from pathlib import Path
from typing import Any
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import helpers
import main as m

LIMIT_S = 5.0
SCHEMA = {"type": "object", "required": ["status", "team"], "properties": {"count": {"type": "integer"}}}


def suite_of(cases: int, longest: int) -> dict[str, Any]:
    """A JSON contract, a phrase, a number and a length for each case."""
    asserted = [
        {"type": "json-schema", "value": SCHEMA}, {"type": "contains", "value": "pending"},
        {"type": "max-chars", "value": longest}, {"type": "not-contains", "value": "sorry"},
    ]  # fmt: skip
    rows = [
        {
            "id": f"case {i}",
            "input": f"What is the state of job {i}?",
            "assert": asserted,
            "examples": {
                "pass": [answer(i)],
                "fail": [{"output": answer(i).replace("pending", "done"), "because": "not done yet"}],
            },
        }
        for i in range(cases)
    ]
    return {"name": "bench", "prompt": "{{input}}", "cases": rows}


def answer(index: int) -> str:
    return json.dumps({"status": "pending", "team": f"team {index % 7}", "count": index})


def results_of(suite: m.Suite) -> str:
    """A finished run in which every answer passed."""
    passed = tuple(m.AssertionResult("equals", True, "read it") for _ in range(4))
    cases = tuple(
        m.CaseResult(
            case.id, case.sha256, (m.Sample(0, answer(i), assertions=passed, latency_ms=10.0),),
            m.asked_sha256(suite, case),
        )
        for i, case in enumerate(suite.cases)
    )  # fmt: skip
    run = m.Run(suite.name, "s.json", suite.sha256, suite.prompt_sha256, "m", "http://e", cases)
    return "".join(m.render_results(run))


def main(cases: int) -> int:
    """Exit 1 when one took too long, opened a socket, or found something else than was planted."""
    forbidden = mock.Mock(side_effect=AssertionError("a socket"))
    with tempfile.TemporaryDirectory() as folder:
        old, new, results, out = (str(Path(folder) / name) for name in ("old", "new", "results", "out"))
        Path(old).write_text(json.dumps(suite_of(cases, 500)), "utf-8")
        Path(new).write_text(json.dumps(suite_of(cases, 40)), "utf-8")
        Path(results).write_text(results_of(m.load_suite(old)), "utf-8")
        with mock.patch.object(socket, "socket", forbidden):
            times = [(time.perf_counter(), time.process_time())]
            proved = helpers.run("prove", "--suite", old)
            times.append((time.perf_counter(), time.process_time()))
            scored = helpers.run("rescore", "--results", results, "--suite", new, "--out", out)
            times.append((time.perf_counter(), time.process_time()))
    last = (proved.out.splitlines()[-1], scored.out.splitlines()[-1])
    spent = [[b - a for a, b in zip(*pair)] for pair in zip(times, times[1:])]
    for name, (wall, own) in zip(("prove", "rescore"), spent):
        print(f"{cases} cases: {name} {wall:.2f} s ({own:.2f} s of it computing), limit {LIMIT_S:g} s")
    print("\n".join(last), proved.err, scored.err)
    right = (proved.code, scored.code) == (0, 0) and last[1] == f"{cases} of {cases} cases flipped"
    return 0 if right and all(wall < LIMIT_S for wall, _ in spent) else 1


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000))
