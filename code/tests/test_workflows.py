"""The committed workflows: their shell steps are run as they stand, against the stub."""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

import helpers
import main as m

ROOT = helpers.CODE.parent
INIT = helpers.CODE / "fixtures" / "init"
GATE = ROOT / ".github" / "workflows" / "eval-gate.yml"
CI = ROOT / ".github" / "workflows" / "ci.yml"
ACTION = ROOT / ".github" / "actions" / "minieval" / "action.yml"
STARTER = INIT / "eval-gate.yml"
EVERY = (GATE, CI, ACTION, STARTER)
KEY = "sk-not-for-any-eye-0123456789"
# The program, from bytecode where there is some: half the start-up of its text.
PROGRAM = f"import sys\nsys.path.insert(0, {str(helpers.CODE)!r})\nimport main\nsys.exit(main.main())\n"
EXPRESSION = re.compile(r"\$\{\{\s*(.*?)\s*\}\}")


def plain(text: str) -> str:
    """A scalar without its quotes and comment."""
    text = text.strip()
    if text.startswith(("'", '"')):
        return text[1 : text.index(text[0], 1)]
    return re.sub(r"\s+#.*$|^#.*$", "", text)


def blocks(lines: list[str]) -> dict[str, Any]:
    """As much YAML as these files are written in: maps, lists of maps or scalars, and literal
    blocks. A line that it cannot read is an error, not a guess."""
    found: dict[str, Any] = {}
    items: list[Any] = []
    index = 0
    while index < len(lines):
        line = lines[index]
        if not line.strip() or line.lstrip().startswith("#"):
            index += 1
            continue
        indent = len(line) - len(line.lstrip())
        end = index + 1
        while end < len(lines) and (
            not lines[end].strip() or len(lines[end]) - len(lines[end].lstrip()) > indent
        ):
            end += 1
        if line.lstrip().startswith("- "):
            inner = [" " * (indent + 2) + line.lstrip()[2:], *lines[index + 1 : end]]
            is_map = re.match(r"\s*[\w-]+:(\s|$)", inner[0])
            items.append(blocks(inner) if is_map else plain(line.lstrip()[2:]))
        else:
            match = re.fullmatch(r"\s*([\w-]+):(.*)", line)
            if match is None:
                raise ValueError(f"cannot read {line!r}")
            value, inner = plain(match[2]), lines[index + 1 : end]
            if value == "|":
                depth = min(len(text) - len(text.lstrip()) for text in inner if text.strip())
                found[match[1]] = "\n".join(text[depth:] for text in inner).rstrip("\n") + "\n"
            elif value or not any(text.strip() for text in inner):
                found[match[1]] = value
            else:
                nested = blocks(inner)
                found[match[1]] = nested.get("", nested)
        index = end
    return {"": items} if items else found


def read(path: Path) -> dict[str, Any]:
    return blocks(path.read_text("utf-8").splitlines())


def all_steps(path: Path) -> list[dict[str, Any]]:
    document = read(path)
    if "runs" in document:
        return list(document["runs"]["steps"])
    return [step for job in document["jobs"].values() for step in job["steps"]]


class Rules(unittest.TestCase):
    def test_every_action_is_pinned_by_commit_with_its_tag_beside(self) -> None:
        pins: dict[str, set[str]] = {}
        for path in EVERY:
            lines = [
                line for line in path.read_text("utf-8").splitlines() if re.match(r"\s*(- )?uses:", line)
            ]
            for line in lines:
                match = re.search(r"uses: ([\w./-]+)@([0-9a-f]{40}) # v\d+\.\d+\.\d+$", line)
                self.assertIsNotNone(match, f"{path.name}: {line}")
                assert match is not None
                pins.setdefault(match[1], set()).add(match[2])
        self.assertEqual({len(commits) for commits in pins.values()}, {1}, pins)

    def test_permissions_are_none_and_then_the_least(self) -> None:
        for path in (GATE, CI, STARTER):
            document = read(path)
            self.assertEqual(document["permissions"], "{}")
            for name, job in document["jobs"].items():
                self.assertEqual(job["permissions"], {"contents": "read"}, name)
                self.assertIn("timeout-minutes", job)

    def test_no_expression_stands_in_a_shell_step(self) -> None:
        for path in EVERY:
            for step in all_steps(path):
                self.assertNotIn("${{", step.get("run", ""), f"{path.name}: {step.get('name')}")

    def test_secrets_reach_only_the_steps_that_ask_a_model(self) -> None:
        for path in EVERY:
            text = "\n".join(
                line for line in path.read_text("utf-8").splitlines() if not line.startswith("#")
            )
            with_key = [s for s in all_steps(path) if "secrets." in str(s.get("env", ""))]
            self.assertEqual(
                text.count("secrets."), sum(str(s["env"]).count("secrets.") for s in with_key), path
            )
            for step in with_key:
                self.assertRegex(step["run"], r'"\$MINIEVAL" run ')
                self.assertNotRegex(step["run"], r"\$\{?MODEL_API_KEY|set -x|printenv|\becho\b")

    def test_no_exit_code_is_swallowed(self) -> None:
        for path in EVERY:
            for step in all_steps(path):
                asked = [
                    line
                    for line in step.get("run", "").splitlines()
                    if "main.py" in line or "$MINIEVAL" in line
                ]
                for line in asked:
                    self.assertNotRegex(line, r"\|\s*\w|\|\|", f"{path.name}: {step.get('name')}")
                self.assertNotIn("continue-on-error", step)
                if "run" in step and "runs" in read(path):
                    self.assertEqual(step["shell"], "bash")
            if path is not ACTION:
                self.assertEqual(read(path)["defaults"]["run"]["shell"], "bash")

    def test_the_evidence_is_uploaded_whatever_happened(self) -> None:
        for path in (GATE, STARTER):
            uploads = [s for s in all_steps(path) if "upload-artifact" in s.get("uses", "")]
            self.assertEqual([s["if"] for s in uploads], ["always()", "always()"])
            self.assertIn("model-ledger.json", uploads[1]["with"]["path"])

    def test_checkouts_leave_no_token_behind(self) -> None:
        for path in EVERY:
            for step in all_steps(path):
                if "checkout@" in step.get("uses", ""):
                    self.assertEqual(step["with"]["persist-credentials"], "false")

    def test_ci_covers_what_is_promised(self) -> None:
        matrix = read(CI)["jobs"]["tests"]["strategy"]["matrix"]
        for system in ("ubuntu", "macos", "windows"):
            self.assertIn(system, matrix["os"])
        for minor in range(9, 15):
            self.assertIn(f'"3.{minor}"', matrix["python"])

    def test_what_init_ships_is_this_with_other_settings(self) -> None:
        def parts(path: Path) -> tuple[str, str]:
            head, _, rest = path.read_text("utf-8").partition("  # Settings of this repository.\n")
            return head, rest.partition("  # End of the settings.\n")[2]

        self.assertEqual(parts(GATE), parts(STARTER))
        self.assertTrue(parts(GATE)[1])
        ours = ROOT / ".github" / "pull_request_template.md"
        self.assertEqual(ours.read_bytes(), (INIT / "pull_request_template.md").read_bytes())

    def test_reviewers_see_the_rule_that_the_ledger_uses(self) -> None:
        text = (INIT / "pull_request_template.md").read_text("utf-8")
        rows = dict(re.findall(r"^\| ([^|]+) \| [^|]+ \| (\w+)", text, re.MULTILINE))
        marks = {"c": m.LedgerCase(3, 5), "d": m.LedgerCase(2, 5), "e": m.LedgerCase(0, 5)}
        cases = {**marks, "a": m.LedgerCase(4, 4), "b": m.LedgerCase(5, 5)}
        for least, runs in ((5, 5), (5, 4)):
            kept = {name: case for name, case in cases.items() if case.runs == runs or runs == 5}
            report = m.check_ledger(
                m.Ledger(kept if runs == 5 else {"a": cases["a"]}, runs, "f", "e"),
                m.Ledger({"gone": m.LedgerCase(5, 5)}, 5, "g", "h"),
                budget=0, least=least, today="2026-01-01",
            )  # fmt: skip
            for decision in report.decisions:
                self.assertEqual(rows[decision.state], decision.decision, decision)
            for word in ("fixtures changed", "endpoint changed"):
                self.assertTrue(any(block.startswith(word) for block in report.blocks))
                self.assertEqual(rows[word], "block")


class Starter(helpers.StubTestCase):
    """What init writes works before anything is edited."""

    suite_path, answers = str(INIT / "suite.json"), str(INIT / "stub-answers.json")

    def test_every_case_says_why_and_the_suite_proves_itself(self) -> None:
        cases = m.load_suite(self.suite_path).cases
        self.assertTrue(all(case.why for case in cases))
        self.assertTrue(any(case.critical for case in cases))
        self.assertEqual(helpers.run("prove", "--suite", self.suite_path, "--strict").code, m.EXIT_OK)

    def test_it_passes_against_its_stub_and_the_gate_can_say_no(self) -> None:
        suite = m.load_suite(self.suite_path)
        with m.serving(m.load_script(suite, self.answers)) as stub:
            for model in ("my-model", "my-worse-model"):
                found = helpers.run(
                    "run", "--suite", self.suite_path, "--base-url", stub.base_url, "--model", model,
                    "--min-pass-rate", "1", "--out", self.path(f"{model}.json"),
                )  # fmt: skip
                self.assertEqual(found.code, m.EXIT_OK if model == "my-model" else m.EXIT_NO)
        good, worse = self.path("my-model.json"), self.path("my-worse-model.json")
        self.assertEqual(helpers.run("gate", "--baseline", good, "--candidate", good).code, m.EXIT_OK)
        found = helpers.run("gate", "--baseline", good, "--candidate", worse)
        self.assert_says(found, m.EXIT_NO, "card-number", "critical")


@unittest.skipUnless("init" in m.build_parser().format_help().split(), "init is not built yet")
class Init(helpers.StubTestCase):
    FILES = (
        "evals/suite.json",
        "evals/stub-answers.json",
        "evals/minieval.py",
        ".githooks/pre-push",
        ".github/workflows/eval-gate.yml",
        ".github/pull_request_template.md",
    )

    def test_it_writes_what_is_shipped_and_the_hook_can_be_run(self) -> None:
        self.assert_says(helpers.run("init", self.path("repo")), m.EXIT_OK, "core.hooksPath .githooks")
        for name in self.FILES:
            source = Path(m.__file__) if name.endswith(".py") else INIT / Path(name).name
            written = (self.folder / "repo" / name).read_bytes()
            self.assertEqual(written, source.read_bytes().replace(b"\r\n", b"\n"), name)
        found = [path for path in (self.folder / "repo").rglob("*") if path.is_file()]
        self.assertEqual(len(found), len(self.FILES))
        if os.name == "posix":
            self.assertTrue(os.access(self.folder / "repo" / ".githooks" / "pre-push", os.X_OK))

    def test_it_overwrites_nothing_and_then_writes_nothing(self) -> None:
        for name in self.FILES:
            with self.subTest(name=name):
                repository = self.folder / name.replace("/", "-")
                mine = repository / name
                mine.parent.mkdir(parents=True)
                mine.write_text("mine", "utf-8")
                self.assert_says(helpers.run("init", str(repository)), m.EXIT_USAGE, Path(name).name)
                files = [path for path in repository.rglob("*") if path.is_file()]
                self.assertEqual([path.read_text("utf-8") for path in files], ["mine"])


@unittest.skipUnless(os.name == "posix" and shutil.which("bash"), "the steps are for a POSIX bash")
class Steps(unittest.TestCase):
    """A runner just large enough: env, vars, secrets, `if`, GITHUB_ENV, and bash as Actions calls it."""

    def setUp(self) -> None:
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.work, self.temp = Path(holder.name) / "work space", Path(holder.name) / "runner temp"
        self.work.mkdir()
        self.temp.mkdir()
        self.variables: dict[str, str] = {}
        self.said = ""
        self.addCleanup(self.stop_stubs)

    def stop_stubs(self) -> None:
        """Ends the servers that a step started, should the workflow not have ended them."""
        pids = self.temp / "stubs.pid"
        for pid in pids.read_text("utf-8").split() if pids.exists() else ():
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)

    def value(self, text: str) -> str:
        """A value with its expressions: the first of `a || b` that is not empty."""

        def one(match: re.Match[str]) -> str:
            for part in match[1].split("||"):
                kind, _, name = part.strip().partition(".")
                known = {
                    "vars": self.variables.get(name, ""),
                    "secrets": KEY,
                    "inputs": self.variables.get(name, ""),
                }
                found = known[kind] if kind in known else kind.strip("'")
                if found:
                    return found
            return ""

        return EXPRESSION.sub(one, text)

    def holds(self, condition: str, environ: dict[str, str], failed: bool) -> bool:
        if condition in ("", "always()"):
            return condition == "always()" or not failed
        match = re.fullmatch(r"(env|inputs)\.([\w-]+) (==|!=) ''", condition)
        assert match is not None, condition
        known = environ if match[1] == "env" else self.variables
        return not failed and (known.get(match[2], "") == "") == (match[3] == "==")

    def steps(self, steps: list[dict[str, Any]], environ: dict[str, str]) -> dict[str, int]:
        """Exit codes of the shell steps that ran, by name."""
        files = {
            name: self.temp / name.lower() for name in ("GITHUB_ENV", "GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY")
        }
        base = {key: value for key, value in os.environ.items() if not key.startswith(("GITHUB_", "GIT_"))}
        path = os.pathsep.join((self.python(), base.get("PATH", os.defpath)))
        base.update(PATH=path, RUNNER_TEMP=str(self.temp), GITHUB_ACTIONS="true", CI="true")
        base.update({name: str(file) for name, file in files.items()})
        codes: dict[str, int] = {}
        for step in steps:
            if not self.holds(step.get("if", ""), environ, any(codes.values())) or "run" not in step:
                continue
            script = self.temp / "step.sh"
            script.write_text(step["run"], "utf-8")
            own = {key: self.value(text) for key, text in step.get("env", {}).items()}
            done = subprocess.run(
                ["bash", "--noprofile", "--norc", "-eo", "pipefail", str(script)], cwd=self.work,
                env={**base, **environ, **own}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT, encoding="utf-8", timeout=60,
            )  # fmt: skip
            self.said += f"--- {step['name']}\n{done.stdout}"
            codes[step["name"]] = done.returncode
            if files["GITHUB_ENV"].exists():
                for line in files["GITHUB_ENV"].read_text("utf-8").splitlines():
                    name, _, value = line.partition("=")
                    environ[name] = value
        return codes

    def python(self) -> str:
        """A folder in which `python3` is the Python of this test."""
        folder = self.temp / "python"
        folder.mkdir(exist_ok=True)
        if not (folder / "python3").exists():
            (folder / "python3").write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n', "utf-8")
            (folder / "python3").chmod(0o755)
        return str(folder)

    def job(self, path: Path, name: str, *, without: tuple[str, ...] = ()) -> dict[str, int]:
        document = read(path)
        environ = {key: self.value(text) for key, text in document["env"].items()}
        steps = [step for step in document["jobs"][name]["steps"] if step.get("name") not in without]
        return self.steps(steps, environ)

    def check_out(self, into: Path) -> None:
        """This repository, as far as the steps read it."""
        (into / "code").mkdir(parents=True)
        for name in ("suites", "fixtures"):
            shutil.copytree(helpers.CODE / name, into / "code" / name)
        (into / "code" / "main.py").write_text(PROGRAM, "utf-8")

    def assert_kept_secret(self) -> None:
        self.assertNotIn(KEY, self.said)
        for file in [*self.work.rglob("*"), *self.temp.iterdir()]:
            if file.is_file():
                self.assertNotIn(KEY.encode(), file.read_bytes(), file)

    # The step is run as soon as the program has the command.
    unbuilt = () if "contamination" in m.build_parser().format_help() else ("Contamination",)

    def test_the_gate_of_this_repository_accepts_the_better_model(self) -> None:
        self.check_out(self.work)
        self.check_out(self.work / "baseline")
        codes = self.job(GATE, "gate", without=self.unbuilt)
        self.assertEqual(set(codes.values()), {0}, self.said)
        self.assertIn("Gate", codes)
        gate = json.loads((self.work / "evidence" / "gate.json").read_text("utf-8"))
        self.assertEqual(gate["decision"], m.ACCEPT)
        self.assertIn("decision=ACCEPT", (self.temp / "github_output").read_text("utf-8"))
        self.assertIn("ACCEPT", (self.temp / "github_step_summary").read_text("utf-8"))
        self.assert_kept_secret()
        for pid in (self.temp / "stubs.pid").read_text("utf-8").split():
            self.assertTrue(self.ended(int(pid)), f"{pid} still serves")

    @staticmethod
    def ended(pid: int) -> bool:
        """Whether a process that was told to end does."""
        for _ in range(1000):
            shown = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], stdout=subprocess.PIPE, text=True)
            if not shown.stdout.strip() or shown.stdout.startswith("Z"):
                return True
        return False

    def test_the_gate_of_a_prompt_change_asks_each_side_its_own_suite_and_can_say_no(self) -> None:
        self.check_out(self.work)
        self.check_out(self.work / "baseline")
        suite = self.work / "code" / "suites" / "ops-assistant.json"
        suite.write_text(suite.read_text("utf-8").replace("directly and briefly", "directly"), "utf-8")
        self.variables["MODEL_NAME"] = "ops-v2-regressed"
        codes = self.job(GATE, "gate", without=("Contamination",))
        self.assertEqual({name for name, code in codes.items() if code}, {"Gate"}, self.said)
        self.assertEqual(codes["Gate"], m.EXIT_NO)
        self.assertIn("Stop the scripted endpoints", codes)
        gate = json.loads((self.work / "evidence" / "gate.json").read_text("utf-8"))
        self.assertIn("prompt", " ".join(gate["notes"]))

    def test_the_ledger_of_this_repository_is_written_and_merges(self) -> None:
        self.check_out(self.work)
        codes = self.job(GATE, "ledger")
        self.assertEqual(
            set(codes.values()), {0}, self.said + "\nre-baseline code/fixtures/baseline-ledger.json?"
        )
        ledger = json.loads((self.work / "model-ledger.json").read_text("utf-8"))
        self.assertEqual((ledger["runs"], len(ledger["cases"])), (5, 20))
        self.assert_kept_secret()

    def test_a_block_fails_the_job_and_leaves_its_evidence(self) -> None:
        self.check_out(self.work)
        self.variables["MODEL_NAME"] = "ops-v1"
        codes = self.job(GATE, "ledger")
        self.assertEqual({name for name, code in codes.items() if code}, {"Check the ledger"}, self.said)
        self.assertIn("| 1 of 5 |", (self.work / "evidence" / "ledger.md").read_text("utf-8"))
        self.assertIn("leaked-key", (self.work / "evidence" / "ledger.xml").read_text("utf-8"))

    def start_repository(self) -> None:
        (self.work / "evals").mkdir()
        for name in ("suite.json", "stub-answers.json"):
            shutil.copy(INIT / name, self.work / "evals" / name)
        shutil.copy(m.__file__, self.work / "evals" / "minieval.py")

    def test_what_init_ships_accepts_itself(self) -> None:
        self.start_repository()  # and no baseline yet: the first pull request
        codes = {**self.job(STARTER, "gate"), **self.job(STARTER, "ledger")}
        self.assertEqual(set(codes.values()), {0}, self.said)
        self.assertNotIn("Contamination", codes)

    def test_the_action_for_other_repositories(self) -> None:
        self.start_repository()
        suite = m.load_suite(str(INIT / "suite.json"))
        with m.serving(m.load_script(suite, str(INIT / "stub-answers.json"))) as stub:
            self.variables.update({"suite": "evals/suite.json", "base-url": stub.base_url, "samples": "1"})
            self.variables.update({"model": "my-worse-model", "baseline-model": "my-model", "out": "out put"})
            environ = {"GITHUB_ACTION_PATH": str(ACTION.parent), "MODEL_API_KEY": KEY}
            codes = self.steps(all_steps(ACTION), environ)
        self.assertEqual(codes, {"Run the baseline": 0, "Run the candidate": 0, "Gate": 1}, self.said)
        self.assertIn("decision=REJECT", (self.temp / "github_output").read_text("utf-8"))
        self.assertTrue((self.work / "out put" / "gate.json").exists())
        self.assert_kept_secret()


class Reader(unittest.TestCase):
    def test_it_reads_what_pyyaml_reads(self) -> None:
        try:
            yaml: Any = importlib.import_module("yaml")
        except ImportError:
            self.skipTest("PyYAML is not installed")
        for path in (GATE, ACTION, STARTER):
            theirs = yaml.safe_load(path.read_text("utf-8"))
            steps = [
                *theirs.get("runs", {}).get("steps", ()),
                *(step for job in theirs.get("jobs", {}).values() for step in job["steps"]),
            ]
            ours = all_steps(path)
            self.assertEqual([s.get("run") for s in ours], [s.get("run") for s in steps])
            self.assertEqual([s.get("env") for s in ours], [s.get("env") for s in steps])
            self.assertEqual([s.get("if") for s in ours], [s.get("if") for s in steps])


if __name__ == "__main__":
    unittest.main()
