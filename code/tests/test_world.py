"""Files that are whole or untouched, streams that never break a run, patterns that cannot hang."""

from __future__ import annotations

import errno
import io
import json
import os
import re
import shutil
import stat
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Callable
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import main as m
from helpers import StubTestCase, world

EVIL = "^(a+)+$"
EVIL_TEXT = "a" * 40 + "!"


def failing(error: BaseException) -> Iterator[str]:
    yield "half of it"
    raise error


class WriteTest(StubTestCase):
    def test_a_file_is_replaced_whole_in_utf_8_with_plain_line_ends(self) -> None:
        path = self.path("new/folder/r.json")
        for text in ("first\n", "通过 😀 \ud800\n"):
            m.write_text(path, [text[:2], text[2:]])
        self.assertEqual(Path(path).read_bytes(), "通过 😀 \\ud800\n".encode())
        self.assertEqual(os.listdir(os.path.dirname(path)), ["r.json"])

    def test_a_write_that_fails_leaves_the_old_file_and_no_litter(self) -> None:
        path = self.path("r.json")
        m.write_text(path, ["old"])
        errors: list[tuple[BaseException, type[BaseException]]] = [
            (OSError(errno.ENOSPC, "No space left on device"), m.UsageError),
            (KeyboardInterrupt(), KeyboardInterrupt),
            (RuntimeError("a bug"), RuntimeError),
        ]
        for error, seen in errors:
            with self.subTest(error=error):
                with self.assertRaises(seen) as raised:
                    m.write_text(path, failing(error))
                if seen is m.UsageError:
                    self.assertIn(path, str(raised.exception))
                    self.assertIn("No space left", str(raised.exception))
                self.assertEqual(Path(path).read_text(), "old")
                self.assertEqual(os.listdir(self.folder), ["r.json"])

    @unittest.skipIf(os.name == "nt", "permissions of POSIX")
    def test_a_new_file_has_the_mode_that_the_umask_says(self) -> None:
        m.write_text(self.path("r.json"), ["x"])
        mode = stat.S_IMODE(os.stat(self.path("r.json")).st_mode)
        self.assertEqual(mode, 0o666 & ~m._umask())

    @unittest.skipIf(os.name == "nt", "file names of POSIX")
    def test_an_output_that_cannot_be_written_is_refused_beforehand(self) -> None:
        m.write_text(self.path("file"), ["x"])
        os.mkfifo(self.path("fifo"))
        paths = {
            "a folder": str(self.folder),
            "a folder that is not there yet": self.path("results") + "/",
            "below a file": self.path("file/r.json"),
            "where nothing can be made": "/proc/nope/r.json",
            "no name": "",
            "a name too long": self.path("n" * 300 + ".json"),
            "a NUL": self.path("a\0b"),
            "no regular file": self.path("fifo"),
        }
        for name, path in paths.items():
            for function in (m.prepare_output, lambda path: m.write_text(path, ["x"])):
                with self.subTest(name=name), self.assertRaises(m.UsageError):
                    function(path)
        self.assertTrue(stat.S_ISFIFO(os.stat(self.path("fifo")).st_mode), "it was replaced")
        self.assertLessEqual(set(os.listdir(self.folder)), {"file", "fifo", "results"})

    @unittest.skipIf(os.name == "nt", "links of POSIX")
    def test_a_link_stays_a_link_and_its_target_is_written(self) -> None:
        m.write_text(self.path("target"), ["old"])
        os.symlink("target", self.path("link"))
        m.write_text(self.path("link"), ["new"])
        self.assertTrue(os.path.islink(self.path("link")))
        self.assertEqual(m.read_text(self.path("target")), "new")

    def test_trying_an_output_leaves_nothing_behind(self) -> None:
        m.prepare_output(self.path("new/r.json"))
        self.assertEqual(os.listdir(self.path("new")), [])


class ReadTest(StubTestCase):
    def test_a_byte_order_mark_and_line_ends_are_read_as_they_are(self) -> None:
        Path(self.path("bom")).write_bytes(b"\xef\xbb\xbfa\r\nb\n")
        self.assertEqual(m.read_text(self.path("bom")), "a\r\nb\n")

    def test_a_file_that_cannot_be_read_is_bad_input_that_names_it(self) -> None:
        Path(self.path("latin")).write_bytes("é".encode("latin-1"))
        table = [
            (self.path("latin"), "is not UTF-8 text (byte 0)"),
            (self.path("none"), "No such file"),
            (str(self.folder), "cannot be read"),
            (self.path("a\0b"), "cannot be read"),
            ("", "cannot be read"),
        ]
        for path, words in table:
            with self.subTest(words=words):
                with self.assertRaises(m.UsageError) as raised:
                    m.read_text(path)
                self.assertTrue(str(raised.exception).startswith(path + ": "))
                self.assertIn(words, str(raised.exception))

    def test_deep_nesting_is_bad_input(self) -> None:
        Path(self.path("deep")).write_text("[" * 100_000)
        for parse in (m.parse_results, lambda text: m.parse_suite(text, "deep", m.read_text)):
            with self.assertRaises(m.UsageError):
                m.load(self.path("deep"), parse)


class TimedSearchTest(unittest.TestCase):
    def setUp(self) -> None:
        self.search = m.TimedSearch(0.25)
        self.addCleanup(self.search.close)

    def test_it_finds_what_re_search_finds(self) -> None:
        table = [("6443", "port 6443"), ("x", "abc"), ("a+", "baaa"), ("(?i)É.", "né😀"), ("$", "")]
        table += [("b+", "a\nb\r\n"), ("\\s+", "\u2028"), ("(a)|b", "\ud800b"), (".{3}", "ab")]
        for pattern, text in table:
            with self.subTest(pattern=pattern):
                found = re.search(pattern, text)
                self.assertEqual(self.search(pattern, text), found and found.start())

    def test_the_limit_holds_in_worker_threads_and_the_next_search_works(self) -> None:
        seen: list[object] = []

        def work(pattern: str, text: str) -> None:
            try:
                seen.append(self.search(pattern, text))
            except m.RegexTimeout as error:
                seen.append(str(error))

        jobs = [(EVIL, EVIL_TEXT), ("b+", "ab")] * 2
        threads = [threading.Thread(target=work, args=job, daemon=True) for job in jobs]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(10)
        self.assertEqual(seen.count(1), 2)
        stopped = [text for text in seen if isinstance(text, str)]
        self.assertEqual(len(stopped), 2)
        self.assertIn("stopped after 0.25 s", stopped[0])

    def test_the_limit_holds_for_regex_and_for_the_pattern_of_a_schema(self) -> None:
        sources: list[dict[str, Any]] = [
            {"type": "regex", "value": EVIL},
            {"type": "not-regex", "value": EVIL},
            {"type": "json-schema", "value": {"type": "string", "pattern": EVIL}},
        ]
        for source in sources:
            with self.subTest(type=source["type"]):
                answer = json.dumps(EVIL_TEXT) if "schema" in source["type"] else EVIL_TEXT
                assertion = m.parse_assertion(source)
                found = m.check_assertion(assertion, answer, m.Tools(self.search))
                self.assertFalse(found.passed)
                self.assertIn("stopped after", found.detail)

    def test_its_child_ends_with_it(self) -> None:
        self.search("a+", "a")
        child = self.search._child
        assert child is not None
        self.search.close()
        self.assertIsNotNone(child.poll())

    def test_a_child_that_died_is_a_failed_search_and_not_a_hang(self) -> None:
        self.search("a+", "a")
        child = self.search._child
        assert child is not None
        child.kill()
        child.wait()
        begun = time.perf_counter()
        with self.assertRaises(m.RegexTimeout):
            self.search("a+", "a")
        self.assertEqual(self.search("a+", "ba"), 1)
        self.assertLess(time.perf_counter() - begun, 5)


class Broken(io.StringIO):
    """A stream whose every write fails."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self.error = error

    def write(self, text: str) -> int:
        raise self.error


class StreamTest(unittest.TestCase):
    def test_a_console_that_cannot_show_a_character_gets_an_escape(self) -> None:
        for encoding, shown in (("cp1252", "\\u2713 é"), ("ascii", "\\u2713 \\xe9")):
            for write in (m.say, m.say_raw, m.tell):
                raw = io.BytesIO()
                stream = io.TextIOWrapper(raw, encoding=encoding, newline="\n")
                write(world(stdout=stream, stderr=stream), "✓ é 😀 \ud800")
                with self.subTest(encoding=encoding, write=write.__name__):
                    text = raw.getvalue().decode(encoding)
                    self.assertEqual(text, shown + " \\U0001f600 \\ud800\n")

    def test_a_stream_that_fails_never_breaks_a_run(self) -> None:
        closed = io.StringIO()
        closed.close()
        streams: list[Any] = [
            closed,
            None,  # what sys.stderr is under `2>&-`
            Broken(BrokenPipeError()),
            Broken(OSError(errno.ENOSPC, "No space left on device")),
            Broken(OSError(errno.EIO, "the terminal has gone")),
            Broken(RuntimeError("reentrant call inside <_io.BufferedWriter name='<stderr>'>")),
        ]
        writes: list[Callable[[m.World, str], None]] = [m.say, m.say_raw, m.tell]
        for stream in streams:
            for write in writes:
                with self.subTest(stream=stream, write=write.__name__):
                    here = world()._replace(**dict.fromkeys(("stdout", "stderr"), stream))
                    write(here, "text")

    def test_no_line_on_a_log_is_a_workflow_command(self) -> None:
        here = world()
        m.say(here, "ok\n::error::pwned\n##[add-matcher]x\n  ::set-output name=a::b")
        m.tell(here, "::add-mask::e")
        lines = m_lines(here.stdout) + m_lines(here.stderr)
        self.assertEqual([line for line in lines if line.lstrip().startswith(("::", "##["))], [])
        self.assertEqual(len(lines), 5)


def m_lines(stream: Any) -> list[str]:
    return str(stream.getvalue()).splitlines()


class EnvironmentTest(unittest.TestCase):
    def test_a_child_never_gets_the_variables_of_git(self) -> None:
        given = {"GIT_DIR": "/repo/.git", "GIT_INDEX_FILE": "i", "PATH": "/bin", "GITHUB_SHA": "1"}
        self.assertEqual(m.clean_environ(given), {"PATH": "/bin", "GITHUB_SHA": "1"})

    def test_where_a_run_was_made_holds_no_value_of_a_secret(self) -> None:
        names = ("GITHUB_SERVER_URL", "GITHUB_REPOSITORY", "GITHUB_RUN_ID")
        ci = dict(zip(names, ("https://github.com", "o/r", "7")))
        found = m.environment(world({**ci, "OPENAI_API_KEY": "canary", "PATH": os.defpath}))
        self.assertEqual(found["ci_run"], "https://github.com/o/r/actions/runs/7")
        self.assertIsNone(m.environment(world({"GITHUB_RUN_ID": "7"}))["ci_run"])
        self.assertNotIn("canary", json.dumps(found))
        self.assertRegex(found["source_sha256"], "^[0-9a-f]{64}$")

    def test_a_machine_without_git_is_no_failure(self) -> None:
        with mock.patch.object(subprocess, "Popen", side_effect=FileNotFoundError):
            found = m.environment(world())
        self.assertEqual((found["git_commit"], found["git_dirty"], found["ci_run"]), (None,) * 3)

    @unittest.skipUnless(shutil.which("git"), "git is asked for the commit")
    def test_only_a_change_of_what_git_tracks_makes_a_tree_dirty(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(folder.name)

        def git(*words: str) -> str:
            who = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false")
            environ = m.clean_environ(os.environ)
            return subprocess.check_output(["git", *who, *words], env=environ, text=True).strip()

        def found() -> tuple[Any, Any]:
            told = m.environment(world(os.environ))
            return told["git_commit"], told["git_dirty"]

        tracked = Path("tracked")
        tracked.write_text("1")
        git("init", "-q")
        self.assertEqual(found(), (None, False))
        git("add", "tracked")
        git("commit", "-qm", "one", "--no-verify")
        Path("untracked").write_text("1")
        self.assertEqual(found(), (git("rev-parse", "HEAD"), False))
        tracked.write_text("22")
        self.assertEqual(found(), (git("rev-parse", "HEAD"), True))

    def test_times_are_utc_to_the_second(self) -> None:
        self.assertEqual(m.utc(world()), "2026-11-30T12:00:00Z")


if __name__ == "__main__":
    unittest.main()
