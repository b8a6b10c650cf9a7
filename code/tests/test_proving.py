"""Proving: every fault, what it fits, what the shipped suites catch, and never a socket."""

from __future__ import annotations

import contextlib
import json
import re
import socket
import sys
import unittest
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import main as m
from helpers import CHANGELOG, OPS, StubTestCase, run

GOOD = '{"level": "high", "team": "db", "count": 3}'
SCHEMA = {"type": "json-schema", "value": {"type": "object", "required": ["level"]}}
# Words of a `why` that excuse a survivor of this fault.
EXCUSES = {"wrapped in prose": "words|greeting", "fenced": "fence", "number off": "number"}
Survivors = set[tuple[str, str]]


def search(pattern: str, text: str) -> int | None:
    found = re.search(pattern, text)
    return found and found.start()


TOOLS = m.Tools(search, m.keyword_judge)


def case(name: str, *assertions: dict[str, Any], good: Sequence[str] = (), **keys: Any) -> m.Case:
    parsed = tuple(m.parse_assertion(assertion) for assertion in assertions)
    return m.Case(name, "q", parsed, "sha", examples={"pass": list(good)} if good else {}, **keys)


def equals(text: str) -> dict[str, Any]:
    return {"type": "equals", "value": text}


def prove(*cases: m.Case, **options: Any) -> m.Proof:
    return m.prove(cases, options.pop("answers", {}), TOOLS, **options)


def survivors(proof: m.Proof) -> Survivors:
    return {(trial.case, trial.fault) for trial in proof.trials if trial.outcome == m.SURVIVED}


def outcomes(proof: m.Proof, name: str = "a") -> dict[str, str]:
    return {trial.fault: trial.outcome for trial in proof.trials if trial.case == name}


class FaultTest(unittest.TestCase):
    def planted(self, fault: str, answer: str, *assertions: dict[str, Any]) -> str | None:
        made = case("a", *(assertions or (equals(answer),)), good=[answer])
        return m.FAULTS[fault].plant(made, answer, ["other"])

    def test_every_fault_of_the_registry_is_planted_as_it_says(self) -> None:
        swapped = '{"level": "db", "team": "high", "count": 3}'
        table: dict[str, tuple[str, str]] = {
            "empty": ("yes", ""),
            "refusal": ("yes", "I'm sorry, but I can't help with that."),
            "cut in half": ("12345", "12"),
            "wrapped in prose": (
                "yes",
                "Sure! Here is the answer:\n\nyes\n\nLet me know if you need anything else.",
            ),
            "fenced": ("yes", "```\nyes\n```"),
            "field removed": (GOOD, '{"team": "db", "count": 3}'),
            "labels swapped": (GOOD, swapped),
            "another case's answer": ("yes", "other"),
            "shouted": ("Yes", "YES"),
        }
        for name, (answer, wanted) in table.items():
            with self.subTest(fault=name):
                self.assertEqual(self.planted(name, answer), wanted)
        number = self.planted("number off", "43.2 min")
        self.assertRegex(number or "", r"^[0-9.]+ min$")
        self.assertNotEqual(number, "43.2 min")
        self.assertEqual({*table, "number off"}, set(m.FAULTS), "a fault without a test")
        self.assertEqual(self.planted("labels swapped", '["a", "b", "c"]'), '["b", "a", "c"]')

    def test_every_fault_says_in_one_line_which_real_failure_it_stands_for(self) -> None:
        for name, fault in m.FAULTS.items():
            self.assertEqual(fault.name, name)
            self.assertTrue(fault.stands_for and "\n" not in fault.stands_for, name)

    def test_a_fault_that_cannot_matter_is_not_applicable_and_no_survivor(self) -> None:
        for fault, answer, assertion in (
            ("shouted", "Yes", {"type": "icontains", "value": "yes"}),
            ("shouted", "43 min", {"type": "numeric", "value": 43}),
            ("shouted", "YES", equals("YES")),
            ("shouted", "yes", {"type": "regex", "value": "(?i)^yes$"}),
            ("cut in half", "7", equals("7")),
            ("number off", "yes", equals("yes")),
            ("field removed", "yes", equals("yes")),
            ("field removed", '["a"]', equals('["a"]')),
            ("field removed", "{}", equals("{}")),
            ("labels swapped", "a, b", equals("a, b")),
            ("labels swapped", '["a", "a"]', equals('["a", "a"]')),
            ("labels swapped", '{"a": "x", "b": 2}', equals('{"a": "x", "b": 2}')),
        ):
            with self.subTest(fault=fault, answer=answer):
                self.assertIsNone(self.planted(fault, answer, assertion))
                proof = prove(case("a", assertion, good=[answer]))
                self.assertEqual(outcomes(proof)[fault], m.NOT_APPLICABLE)
        alone = prove(case("a", equals("yes"), good=["yes"]))
        self.assertEqual(outcomes(alone)["another case's answer"], m.NOT_APPLICABLE)

    def test_a_number_is_off_beyond_any_tolerance_whichever_is_read(self) -> None:
        last = {"type": "numeric", "value": 1000, "tolerance": 10, "pick": "last"}
        self.assertEqual(self.planted("number off", "2 of 1000", last), "72 of 71000")
        self.assertEqual(outcomes(prove(case("a", last, good=["2 of 1000"])))["number off"], m.CAUGHT)

    def test_a_field_that_the_schema_requires_goes_first(self) -> None:
        wants = {"type": "json-schema", "value": {"type": "object", "required": ["count"]}}
        self.assertEqual(self.planted("field removed", GOOD, wants), '{"level": "high", "team": "db"}')


class ProofTest(StubTestCase):
    def test_the_score_is_caught_over_applicable(self) -> None:
        proof = prove(case("a", {"type": "contains", "value": "yes"}, good=["yes"]))
        caught = [fault for fault, outcome in outcomes(proof).items() if outcome == m.CAUGHT]
        self.assertEqual(caught, ["empty", "refusal", "cut in half", "shouted"])
        self.assertEqual(survivors(proof), {("a", "wrapped in prose"), ("a", "fenced")})
        self.assertEqual(proof.score, Fraction(4, 6))
        self.assertIsNone(m.Proof((), (), ()).score, "undefined is not 0")
        for least, complaints in ((Fraction(4, 6), 0), (Fraction(67, 100), 1)):
            proof = prove(case("a", {"type": "contains", "value": "yes"}, good=["yes"]), min_score=least)
            self.assertEqual(len(proof.complaints), complaints)

    def test_a_check_that_counts_labels_survives_the_swap_and_one_that_reads_them_does_not(self) -> None:
        counts = {"type": "json-schema", "value": {"type": "array", "minItems": 2, "maxItems": 2}}
        answer = '["invoices", "incidents"]'
        proof = prove(case("count", counts, good=[answer]), case("read", equals(answer), good=[answer]))
        self.assertIn(("count", "labels swapped"), survivors(proof))
        self.assertEqual(outcomes(proof, "read")["labels swapped"], m.CAUGHT)

    def test_a_recorded_good_answer_must_pass_and_a_recorded_fault_must_fail(self) -> None:
        examples = {"pass": ["yes", "Yes"], "fail": [{"output": "yes", "because": "too short"}]}
        made = case("a", equals("yes"))._replace(examples=examples)
        good, bad = prove(made).complaints
        self.assertEqual(good, "a: a recorded good answer fails: 'Yes'")
        self.assertEqual(bad, "a: a recorded fault passes (too short): 'yes'")

    def test_strict_names_every_part_of_the_contract_that_is_missing(self) -> None:
        bare = case("a", equals("yes"), good=["yes"])
        parts = ("why", "fixture.reduced", "fixture.real", "examples.fail")
        self.assertEqual(prove(bare).complaints, ())
        self.assertEqual(prove(bare, strict=True).complaints, (f"a: has no {', '.join(parts)}",))
        fixture = {"reduced": "x", "real": "y"}
        examples = {"pass": ["yes"], "fail": [{"output": "no", "because": "z"}]}
        whole = bare._replace(why="w", fixture=fixture, examples=examples)
        self.assertEqual(prove(whole, strict=True).complaints, ())

    def test_a_critical_case_that_catches_nothing_is_a_complaint(self) -> None:
        anything = {"type": "max-chars", "value": 5000}
        lax = case("a", anything, good=["yes"])
        self.assertEqual(prove(lax).complaints, ())
        self.assertEqual(prove(lax._replace(critical=True)).complaints, ("a: critical, and catches nothing",))

    def test_without_a_passing_answer_a_case_is_not_proved(self) -> None:
        mute, sound = case("mute", equals("yes")), case("a", equals("yes"), good=["yes"])
        self.assertEqual(prove(mute, sound).notes, ("mute: no passing answer to plant faults into",))
        self.assertEqual(
            prove(mute._replace(critical=True), sound).complaints, ("mute: critical, and nothing proves it",)
        )
        with self.assertRaisesRegex(m.UsageError, "nothing to prove"):
            prove(mute)
        answered = prove(mute, answers={"mute": "yes"})
        self.assertEqual((answered.notes, answered.score), ((), Fraction(1)))
        self.assertEqual(len(prove(mute, sound, answers={"mute": "no"}).notes), 1, "a failing answer")
        failing = case("a", equals("yes"), good=["no"])
        self.assertEqual(prove(failing).complaints, ("a: a recorded good answer fails: 'no'",))

    def test_the_broken_version_must_turn_a_case_red_and_the_fixed_one_none(self) -> None:
        proof = prove(case("a", equals("yes"), good=["yes"]))
        for version, red, complaints in (
            *(("broken", ["a"], 0), ("broken", [], 1), ("fixed", [], 0), ("fixed", ["a"], 1)),
        ):
            held = m.with_application(proof, version, red)
            self.assertEqual(len(held.complaints), complaints, (version, red))
            self.assertIn(f"{version} version", held.notes[-1])

    def test_the_command_says_no_exactly_when_there_is_a_complaint(self) -> None:
        ok = [{"type": "contains", "value": "ok"}]
        bad = {"pass": ["ok"], "fail": [{"output": "it is ok", "because": "chatty"}]}
        good = {"pass": ["ok"]}
        lax = self.suite([{"id": "c0", "input": "q", "assert": ok, "examples": bad}])
        self.assert_says(run("prove", "--suite", lax), 1, "NOT PROVED", "a recorded fault passes (chatty)")
        sound = self.suite([{"id": "c0", "input": "q", "assert": ok, "examples": good}])
        result = run("prove", "--suite", sound)
        self.assert_says(result, 0, "PROVED: 4 of 6", "c0: fenced: '```\\nok\\n```'")
        self.assert_says(run("prove", "--suite", sound, "--strict"), 1, "has no why")
        self.assert_says(run("prove", "--suite", sound, "--min-score", "0.9"), 1, "--min-score 0.9")
        document = json.loads(run("prove", "--suite", sound, "--json").out)
        self.assertEqual(document["schema"], "minieval/proof/1")
        self.assertAlmostEqual(document["score"], 4 / 6)
        self.assert_says(run("prove", "--suite", self.suite(2)), 2, "nothing to prove")

    def test_answers_of_a_run_stand_in_for_missing_examples(self) -> None:
        suite = self.suite(2)
        stub = self.serve(suite, c1="no")
        out = self.path("r.json")
        run("run", "--suite", suite, "--base-url", stub.url, "--model", "m", "--out", out)
        asked = len(stub.calls)
        result = run("prove", "--suite", suite, "--results", out)
        self.assert_says(result, 0, "c1: no passing answer", "PROVED: 6 of 6")
        self.assertEqual(len(stub.calls), asked, "nothing is asked")


class ShippedTest(unittest.TestCase):
    def proof(self, path: str) -> tuple[m.Suite, m.Proof]:
        suite = m.load_suite(path)
        return suite, m.prove(suite.cases, {}, TOOLS, strict=True)

    def test_the_shipped_suites_are_proved_under_strict(self) -> None:
        for path in (OPS, CHANGELOG):
            self.assertEqual(self.proof(path)[1].complaints, (), path)
        self.assertEqual(len(self.proof(OPS)[0].cases), 20)

    def test_every_critical_case_catches_all_faults_that_apply_to_it(self) -> None:
        for path in (OPS, CHANGELOG):
            suite, proof = self.proof(path)
            critical = {made.id for made in suite.cases if made.critical}
            self.assertEqual([name for name, _ in survivors(proof) if name in critical], [], path)

    def test_every_survivor_is_explained_by_its_case(self) -> None:
        for path in (OPS, CHANGELOG):
            suite, proof = self.proof(path)
            whys = {made.id: made.why or "" for made in suite.cases}
            for name, fault in survivors(proof):
                self.assertRegex(whys[name], EXCUSES[fault], (name, fault))
                self.assertRegex(whys[name], "harmless|edited out", (name, fault))

    def test_deleting_any_one_assertion_shows_in_the_report(self) -> None:
        for path in (OPS, CHANGELOG):
            suite, before = self.proof(path)
            for made in suite.cases:
                for index in range(len(made.assertions)):
                    rest = made.assertions[:index] + made.assertions[index + 1 :]
                    less = made._replace(assertions=rest)
                    cases = [less if other.id == made.id else other for other in suite.cases]
                    after = m.prove(cases, {}, TOOLS)
                    new = survivors(after) - survivors(before)
                    with self.subTest(case=made.id, assertion=index):
                        self.assertTrue(new or set(after.complaints) - set(before.complaints))
                        self.assertTrue(rest or m.CAUGHT not in outcomes(after, made.id).values())

    def test_prove_and_rescore_open_no_socket(self) -> None:
        served = StubTestCase()
        served.setUp()
        self.addCleanup(served.doCleanups)
        suite, out = served.suite(3), served.path("r.json")
        stub = served.serve(suite)
        run("run", "--suite", suite, "--base-url", stub.url, "--model", "m", "--out", out)
        forbidden = mock.Mock(side_effect=AssertionError("a socket"))
        with contextlib.ExitStack() as stack:
            for name in ("socket", "create_connection", "getaddrinfo"):
                stack.enter_context(mock.patch.object(socket, name, forbidden))
            self.assertEqual(run("prove", "--suite", OPS, "--strict").code, 0)
            self.assertEqual(run("prove", "--suite", suite, "--results", out).code, 0)
            edited = served.suite(3, {0: {"assert": [equals("no")]}})
            self.assertIn("1 of 3 cases flipped", run("rescore", "--results", out, "--suite", edited).out)
        forbidden.assert_not_called()


if __name__ == "__main__":
    unittest.main()
