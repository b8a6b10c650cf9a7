"""The house rules of main.py: one direction, private rooms, nothing undocumented."""

from __future__ import annotations

import argparse
import ast
import builtins
import contextlib
import doctest
import io
import re
import shlex
import subprocess
import sys
import types
import unittest
import unittest.mock
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import main as m

TESTS = Path(__file__).resolve().parent
ROOT = TESTS.parents[1]
SOURCE = Path(m.__file__).read_text(encoding="utf-8")
TREE = ast.parse(SOURCE)
BANNER = re.compile(r"^# ={10,}\n# (\d+)\. (.+)\n# ={10,}$", re.MULTILINE)
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
SCOPES = (*FUNCTIONS, ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
LONGEST_FUNCTION = 60

# What a pure room may not touch: by name, by module, and the few names allowed after all.
OUTSIDE_CALLS = {"open", "print", "input", "breakpoint", "exec", "eval", "__import__"}
OUTSIDE = {
    *("argparse", "contextlib", "datetime", "http", "os", "platform", "queue", "random", "shlex"),
    *("signal", "socket", "ssl", "subprocess", "sys", "tempfile", "threading", "time"),
    *("traceback", "urllib"),
}
ALLOWED = {
    *("contextlib.suppress", "random.Random", "sys.float_info", "time.strptime", "time.strftime"),
    *(
        "datetime.date.fromisoformat",
        "datetime.datetime.strptime",
        "datetime.timezone",
        "datetime.timedelta",
        "urllib.parse",
    ),
}

TITLES = {int(number): title for number, title in BANNER.findall(SOURCE)}
STARTS = {int(f[1]): SOURCE.count("\n", 0, f.start()) + 1 for f in BANNER.finditer(SOURCE)}
WORLD = next(number for number, title in TITLES.items() if title == "World")
PURE = range(3, WORLD)


def section_of(line: int) -> int:
    return max((number for number, start in STARTS.items() if start <= line), default=0)


def bound_names(node: ast.AST) -> set[str]:
    """Names that a scope binds itself; nested scopes are their own business."""
    found: set[str] = set()
    if isinstance(node, (*FUNCTIONS, ast.Lambda)):
        arguments = node.args
        every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
        every += [given for given in (arguments.vararg, arguments.kwarg) if given]
        found |= {argument.arg for argument in every}
    left = list(ast.iter_child_nodes(node))
    while left:
        child = left.pop()
        if isinstance(child, ast.Name) and isinstance(child.ctx, ast.Store):
            found.add(child.id)
        elif isinstance(child, (*FUNCTIONS, ast.ClassDef, ast.ExceptHandler)):
            found.add(child.name or "")
        elif isinstance(child, (ast.Import, ast.ImportFrom)):
            found |= {name.asname or name.name.split(".")[0] for name in child.names}
        if not isinstance(child, (*SCOPES, ast.ClassDef)):
            left.extend(ast.iter_child_nodes(child))
    return found


def uses(node: ast.AST, hidden: frozenset[str] = frozenset()) -> Iterator[tuple[str, int]]:
    """(name, line) of every global that is read, annotations in quotes among them."""
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id not in hidden:
        yield node.id, node.lineno
    for quoted in (getattr(node, "annotation", None), getattr(node, "returns", None)):
        if isinstance(quoted, ast.Constant) and isinstance(quoted.value, str):
            for name, _ in uses(ast.parse(quoted.value, mode="eval"), hidden):
                yield name, quoted.lineno
    inner = hidden | bound_names(node) if isinstance(node, SCOPES) else hidden
    for child in ast.iter_child_nodes(node):
        yield from uses(child, inner)


def top_level_names(node: ast.stmt) -> set[str]:
    if isinstance(node, (*FUNCTIONS, ast.ClassDef)):
        return {node.name}
    return set() if isinstance(node, (ast.Import, ast.ImportFrom)) else bound_names(node)


HOME: dict[str, int] = {}
for statement in TREE.body:
    for defined in top_level_names(statement):
        HOME.setdefault(defined, section_of(statement.lineno))
USES = [(name, line, section_of(line)) for name, line in (use for top in TREE.body for use in uses(top))]


def dotted(node: ast.AST) -> str:
    if isinstance(node, ast.Attribute):
        head = dotted(node.value)
        return f"{head}.{node.attr}" if head else ""
    return node.id if isinstance(node, ast.Name) else ""


class House(unittest.TestCase):
    def assert_none(self, complaints: list[str]) -> None:
        if complaints:
            self.fail(f"{len(complaints)}:\n" + "\n".join(complaints))


def without_help(parser: argparse.ArgumentParser) -> Iterator[str]:
    """The options, arguments and actions of a command that say nothing about themselves."""
    for action in parser._actions:
        if not isinstance(action, argparse._SubParsersAction):
            yield from [] if action.help else [action.dest]
            continue
        told = {choice.dest for choice in action._choices_actions if choice.help}
        for name, inner in action.choices.items():
            yield from [] if name in told else [name]
            yield from (f"{name} {word}" for word in without_help(inner))


def commands() -> dict[str, argparse.ArgumentParser]:
    parser = m.build_parser()
    found = [a for a in parser._actions if isinstance(a, argparse._SubParsersAction)]
    return dict(found[0].choices)


class Layout(House):
    def test_the_contents_are_the_banners(self) -> None:
        contents = re.findall(r"^ {4,5}(\d+)\. (.+)$", m.__doc__ or "", re.MULTILINE)
        self.assertEqual([(int(n), t) for n, t in contents], list(TITLES.items()))
        self.assertEqual(list(TITLES), list(range(1, len(TITLES) + 1)))
        self.assertEqual(SOURCE.count("\n# ====="), 2 * len(TITLES), "a half banner")
        pure = re.findall(r"(\d+) to (\d+) are pure", m.__doc__ or "")
        self.assertEqual(pure, [("3", str(WORLD - 1))])

    def test_no_section_uses_a_later_one(self) -> None:
        later = [
            f"line {line}: section {at} uses {name} of section {HOME[name]}"
            for name, line, at in USES
            if HOME.get(name, 0) > at
        ]
        self.assert_none(later)

    def test_a_private_name_stays_in_its_section(self) -> None:
        strays = [
            f"line {line}: section {at} uses {name} of section {HOME[name]}"
            for name, line, at in USES
            if name.startswith("_") and not name.startswith("__") and HOME.get(name, at) != at
        ]
        self.assert_none(strays)

    def test_no_name_is_defined_twice(self) -> None:
        named = [name for top in TREE.body for name in top_level_names(top)]
        self.assert_none([name for name, times in Counter(named).items() if times > 1])

    def test_a_pure_room_touches_nothing_outside(self) -> None:
        touched = []
        for top in TREE.body:
            if section_of(top.lineno) not in PURE:
                continue
            hidden = bound_names(top) if isinstance(top, FUNCTIONS) else set()
            parts = {id(n.value) for n in ast.walk(top) if isinstance(n, ast.Attribute)}
            for node in ast.walk(top):
                path = dotted(node)
                if not path or id(node) in parts or path.split(".")[0] in hidden:
                    continue
                allowed = any(path == good or path.startswith(good + ".") for good in ALLOWED)
                if path in OUTSIDE_CALLS or (path.split(".")[0] in OUTSIDE and not allowed):
                    touched.append(f"line {getattr(node, 'lineno', 0)}: {path}")
        self.assert_none(touched)

    def test_the_pure_rooms_can_be_lifted_into_an_empty_module(self) -> None:
        lifted = types.ModuleType("lifted")
        kept = [
            statement
            for statement in TREE.body
            if 0 < section_of(statement.lineno) < WORLD
            or (isinstance(statement, ast.ImportFrom) and statement.module != "http")
            or (
                isinstance(statement, ast.Import)
                and (
                    {alias.name for alias in statement.names}
                    <= {"random", "sys", "time", "datetime", "urllib.parse", "contextlib"}
                    or not {alias.name.split(".")[0] for alias in statement.names} & OUTSIDE
                )
            )
        ]
        tools = {k: v for k, v in vars(builtins).items() if k not in OUTSIDE_CALLS - {"__import__"}}
        vars(lifted).update(__builtins__=tools)
        with unittest.mock.patch.dict(sys.modules, {"lifted": lifted}):
            exec(compile(ast.Module(kept, []), "lifted.py", "exec"), vars(lifted))
        text = (
            '{"name": "s", "prompt": "{{input}}", "cases": [{"id": "a", "input": "q",'
            ' "assert": [{"type": "numeric", "value": 6}]}]}'
        )
        case = lifted.parse_suite(text, "s.json", str).cases[0]
        tools_of_none = lifted.Tools(lambda pattern, text: None)
        self.assertTrue(lifted.check_assertion(case.assertions[0], "6", tools_of_none).passed)
        self.assertEqual(lifted.mcnemar_exact(6, 0), 0.03125)  # 2 / 2**6
        self.assertEqual(lifted.keyword_judge("says 'a'", "a").passed, True)
        self.assertFalse(hasattr(lifted, "World"))

    def test_no_function_is_longer_than_a_screen(self) -> None:
        long = [
            f"{node.name}: {size} lines"
            for node in ast.walk(TREE)
            if isinstance(node, FUNCTIONS)
            and (size := (node.end_lineno or 0) - node.lineno + 1) > LONGEST_FUNCTION
        ]
        self.assert_none(long)

    def test_every_public_name_of_code_has_a_docstring(self) -> None:
        bare = [
            node.name
            for node in TREE.body
            if isinstance(node, (*FUNCTIONS, ast.ClassDef))
            and not node.name.startswith(("_", "add_", "cmd_"))
            and not ast.get_docstring(node)
        ]
        self.assert_none(bare)

    def test_the_examples_in_docstrings_hold(self) -> None:
        outcome = unittest.TestResult()
        doctest.DocTestSuite(m).run(outcome)
        broken = "\n".join(text for _, text in outcome.failures + outcome.errors)
        self.assertTrue(outcome.wasSuccessful(), broken)
        self.assertGreater(outcome.testsRun, 20)


class Commands(House):
    def test_every_command_says_what_it_does_and_shows_an_example(self) -> None:
        for name, parser in commands().items():
            with self.subTest(command=name):
                stdout = io.StringIO()
                with contextlib.redirect_stdout(stdout), self.assertRaises(Exception):  # noqa: B017
                    parser.parse_args(["--help"])
                found = re.search(r"example:\n  python3 (?:code/)?main\.py (.+)", stdout.getvalue())
                assert found is not None, stdout.getvalue()
                example = m.build_parser().parse_args(shlex.split(found[1]))
                self.assertEqual(example.command, name, "the example can be typed as it stands")
                self.assertTrue(parser.description)
                self.assertLessEqual(max(map(len, str(parser.description).splitlines())), 80)
                self.assert_none([f"{name}: {word} has no help" for word in without_help(parser)])

    def test_every_command_has_a_row_in_the_readme(self) -> None:
        readme = ROOT / "README.md"
        if not readme.exists():
            self.skipTest("README.md is not written yet")
        cells = re.findall(r"^\|([^|]*)\|", readme.read_text(encoding="utf-8"), re.MULTILINE)
        for name in commands():
            with self.subTest(command=name):
                self.assertTrue(any(re.search(rf"`(?:[^`]* )?{name}\b", cell) for cell in cells))

    def test_every_command_is_named_in_some_test(self) -> None:
        files = [path for path in TESTS.glob("test_*.py") if path.name != Path(__file__).name]
        text = "\n".join(path.read_text(encoding="utf-8") for path in files)
        for name in commands():
            with self.subTest(command=name):
                self.assertIsNotNone(re.search(rf"[\"']{name}[\"' ]", text), "no test names it")


class Packaging(unittest.TestCase):
    @unittest.skipUnless((ROOT / ".git").exists(), "an unpacked archive has no list of what is committed")
    def test_the_top_level_is_as_the_design_card_fixes_it(self) -> None:
        argv = ["git", "-c", "safe.directory=*", "-C", str(ROOT), "ls-files", "-z"]
        listed = subprocess.run(argv, stdout=subprocess.PIPE, encoding="utf-8", check=True, timeout=60).stdout
        paths = [Path(name).parts for name in listed.split("\0") if name]
        top = {parts[0] for parts in paths if not (parts[0].startswith(".") and len(parts) > 1)}
        fixed = {"code", "outputs", "README.md", "pyproject.toml", "LICENSE", ".gitignore"}
        self.assertEqual(top, fixed)
        in_code = {parts[1] for parts in paths if parts[0] == "code"}
        self.assertEqual(in_code, {"main.py", "suites", "fixtures", "tests"})

    def test_the_version_has_one_home(self) -> None:
        pyproject = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
        self.assertIn('dynamic = ["version"]', pyproject)
        self.assertRegex(pyproject, r'version = \{ attr = "minieval\.main\.__version__" \}')
        self.assertRegex(pyproject, r'minieval = "minieval\.main:main"')
        written = re.findall(r'^__version__ = "(\d+\.\d+\.\d+)"$', SOURCE, re.MULTILINE)
        self.assertEqual(written, [m.__version__])

    def test_the_file_runs_alone(self) -> None:
        self.assertRegex(SOURCE, r'(?s)\A#![^\n]+\n# /// script\n# requires-python = ">=3\.9"\n'
                                 r'# dependencies = \[\]\n# ///\n')  # fmt: skip
        stdlib = getattr(sys, "stdlib_module_names", None)
        if stdlib is None:
            self.skipTest("sys.stdlib_module_names is new in Python 3.10")
        for node in ast.walk(TREE):
            if isinstance(node, (ast.Import, ast.ImportFrom)):
                module = getattr(node, "module", None)
                for name in [module] if module else [alias.name for alias in node.names]:
                    self.assertIn(name.split(".")[0], stdlib)


if __name__ == "__main__":
    unittest.main()
