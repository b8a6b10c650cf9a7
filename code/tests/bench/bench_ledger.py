"""100,000 rows of a run log, built and checked: issue 5 allows 3 seconds.

python3 code/tests/bench/bench_ledger.py [ROWS]
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import main as m

LIMIT_S = 3.0
RUNS = 20


def main(rows: int) -> int:
    """Exit 1 when it took too long."""
    with tempfile.TemporaryDirectory() as folder:
        log, ledger = Path(folder) / "runs.jsonl", str(Path(folder) / "ledger.json")
        with log.open("w", encoding="utf-8") as file:
            for case in range(rows // RUNS):
                for run in range(RUNS):
                    row = {"run": f"run-{run}", "case": f"case {case}", "passed": case % 50 > 0 or run > 3}
                    file.write(json.dumps(row) + "\n")
        named = ("--endpoint", "bench", "--fixtures", str(log))
        started = time.perf_counter()
        built = m.main(["ledger", "build", str(log), "--out", ledger, *named])
        middle = time.perf_counter()
        sys.stdout.flush()
        checked = m.main(["ledger", "check", "--ledger", ledger, "--json", "--markdown", ledger + ".md"])
        ended = time.perf_counter()
    figures = f"build {middle - started:.2f} s, check {ended - middle:.2f} s, limit {LIMIT_S:g} s"
    print(f"{rows} rows, {rows // RUNS} cases: {figures}", file=sys.stderr)
    right = (built, checked) == (m.EXIT_OK, m.EXIT_NO)
    return 0 if right and ended - started < LIMIT_S else 1


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 100_000))
