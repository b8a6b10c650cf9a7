"""A run asks in order, tells an outage from bad answers, and shows how far it is."""

from __future__ import annotations

import io
import json
import os
import re
import socket
import sys
import threading
import time
import unittest
from pathlib import Path
from typing import Any
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import main as m
from helpers import OPS, PRICE, RUBRIC, VOLATILE, Clock, RunTestCase, Terminal, run, world


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
        suite = self.suite(3, {1: {"samples": 3, "critical": True}, 2: {"skip": "later"}})
        stub = self.serve(suite)
        self.ask(suite, stub, "--samples", "2", "-j", "1")
        cases = [(case, seed) for _, case, seed in stub.asked]
        self.assertEqual(cases, [("c0", 0), ("c0", 1), ("c1", 0), ("c1", 1), ("c1", 2)])
        found = self.document("r.json")
        self.assertEqual([len(case["samples"]) for case in found["cases"]], [2, 3, 0])
        self.assertEqual(found["environment"]["minieval"], m.__version__)

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
                m.run_calls(calls, mock.Mock(side_effect=bug), 3, m.Stop(), lambda: 0)


class OutageTest(RunTestCase):
    def test_retries_are_recorded_and_a_bad_answer_is_never_one(self) -> None:
        suite = self.suite(2)
        stub = self.serve(suite, faults=[{"call": 1, "status": 503}], c1="bad")
        result = self.ask(suite, stub, "-j", "1")
        self.assert_says(result, 0, "took more than one attempt")
        self.assertNotIn("to go on", result.err)  # a bad answer is not asked for again
        found = [case["samples"][0]["attempts"] for case in self.document("r.json")["cases"]]
        self.assertEqual((found, self.verdicts()), ([2, 1], ["pass", "fail"]))

    def test_a_provider_error_is_no_answer(self) -> None:
        suite = self.suite(3)
        stub = self.serve(suite, faults=[{"case": "c1", "status": 500}])
        result = self.ask(suite, stub, "--min-pass-rate", "0.1")
        self.assert_says(result, 1, "1 of 3 samples asked has no answer")
        self.assertEqual(self.verdicts(), ["pass", "error", "pass"])
        self.assertEqual(self.document("r.json")["cases"][1]["samples"][0]["attempts"], 5)
        self.assertNotIn("FAIL", result.out)

    def test_what_befell_many_cases_alike_is_said_once(self) -> None:
        suite = self.suite(30, {21: {"critical": True}})
        faults = [{"case": f"c{i}", "status": 400 if i < 25 else 404} for i in (*range(5, 25, 2), 25)]
        shown = self.ask(suite, self.serve(suite, faults=faults), "-j", "1").out
        listed = (
            "ERROR 9 cases: c5, c7, c9, c11, c13, c15, c17, c19 and 1 more\n        bad_request: HTTP 400"
        )
        self.assertIn(listed, shown)
        self.assertIn("ERROR c25\n        not_found: HTTP 404", shown)
        self.assertIn("ERROR c21  (critical)", shown)
        self.assertEqual(shown.count("ERROR"), 3)

    def test_every_scripted_fault_on_a_fifth_of_the_calls_costs_no_answer(self) -> None:
        faults: list[dict[str, Any]] = [
            {"status": 503}, {"status": 429, "headers": {"Retry-After": "3"}}, {"close": True},
            {"garbage": True}, {"cut": 20}, {"delay_s": 0.001}, {"status": 408},
            {"body": {"error": {"message": "overloaded", "type": "server_error", "code": 529}}},
            {"status": 502, "body": "<html>Bad Gateway</html>"},
        ]  # fmt: skip
        suite = self.suite(10)
        for number, fault in enumerate(faults):
            with self.subTest(fault=fault):
                stub = self.serve(suite, faults=[{"every": 5, **fault}], c4="bad")
                result = self.ask(suite, stub, out=f"{number}.json")
                self.assert_says(result, 0, "9 of 10 cases passed")

    def test_hopeless_errors_end_the_run_early_with_one_clear_sentence(self) -> None:
        suite = self.suite(60)
        quota = {"error": {"message": "no credit", "type": "x", "code": "insufficient_quota"}}
        for fault in ({"status": 401}, {"status": 404}, {"status": 429, "body": quota}):
            with self.subTest(fault=fault):
                stub = self.serve(suite, faults=[fault])
                result = self.ask(suite, stub, out="")
                self.assert_says(result, 1, "incomplete: the endpoint cannot be used")
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

    def test_an_endpoint_that_hangs_from_the_start_ends_the_run_after_one_round(self) -> None:
        suite = self.suite(60)
        stub = self.serve(suite)
        with socket.create_server(("127.0.0.1", 0)) as silent:
            stub.url = f"http://127.0.0.1:{silent.getsockname()[1]}"
            begun = time.monotonic()
            result = self.ask(suite, stub, "-j", "4", "--timeout", "1")
            self.assertLess(time.monotonic() - begun, 1.9)
        self.assert_says(result, 1, "the endpoint cannot be used (timeout): no complete reply from")
        self.assertEqual(len(re.findall("cannot be used", result.out + result.err)), 1)
        asked = [s for case in self.document("r.json")["cases"] for s in case["samples"]]
        self.assertEqual({sample["error"]["kind"] for sample in asked}, {"timeout"})
        self.assertLessEqual(len(asked), 4)

    def test_an_endpoint_that_never_replies_ends_the_run_before_its_calls_time_out(self) -> None:
        suite = self.suite(60)
        stub = self.serve(suite)
        with socket.create_server(("127.0.0.1", 0)) as silent, mock.patch.object(m, "FIRST_REPLY_S", 0.3):
            stub.url = f"http://127.0.0.1:{silent.getsockname()[1]}"
            for jobs in "14":
                begun = time.monotonic()
                result = self.ask(suite, stub, "-j", jobs)
                self.assertLess(time.monotonic() - begun, 5)
                words = "(timeout): no answer in 0.3 s", "--timeout; 60 cases without a result"
                self.assert_says(result, 1, "the endpoint cannot be used", *words, "no sample is complete")
                self.assertIn("cannot be used", self.document("r.json")["incomplete"])

    def test_a_slow_model_is_waited_for_where_the_user_or_its_first_reply_says_so(self) -> None:
        suite = self.suite(3)
        with mock.patch.object(m, "FIRST_REPLY_S", 0.1):
            slow = self.serve(suite, faults=[{"call": 1, "delay_s": 0.3}])
            self.assert_says(self.ask(suite, slow, "--timeout", "9", "-j", "1", out=""), 0)
            later = self.serve(suite, faults=[{"call": 2, "delay_s": 0.3}])
            self.assert_says(self.ask(suite, later, "-j", "1", out=""), 0)
            self.assert_says(self.ask(suite, self.serve(suite, faults=slow.faults), "-j", "1", out=""), 1)

    def test_a_slow_call_that_a_resumed_run_has_left_is_waited_for(self) -> None:
        suite = self.suite(2)
        self.assert_says(self.ask(suite, self.serve(suite, faults=[{"case": "c1", "status": 400}])), 1)
        stub = self.serve(suite, faults=[{"case": "c1", "delay_s": 0.3}])
        journal = Path(self.path("r.json.journal"))
        identity, lines = journal.read_text().split("\n", 1)
        head = json.loads(identity)
        head["identity"]["endpoint"] = m.normal_base_url(stub.url).shown
        journal.write_text(json.dumps(head) + "\n" + lines)
        with mock.patch.object(m, "FIRST_REPLY_S", 0.1):
            self.assert_says(self.ask(suite, stub, "--resume"), 0, "2 of 2 cases passed")

    def test_a_model_or_a_judge_that_cannot_be_used_ends_the_run_though_others_answer(self) -> None:
        rubric = {"assert": [{"type": "rubric", "value": "Says 'ok'."}]}
        suite = self.suite(60, dict.fromkeys(range(60), rubric))
        for more, name in (
            (["--judge", "nobody"], "judge 'nobody'"),
            (["--judge", "keyword", "--model", "m", "--model", "nobody"], "model 'nobody'"),
            (["--judge", "judge-v1", "--judge-base-url", "http://127.0.0.1:9"], "judge 'judge-v1'"),
        ):
            with self.subTest(more=more):
                stub = self.serve(suite)
                result = self.ask(suite, stub, *more, out="")
                self.assert_says(result, 1, f"the {name} cannot be used")
                self.assertLess(len(stub.asked), 40)

    def test_an_answer_is_kept_before_its_judge_is_asked(self) -> None:
        suite = self.suite(2, {0: {"assert": [{"type": "rubric", "value": "Says 'ok'."}]}})
        stub = self.serve(suite, faults=[{"call": 2, "delay_s": 1}])
        judge = ("--judge", "judge-v1", "-j", "1")
        with mock.patch.object(m, "FIRST_REPLY_S", 0.2):
            result = self.ask(suite, stub, *judge)
        self.assert_says(result, 1, "the judge 'judge-v1' cannot be used (timeout)")
        self.assert_says(self.ask(suite, stub, *judge, "--resume"), 0, "2 of 2 cases passed")
        models = [(model, case) for model, case, _ in stub.asked]
        self.assertEqual(models, [("m", "c0"), ("judge-v1", None), ("m", "c1")])

    def test_an_answer_that_is_not_to_be_kept_is_not_kept_for_its_judge_either(self) -> None:
        suite = self.suite(1, {0: {"assert": [{"type": "rubric", "value": "Says 'ok'."}]}})
        stub = self.serve(suite, faults=[{"call": 2, "status": 400}], c0="ok, a canary")
        result = self.ask(suite, stub, "--judge", "judge-v1", "--no-outputs")
        self.assert_says(result, 1, "judge: bad_request")
        for path in self.folder.glob("r.json*"):
            self.assertNotIn("canary", path.read_text("utf-8"))

    def test_a_pause_that_the_endpoint_asks_of_one_call_fails_no_other(self) -> None:
        suite = self.suite(6)
        fault = {"call": 1, "status": 429, "headers": {"Retry-After": "30"}}
        stub = self.serve(suite, faults=[fault, {"delay_s": 0.02}])
        result = self.ask(suite, stub, "-j", "1", "--timeout", "20")
        self.assert_says(result, 1)
        self.assertEqual(self.verdicts(), ["error"] + ["pass"] * 5)

    def test_an_unreachable_judge_is_an_error_and_the_answer_is_kept_for_it(self) -> None:
        suite = self.suite(2, {1: RUBRIC})
        stub = self.serve(suite, faults=[{"call": 3, "status": 400}])
        judged = ("--judge", "judge-v1", "-j", "1")
        self.assert_says(self.ask(suite, stub, *judged), 1, "judge")
        self.assertEqual(self.verdicts(), ["pass", "error"])
        self.assert_says(self.ask(suite, stub, *judged, "--resume"), 0, "2 of 2")
        self.assertEqual([model for model, _, _ in stub.asked], ["m", "m", "judge-v1"])


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
                self.assertRegex(result.err, r"100 of 100, .*/s\S*, 1 error(?!s)")
                self.assertEqual(result.err[-1], "\n")
                self.assertNotIn("\x1b", result.out)
        quiet = self.ask(suite, stub, "-q", out="", stderr=Terminal())
        self.assertEqual(quiet.err, "")


class WorkerTest(unittest.TestCase):
    def test_the_first_reason_to_stop_counts(self) -> None:
        stop = m.Stop()
        stop("interrupted", 130)
        stop("--max-time of 1 s reached", limit=True)
        self.assertEqual((stop.reason, stop.exit_code, stop.limit), ("interrupted", 130, False))

    def test_only_calls_that_wait_for_an_endpoint_that_hung_will_never_come(self) -> None:
        case, error = m.Case("c0", "q0", (), "sha"), m.ProviderError("timeout", "x")
        for hung, program, hanging in ((True, False, 1), (False, False, 0), (True, True, 0)):
            with self.subTest(hung=hung, program=program):
                session = m.Session(m.RunOptions(), world())
                gates = session.gate("other"), session.gate("hung", program=program), session.gate("third")
                for gate in gates:
                    gate.wait(lambda: 0.0, lambda seconds: False)
                    gate.under_way = {id(gate)}
                gates[1].ended_by, gates[1].hung = error, hung
                m.limits(session.options, session, ())(case, m.Sample(0, error=("timeout", "x")))
                self.assertTrue(session.stop.event.is_set())
                self.assertEqual(session.end_if_hopeless(), hanging)

    def test_a_machine_that_slept_has_waited_for_nobody(self) -> None:
        times = iter([0.0, 3600.0, 3600.1])
        session = m.Session(m.RunOptions(), world()._replace(clock=lambda: next(times)))
        session.gate("the model 'm'").wait(lambda: 0.0, lambda seconds: False)
        self.assertEqual([session.end_if_hopeless() for _ in range(2)], [0, 0])
        self.assertIsNone(session.stop.reason)

    def test_a_program_that_fails_is_no_failure_of_the_endpoints(self) -> None:
        session = m.Session(m.RunOptions(), world())
        program, model = session.gate("the program 'x'", program=True), session.gate("the model 'm'")
        for gate in (program, model) * 9:
            gate.note(m.ProviderError("timeout" if gate is program else "server", "x"))
        session.end_if_hopeless()
        self.assertRegex(str(session.stop.reason), "the program 'x' cannot be used")
        self.assertIsNone(session.gates[0].ended_by)

    def test_calls_that_will_never_come_are_not_waited_for_and_others_are(self) -> None:
        never, taken, stop = threading.Event(), [], m.Stop()
        self.addCleanup(never.set)

        def take(call: int) -> None:
            taken.append(call)
            if call < 2:
                never.wait(30)
            stop("hung")
            time.sleep(0.05)
            taken.append(call)

        m.run_calls(range(9), take, 3, stop, lambda: 2 if stop.reason else 0)
        self.assertEqual(taken, [0, 1, 2, 2])

    def test_what_is_still_graded_when_a_run_breaks_off_is_not_kept(self) -> None:
        suite, session = m.load_suite(OPS), m.Session(m.RunOptions(), world())
        asked, free = threading.Event(), threading.Event()

        def provider(*_: Any) -> Any:
            asked.set()
            free.wait(9)
            raise m.ProviderError("server", "x")

        def interrupted(*_: Any) -> None:
            asked.wait(9)
            raise KeyboardInterrupt

        lane: Any = m.Lane("m", mock.Mock(side_effect=provider), None, m.Tools(lambda pattern, text: None))
        lane.journal, before = mock.Mock(), {*threading.enumerate()}
        with mock.patch.object(m.Progress, "show", interrupted), self.assertRaises(KeyboardInterrupt):
            m.execute(suite, [lane], session.options, session, ())
        free.set()
        for thread in {*threading.enumerate()} - before:
            thread.join(9)
        self.assertEqual((len(lane.samples), lane.journal.add.call_count), (0, 0))

    def test_an_answer_that_comes_at_the_time_limit_is_the_last(self) -> None:
        for until, over in ((5.0, True), (5.1, False)):
            options = m.RunOptions(max_time=5.0)
            session = m.Session(options, world()._replace(clock=lambda: 5.0))
            session.stop.until = until
            m.limits(options, session, ())(m.Case("c0", "q0", (), "sha"), m.Sample(0, "ok"))
            self.assertEqual((session.stop.event.is_set(), session.stop.limit), (over, over))

    def kept(self, kind: str, cut: bool) -> tuple[int, int]:
        """How many failures of this kind are kept, and journalled, of a run that was cut or was not."""
        suite, session = m.load_suite(OPS), m.Session(m.RunOptions(), world())

        def provider(*_: Any) -> Any:
            session.stop.cut = cut
            raise m.ProviderError(kind, "x")

        lane: Any = m.Lane("m", mock.Mock(side_effect=provider), None, m.Tools(lambda pattern, text: None))
        lane.journal = mock.Mock()
        m.execute(suite, [lane], session.options, session, ())
        return len(lane.samples), lane.journal.add.call_count

    def test_a_call_that_was_stopped_or_cut_is_no_sample(self) -> None:
        cases = len(m.load_suite(OPS).evaluated)
        self.assertEqual(self.kept("server", cut=False), (cases, cases))
        self.assertEqual(self.kept("stopped", cut=False), (0, 0))
        self.assertEqual(self.kept("timeout", cut=True), (0, 0))

    def test_neither_a_pass_nor_a_missing_answer_reaches_a_limit_of_cost_or_of_failed_cases(self) -> None:
        session = m.Session(m.RunOptions(max_cost_usd=1.0), world())
        look = m.limits(session.options, session, ("c0",))
        passed = m.Sample(0, "ok", assertions=(m.AssertionResult("equals", True, ""),), cost_usd=0.1)
        for sample in (passed, m.Sample(0, error=("server", "HTTP 503"))):
            look(m.Case("c0", "q0", (), "sha"), sample)
            self.assertIsNone(session.stop.reason)

    def test_no_call_starts_after_a_stop_and_those_under_way_arrive(self) -> None:
        stop, started, free = m.Stop(), threading.Event(), threading.Event()
        calls: list[Any] = [mock.Mock(seed=seed) for seed in range(9)]
        arrived: list[Any] = []

        def take(call: Any) -> None:
            if call.seed == 1:
                started.set()
                free.wait(5)
            elif call.seed == 0:
                started.wait(5)
                stop("enough")
                free.set()
            arrived.append(call.seed)

        m.run_calls(calls, take, 2, stop, lambda: 0)
        self.assertEqual(sorted(arrived), [0, 1])

    def test_a_terminal_that_nobody_reads_holds_no_worker(self) -> None:
        over, ticks, taken = threading.Event(), [], []

        def take(call: Any) -> None:
            taken.append(call)
            if len(taken) == 9:
                over.set()

        def tick() -> int:
            ticks.append(over.wait(5))
            return 0

        m.run_calls([mock.Mock()] * 9, take, 2, m.Stop(), tick)
        self.assertTrue(ticks and all(ticks))

    def test_a_bug_in_a_worker_stops_the_others(self) -> None:
        stop = m.Stop()
        with self.assertRaises(ZeroDivisionError):
            m.run_calls([mock.Mock()], mock.Mock(side_effect=ZeroDivisionError), 1, stop, lambda: 0)
        self.assertTrue(stop.event.is_set())


if __name__ == "__main__":
    unittest.main()
