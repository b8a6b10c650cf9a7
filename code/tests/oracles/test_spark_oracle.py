"""The README's Spark recipe with real pyspark: rdd.pipe writes parts, merge adds them up."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from typing import Any

try:
    import pyspark
except ImportError:
    pyspark = None

MAIN = Path(__file__).resolve().parents[2] / "main.py"
LEAK = "restart the ingest worker only after the queue has drained and the lag is zero"


@unittest.skipIf(pyspark is None, "pyspark is not installed")
@unittest.skipIf(shutil.which("java") is None, "pyspark needs a Java runtime")
class SparkTest(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        ask = [{"type": "contains", "value": "x"}]
        cases = [
            {"id": "leaked", "input": LEAK, "assert": ask},
            {"id": "clean", "input": "words that no file of this corpus holds at all", "assert": ask},
        ]
        suite = {"name": "s", "prompt": "{{input}}", "cases": cases}
        self.suite, self.corpus = self.path("suite.json"), self.path("corpus.jsonl")
        Path(self.suite).write_text(json.dumps(suite))
        rows = [{"text": f"filler number {i} " + (LEAK if i % 100 == 7 else "")} for i in range(900)]
        Path(self.corpus).write_text("".join(json.dumps(row) + "\n" for row in rows))

    def path(self, name: str) -> str:
        return os.path.join(self.folder, name)

    def minieval(self, *args: str) -> dict[str, Any]:
        command = [sys.executable, str(MAIN), "contamination", *args, "--json"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 1, done.stderr)
        return dict(json.loads(done.stdout))

    def test_piped_partitions_merge_to_what_one_process_finds(self) -> None:
        from pyspark import SparkConf, SparkContext

        conf = SparkConf().setMaster("local[2]").setAppName("minieval").set("spark.ui.enabled", "false")
        context = SparkContext(conf=conf)
        try:
            context.setLogLevel("ERROR")
            command = [sys.executable, str(MAIN), "contamination", "--suite", self.suite]
            piped = context.textFile(self.corpus, 4).pipe(
                shlex.join([*command, "--train", "-", "--part"]), checkCode=True
            )
            piped.coalesce(1).saveAsTextFile(self.path("parts"))
        finally:
            context.stop()
        parts = self.path("parts/part-00000")
        self.assertGreaterEqual(len(Path(parts).read_text().splitlines()), 4)
        merged = self.minieval("merge", parts, "--suite", self.suite)
        whole = self.minieval("--suite", self.suite, "--train", self.corpus)
        for case in (*merged["cases"], *whole["cases"]):
            del case["places"]  # lines of a partition here, of the file there
        self.assertEqual(merged, whole)
        self.assertEqual(whole["cases"][0]["times"], 9)


if __name__ == "__main__":
    unittest.main()
