"""What was answered is never lost nor paid twice, and a run stops when and as it should."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
import unittest
from pathlib import Path
from typing import Any
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import main as m
from helpers import ANSWERS, OPS, PRICE, PROGRAM, RUBRIC, VOLATILE, RunTestCase, Script, run, world


class JournalTest(RunTestCase):
    def journal(self, lines: int, suite: str, stub: Script, *more: str, tail: str = "") -> None:
        """Leaves the journal of a run that was killed after so many answers."""
        written: list[str] = []
        add = m.Journal.add

        def keep(journal: m.Journal, case: str, sample: m.Sample) -> None:
            add(journal, case, sample)
            written[:] = Path(journal.path).read_text("utf-8").splitlines(keepends=True)

        with mock.patch.object(m.Journal, "add", keep):
            self.ask(suite, stub, "-j", "1", *more)
        text = "".join(written[: lines + 1]) + tail
        Path(self.path("r.json.journal")).write_text(text, "utf-8")
        os.unlink(self.path("r.json"))
        stub.asked.clear()

    def test_it_goes_when_the_results_stand_and_stays_while_answers_are_missing(self) -> None:
        suite = self.suite()
        stub = self.serve(suite, faults=[{"call": 1, "status": 400}])
        self.assert_says(self.ask(suite, stub, "-j", "1"), 1, "--resume")
        self.assertEqual(sorted(os.listdir(self.folder))[:2], ["r.json", "r.json.journal"])
        self.assert_says(self.ask(suite, stub, "--resume"), 0)
        self.assertEqual(sorted(os.listdir(self.folder)), ["r.json", "suite.json"])
        self.assertEqual(len(stub.asked), 4)

    def test_a_killed_run_goes_on_where_it_was_even_with_a_line_cut(self) -> None:
        suite = self.suite()
        stub = self.serve(suite)
        for tail in ("", '{"case": "c2", "sam', "{", "\ufffd"):
            with self.subTest(tail=tail):
                self.journal(2, suite, stub, tail=tail)
                self.assert_says(self.ask(suite, stub, "--resume", "-j", "1"), 0, "4 of 4")
                self.assertEqual([case for _, case, _ in stub.asked], ["c2", "c3"])
                self.assertFalse(os.path.exists(self.path("r.json.journal")))

    def test_what_follows_a_line_that_was_cut_is_a_line_of_its_own(self) -> None:
        for case in ("c0", "c1", "c2"):
            journal = m.Journal(self.path("r.json"), {"model": "m"})
            journal.load(resume=True)
            journal.add(case, m.Sample(0, "ok", "0" * 64))
            journal._file.write(b'{"case": "c9", "sam')
            journal.close(remove=False)
        journal = m.Journal(self.path("r.json"), {"model": "m"})
        self.addCleanup(journal.close, remove=True)
        self.assertEqual(sorted(journal.load(resume=True)), [("c0", 0), ("c1", 0), ("c2", 0)])

    def test_a_journal_without_an_answer_is_begun_again(self) -> None:
        no_answer, answer = m.Sample(0, error=("connection", "refused")), m.Sample(0, "ok", "0" * 64)
        found = []
        for case, sample in (("c0", no_answer), ("c1", answer), ("c2", answer)):
            journal = m.Journal(self.path("r.json"), {"model": "m"})
            found.append([name for name, _ in journal.load(resume=True)])
            journal.add(case, sample)
            journal.close(remove=False)
        self.assertEqual(found, [[], [], ["c1"]])

    def test_an_answer_is_on_disk_as_it_arrives(self) -> None:
        suite = self.suite()
        stub = self.serve(suite)
        counts: list[int] = []

        def count(progress: m.Progress, error: bool) -> None:
            path = Path(self.path("r.json.journal"))
            counts.append(path.read_bytes().count(b"\n") - 1)

        with mock.patch.object(m.Progress, "add", count):
            self.ask(suite, stub, "-j", "1")
        self.assertTrue(all(found >= due for due, found in enumerate(counts, 1)), counts)
        self.assertEqual(counts[-1], 4)

    def test_answers_of_an_unfinished_run_are_not_thrown_away_unasked(self) -> None:
        suite = self.suite()
        stub = self.serve(suite)
        self.journal(2, suite, stub)
        self.assert_says(self.ask(suite, stub), 2, "holds 2 answers", "--resume")
        self.assertEqual(stub.asked, [])

    def test_another_run_is_refused_saying_what_differs(self) -> None:
        suite = self.suite(3)
        stub = self.serve(suite, ("m", "n"))
        self.journal(2, suite, stub)
        document = json.loads(Path(suite).read_text())
        changed: list[tuple[str, dict[str, Any], list[str]]] = [
            ("model", {}, ["--model", "n"]),
            ("samples", {}, ["--samples", "2"]),
            ("judge", {}, ["--judge", "keyword"]),
            ("outputs", {}, ["--no-outputs"]),
            ("suite", {"prompt": "again: {{input}}"}, []),
            ("request", {"request": {"max_tokens": 5}}, []),
            ("suite", {"thinking": "strip"}, []),
        ]
        for word, keys, flags in changed:
            with self.subTest(word=word):
                Path(suite).write_text(json.dumps({**document, **keys}))
                result = self.ask(suite, stub, "--resume", *flags)
                self.assert_says(result, 2, "is of another run", word)
        self.assertEqual(stub.asked, [])
        Path(suite).write_text(json.dumps(document))
        self.assert_says(self.ask(suite, stub, "--resume"), 0, "3 of 3")

    def test_a_foreign_or_damaged_journal_is_bad_input_that_names_the_line(self) -> None:
        suite = self.suite()
        stub = self.serve(suite)
        self.journal(2, suite, stub)
        good = Path(self.path("r.json.journal")).read_text().splitlines()
        results = '{"schema": "minieval/results/1"}'
        rows = [(1, "[]"), (1, results), (1, "x"), (2, "{}"), (2, "\udcff"), (3, '{"case": 1}')]
        for number, line in rows:
            lines = [*good]
            lines[number - 1] = line
            text = "\n".join(lines) + "\n"
            Path(self.path("r.json.journal")).write_bytes(text.encode("utf-8", "surrogateescape"))
            with self.subTest(line=line):
                self.assert_says(self.ask(suite, stub, "--resume"), 2, f"journal: line {number}")
        lines[0] = '{"schema": "minieval/journal/1", "identity": []}'
        Path(self.path("r.json.journal")).write_text("\n".join(lines[:2]) + "\n")
        self.assert_says(self.ask(suite, stub, "--resume"), 2, "is of another run")

    def test_a_living_run_locks_its_output_and_a_dead_one_does_not(self) -> None:
        suite = self.suite()
        stub = self.serve(suite)
        living = m.Journal(self.path("r.json"), {})
        self.assert_says(self.ask(suite, stub), 2, "another run is writing it")
        living.close(remove=False)
        self.assert_says(self.ask(suite, stub), 0)

    def test_a_run_that_is_refused_leaves_no_journal_locked(self) -> None:
        suite = self.suite()
        stub = self.serve(suite, ("a", "b"))
        os.mkdir(self.path("dir"))
        Path(self.path("dir/b.json.journal")).write_text("[]\n")
        both = ("--model", "a", "--model", "b")
        self.assert_says(self.ask(suite, stub, *both, out="dir"), 2, "b.json.journal: line 1")
        for name in "ab":
            m.Journal(self.path(f"dir/{name}.json"), {}).close(remove=True)

    def test_answers_of_a_case_that_is_skipped_since_do_not_make_a_run_complete(self) -> None:
        suite = self.suite(4)
        stub = self.serve(suite, faults=[{"case": "c2", "delay_s": 0.02}])
        self.journal(2, suite, stub)
        document = self.document("suite.json")
        document["cases"][0]["skip"] = document["cases"][1]["skip"] = "later"
        Path(suite).write_text(json.dumps(document))
        self.assert_says(self.ask(suite, stub, "--resume", "-j", "1", "--max-time", "0.001"), 1, "incomplete")
        self.assert_says(self.ask(suite, stub, "--resume"), 0, "2 of 2 cases passed")
        both = "gate", "--baseline", self.path("r.json"), "--candidate", self.path("r.json")
        self.assert_says(run(*both), 0, "2 pairs")

    def test_an_answer_that_waits_for_its_judge_is_resumed_as_it_came(self) -> None:
        suite = self.suite(2, {0: {"assert": [{"type": "rubric", "value": "says 'ok'"}]}})
        message = {"role": "assistant", "content": "ok"}
        bodies: list[dict[str, Any]] = [
            {"choices": [{"message": message, "finish_reason": "content_filter"}]},
            {"choices": [{"message": {**message, "content": ""}, "finish_reason": "stop"}]},
            {"choices": [{"message": {**message, "content": "<think>a</think>ok"}, "finish_reason": "stop"}]},
            {"choices": [{"message": message, "finish_reason": "length"}]},
        ]
        for body in bodies:
            stub, found = self.serve(suite, faults=[{"case": "c0", "body": body}]), []
            judge = ("--judge", "judge-v1")
            with self.subTest(body=body):
                self.ask(suite, stub, *judge)
                found.append(self.document("r.json")["cases"][0]["samples"][0])
                os.unlink(self.path("r.json"))
                self.journal(1, suite, stub, *judge)
                self.assert_says(self.ask(suite, stub, *judge, "--resume"), 0)
                found.append(self.document("r.json")["cases"][0]["samples"][0])
                os.unlink(self.path("r.json"))
                kept = [[sample[key] for key in ("verdict", "flags", "assertions")] for sample in found]
                self.assertEqual(*kept)
                self.assertEqual([ask for ask in stub.asked if ask[1] == "c0"], [])

    def test_an_answer_that_no_endpoint_judges_is_journalled_once(self) -> None:
        suite = self.suite(1, {0: {"assert": [{"type": "rubric", "value": "says 'ok'"}]}})
        for judge, lines in (("keyword", 1), ("judge-v1", 2)):
            with mock.patch.object(m.Journal, "add") as add:
                self.ask(suite, self.serve(suite), "--judge", judge)
            self.assertEqual(add.call_count, lines, judge)

    def test_answers_of_a_results_file_are_journalled_when_it_is_resumed(self) -> None:
        suite = self.suite(6)
        stub = self.serve(suite, faults=[{"case": f"c{i}", "delay_s": 0.02} for i in (2, 4)])
        limit = ("-j", "1", "--max-time", "0.001", "--resume")
        for _ in range(3):
            self.assert_says(self.ask(suite, stub, *limit), 1, "incomplete")
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self.path("r.json.journal")) if len(stub.asked) == 1 else None
        self.assert_says(self.ask(suite, stub, "--resume"), 0, "6 of 6")
        self.assertEqual(len(stub.asked), 6)

    def test_a_results_file_of_another_request_is_not_resumed(self) -> None:
        for before, after, code in (
            ({}, {"temperature": 1}, 2), ({"top_p": 0.5}, {}, 2), ({"top_p": 0.5}, {"top_p": 0.50}, 0),
            ({}, {"temperature": None}, 2), ({}, {"temperature": 0}, 0), ({"stop": "a"}, {"stop": "b"}, 2),
        ):  # fmt: skip
            stub = self.serve(self.suite(2))
            with self.subTest(before=before, after=after):
                self.assert_says(self.ask(self.suite(2, request=before), stub), 0)
                words = ("request differ",) if code else ("2 of 2",)
                self.assert_says(self.ask(self.suite(2, request=after), stub, "--resume"), code, *words)
                for path in self.folder.glob("r.json*"):
                    path.unlink()

    def test_a_results_file_whose_endpoint_took_no_temperature_is_resumed(self) -> None:
        no = {"error": {"message": "temperature is not supported", "param": "temperature"}}
        suite = self.suite(2)
        stub = self.serve(suite, faults=[{"call": 1, "status": 400, "body": no}])
        self.assert_says(self.ask(suite, stub, "-j", "1"), 0, "does not take temperature")
        self.assert_says(self.ask(suite, stub, "--resume"), 0, "2 of 2")
        self.assertEqual(len(stub.calls), 3)

    def test_a_results_file_is_journalled_whole_or_not_at_all(self) -> None:
        suite = self.suite(9)
        stub = self.serve(suite, faults=[{"case": "c8", "status": 400}])
        self.assert_says(self.ask(suite, stub), 1)
        path, written = self.path("r.json.journal"), []
        os.unlink(path)

        def full(journal: m.Journal, *documents: Any) -> None:
            written.append(len(documents))
            write(journal, *documents[:5])
            if len(documents) > 1:
                raise m.UsageError("no space left")

        write = m.Journal._write
        with mock.patch.object(m.Journal, "_write", full):
            self.assert_says(self.ask(suite, stub, "--resume"), 2, "no space left")
        self.assertEqual(written, [1, 10])
        self.assertEqual(len(Path(path).read_text().splitlines()), 5)  # as a kill leaves it
        self.assert_says(self.ask(suite, stub, "--resume"), 1, "1 of 9 samples asked has no answer")
        self.assertEqual(len(stub.calls), 10)

    @unittest.skipIf(os.name == "nt", "an open file cannot be removed there")
    def test_a_journal_removed_between_its_opening_and_its_lock_is_opened_again(self) -> None:
        lock, left = m._lock_file, [self.path("r.json.journal")]

        def late(file: Any) -> bool:
            if left:
                os.unlink(left.pop())  # the run before ends just now
            return lock(file)

        with mock.patch.object(m, "_lock_file", late):
            journal = m.Journal(self.path("r.json"), {})
        self.addCleanup(journal.close, remove=False)
        journal.load(False)
        self.assertTrue(os.path.exists(self.path("r.json.journal")), "answers go nowhere")

    def test_a_journal_that_cannot_be_removed_yet_stops_no_later_run(self) -> None:
        suite = self.suite()
        stub = self.serve(suite)
        unlink = os.unlink

        def windows(path: str) -> None:
            if path.endswith(".journal"):
                raise PermissionError("in use")  # while the file is open
            unlink(path)

        with mock.patch.object(os, "unlink", windows):
            self.assert_says(self.ask(suite, stub), 0)
        self.assert_says(self.ask(suite, stub), 0)

    def test_a_full_disk_ends_the_run_saying_so_and_keeps_what_came(self) -> None:
        suite = self.suite()
        stub = self.serve(suite)
        load = m.Journal.load

        def fill_the_disk(journal: Any, resume: bool) -> Any:
            found = load(journal, resume)
            self.addCleanup(journal._file.close)
            write = mock.Mock(side_effect=[1, OSError(28, "No space left on device")])
            journal._file = mock.Mock(wraps=journal._file, write=write)
            return found

        with mock.patch.object(m.Journal, "load", fill_the_disk):
            self.assert_says(self.ask(suite, stub), 2, "r.json.journal", "No space left")

    def test_half_a_line_on_a_full_disk_stands_before_no_other(self) -> None:
        journal = m.Journal(self.path("r.json"), {})
        self.addCleanup(journal.close, remove=True)
        journal.load(resume=False)
        file, samples = journal._file, [m.Sample(seed, "x", "digest") for seed in range(3)]
        journal.add("a", samples[0])
        journal._file = mock.Mock(wraps=file, write=lambda data: file.write(data[:5]))
        with self.assertRaisesRegex(m.UsageError, "No space left"):
            journal.add("a", samples[1])
        journal._file = file
        journal.add("a", samples[2])
        self.assertEqual(list(journal.load(resume=True)), [("a", 0), ("a", 2)])

    def test_resuming_a_finished_run_pays_nothing_twice(self) -> None:
        suite = self.suite()
        stub = self.serve(suite)
        self.ask(suite, stub)
        before = Path(self.path("r.json")).read_text()
        self.assert_says(self.ask(suite, stub, "--resume"), 0, "4 of 4")
        self.assertEqual(len(stub.asked), 4)
        after = Path(self.path("r.json")).read_text()
        self.assertEqual(VOLATILE.sub("", after), VOLATILE.sub("", before))
        other = self.ask(suite, stub, "--resume", "--samples", "2")
        self.assert_says(other, 2, "is of another run", "samples")

    def test_no_outputs_keeps_no_text_of_an_answer_anywhere(self) -> None:
        suite = self.suite(changes={1: RUBRIC})
        stub = self.serve(suite, faults=[{"call": 4, "status": 400}], c0="a secret", c1="a secret")
        flags = ("--no-outputs", "--judge", "keyword", "-j", "1", "--junit", self.path("j.xml"))
        for more, code in (((), 1), (("--resume",), 0)):
            self.assert_says(self.ask(suite, stub, *flags, *more), code)
            for path in self.folder.iterdir():
                self.assertNotIn("secret", path.read_text("utf-8"), path)
        for case in self.document("r.json")["cases"]:
            self.assertRegex(case["samples"][0]["output_sha256"], "^[0-9a-f]{64}$")


class StopTest(RunTestCase):
    def start(self, *more: str, delay_s: float) -> tuple[subprocess.Popen[str], str, Script]:
        """A run in a process of its own against slow answers, once the first has arrived."""
        suite = self.suite(6)
        stub = self.serve(suite, faults=[{"call": 1, "delay_s": 0}, {"delay_s": delay_s}])
        argv = [*PROGRAM, "run", "--suite", suite, "--base-url", stub.url]
        argv += ["--model", "m", "--out", self.path("r.json"), "-j", "2", *more]
        child = subprocess.Popen(
            argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
        )
        self.addCleanup(child.kill)
        journal, until = Path(self.path("r.json.journal")), time.monotonic() + 10
        while time.monotonic() < until:
            if journal.exists() and journal.read_bytes().count(b"\n") > 1:
                break
            time.sleep(0.005)
        return child, suite, stub

    def finish(self, child: subprocess.Popen[str]) -> tuple[int, str, str]:
        out, err = child.communicate(timeout=10)
        return child.returncode, out, err

    @unittest.skipIf(os.name == "nt", "signals of POSIX")
    def test_one_interrupt_finishes_cleanly_with_an_incomplete_file_and_130(self) -> None:
        child, suite, stub = self.start("--junit", self.path("j.xml"), delay_s=0.1)
        child.send_signal(signal.SIGINT)
        code, out, err = self.finish(child)
        self.assertEqual(code, 130, out + err)
        self.assertIn("--resume", err)
        self.assertEqual(self.document("r.json")["incomplete"], "interrupted")
        self.assertTrue(os.path.exists(self.path("j.xml")))
        paths = ("--baseline", self.path("r.json"), "--candidate", self.path("r.json"))
        self.assert_says(run("gate", *paths), 2, "incomplete")
        again = self.ask(suite, stub, "--resume", "--junit", self.path("j.xml"))
        self.assert_says(again, 0, "6 of 6 cases passed")
        self.assertEqual(len(stub.asked), 6)

    @unittest.skipIf(os.name == "nt", "signals of POSIX")
    def test_two_interrupts_end_at_once_with_the_files_intact(self) -> None:
        child, _, _ = self.start(delay_s=8)
        child.send_signal(signal.SIGINT)
        assert child.stderr is not None
        for line in child.stderr:
            if "interrupted" in line:
                break
        begun = time.monotonic()
        child.send_signal(signal.SIGINT)
        code, out, err = self.finish(child)
        self.assertEqual(code, 130, out + err)
        self.assertLess(time.monotonic() - begun, 3)
        self.assertNotIn("Traceback", err)
        lines = Path(self.path("r.json.journal")).read_text().splitlines()
        self.assertEqual([type(json.loads(line)) for line in lines], [dict] * len(lines))

    @unittest.skipIf(os.name == "nt", "signals of POSIX")
    def test_a_killed_run_pays_again_only_for_what_was_in_flight(self) -> None:
        child, suite, stub = self.start(delay_s=0.05)
        child.kill()
        self.assertEqual(self.finish(child)[0], -signal.SIGKILL)
        self.assert_says(self.ask(suite, stub, "--resume"), 0, "6 of 6 cases passed")
        self.assertLessEqual(len(stub.asked), 6 + 2)

    def test_a_second_interrupt_ends_a_run_that_another_limit_is_already_ending(self) -> None:
        stop, here = m.Stop(), world()
        stop("--max-time of 1 s reached")
        with self.assertRaises(KeyboardInterrupt), m.interruptible(here, stop):
            handler: Any = signal.getsignal(signal.SIGINT)
            handler(signal.SIGINT, None)
            handler(signal.SIGINT, None)

    def test_a_time_limit_starts_no_call_after_it_not_even_a_retry(self) -> None:
        suite = self.suite()
        busy = {"status": 429, "headers": {"Retry-After": "30"}}
        stub = self.serve(suite, faults=[{"call": 2, **busy}, {"call": 3, **busy}])
        result = self.ask(suite, stub, "-j", "1", "--max-time", "10")
        self.assert_says(result, 1, "--max-time of 10 s reached")
        self.assertEqual(stub.calls, ["c0", "c1"])
        self.assertIn("--max-time", self.document("r.json")["incomplete"])
        self.assert_says(self.ask(suite, stub, "--resume"), 0, "4 of 4")

    def priced(self, cases: int = 6, changes: Any = ()) -> tuple[str, Script]:
        prices = {"m": {**PRICE, "prompt_usd_per_million": 0.0}}  # 1 token, 1e-6 dollars a call
        suite = self.suite(cases, changes, prices=prices)
        return suite, self.serve(suite)

    def test_a_cost_limit_starts_no_call_after_it_and_resume_completes_the_run(self) -> None:
        suite, stub = self.priced()
        result = self.ask(suite, stub, "-j", "1", "--max-cost-usd", "0.000002")
        self.assert_says(result, 1, "--max-cost-usd of $2e-06 reached", "--resume")
        self.assertEqual(len(stub.asked), 2)
        self.assertIn("--max-cost-usd", self.document("r.json")["incomplete"])
        self.assert_says(self.ask(suite, stub, "--resume"), 0, "6 of 6")
        self.assertEqual(len(stub.asked), 6)

    def test_a_run_whose_every_case_has_some_sample_but_not_all_is_to_be_gone_on_with(self) -> None:
        suite, stub = self.priced(1)
        result = self.ask(suite, stub, "-j", "1", "--samples", "2", "--max-cost-usd", "0.000001")
        self.assert_says(result, 1, "incomplete: --max-cost-usd of $1e-06 reached", "to go on:")

    def test_a_limit_reached_by_the_last_answer_does_not_fail_a_complete_run(self) -> None:
        suite, stub = self.priced(2)
        self.assert_says(self.ask(suite, stub, "-j", "1", "--max-cost-usd", "0.000002"), 0)
        self.assertIsNone(self.document("r.json")["incomplete"])

    def test_a_regression_or_an_unknown_cost_in_the_last_answer_is_still_a_no(self) -> None:
        suite = self.suite(1, {0: {"critical": True}}, prices={"m": PRICE})
        self.ask(suite, self.serve(suite), out="base.json")
        flags = ("--fail-fast", "--baseline", self.path("base.json"))
        self.assert_says(self.ask(suite, self.serve(suite, c0="bad"), *flags), 1, "c0 regressed")
        silent = {"body": {"choices": [{"message": {"content": "ok"}}]}}
        stub = self.serve(suite, faults=[silent])
        result = self.ask(suite, stub, "--max-cost-usd", "1", out="cost.json")
        self.assert_says(result, 1, "cost is unknown")

    def test_a_cost_that_nobody_knows_holds_no_limit(self) -> None:
        limit = ("--max-cost-usd", "1")
        unpriced = self.suite()
        stub = self.serve(unpriced)
        self.assert_says(self.ask(unpriced, stub, *limit), 2, "needs a price")
        suite, stub = self.priced(2, {1: RUBRIC})
        result = self.ask(suite, stub, *limit, "--judge", "judge-v1", out="j.json")
        self.assert_says(result, 2, "judge-v1", "price")
        self.assertEqual(stub.calls, [])
        silent = {"case": "c0", "body": {"choices": [{"message": {"content": "ok"}}]}}
        suite, _ = self.priced()
        stub = self.serve(suite, faults=[silent])
        self.assert_says(self.ask(suite, stub, "-j", "1", *limit), 1, "cost is unknown")
        self.assertEqual(len(stub.calls), 1)

    def test_fail_fast_asks_critical_cases_first_and_stops_at_the_first_that_regressed(self) -> None:
        suite = self.suite(4, {3: {"critical": True}})
        self.ask(suite, self.serve(suite), out="base.json")
        stub = self.serve(suite, c3="bad")
        flags = ("--fail-fast", "--baseline", self.path("base.json"))
        result = self.ask(suite, stub, "-j", "1", *flags)
        self.assert_says(result, 1, "critical case c3 regressed")
        self.assertEqual([case for _, case, _ in stub.asked], ["c3"])
        self.assertIn("c3", self.document("r.json")["incomplete"])
        self.assert_says(self.ask(suite, stub, "--fail-fast", out="x.json"), 2, "--baseline")

    def test_fail_fast_saves_most_calls_on_the_shipped_regressed_model(self) -> None:
        answers = m.load_script(m.load_suite(OPS), ANSWERS)
        stub = self.serve_script(Script(m.load_suite(OPS), answers.models, ()))
        judge = ("--judge", "keyword", "-q")
        self.assert_says(self.ask(OPS, stub, "--model", "ops-v1", *judge, out="base.json"), 0)
        stub.asked.clear()
        more = (*judge, "--samples", "5", "-j", "1", "--fail-fast")
        baseline = ("--baseline", self.path("base.json"))
        self.assert_says(self.ask(OPS, stub, "--model", "ops-v2-regressed", *more, *baseline), 1)
        self.assertLessEqual(len(stub.asked) / 100, 0.07)


if __name__ == "__main__":
    unittest.main()
