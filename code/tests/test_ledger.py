"""The ledger: how often, not whether; the merge rule that reads it; and where its rows come from."""

from __future__ import annotations

import json
import sys
import unittest
from collections.abc import Iterable
from math import comb
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

sys.path.insert(0, str(Path(__file__).resolve().parent))

import builders
import helpers
import main as m

TODAY = "2026-06-15"
JUNIT = helpers.CODE / "fixtures" / "junit"
BOUND: dict[str, Any] = {"fixtures": "f", "endpoint": "e"}
MIXED = "flaky, mostly passing"
# A test command of no framework: what each case answers in run 1, 2, ... is scripted in a file.
COMMAND = """
import json, os, sys
script = json.load(open(sys.argv[1], encoding="utf-8"))
run = os.environ["MODEL_RUN_ID"]
with open(os.environ["MODEL_RUN_LOG"], "a", encoding="utf-8") as log:
    for case, marks in script.items():
        mark = marks[(int(run.rpartition("-")[2]) - 1) % len(marks)]
        if mark != "-":
            row = {"run": run, "case": case, "passed": mark == "1"}
            log.write(json.dumps(row) + "\\n")
"""


def ledger(cases: dict[str, Any], runs: int = 5, **changes: Any) -> m.Ledger:
    """A bound ledger; a case is (passes, runs), (passes, runs, critical), or passes of all runs."""
    known = {
        name: m.LedgerCase(*(value if isinstance(value, tuple) else (value, runs)))
        for name, value in cases.items()
    }
    return m.Ledger(known, runs, **{**BOUND, **changes})


def check(
    now: m.Ledger, then: m.Ledger | None = None, budget: int = 0, least: int = 5, today: str = TODAY
) -> m.LedgerReport:
    return m.check_ledger(now, then, budget=budget, least=least, today=today)


def decided(report: m.LedgerReport, case: str = "c") -> tuple[str, str]:
    return next((d.state, d.decision) for d in report.decisions if d.case == case)


def entry(case: str = "c", until: str = "2026-07-01") -> m.Quarantine:
    return m.Quarantine(case, "ada", "OPS-1", until)


def observed(rows: Iterable[tuple[str, str, bool | None]]) -> m.Ledger:
    return m.build_ledger([m.Observation(*row) for row in rows], "f", "e", "")


class Counting(unittest.TestCase):
    def test_a_case_counts_its_passes_over_its_runs(self) -> None:
        found = observed([("1", "a", True), ("1", "b", False), ("2", "a", False), ("2", "b", False)])
        self.assertEqual({name: case[:2] for name, case in found.cases.items()}, {"a": (1, 2), "b": (0, 2)})
        self.assertEqual(found.runs, 2)

    def test_a_case_seen_twice_in_a_run_passed_only_if_it_passed_both_times(self) -> None:
        for first, second in ((True, False), (False, True)):
            self.assertEqual(observed([("1", "a", first), ("1", "a", second)]).cases["a"][:2], (0, 1))

    def test_an_outage_is_no_verdict_and_no_failure(self) -> None:
        found = observed([("1", "a", True), ("2", "a", None)])
        self.assertEqual((found.cases["a"][:2], found.runs), ((1, 1), 2))

    def test_nothing_observed_is_refused(self) -> None:
        with self.assertRaisesRegex(m.UsageError, "nothing to evaluate"):
            observed([])

    def test_every_sample_of_a_run_is_a_run_and_golden_cases_are_not(self) -> None:
        run = builders.run([builders.case("a", "110e", critical=True), builders.case("g", "1", golden=True)])
        found = m.build_ledger(m.run_observations(run, "r"), "f", "e", "")
        self.assertEqual({name: case[:3] for name, case in found.cases.items()}, {"a": (2, 3, True)})
        self.assertEqual(found.runs, 4)
        self.assertEqual(decided(check(found, least=3), "a"), ("runs missing", m.BLOCK))


class DecisionTable(unittest.TestCase):
    def test_the_row_of_every_result(self) -> None:
        for passes, critical, state, decision in (
            (5, False, "stable-pass", m.MERGE),
            (5, True, "stable-pass", m.MERGE),
            (0, False, "stable-fail", m.BLOCK),
            (0, True, "stable-fail", m.BLOCK),
            (4, False, MIXED, m.QUARANTINE),
            (3, False, MIXED, m.QUARANTINE),  # exactly 0.6, in integers
            (3, True, MIXED, m.BLOCK),
            (2, False, "flaky, mostly failing", m.BLOCK),
            (1, True, "flaky, mostly failing", m.BLOCK),
        ):
            with self.subTest(passes=passes, critical=critical):
                report = check(ledger({"c": (passes, 5, critical)}), budget=1)
                self.assertEqual(decided(report), (state, decision))
                self.assertEqual(report.decision, m.BLOCK if decision == m.BLOCK else m.MERGE)

    def test_three_fifths_is_compared_exactly_at_any_number_of_runs(self) -> None:
        for passes, runs, decision in ((18, 30, m.QUARANTINE), (17, 30, m.BLOCK), (6, 10, m.QUARANTINE)):
            self.assertEqual(decided(check(ledger({"c": passes}, runs), budget=1))[1], decision)

    def test_too_few_runs_are_no_evidence(self) -> None:
        for runs, least, state in ((1, 5, "too few runs"), (4, 5, "too few runs"), (3, 3, "stable-pass")):
            self.assertEqual(decided(check(ledger({"c": runs}, runs), least=least))[0], state)

    def test_a_case_that_some_runs_lack_blocks(self) -> None:
        report = check(ledger({"c": (5, 5), "d": 6}, 6))
        self.assertEqual(decided(report), ("runs missing", m.BLOCK))
        self.assertEqual(report.decision, m.BLOCK)

    def test_a_case_of_the_baseline_that_this_ledger_lacks_blocks(self) -> None:
        report = check(ledger({"d": 5}), ledger({"c": 5, "d": 5}))
        self.assertEqual((decided(report), report.decision), (("missing", m.BLOCK), m.BLOCK))

    def test_a_known_gap_is_listed_and_merged_but_never_a_critical_one(self) -> None:
        then = ledger({"c": 0, "k": (0, 5, True)})
        report = check(ledger({"c": 0, "k": (0, 5, True)}), then)
        self.assertEqual(decided(report, "c"), ("stable-fail", m.MERGE))
        self.assertEqual(decided(report, "k"), ("stable-fail", m.BLOCK))
        self.assertIn("known gap", next(d.reason for d in report.decisions if d.case == "c"))

    def test_a_case_that_ever_passed_in_the_baseline_is_no_known_gap(self) -> None:
        self.assertEqual(decided(check(ledger({"c": 0}), ledger({"c": 1})))[1], m.BLOCK)

    def test_five_green_runs_show_a_rate_of_at_least_0_57_and_the_report_says_so(self) -> None:
        # Wilson 1927: n / (n + z**2) for n of n.
        z = 1.959963984540054
        interval = check(ledger({"c": 5})).decisions[0].interval
        assert interval is not None
        self.assertAlmostEqual(interval.low, 5 / (5 + z * z), places=12)
        self.assertIn("at least 0.57", " ".join(check(ledger({"c": 5})).notes))

    def test_a_missing_baseline_is_said(self) -> None:
        self.assertIn("no baseline ledger", " ".join(check(ledger({"c": 5})).notes))


class Budget(unittest.TestCase):
    def test_flaky_cases_without_an_entry_count_against_the_budget(self) -> None:
        now = ledger({"a": 4, "b": 3, "c": 5})
        for budget, decision in ((0, m.BLOCK), (1, m.BLOCK), (2, m.MERGE)):
            self.assertEqual(check(now, budget=budget).decision, decision)
        waived = ledger({"a": 4, "b": 3, "c": 5}, quarantine=(entry("a"), entry("b")))
        self.assertEqual(check(waived).decision, m.MERGE)

    def test_a_budget_of_zero_meets_a_mixed_case_in_63_percent_of_such_ledgers(self) -> None:
        # 20 cases that pass 99 % of the time, five runs each: 1 - (0.99**5 + 0.01**5)**20.
        blocked = {k: check(ledger({"c": k}), budget=0).decision == m.BLOCK for k in range(1, 5)}
        self.assertEqual(set(blocked.values()), {True})
        mixed = sum(comb(5, k) * 0.99**k * 0.01 ** (5 - k) for k in blocked)
        self.assertAlmostEqual(1 - (1 - mixed) ** 20, 0.634, places=3)


class Quarantined(unittest.TestCase):
    def test_an_entry_waives_mixed_results_only(self) -> None:
        for passes, decision in ((4, m.QUARANTINE), (3, m.QUARANTINE), (2, m.BLOCK), (0, m.BLOCK)):
            with self.subTest(passes=passes):
                report = check(ledger({"c": passes}), ledger({"c": 4}, quarantine=(entry(),)))
                self.assertEqual(decided(report)[1], decision)
                self.assertEqual(report.decision == m.MERGE, decision == m.QUARANTINE)

    def test_past_its_expiry_it_blocks_and_the_day_itself_is_within(self) -> None:
        for until, decision in (("2026-06-14", m.BLOCK), (TODAY, m.QUARANTINE)):
            report = check(ledger({"c": 4}, quarantine=(entry(until=until),)))
            self.assertEqual(decided(report)[1], decision)

    def test_it_waives_no_critical_case(self) -> None:
        report = check(ledger({"c": (4, 5, True)}, quarantine=(entry(),)))
        self.assertEqual(decided(report)[1], m.BLOCK)

    def test_the_report_names_owner_ticket_and_expiry(self) -> None:
        reason = check(ledger({"c": 4}, quarantine=(entry(),))).decisions[0].reason
        for word in ("ada", "OPS-1", "2026-07-01"):
            self.assertIn(word, reason)

    def test_leaving_it_needs_29_runs_without_a_failure(self) -> None:
        # A case that fails one run in ten would have shown in 29 runs: 0.9**29 = 0.047.
        for runs, said in ((5, True), (28, True), (29, False)):
            reason = check(ledger({"c": runs}, runs, quarantine=(entry(),))).decisions[0].reason
            self.assertEqual("29" in reason, said, reason)
        self.assertLess(0.9**29, 0.05)
        self.assertGreater(0.9**28, 0.05)


class Binding(unittest.TestCase):
    def test_no_binding_at_all_blocks(self) -> None:
        for key in BOUND:
            report = check(ledger({"c": 5}, **{**BOUND, key: None}))
            self.assertEqual(report.decision, m.BLOCK)
            self.assertIn(f"bound to no {key}", " ".join(report.blocks))

    def test_other_fixtures_or_another_endpoint_block(self) -> None:
        for key in BOUND:
            report = check(ledger({"c": 5}), ledger({"c": 5}, **{**BOUND, key: "other"}))
            self.assertEqual(report.decision, m.BLOCK)
            self.assertIn(f"{key} changed", " ".join(report.blocks))
        self.assertEqual(check(ledger({"c": 5}), ledger({"c": 5})).decision, m.MERGE)

    def test_the_endpoint_names_host_requested_and_served_model(self) -> None:
        run = builders.run([builders.case("a", "1", model="served-1")], endpoint="http://api.example.com/v1")
        for word in ("api.example.com", "model", "served-1"):
            self.assertIn(word, m.run_endpoint(run))
        self.assertIn("unknown", m.run_endpoint(builders.run([builders.case("a", "1")])))


class Adaptive(unittest.TestCase):
    """The sampling rule by exact enumeration over (passes, runs), not by simulation."""

    @staticmethod
    def ends(rate: float) -> dict[tuple[int, int], float]:
        """Chance of every place where sampling a case with this pass rate stops."""
        live, ends, n = {0: 1.0}, {}, 0
        step = [comb(5, k) * rate**k * (1 - rate) ** (5 - k) for k in range(6)]
        while live:
            n += m.ADAPTIVE_STEP
            reached: dict[int, float] = {}
            for passes, chance in live.items():
                for k, weight in enumerate(step):
                    reached[passes + k] = reached.get(passes + k, 0.0) + chance * weight
            stops = {k for k in reached if n >= m.ADAPTIVE_MOST or m.settled(m.LedgerCase(k, n))}
            ends.update({(k, n): reached[k] for k in stops})
            live = {k: chance for k, chance in reached.items() if k not in stops}
        return ends

    @staticmethod
    def quarantined(passes: int, runs: int) -> bool:
        return decided(check(ledger({"c": passes}, runs), budget=1))[1] == m.QUARANTINE

    def test_all_alike_is_settled_at_once_and_fewer_than_five_never(self) -> None:
        for passes, runs, settled in (
            (5, 5, True),
            (0, 5, True),
            (3, 5, False),
            (4, 4, False),
            (0, 3, False),
        ):
            self.assertEqual(m.settled(m.LedgerCase(passes, runs)), settled)

    def test_five_runs_quarantine_a_40_percent_case_in_31_percent_of_ledgers(self) -> None:
        chance = sum(comb(5, k) * 0.4**k * 0.6 ** (5 - k) for k in range(6) if self.quarantined(k, 5))
        self.assertAlmostEqual(chance, 0.3072, places=4)

    def test_adaptively_it_is_2_4_percent(self) -> None:
        ends = self.ends(0.4)
        self.assertAlmostEqual(sum(ends.values()), 1.0, places=12)
        chance = sum(weight for (k, n), weight in ends.items() if self.quarantined(k, n))
        self.assertAlmostEqual(chance, 0.024, places=3)

    def test_a_mixed_case_takes_about_15_runs(self) -> None:
        means = []
        for rate in (0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9):
            mixed = {(k, n): weight for (k, n), weight in self.ends(rate).items() if 0 < k < n}
            means.append(sum(weight * n for (_, n), weight in mixed.items()) / sum(mixed.values()))
        self.assertAlmostEqual(sum(means) / len(means), 15, delta=1)

    def test_no_case_takes_more_than_thirty(self) -> None:
        self.assertEqual(max(n for _, n in self.ends(0.6)), 30)


class Sources(unittest.TestCase):
    def verdicts(self, *names: str) -> dict[str, bool | None]:
        rows = [row for name in names for row in m.parse_junit((JUNIT / name).read_text("utf-8"), "r")]
        return {row.case: row.passed for row in rows}

    def test_the_report_of_pytest(self) -> None:
        suite = "test_assistant"
        self.assertEqual(
            self.verdicts("pytest.xml"),
            {
                f"{suite}.TestContract::test_port": True,
                f"{suite}.TestContract::test_incident_json": False,
                f"{suite}.TestContract::test_severity[SEV1]": True,
                f"{suite}.TestContract::test_severity[SEV-2]": False,
                f"{suite}::test_needs_the_endpoint": None,  # an error in a fixture
                f"{suite}::test_with_a_key": None,  # skipped
                f"{suite}::test_known_gap": None,  # xfail
            },
        )

    def test_the_report_of_vitest(self) -> None:
        found = self.verdicts("vitest.xml")
        of_file = "assistant.test.mjs::contract > "
        self.assertEqual((found[of_file + "port"], found[of_file + "throws"]), (True, False))
        self.assertEqual((found[of_file + "incident json"], found[of_file + "with a key"]), (False, None))

    def test_the_report_of_jest(self) -> None:
        found = {case.partition("::")[2]: passed for case, passed in self.verdicts("jest.xml").items()}
        self.assertEqual(
            found,
            {
                "contract port": True,
                "contract incident json": False,
                "contract with a key": None,
                "contract throws": False,
            },
        )

    def test_the_report_of_go(self) -> None:
        found = {case.partition("::")[2]: passed for case, passed in self.verdicts("go.xml").items()}
        self.assertEqual(
            found,
            {
                "TestPort": True,
                "TestIncidentJSON": False,
                "TestSeverity": False,
                "TestSeverity/SEV1": True,
                "TestSeverity/SEV-2": False,
                "TestPanics": False,
                "TestWithAKey": None,
            },
        )

    def test_the_reports_of_surefire_with_reruns(self) -> None:
        names = ("surefire/TEST-assistant.ContractTest.xml", "surefire/TEST-assistant.LabelTest.xml")
        self.assertEqual(
            self.verdicts(*names),
            {
                "assistant.ContractTest::port": True,
                "assistant.ContractTest::incidentJson": False,
                "assistant.ContractTest::mendedByARerun": False,
                "assistant.ContractTest::throwsInstead": False,  # an error, and errors again
                "assistant.ContractTest::withAKey": None,
                "assistant.LabelTest::severity": True,
            },
        )

    def test_a_test_that_passed_only_when_run_again_failed(self) -> None:
        rows = m.parse_junit((JUNIT / "go-rerun.xml").read_text("utf-8"), "r")
        found = m.build_ledger(rows, "f", "e", "").cases
        self.assertEqual(found["example.com/assistant::TestMendedByARerun"][:2], (0, 1))
        self.assertEqual(found["example.com/assistant::TestPort"][:2], (1, 1))

    def test_no_junit_file_is_refused_by_name_of_what_is_wrong(self) -> None:
        for text, words in (
            ("<testsuites/>", "no testcase"),
            ("<testsuites><testcase", "not XML"),
            ('<!DOCTYPE x [<!ENTITY a "b">]><testsuites/>', "document type"),
        ):
            with self.assertRaisesRegex(m.UsageError, words):
                m.parse_junit(text, "r")

    def test_a_log_row_needs_run_case_and_passed_and_the_line_is_named(self) -> None:
        good = '{"run": "1", "case": "a", "passed": true}'
        self.assertEqual([row[:3] for row in m.parse_run_log(good + "\n\n")], [("1", "a", True)])
        for bad in ('{"run": "1", "case": "a"}', '{"run": "1", "case": "a", "passed": 1}', "{", "[]"):
            with self.subTest(bad=bad), self.assertRaisesRegex(m.UsageError, "line 2"):
                m.parse_run_log(good + "\n" + bad)


class LedgerCommands(helpers.RunTestCase):
    """The actions of `ledger`, through main."""

    def setUp(self) -> None:
        super().setUp()
        self.now, self.base = self.path("model-ledger.json"), self.path("baseline.json")

    def log(self, name: str = "runs.jsonl", **marks: str) -> str:
        rows = [
            {"run": f"r{index}", "case": case, "passed": mark == "1"}
            for case, of_case in marks.items()
            for index, mark in enumerate(of_case)
        ]
        (self.folder / name).write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
        return self.path(name)

    def build(self, *sources: str, out: str = "", **marks: str) -> helpers.Result:
        sources = sources or (self.log(**marks),)
        named = ("--endpoint", "app 1", "--fixtures", self.fixture())
        return helpers.run("ledger", "build", *sources, "--out", out or self.now, *named)

    def fixture(self, text: str | None = None) -> str:
        path = self.folder / "fixture.txt"
        if text is not None or not path.exists():
            path.write_text(text or "as it was", "utf-8")
        return str(path)

    def check(self, *more: str, **parts: Any) -> helpers.Result:
        return helpers.run("ledger", "check", "--ledger", self.now, *more, **parts)

    def quarantine(self, case: str = "flaky", until: str = "2027-01-31", **changes: str) -> helpers.Result:
        flags = {"owner": "ada", "ticket": "OPS-7", "until": until, **changes}
        words = [word for key, value in flags.items() for word in (f"--{key}", value)]
        return helpers.run("ledger", "quarantine", case, "--ledger", self.now, *words)

    def rebaseline(self, reason: str = "first ledger") -> helpers.Result:
        words = ("--ledger", self.now, "--baseline", self.base, "--reason", reason)
        return helpers.run("ledger", "rebaseline", *words)

    def test_build_and_check_a_log(self) -> None:
        self.assert_says(self.build(steady="11111", flaky="11011", broken="00000"), 0, "3 cases, 5 runs")
        self.assert_says(
            self.check("--flaky-budget", "1"), 1, "steady", "stable-pass", "4 of 5", "stable-fail", "BLOCK"
        )
        self.build(steady="11111")
        self.assert_says(self.check(), 0, "MERGE")

    def test_sources_mix_and_every_junit_file_is_a_run(self) -> None:
        self.build(self.log(a="1"), str(JUNIT / "vitest.xml"), str(JUNIT / "pytest.xml"))
        document = self.document("model-ledger.json")
        self.assertEqual(document["runs"], 3)
        self.assertEqual(document["cases"]["a"]["rate"], 1.0)

    def test_a_report_twice_is_one_run(self) -> None:
        self.build(str(JUNIT / "vitest.xml"), str(JUNIT / "vitest.xml"))
        self.assertEqual(self.document("model-ledger.json")["runs"], 1)

    def test_the_budget_comes_from_the_flag_or_the_environment(self) -> None:
        self.build(flaky="11011", steady="11111")
        for words, environ, code in (
            ((), {}, 1),
            ((), {"FLAKY_BUDGET": "1"}, 0),
            (("--flaky-budget", "0"), {"FLAKY_BUDGET": "1"}, 1),
            ((), {"FLAKY_BUDGET": "some"}, 2),
        ):
            self.assert_says(self.check(*words, environ=environ), code)

    def test_a_quarantine_entry_waives_a_mixed_case_until_its_day(self) -> None:
        self.build(flaky="11011", steady="11111")
        self.assert_says(self.quarantine(), 0)
        self.assert_says(self.check(), 0, "OPS-7", "ada", "2027-01-31")

    def test_a_quarantine_entry_needs_owner_ticket_a_coming_day_and_a_known_case(self) -> None:
        self.build(flaky="11011")
        for changes in ({"owner": ""}, {"ticket": ""}, {"until": "soon"}, {"until": "2026-02-30"}):
            self.assert_says(self.quarantine(**changes), 2)
        self.assert_says(self.quarantine(until="2026-11-29"), 2, "past")
        self.assert_says(self.quarantine("flakey"), 2, "flaky")

    def test_reports_in_every_form(self) -> None:
        self.build(steady="11111", flaky="11011", broken="00000")
        junit, markdown = self.path("l.xml"), self.path("l.md")
        found = self.check("--json", "--junit", junit, "--markdown", markdown)
        document = json.loads(found.out)
        self.assertEqual((found.code, document["decision"]), (1, "block"))
        by_case = {case["case"]: case for case in document["cases"]}
        self.assertEqual(by_case["flaky"]["state"], MIXED)
        self.assertEqual(len(by_case["flaky"]["interval"]), 2)
        cases = {c.get("name"): c for c in ElementTree.parse(junit).iter("testcase")}
        self.assertIn("4 of 5", ElementTree.tostring(cases["flaky"], "unicode"))
        self.assertIsNotNone(cases["broken"].find("failure"))
        self.assertIsNotNone(cases["flaky"].find("skipped"))
        text = Path(markdown).read_text("utf-8")
        self.assertIn("| broken | 0 of 5 |", text)

    def test_in_actions_the_table_is_appended_to_the_step_summary(self) -> None:
        self.build(steady="11111")
        summary = self.folder / "summary.md"
        summary.write_text("before\n", "utf-8")
        self.check(environ={"GITHUB_ACTIONS": "true", "GITHUB_STEP_SUMMARY": str(summary)})
        text = summary.read_text("utf-8")
        self.assertTrue(text.startswith("before\n"))
        self.assertIn("stable-pass", text)

    def test_rebaseline_records_old_and_new_and_only_appends(self) -> None:
        self.build(steady="11111", flaky="11011")
        self.assert_says(self.rebaseline(), 0)
        self.build(steady="11111", flaky="11111")
        self.assert_says(self.rebaseline("the retry bug is mended"), 0)
        lines = Path(self.base + ".decisions.jsonl").read_text("utf-8").splitlines()
        first, second = map(json.loads, lines)
        self.assertEqual(first["cases"]["flaky"], {"old": None, "new": "4 of 5"})
        self.assertEqual(second["cases"], {"flaky": {"old": "4 of 5", "new": "5 of 5"}})
        self.assertEqual(second["reason"], "the retry bug is mended")
        self.assertTrue(second["who"] and second["when"] and second["environment"]["python"])

    def test_rebaseline_without_a_reason_changes_nothing(self) -> None:
        self.build(steady="11111")
        for reason in ("", "  \n"):
            self.assert_says(self.rebaseline(reason), 2, "reason")
        self.assertFalse(Path(self.base).exists())

    def test_changed_fixture_files_block_until_rebaselined(self) -> None:
        self.build(steady="11111", flaky="11011")
        self.rebaseline()
        self.fixture("as it is now")
        self.build(steady="11111", flaky="11011")
        self.assert_says(self.check("--baseline", self.base), 1, "fixtures changed")
        self.rebaseline("the fixture was mended")
        found = self.check("--baseline", self.base)
        self.assert_says(found, 1, "flaky")
        self.assertNotIn("fixtures changed", found.out)

    def test_a_foreign_log_without_a_binding_blocks(self) -> None:
        helpers.run("ledger", "build", self.log(steady="11111"), "--out", self.now)
        self.assert_says(self.check(), 1, "bound to no fixtures", "bound to no endpoint")

    def test_bad_input_is_exit_2_naming_the_file(self) -> None:
        (self.folder / "empty.jsonl").write_text("\n", "utf-8")
        (self.folder / "cut.json").write_text('{"schema": "minieval/ledger/1", "cases"', "utf-8")
        self.assert_says(self.build(self.path("empty.jsonl")), 2, "nothing to evaluate")
        self.assert_says(self.build(self.path("absent.xml")), 2, "absent.xml")
        self.now = self.path("cut.json")
        self.assert_says(self.check(), 2, "cut.json")

    # --- ledger sample

    def sample(self, *words: str, script: dict[str, str], **parts: Any) -> helpers.Result:
        (self.folder / "script.json").write_text(json.dumps(script), "utf-8")
        command = (sys.executable, "-S", "-c", COMMAND, self.path("script.json"))
        named = ("--endpoint", "app 1", "--fixtures", self.fixture())
        return helpers.run("ledger", "sample", *words, "--out", self.now, *named, "--", *command, **parts)

    def counts(self) -> dict[str, tuple[int, int]]:
        cases = self.document("model-ledger.json")["cases"]
        return {name: (case["passes"], case["runs"]) for name, case in cases.items()}

    def test_sample_runs_a_command_n_times(self) -> None:
        self.assert_says(self.sample("--runs", "3", script={"a": "1", "b": "101"}), 0, "3 runs")
        self.assertEqual(self.counts(), {"a": (3, 3), "b": (2, 3)})

    def test_sample_runs_come_from_the_environment(self) -> None:
        self.sample(script={"a": "1"}, environ={"SAMPLE_RUNS": "2"})
        self.assertEqual(self.counts(), {"a": (2, 2)})

    def test_adaptive_sampling_stops_at_once_when_all_runs_are_alike(self) -> None:
        self.sample("--adaptive", script={"a": "1", "b": "0"})
        self.assertEqual(self.counts(), {"a": (5, 5), "b": (0, 5)})

    def test_adaptive_sampling_goes_on_while_a_case_is_mixed(self) -> None:
        self.sample("--adaptive", script={"a": "1", "b": "01000"})  # 1 of 5, then 2 of 10
        (passes, runs), steady = self.counts()["b"], self.counts()["a"]
        self.assertTrue(m.settled(m.LedgerCase(passes, runs)))
        self.assertFalse(runs > 5 and m.settled(m.LedgerCase(1, 5)))
        self.assertEqual((runs % 5, steady), (0, (runs, runs)))

    def test_a_command_that_logs_nothing_is_refused_and_a_case_that_runs_lack_blocks(self) -> None:
        self.assert_says(self.sample("--runs", "1", script={}), 2, "wrote nothing")
        self.sample("--runs", "3", script={"a": "1", "b": "11-"})
        self.assert_says(self.check("--min-runs", "2"), 1, "runs missing")

    def test_sample_needs_a_command(self) -> None:
        self.assert_says(helpers.run("ledger", "sample", "--out", self.now), 2, "needs a command")

    def test_a_folder_of_reports_is_one_run_as_surefire_writes_a_file_a_class(self) -> None:
        self.build(str(JUNIT / "surefire"))
        self.assertEqual(self.document("model-ledger.json")["runs"], 1)
        self.assertEqual(self.counts()["assistant.LabelTest::severity"], (1, 1))
        (self.folder / "empty").mkdir()
        self.assert_says(self.build(self.path("empty")), 2, "holds no JUnit XML")

    def test_a_case_is_expected_in_every_run_of_its_own_kind_only(self) -> None:
        self.build(self.log(a="11111", b="1111"), str(JUNIT / "vitest.xml"))
        cases = {c["case"]: c for c in json.loads(self.check("--min-runs", "1", "--json").out)["cases"]}
        self.assertEqual(cases["a"]["state"], "stable-pass")
        self.assertEqual(cases["b"]["state"], "runs missing")
        self.assertEqual(cases["assistant.test.mjs::contract > port"]["state"], "stable-pass")

    def test_rebaseline_keeps_one_entry_a_case(self) -> None:
        self.build(flaky="11011")
        self.quarantine()
        self.rebaseline()
        self.rebaseline()
        self.assertEqual(len(self.document("baseline.json")["quarantine"]), 1)

    # For class DecisionTable and class Quarantined.

    def test_a_case_is_critical_if_either_ledger_says_so(self) -> None:
        for passes in (0, 4):
            report = check(ledger({"c": passes}), ledger({"c": (passes, 5, True)}), budget=1)
            self.assertEqual(decided(report)[1], m.BLOCK)

    def test_an_entry_past_its_expiry_blocks_even_five_green_runs_and_29_have_left_it(self) -> None:
        for runs, decision in ((5, m.BLOCK), (29, m.MERGE)):
            past = (entry(until="2026-06-14"),)
            self.assertEqual(decided(check(ledger({"c": runs}, runs, quarantine=past)))[1], decision)

    # For class Binding.

    def test_a_port_is_no_part_of_the_binding(self) -> None:
        ends = {m.run_endpoint(builders.run([], endpoint=f"http://127.0.0.1:{p}/v1")) for p in (8001, 8002)}
        self.assertEqual(len(ends), 1)


class FiveRunsOfTheShippedSuite(helpers.RunTestCase):
    """What issue 5 asks to be shown: ops-v1 on the stub, five runs, as the answers dictate."""

    def setUp(self) -> None:
        super().setUp()
        self.now, self.base = self.path("model-ledger.json"), self.path("baseline.json")
        suite = m.load_suite(helpers.OPS)
        known = json.loads(Path(helpers.ANSWERS).read_text("utf-8"))["models"]
        self.stub = self.serve_script(helpers.Script(suite, known, ()))

    def sampled(self, model: str = "ops-v1", suite: str = helpers.OPS) -> None:
        """Asks five times and builds the ledger."""
        options = ("--model", model, "--judge", "keyword", "--samples", "5", "-q")
        self.assert_says(self.ask(suite, self.stub, *options), 0)
        self.assert_says(helpers.run("ledger", "build", self.path("r.json"), "--out", self.now), 0)

    def check(self, *more: str) -> tuple[int, str, dict[str, tuple[str, str]]]:
        found = helpers.run("ledger", "check", "--ledger", self.now, "--json", *more)
        document = json.loads(found.out)
        cases = {case["case"]: (case["state"], case["decision"]) for case in document["cases"]}
        return found.code, "\n".join(document["blocks"]), cases

    def rebaseline(self) -> None:
        words = ("--ledger", self.now, "--baseline", self.base, "--reason", "asked for by the test")
        self.assert_says(helpers.run("ledger", "rebaseline", *words), 0)

    def edited_suite(self) -> str:
        document = json.loads(Path(helpers.OPS).read_text("utf-8"))
        case = next(c for c in document["cases"] if c["id"] == "severity-label")
        case["assert"].append({"type": "max-chars", "value": 500})
        (self.folder / "edited.json").write_text(json.dumps(document), "utf-8")
        return self.path("edited.json")

    def test_states_are_as_the_sampled_answers_dictate(self) -> None:
        self.sampled()
        code, blocks, cases = self.check()
        self.assertEqual(code, 1)
        self.assertEqual(cases["port"], ("stable-pass", m.MERGE))
        self.assertEqual(cases["usable-hosts"], ("stable-fail", m.BLOCK))
        self.assertEqual(cases["leaked-key"], ("flaky, mostly failing", m.BLOCK))  # critical, 1 of 5
        self.assertEqual(cases["crashloop-first-step"], (MIXED, m.QUARANTINE))  # 3 of 5
        self.assertIn("without a quarantine entry", blocks)
        self.assertNotIn("without a quarantine entry", self.check("--flaky-budget", "1")[1])

    def test_a_ticket_keeps_the_mixed_case_out_of_the_budget(self) -> None:
        self.sampled()
        words = ("--owner", "ada", "--ticket", "OPS-9", "--until", "2027-01-31")
        helpers.run("ledger", "quarantine", "crashloop-first-step", "--ledger", self.now, *words)
        code, blocks, _ = self.check()
        self.assertEqual(code, 1)
        self.assertNotIn("without a quarantine entry", blocks)

    def test_changed_fixture_and_model_block_until_rebaselined_and_the_rest_stands(self) -> None:
        self.sampled("ops-v2-improved")
        self.rebaseline()
        self.assertEqual(self.check("--baseline", self.base)[0], 0)  # usable-hosts is a known gap
        self.sampled("ops-v1", self.edited_suite())
        _, before, _ = self.check("--baseline", self.base)
        for words in ("fixtures changed", "endpoint changed", "ops-v2-improved", "leaked-key"):
            self.assertIn(words, before)
        self.rebaseline()
        code, after, cases = self.check("--baseline", self.base)
        self.assertEqual(code, 1)
        self.assertNotIn("changed", after)
        self.assertIn("leaked-key", after)
        self.assertIn("without a quarantine entry", after)
        self.assertEqual(cases["incident-json"], ("stable-fail", m.MERGE))


if __name__ == "__main__":
    unittest.main()
