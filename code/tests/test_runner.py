"""A run loses nothing, asks in order, tells an outage from bad answers, and can be continued."""

from __future__ import annotations

import io
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
import unittest
from pathlib import Path
from typing import Any, Optional
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import main as m
from helpers import ANSWERS, CODE, OPS, PRICE, Clock, Result, Script, StubTestCase, Terminal, run

CANARY = "sk-canary-7f3a9c51d2"
VOLATILE = re.compile(r'"(latency_ms|p95_latency_ms|started|finished)": [^,}\n]+')


class RunTestCase(StubTestCase):
    def ask(
        self, suite: str, stub: Script, *more: str, out: str = "r.json", **parts: Any
    ) -> Result:
        """`run` of model m into r.json."""
        models = () if "--model" in more else ("--model", "m")
        where = ("--out", self.path(out)) if out else ()
        argv = ("run", "--suite", suite, "--base-url", stub.url, *models, *where, *more)
        with mock.patch.object(sys, "argv", ["main.py", *argv]):
            return run(*argv, **parts)

    def verdicts(self, name: str = "r.json") -> list[str]:
        return [case["verdict"] for case in self.document(name)["cases"]]


class OrderTest(RunTestCase):
    def test_results_stand_in_suite_order_whatever_the_completion_order(self) -> None:
        suite = self.suite(6)
        slow = [{"case": "c0", "delay_s": 0.1}, {"case": "c1", "delay_s": 0.05}]
        texts = []
        for faults in ([], slow):
            stub = self.serve(suite, faults=faults, c3="no")
            self.assert_says(self.ask(suite, stub, "-j", "6", "--samples", "2"), 0)
            text = Path(self.path("r.json")).read_text("utf-8")
            texts.append(VOLATILE.sub("", text).replace(stub.url, "URL"))
            samples = [case["samples"] for case in json.loads(text)["cases"]]
            self.assertEqual([[s["seed"] for s in case] for case in samples], [[0, 1]] * 6)
        self.assertEqual(texts[0], texts[1])

    def test_a_case_is_asked_with_seeds_from_0_as_often_as_it_says(self) -> None:
        suite = self.suite(2)
        document = json.loads(Path(suite).read_text())
        document["cases"][1].update(samples=3)
        Path(suite).write_text(json.dumps(document))
        stub = self.serve(suite)
        self.ask(suite, stub, "--samples", "2", "-j", "1")
        cases = [(case, seed) for _, case, seed in stub.asked]
        self.assertEqual(cases, [("c0", 0), ("c0", 1), ("c1", 0), ("c1", 1), ("c1", 2)])

    def test_models_take_turns_on_each_case_and_have_a_file_each(self) -> None:
        suite = self.suite(2)
        stub = self.serve(suite, ("a/x", "b"))
        result = self.ask(suite, stub, "--model", "a/x", "--model", "b", "-j", "1", out="dir")
        self.assert_says(result, 0)
        order = [(model, case) for model, case, _ in stub.asked]
        self.assertEqual(order, [("a/x", "c0"), ("b", "c0"), ("a/x", "c1"), ("b", "c1")])
        self.assertEqual(sorted(os.listdir(self.path("dir"))), ["a_x.json", "b.json"])

    def test_models_whose_files_would_be_one_are_refused(self) -> None:
        suite = self.suite()
        stub = self.serve(suite, ("a/b", "A_b"))
        result = self.ask(suite, stub, "--model", "a/b", "--model", "A_b", out="dir")
        self.assert_says(result, 2, "names must differ")

    def test_a_bug_in_a_worker_is_raised_and_not_waited_for(self) -> None:
        calls = m.plan_calls(m.load_suite(self.suite()), 1, 1)
        for bug in (ZeroDivisionError("bug"), SystemExit(0)):
            with self.subTest(bug=bug), self.assertRaises(type(bug)):
                m.run_calls(calls, mock.Mock(side_effect=bug), 3, m.Stop(), mock.Mock())


class OutageTest(RunTestCase):
    def test_retries_are_recorded_and_a_bad_answer_is_never_one(self) -> None:
        suite = self.suite(2)
        stub = self.serve(suite, faults=[{"call": 1, "status": 503}], c1="bad")
        self.assert_says(self.ask(suite, stub, "-j", "1"), 0, "needed more than one attempt")
        found = [case["samples"][0]["attempts"] for case in self.document("r.json")["cases"]]
        self.assertEqual((found, self.verdicts()), ([2, 1], ["pass", "fail"]))

    def test_a_provider_error_is_no_answer(self) -> None:
        suite = self.suite(3)
        stub = self.serve(suite, faults=[{"case": "c1", "status": 500}])
        result = self.ask(suite, stub, "--min-pass-rate", "0.1")
        self.assert_says(result, 1, "1 of 3 samples have no answer: not a verdict on the model")
        self.assertEqual(self.verdicts(), ["pass", "error", "pass"])
        self.assertEqual(self.document("r.json")["cases"][1]["samples"][0]["attempts"], 5)
        self.assertNotIn("FAIL", result.out)

    def test_every_scripted_fault_on_a_fifth_of_the_calls_costs_no_answer(self) -> None:
        faults: list[dict[str, Any]] = [
            {"status": 503}, {"status": 429, "headers": {"Retry-After": "3"}}, {"close": True},
            {"garbage": True}, {"cut": 20}, {"delay_s": 0.001}, {"status": 408},
            {"body": {"error": {"message": "overloaded", "type": "server_error", "code": 529}}},
            {"status": 502, "body": "<html>Bad Gateway</html>"},
        ]  # fmt: skip
        suite = self.suite(10)
        for fault in faults:
            with self.subTest(fault=fault):
                stub = self.serve(suite, faults=[{"every": 5, **fault}], c4="bad")
                self.assert_says(self.ask(suite, stub), 0, "9 of 10 cases passed")

    def test_hopeless_errors_end_the_run_early_with_one_clear_sentence(self) -> None:
        suite = self.suite(60)
        quota = {"error": {"message": "no credit", "type": "x", "code": "insufficient_quota"}}
        for fault in ({"status": 401}, {"status": 404}, {"status": 429, "body": quota}):
            with self.subTest(fault=fault):
                stub = self.serve(suite, faults=[fault])
                result = self.ask(suite, stub, out="")
                self.assert_says(result, 1, "INCOMPLETE: the endpoint cannot be used")
                self.assertEqual(len(re.findall("cannot be used", result.out + result.err)), 1)
                self.assertLess(len(stub.calls), 20)

    def test_a_full_outage_ends_early_and_is_no_verdict(self) -> None:
        suite, clock = self.suite(60), Clock()
        stub = self.serve(suite)
        stub.url = "http://127.0.0.1:9"
        result = self.ask(suite, stub, clock=clock)
        self.assert_says(result, 1, "the endpoint cannot be used (connection)", "to go on:")
        self.assertLess(clock.skipped, 600)
        self.assertNotIn("FAIL", result.out)
        document = self.document("r.json")
        self.assertIn("cannot be used", document["incomplete"])
        self.assert_says(
            run("gate", "--baseline", self.path("r.json"), "--candidate", self.path("r.json")),
            2, "incomplete",
        )  # fmt: skip

    def test_a_pause_that_the_endpoint_asks_of_one_call_fails_no_other(self) -> None:
        suite = self.suite(6)
        fault = {"call": 1, "status": 429, "headers": {"Retry-After": "30"}}
        stub = self.serve(suite, faults=[fault])
        result = self.ask(suite, stub, "-j", "1", "--timeout", "20")
        self.assert_says(result, 1)
        self.assertEqual(self.verdicts(), ["error"] + ["pass"] * 5)

    def test_an_unreachable_judge_is_an_error_and_the_answer_is_kept_for_it(self) -> None:
        suite = self.suite(2)
        document = json.loads(Path(suite).read_text())
        document["cases"][1]["assert"] = [{"type": "rubric", "value": "says 'ok'"}]
        Path(suite).write_text(json.dumps(document))
        stub = self.serve(suite, faults=[{"call": 3, "status": 400}])
        judged = ("--judge", "judge-v1", "-j", "1")
        self.assert_says(self.ask(suite, stub, *judged), 1, "judge")
        self.assertEqual(self.verdicts(), ["pass", "error"])
        self.assert_says(self.ask(suite, stub, *judged, "--resume"), 0, "2 of 2")
        self.assertEqual([model for model, _, _ in stub.asked], ["m", "m", "judge-v1"])


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

    def test_an_answer_is_on_disk_as_it_arrives(self) -> None:
        suite = self.suite()
        stub = self.serve(suite)
        counts: list[int] = []
        arrived = m.Watch.__call__

        def count(watch: m.Watch, case: m.Case, sample: m.Sample) -> None:
            path = Path(self.path("r.json.journal"))
            counts.append(path.read_bytes().count(b"\n") - 1)
            arrived(watch, case, sample)

        with mock.patch.object(m.Watch, "__call__", count):
            self.ask(suite, stub, "-j", "1")
        self.assertEqual(counts, [1, 2, 3, 4])

    def test_answers_of_an_unfinished_run_are_not_thrown_away_unasked(self) -> None:
        suite = self.suite()
        stub = self.serve(suite)
        self.journal(2, suite, stub)
        self.assert_says(self.ask(suite, stub), 2, "holds 2 answers", "--resume")
        self.assertEqual(stub.asked, [])

    def test_another_run_is_refused_saying_what_differs(self) -> None:
        suite = self.suite(judged := 3)
        stub = self.serve(suite, ("m", "n"))
        self.journal(2, suite, stub)
        document = json.loads(Path(suite).read_text())
        changed: list[tuple[str, dict[str, Any], list[str]]] = [
            ("model", {}, ["--model", "n"]),
            ("samples", {}, ["--samples", "2"]),
            ("judge", {}, ["--judge", "keyword"]),
            ("suite", {"prompt": "again: {{input}}"}, []),
            ("request", {"request": {"max_tokens": 5}}, []),
            ("thinking", {"thinking": "strip"}, []),
        ]
        for word, keys, flags in changed:
            with self.subTest(word=word):
                Path(suite).write_text(json.dumps({**document, **keys}))
                result = self.ask(suite, stub, "--resume", *flags)
                self.assert_says(result, 2, "is of another run", word)
        self.assertEqual(stub.asked, [])
        Path(suite).write_text(json.dumps(document))
        self.assert_says(self.ask(suite, stub, "--resume"), 0, f"{judged} of {judged}")

    def test_a_foreign_or_damaged_journal_is_bad_input_that_names_the_line(self) -> None:
        suite = self.suite()
        stub = self.serve(suite)
        self.journal(2, suite, stub)
        good = Path(self.path("r.json.journal")).read_text().splitlines()
        results = '{"schema": "minieval/results/1"}'
        for number, line in [(1, "[]"), (1, results), (1, "x"), (2, "{}"), (3, '{"case": 1}')]:
            lines = [*good]
            lines[number - 1] = line
            Path(self.path("r.json.journal")).write_text("\n".join(lines) + "\n")
            with self.subTest(line=line):
                self.assert_says(self.ask(suite, stub, "--resume"), 2, f"journal: line {number}")

    def test_a_living_run_locks_its_output_and_a_dead_one_does_not(self) -> None:
        suite = self.suite()
        stub = self.serve(suite)
        living = m.Journal(self.path("r.json"), {})
        self.assert_says(self.ask(suite, stub), 2, "another run is writing it")
        living.close(remove=False)
        self.assert_says(self.ask(suite, stub), 0)

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
        with mock.patch.object(os, "unlink", side_effect=PermissionError("in use")):
            self.assert_says(self.ask(suite, stub), 0)  # Windows, while the file is open
        self.assert_says(self.ask(suite, stub), 0)

    def test_a_full_disk_ends_the_run_saying_so_and_keeps_what_came(self) -> None:
        suite = self.suite()
        stub = self.serve(suite)
        full = OSError(28, "No space left on device")
        with mock.patch.object(m.Journal, "_write", side_effect=full):
            self.assert_says(self.ask(suite, stub), 2, "r.json.journal", "No space left")

    def test_resuming_a_finished_run_pays_nothing_twice(self) -> None:
        suite = self.suite()
        stub = self.serve(suite)
        self.ask(suite, stub)
        before = Path(self.path("r.json")).read_text()
        self.assert_says(self.ask(suite, stub, "--resume"), 0, "4 of 4")
        self.assertEqual(len(stub.asked), 4)
        self.assertEqual(VOLATILE.sub("", Path(self.path("r.json")).read_text()), VOLATILE.sub("", before))

    def test_no_outputs_keeps_no_text_of_an_answer_anywhere_even_on_resume(self) -> None:
        suite = self.suite()
        stub = self.serve(suite, c0="the secret answer", c1="the secret answer")
        self.journal(2, suite, stub)
        for more in (["--resume"], []):
            self.ask(suite, stub, "--no-outputs", "--junit", self.path("j.xml"), *more)
            for name in ("r.json", "j.xml"):
                self.assertNotIn("secret", Path(self.path(name)).read_text())
            digests = [case["samples"][0]["output_sha256"] for case in self.document("r.json")["cases"]]
            self.assertEqual([len(digest) for digest in digests], [64] * 4)


class StopTest(RunTestCase):
    def start(self, *more: str, delay_s: float) -> tuple["subprocess.Popen[str]", str, Script]:
        """A run in a process of its own against slow answers, once the first has arrived."""
        suite = self.suite(6)
        stub = self.serve(suite, faults=[{"delay_s": delay_s}] if delay_s < 1 else [
            {"call": 1, "delay_s": 0}, {"delay_s": delay_s}])  # fmt: skip
        argv = [sys.executable, str(CODE / "main.py"), "run", "--suite", suite, "--base-url", stub.url]
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

    def finish(self, child: "subprocess.Popen[str]") -> tuple[int, str, str]:
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
        child, suite, stub = self.start(delay_s=8)
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
        stop, clock = m.Stop(), Clock()
        stop("--max-time of 1 s reached")
        here = m.World(*[io.StringIO()] * 3, {}, clock, m.real_world().now, clock.sleep, mock.Mock())
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

    def priced(self, cases: int = 6) -> tuple[str, Script]:
        prices = {"m": {**PRICE, "prompt_usd_per_million": 0.0}}  # 1 token, 1e-6 dollars a call
        suite = self.suite(cases, prices=prices)
        return suite, self.serve(suite)

    def test_a_cost_limit_starts_no_call_after_it_and_resume_completes_the_run(self) -> None:
        suite, stub = self.priced()
        result = self.ask(suite, stub, "-j", "1", "--max-cost-usd", "0.000002")
        self.assert_says(result, 1, "--max-cost-usd of $2e-06 reached", "--resume")
        self.assertEqual(len(stub.asked), 2)
        self.assertIn("--max-cost-usd", self.document("r.json")["incomplete"])
        self.assert_says(self.ask(suite, stub, "--resume"), 0, "6 of 6")
        self.assertEqual(len(stub.asked), 6)

    def test_a_limit_reached_by_the_last_answer_does_not_fail_a_complete_run(self) -> None:
        suite, stub = self.priced(2)
        self.assert_says(self.ask(suite, stub, "-j", "1", "--max-cost-usd", "0.000002"), 0)
        self.assertIsNone(self.document("r.json")["incomplete"])

    def test_a_cost_that_nobody_knows_holds_no_limit(self) -> None:
        limit = ("--max-cost-usd", "1")
        unpriced = self.suite()
        stub = self.serve(unpriced)
        self.assert_says(self.ask(unpriced, stub, *limit), 2, "needs a price")
        suite, _ = self.priced()
        document = json.loads(Path(suite).read_text())
        document["cases"][1]["assert"] = [{"type": "rubric", "value": "says 'ok'"}]
        Path(suite).write_text(json.dumps(document))
        result = self.ask(suite, stub, *limit, "--judge", "judge-v1")
        self.assert_says(result, 2, "judge-v1", "price")
        self.assertEqual(stub.calls, [])
        silent = {"case": "c0", "body": {"choices": [{"message": {"content": "ok"}}]}}
        suite, _ = self.priced()
        stub = self.serve(suite, faults=[silent])
        self.assert_says(self.ask(suite, stub, "-j", "1", *limit), 1, "cost is unknown")

    def test_fail_fast_asks_critical_cases_first_and_stops_at_the_first_that_regressed(self) -> None:
        suite = self.suite()
        document = json.loads(Path(suite).read_text())
        document["cases"][3].update(critical=True)
        Path(suite).write_text(json.dumps(document))
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


class FlagTest(RunTestCase):
    def test_dry_run_tells_calls_and_cost_and_asks_nothing(self) -> None:
        suite = self.suite(3, prices={"m": PRICE}, request={"max_tokens": 100})
        stub = self.serve(suite)
        result = self.ask(suite, stub, "--model", "m", "--model", "n", "--dry-run", "--samples", "2")
        self.assert_says(result, 0, "12 calls", "m: 6 calls, about $0.0006", "n: 6 calls, cost unknown")
        self.assertEqual((stub.calls, os.listdir(self.folder)), ([], ["suite.json"]))

    def test_a_pass_rate_below_the_bar_is_no_and_at_the_bar_is_done(self) -> None:
        suite = self.suite(10)
        stub = self.serve(suite, c0="bad", c1="bad", c2="bad")
        for bar, code in (("0.7", 0), ("0.70000001", 1), ("1", 1), ("0", 0)):
            with self.subTest(bar=bar):
                self.assert_says(self.ask(suite, stub, "--min-pass-rate", bar), code, "7 of 10")

    def test_progress_is_a_bar_for_a_terminal_and_twenty_plain_lines_elsewhere(self) -> None:
        suite = self.suite(100)
        stub = self.serve(suite, faults=[{"case": "c0", "status": 400}])
        table: list[tuple[dict[str, str], bool, bool, bool]] = [
            ({}, False, False, False),
            ({}, True, True, True),
            ({"NO_COLOR": "1"}, True, True, False),
            ({"NO_COLOR": ""}, True, True, True),
            ({"TERM": "dumb"}, True, False, False),
            ({"CI": "true"}, True, False, False),
            ({"CI": "true", "FORCE_COLOR": "1"}, False, False, True),
            ({"CI": "true", "FORCE_COLOR": "1", "NO_COLOR": "1"}, False, False, False),
        ]
        for environ, terminal, bar, colour in table:
            stream = Terminal() if terminal else io.StringIO()
            result = self.ask(suite, stub, "-j", "1", out="", environ=environ, stderr=stream)
            with self.subTest(environ=environ, terminal=terminal):
                self.assertEqual(("\r" in result.err, "\x1b[31m" in result.err), (bar, colour))
                self.assertTrue(bar or len(result.err.splitlines()) <= 22)
                self.assertIn("100 of 100", result.err)
                self.assertNotIn("\x1b", result.out)
        quiet = self.ask(suite, stub, "-q", out="", stderr=Terminal())
        self.assertEqual(quiet.err, "")


class SecretTest(RunTestCase):
    def everything(self, result: Result) -> str:
        files = [path.read_text("utf-8", "replace") for path in self.folder.rglob("*") if path.is_file()]
        return "\n".join([result.out, result.err, *files])

    def test_a_key_is_nowhere_whoever_says_it(self) -> None:
        said = {"error": {"message": f"bad key {CANARY}", "type": CANARY, "code": CANARY}}
        message = {"content": f"your key is {CANARY}"}
        reply = {"model": CANARY, "system_fingerprint": CANARY, "choices": [{"message": message}]}
        headers = {"X-Key": CANARY, "Server": CANARY}
        faults: list[dict[str, Any]] = [
            {"case": "c0", "status": 400, "body": said, "headers": headers},
            {"case": "c1", "body": reply, "headers": headers},
            {"case": "c2", "status": 500, "body": f"<html>{CANARY}</html>"},
            {"case": "c3", "body": f'{{"choices": {CANARY}'},
            {"case": "c4", "status": 302, "headers": {"Location": f"http://x/{CANARY}"}},
        ]
        suite = self.suite(6)
        stub = self.serve(suite, faults=faults)
        port = stub.url.split(":")[-1]
        url = f"http://user:{CANARY}@127.0.0.1:{port}?api-version=1&key={CANARY}"
        ways: list[tuple[list[str], dict[str, str], Optional[str]]] = [
            ([], {"OPENAI_API_KEY": CANARY}, None),
            (["--api-key-env", "AZ", "--api-key-header", "api-key"], {"AZ": CANARY + "\r\n"}, None),
            (["--header", "X-Gate=GATE"], {"GATE": CANARY}, None),
            ([], {}, url),
        ]
        for flags, environ, other in ways:
            if other:
                stub.url = other
            with self.subTest(flags=flags, other=other):
                more = ["--junit", self.path("j.xml"), *flags]
                result = self.ask(suite, stub, *more, environ=environ)
                self.assert_says(result, 1)
                self.assertNotIn(CANARY, self.everything(result))
                self.assertNotIn(CANARY[3:], self.everything(result))
                os.unlink(self.path("r.json.journal"))

    def test_a_traceback_and_a_refusal_hold_no_key(self) -> None:
        suite = self.suite()
        stub = self.serve(suite)
        environ = {"OPENAI_API_KEY": CANARY, "BAD": CANARY + "\n\x01" + CANARY, "WIDE": CANARY + "→"}
        with mock.patch.object(m, "read_reply", side_effect=RuntimeError("bug")):
            bug = self.ask(suite, stub, environ=environ)
        self.assert_says(bug, 70, "this is a bug in minieval")
        refused = [
            self.ask(suite, stub, "--api-key-env", "BAD", environ=environ),
            self.ask(suite, stub, "--header", "X=WIDE", environ=environ),
            self.ask(suite, stub, "--judge-base-url", f"ftp://u:{CANARY}@h", "--judge", "j", environ=environ),
        ]  # fmt: skip
        for url in (f"http://u:{CANARY}@[::1", f"http://u:{CANARY}@h:port", f"//u:{CANARY}@h"):
            stub.url = url
            refused.append(self.ask(suite, stub, environ=environ))
        for result in (bug, *refused):
            self.assertNotIn(CANARY, self.everything(result))
        self.assertEqual([result.code for result in refused], [2, 2, 0, 2, 2, 2][: len(refused)])

    def test_a_header_whose_variable_is_not_set_is_refused(self) -> None:
        suite = self.suite()
        result = self.ask(suite, self.serve(suite), "--header", "X-Gate=GATE")
        self.assert_says(result, 2, "GATE is empty")


class WorkerTest(unittest.TestCase):
    def test_no_call_starts_after_a_stop_and_those_under_way_arrive(self) -> None:
        stop, started, free = m.Stop(), threading.Event(), threading.Event()
        calls: list[Any] = [mock.Mock(seed=seed) for seed in range(9)]
        arrived: list[Any] = []

        def ask(call: Any) -> Any:
            if call.seed == 1:
                started.set()
                free.wait(5)
            elif call.seed == 0:
                started.wait(5)
                stop("enough")
                free.set()
            return call.seed

        m.run_calls(calls, ask, 2, stop, lambda call, sample: arrived.append(sample))
        self.assertEqual(sorted(arrived), [0, 1])


if __name__ == "__main__":
    unittest.main()
