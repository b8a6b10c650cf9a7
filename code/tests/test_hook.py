"""The committed pre-push hook, driven by real pushes into a bare repository beside it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import helpers
import main as m

ROOT = helpers.CODE.parent
HOOK = ROOT / ".githooks" / "pre-push"
TEMPLATE = helpers.CODE / "fixtures" / "init" / "pre-push"
ZERO, ID = "0" * 40, "2" * 40
NO_PYTHON = "no Python 3 found (tried python3, python, py -3); skip with git push --no-verify"
# Stands in for minieval where the question is when it is called, with what, and what becomes of
# its answer: it keeps each call, reads all its standard input, and says what it was told to say.
RECORDER = r"""#!/bin/sh
action=$1
[ "$1" != ledger ] || action="$1 $2"
words=$(for word; do printf '%s|' "$word"; done)
git=$(env | sed -n 's/^\(GIT_[A-Z_]*\)=.*/\1/p')
printf '%s\t' "$action" "$words" "$(cat)" "$git" "$(git rev-parse HEAD)" >>"$CALLS"
echo >>"$CALLS"
if [ "$action" = serve-stub ]; then
  echo 'serving m at http://127.0.0.1:9/v1'
  exec sleep 60
fi
[ ! -e "$TOLD/hang" ] || exec sleep 60
[ ! -e "$TOLD/$action.out" ] || cat "$TOLD/$action.out"
[ ! -e "$TOLD/$action.code" ] || exit "$(cat "$TOLD/$action.code")"
"""
_FAILED = {"case": "c\x1b[2J", "passes": 0, "runs": 3, "state": "stable-fail", "reason": "bad"}
_FINE = {"case": "fine", "passes": 3, "runs": 3, "state": "stable-pass", "reason": "", "decision": "merge"}
BLOCKED = json.dumps({"cases": [{**_FAILED, "decision": "block"}, _FINE], "blocks": ["fixtures changed"]})
ONCE = ["serve-stub", "run", "ledger build", "ledger check"]


@unittest.skipUnless(
    os.name == "posix" and shutil.which("git"), "the hook is driven by git and a POSIX shell"
)
class HookTestCase(unittest.TestCase):
    """A repository with the committed hook, in a folder with a space, and a bare remote."""

    id_format = "sha1"
    made: Path

    @classmethod
    def setUpClass(cls) -> None:
        """What every test gets a copy of: one commit with the hook, pushed past the hook."""
        holder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(holder.cleanup)
        cls.made = Path(holder.name).resolve()
        clone = cls.made / "the clone"
        (clone / ".githooks").mkdir(parents=True)
        shutil.copy(HOOK, clone / ".githooks")  # with its mode
        environ = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
        for words in (
            f"init --quiet --object-format={cls.id_format} --bare ../remote.git",
            f"init --quiet --object-format={cls.id_format} -b main .",
            "config user.name t",
            "config user.email t@example.com",
            "config gc.auto 0",
            "remote add origin ../remote.git",
            "add .",
            "commit --quiet -m first",
            "push --quiet origin main",
            "config core.hooksPath .githooks",
        ):
            git = ["git", *words.split()]
            subprocess.run(git, cwd=clone, env=environ, check=True, stdin=subprocess.DEVNULL, timeout=60)

    def setUp(self) -> None:
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.folder = Path(holder.name).resolve() / "a folder"
        shutil.copytree(self.made, self.folder)
        self.clone, self.told = self.folder / "the clone", self.folder / "told"
        self.environ = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
        for name in ("MODEL_BASE_URL", "MODEL_NAME", "SAMPLE_RUNS", "FLAKY_BUDGET", "MINIEVAL_HOOK_SECONDS"):
            self.environ.pop(name, None)
        self.told.mkdir()
        self.program("minieval", RECORDER)
        path = os.pathsep.join((str(self.folder / "bin"), self.environ.get("PATH", os.defpath)))
        self.environ.update(PATH=path, CALLS=str(self.folder / "calls"), TOLD=str(self.told))
        self.environ.update(MINIEVAL_PATH="", MINIEVAL_STUB_ANSWERS=".githooks/pre-push")

    def program(self, name: str, text: str) -> None:
        """A program that stands first on the PATH."""
        path = self.folder / "bin" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, "utf-8")
        path.chmod(0o755)

    def git(self, *words: str, where: Path | None = None, code: int | None = 0) -> str:
        """What a git command says on both streams; its exit code is looked at."""
        done = subprocess.run(
            ["git", *words], cwd=where or self.clone, env=self.environ, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8", errors="replace", timeout=60,
        )  # fmt: skip
        if code is not None:
            self.assertEqual(done.returncode, code, done.stdout)
        return done.stdout

    def commit(self, where: Path | None = None) -> str:
        self.git("commit", "--quiet", "--allow-empty", "-m", "x", where=where)
        return self.git("rev-parse", "HEAD", where=where).strip()

    def calls(self) -> list[list[str]]:
        """(action, words, standard input, git's variables, commit) of each call."""
        path = Path(self.environ["CALLS"])
        lines = path.read_text("utf-8").splitlines() if path.exists() else []
        return [line.split("\t")[:5] for line in lines]

    def actions(self) -> list[str]:
        return [call[0] for call in self.calls()]

    def tell(self, action: str, code: int, out: str = "") -> None:
        (self.told / f"{action}.code").write_text(str(code), "utf-8")
        (self.told / f"{action}.out").write_text(out, "utf-8")

    def feed(self, text: str, code: int, **environ: str) -> str:
        """The hook as git calls it, with these lines."""
        done = subprocess.run(
            [str(self.clone / ".githooks" / "pre-push"), "origin", "url"], cwd=self.clone,
            env={**self.environ, **environ}, input=text, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            encoding="utf-8", timeout=60,
        )  # fmt: skip
        self.assertEqual(done.returncode, code, done.stdout)
        return done.stdout

    def bare_path(self, **programs: str) -> str:
        """A PATH with git and what a shell script needs, and of Python only these scripts."""
        for name in ("git", "sh", "sed", "env", "cat", "sleep"):
            target = shutil.which(name)
            if target:
                (self.folder / "bin" / name).symlink_to(target)
        for name, text in programs.items():
            self.program(name, text)
        return str(self.folder / "bin")


class Refs(HookTestCase):
    def test_a_new_branch_is_checked_once(self) -> None:
        self.git("checkout", "--quiet", "-b", "side")
        head = self.commit()
        said = self.git("push", "origin", "side")
        self.assertEqual(self.actions(), ONCE)
        self.assertEqual({call[4] for call in self.calls()}, {head})
        self.assertNotIn("work tree", said)

    def test_deletions_only_are_nothing_to_check(self) -> None:
        self.git("push", "--quiet", "--no-verify", "origin", "main:a", "main:b")
        said = self.git("push", "origin", "--delete", "a", "b")
        self.assertIn("deletion only, nothing to check", said)
        self.assertEqual(self.actions(), [])
        self.assertNotIn("refs/heads/a", self.git("ls-remote", "origin"))

    def test_a_mixed_push_of_three_refs_is_checked_once(self) -> None:
        self.git("push", "--quiet", "--no-verify", "origin", "main:gone")
        self.git("push", "origin", "main:one", "main:two", ":gone")
        self.assertEqual(self.actions(), ONCE)

    def test_children_read_nothing_of_the_ref_list(self) -> None:
        self.feed(f"refs/heads/x {ID} refs/heads/x {ZERO}\n" * 3, 0)
        self.assertEqual(self.actions(), ONCE)
        self.assertEqual({call[2] for call in self.calls()}, {""})

    def test_what_the_lines_mean(self) -> None:
        # A Python that only says so: whether the check begins is all that is asked.
        path = self.bare_path(python3="#!/bin/sh\necho checks\n")
        delete, long = f"(delete) {ZERO} refs/heads/a {ID}\n", "0" * 64
        for text, checked in (
            ("", False),
            (delete * 2, False),
            (f"(delete) {long} refs/heads/a {'d' * 64}\n", False),
            (f"(delete) {long} refs/heads/a {'d' * 64}", False),  # no newline at the end
            (delete + f"HEAD {ID} refs/heads/a {ZERO}\n", True),
            (f"HEAD {'d' * 64} refs/heads/a {long}\n", True),
            (f"refs/heads/x {ID} refs/heads/x {ID[:-1]}1", True),
            (f":/mend * the bug {ID} refs/heads/x {ZERO}\n", True),
            ("something else\n", True),  # not a line that git writes: checked to be sure
        ):
            with self.subTest(text=text):
                self.assertEqual("checks" in self.feed(text, 0, PATH=path), checked)

    def test_a_push_that_has_nothing_to_push_is_nothing_to_check(self) -> None:
        self.git("push", "origin", "main")
        self.assertEqual(self.actions(), [])

    def test_a_pushed_commit_that_is_not_checked_out_is_named(self) -> None:
        self.git("branch", "old")
        self.commit()
        said = self.git("push", "origin", "old")
        self.assertIn("not refs/heads/old", said)

    def test_an_annotated_tag_of_the_checked_out_commit_is_that_commit(self) -> None:
        self.git("tag", "-a", "v1", "-m", "one")
        self.assertNotIn("work tree", self.git("push", "origin", "v1"))

    def test_a_linked_worktree_is_checked_without_the_git_dir_that_git_exports(self) -> None:
        tree = self.folder / "linked tree"
        self.git("worktree", "add", "--quiet", "-b", "side", str(tree))
        head = self.commit(where=tree)
        self.git("push", "origin", "side", where=tree)
        self.assertEqual(self.actions(), ONCE)
        self.assertEqual({call[3] for call in self.calls()}, {""})
        self.assertEqual({call[4] for call in self.calls()}, {head})


class Sha256(HookTestCase):
    id_format = "sha256"

    def test_a_repository_with_64_digit_ids(self) -> None:
        self.git("push", "--quiet", "--no-verify", "origin", "main:side")
        self.assertIn("deletion only", self.git("push", "origin", "--delete", "side"))
        self.assertEqual(self.actions(), [])
        self.git("push", "origin", "main:new")
        self.assertEqual(self.actions(), ONCE)


class Outcomes(HookTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.line = f"HEAD {self.git('rev-parse', 'HEAD').strip()} refs/heads/x {ZERO}\n"

    def test_a_merge_says_nothing_of_the_cases(self) -> None:
        self.tell("run", 0, "19 of 20 cases passed\n")
        self.assertNotIn("cases", self.feed(self.line, 0))

    def test_with_an_endpoint_no_stub_is_served_and_the_key_is_in_no_argument(self) -> None:
        self.feed(
            self.line, 0, MODEL_BASE_URL="http://127.0.0.1:9/v1", MODEL_API_KEY="sk-secret", MODEL_NAME="m 1"
        )
        self.assertEqual(self.actions(), ONCE[1:])
        text = Path(self.environ["CALLS"]).read_text("utf-8")
        self.assertNotIn("sk-secret", text)
        for words in ("|--model|m 1|", "|--samples|3|", "|--min-runs|3|"):
            self.assertIn(words, text)

    def test_a_block_refuses_the_push_and_shows_failures_only(self) -> None:
        self.commit()
        self.tell("run", 0, "FAIL c\n")
        self.tell("ledger check", 1, BLOCKED)
        said = self.git("push", "origin", "main", code=1)
        for word in ("FAIL c", "0 of 3: stable-fail: bad", "fixtures changed", "--no-verify"):
            self.assertIn(word, said)
        self.assertNotIn("fine", said)
        self.assertNotIn("\x1b", said)
        self.assertNotEqual(self.git("ls-remote", "origin", "main").split()[0], self.git("rev-parse", "HEAD"))
        self.git("push", "--no-verify", "origin", "main")

    def test_whatever_fails_refuses_the_push(self) -> None:
        for action, code in (("ledger check", 70), ("ledger build", 2), ("run", 1)):
            self.tell(action, code)
            self.assertIn(f"(exit {code})", self.feed(self.line, 1))

    def test_a_check_that_hangs_is_ended_in_time(self) -> None:
        (self.told / "hang").touch()
        started = time.monotonic()
        self.assertIn("not done after 1 s", self.feed(self.line, 1, MINIEVAL_HOOK_SECONDS="1"))
        self.assertLess(time.monotonic() - started, 20)

    def test_settings_that_make_no_sense_are_named(self) -> None:
        for name, value in (("SAMPLE_RUNS", "2"), ("SAMPLE_RUNS", "many"), ("MINIEVAL_HOOK_SECONDS", "0")):
            self.assertIn(f"{name} must be", self.feed(self.line, 1, **{name: value}))
        self.assertEqual(self.actions(), [])

    def test_without_endpoint_and_stub_answers_nothing_is_let_through(self) -> None:
        self.assertIn("MODEL_BASE_URL is not set", self.feed(self.line, 1, MINIEVAL_STUB_ANSWERS=""))

    def test_no_python_is_one_clear_line(self) -> None:
        self.commit()
        self.environ["PATH"] = self.bare_path()
        self.assertIn(NO_PYTHON, self.git("push", "origin", "main", code=1))

    def test_an_alias_that_opens_a_shop_and_python_2_are_not_python_3(self) -> None:
        self.environ["PATH"] = self.bare_path(python3="#!/bin/sh\nexit 49\n", python="#!/bin/sh\nexit 1\n")
        self.assertIn(NO_PYTHON, self.feed(self.line, 1))

    def test_the_windows_launcher_will_do(self) -> None:
        launcher = f'#!/bin/sh\n[ "$1" = -3 ] || exit 9\nshift\nexec "{sys.executable}" "$@"\n'
        self.environ["PATH"] = self.bare_path(py=launcher)
        self.feed(self.line, 0)
        self.assertEqual(self.actions(), ONCE)


class TheShippedSuite(HookTestCase):
    """Nothing stands in for anything: this repository's hook, program, suite, stub and ledger."""

    def test_a_push_is_let_through_and_one_with_a_worse_model_is_not(self) -> None:
        for name in ("suites", "fixtures"):
            shutil.copytree(helpers.CODE / name, self.clone / "code" / name)
        shutil.copy(m.__file__, self.clone / "code" / "main.py")
        for name in ("MINIEVAL_PATH", "MINIEVAL_STUB_ANSWERS"):
            del self.environ[name]
        self.commit()
        said = self.git("push", "origin", "main", code=None)
        self.assertNotIn("refusing", said)
        self.assertNotIn(
            "the ledger says block", said, f"{said}\nre-baseline code/fixtures/baseline-ledger.json"
        )
        self.assertEqual(
            self.git("ls-remote", "origin", "main").split()[0], self.git("rev-parse", "HEAD").strip()
        )
        self.commit()
        self.environ["MODEL_NAME"] = "ops-v1"
        said = self.git("push", "origin", "main", code=1)
        for word in ("leaked-key: 1 of 3: flaky, mostly failing", "endpoint changed", "crashloop-first-step"):
            self.assertIn(word, said)
        self.assertNotIn("cert-expiry", said)


class Files(unittest.TestCase):
    def test_the_hook_of_init_is_this_one_with_other_settings(self) -> None:
        def parts(path: Path) -> tuple[str, str]:
            head, _, rest = path.read_text("utf-8").partition("# Settings of this repository")
            return head, rest.partition("# End of the settings.\n")[2]

        self.assertEqual(parts(HOOK), parts(TEMPLATE))
        self.assertTrue(parts(HOOK)[1])

    def test_it_is_executable_and_for_any_posix_shell(self) -> None:
        text = HOOK.read_bytes()
        self.assertTrue(text.startswith(b"#!/bin/sh\n"))
        self.assertNotIn(b"\r", text)
        if os.name == "posix":
            self.assertTrue(os.access(HOOK, os.X_OK))

    def test_its_program_is_of_python_3_9(self) -> None:
        source = HOOK.read_text("utf-8").partition("<<'PYTHON'\n")[2].partition("\nPYTHON\n")[0]
        compile(source, "pre-push", "exec")
        self.assertNotIn("match ", source)


if __name__ == "__main__":
    unittest.main()
