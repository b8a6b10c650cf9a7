"""The README's conftest.py under a real pytest: `ledger sample` counts what pytest reports."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import json
import re
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import main

CODE = Path(main.__file__).resolve().parent

TESTS = """
import os
import pytest

RUN = int(os.environ["MODEL_RUN_ID"].rpartition("-")[2])

def test_steady(): pass
def test_mixed(): assert RUN != 2
def test_broken(): assert False, "never"
@pytest.mark.skip(reason="needs a key")
def test_skipped(): pass
@pytest.mark.parametrize("label", ["SEV1", "a b"])
def test_label(label): assert label
@pytest.fixture
def leaves_badly():
    yield
    assert RUN != 3
def test_teardown(leaves_badly): pass
"""


def readme_file(name: str) -> str:
    """A file that the README shows."""
    text = (CODE.parent / "README.md").read_text("utf-8")
    match = re.search(rf"<!-- file: {re.escape(name)} -->\n```\w+\n(.*?)```", text, re.DOTALL)
    if match is None:
        raise AssertionError(f"the README shows no {name}")
    return match[1]


@unittest.skipUnless(importlib.util.find_spec("pytest"), "pytest is not installed")
class Pytest(unittest.TestCase):
    def test_the_ledger_counts_what_pytest_reports(self) -> None:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            (folder / "conftest.py").write_text(readme_file("conftest.py"), "utf-8")
            (folder / "test_model.py").write_text(TESTS, "utf-8")
            ledger = folder / "ledger.json"
            command = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(folder))
            named = ("--endpoint", "app", "--fixtures", str(folder / "test_model.py"))
            with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
                words = ("ledger", "sample", "--runs", "3", "--out", str(ledger), *named, "--", *command)
                self.assertEqual(main.main(words), main.EXIT_OK)
            cases = json.loads(ledger.read_text("utf-8"))["cases"]
        counts = {case.rpartition("::")[2]: (v["passes"], v["runs"]) for case, v in cases.items()}
        self.assertEqual(
            counts,
            {
                "test_steady": (3, 3),
                "test_mixed": (2, 3),
                "test_broken": (0, 3),
                "test_label[SEV1]": (3, 3),
                "test_label[a b]": (3, 3),
                "test_teardown": (2, 3),
            },
        )


if __name__ == "__main__":
    unittest.main()
