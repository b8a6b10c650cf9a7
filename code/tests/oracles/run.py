"""Run the oracle tests of this folder: other people's programs as a check of minieval's answers.

    python3 code/tests/oracles/run.py [--require-all] [NAME ...]

NAME is a part of a file's name, such as ``promptfoo``. Without its oracle a test is skipped with
a reason; with ``--require-all`` a skipped test fails the run: CI cannot pass by leaving one out.
"""

from __future__ import annotations

import argparse
import pathlib
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent


def wanted_files(names: list[str]) -> list[pathlib.Path]:
    """The test files that hold any of the names; all of them without names."""
    files = sorted(HERE.glob("test_*.py"))
    return [file for file in files if not names or any(name in file.stem for name in names)]


def main() -> int:
    parser = argparse.ArgumentParser(description="Run the oracle tests.")
    parser.add_argument("names", nargs="*", metavar="NAME", help="part of a test file's name")
    parser.add_argument("--require-all", action="store_true", help="a skipped test is a failure")
    options = parser.parse_args()
    suite = unittest.TestSuite(
        unittest.TestLoader().discover(str(HERE), pattern=file.name, top_level_dir=str(HERE))
        for file in wanted_files(options.names)
    )
    if not suite.countTestCases():
        print("no oracle test found", file=sys.stderr)
        return 1
    result = unittest.TextTestRunner(verbosity=2).run(suite)
    if not result.wasSuccessful():
        return 1
    if options.require_all and result.skipped:
        for test, reason in result.skipped:
            print(f"skipped, and all were required: {test}: {reason}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
