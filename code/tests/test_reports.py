"""Reports: what people and their tools read, and model text that can act on neither."""

from __future__ import annotations

import datetime
import html
import io
import random
import re
import sys
import tempfile
import unittest
from pathlib import Path
from typing import Any
from unittest import mock
from xml.etree import ElementTree

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import main as m
from builders import JUDGE, KEYWORD, TODAY, beside, case, flips, gate, run, sample

HOSTILE = "\x1b[31mred\x1b[0m \x00\x0b\x1f\ud83d\u202e]]> & <b> \"q\" 'a'\n::error::gone\r\n##[group]x"
LONG = "word " * 600 + "the end"


def hostile_gate() -> m.GateReport:
    """A gate in which every text that a model or a suite can choose is hostile."""
    failed = (m.AssertionResult("equals", False, HOSTILE),)
    old = case(HOSTILE, "1", output=HOSTILE, critical=True, tags=(HOSTILE,), why=HOSTILE)
    new = old._replace(samples=(sample(0, "0", output=HOSTILE, assertions=failed, model=HOSTILE),))
    skipped = case("skipped", "", skip=HOSTILE)
    before, after = beside(old, new)
    return gate((before, after._replace(model=HOSTILE, suite_name=HOSTILE, cases=(*after.cases, skipped))))


def parsed(text: str) -> ElementTree.Element:
    """The XML as a reader of the written file sees it."""
    return ElementTree.fromstring(text.encode("utf-8"))


def found(root: ElementTree.Element, path: str) -> ElementTree.Element:
    """The first element at a path."""
    return root.findall(path)[0]


class GateText(unittest.TestCase):
    def test_the_verdict_is_the_last_line_and_plain(self) -> None:
        for report, last in (
            (gate(flips(6, 0, 20)), "REJECT (quality: regressed)"),
            (gate(flips(0, 6, 20)), "ACCEPT (quality: improved)"),
            (gate(flips(0, 6, 20), max_total_cost_usd=0), "REJECT (quality: improved)"),
            (
                gate(flips(0, 0, 20), non_inferiority_margin=0.1),
                "INCONCLUSIVE (quality: no significant difference)",
            ),
            (hostile_gate(), "REJECT (quality: no significant difference)"),
        ):
            with self.subTest(last):
                self.assertEqual(m.render_gate(report).split("\n")[-2:], [last, ""])

    def test_both_answers_of_a_flip_stand_in_the_text_with_the_reason(self) -> None:
        text = m.render_gate(gate(flips(6, 0, 20)))
        for line in ("20 pairs: 6 regressed, 0 improved, 14 unchanged", "p = 0.0312", "read 'x'", "  c5"):
            self.assertIn(line, text)
        self.assertEqual(text.count("    baseline   'x'"), 6)
        self.assertIn("(critical)", m.render_gate(hostile_gate()))

    def test_what_this_suite_can_see_stands_in_the_first_lines(self) -> None:
        # issue 4: at 20 cases a 20-point drop is accepted 80 % of the time, nothing under 37 is seen
        head = " ".join(m.render_gate(gate(flips(0, 0, 20))).split("\n")[:8])
        self.assertRegex(head, r"20-point drop is accepted 80%")
        self.assertIn("37 points", head)

    def test_lines_fit_a_terminal_wherever_their_words_do(self) -> None:
        answers = (LONG, "line one\nline two\n" * 20, "é" * 300, "\u4e2d\u6587" * 100, "\x1b[0m" * 80, "a b")
        reports = [
            gate(beside(*(case("port", mark, output=text, why=LONG) for mark in "10"))) for text in answers
        ]
        named = reports[0].candidate._replace(
            model="organisation/a-model-with-a-long-name-2026-06-15-instruct"
        )
        reports += [gate((reports[0].baseline, named)), gate(flips(7, 0, 200), min_effect=0.5)]
        texts = [m.render_gate(report) for report in reports]
        texts += [m.render_gates(reports[-2:])]
        texts += [
            m.render_run(named._replace(cases=(*named.cases, case("s", "", skip=LONG)), incomplete=LONG))
        ]
        for number, text in enumerate(texts):
            for line in text.split("\n"):
                with self.subTest(number=number, line=line):
                    self.assertLessEqual(len(line), 80)

    def test_no_text_acts_on_a_terminal_or_a_runner(self) -> None:
        report = hostile_gate()
        for text in (m.render_gate(report), m.render_gates([report, report]), m.render_run(report.candidate)):
            self.assertTrue(text.replace("\n", "").isprintable())
            shown = [m.neutral_line(line) for line in text.split("\n")]
            self.assertFalse([line for line in shown if line.lstrip().startswith(("::", "##["))])

    def test_several_candidates_end_in_a_table_of_one_line_each(self) -> None:
        reports = [gate(flips(6, 0, 20)), gate(flips(0, 6, 20))]
        last = m.render_gates(reports).split("\n")[-3:]
        self.assertTrue(last[0].startswith("REJECT") and last[0].endswith("regressed"), last)
        self.assertTrue(last[1].startswith("ACCEPT") and last[1].endswith("improved"), last)
        self.assertEqual(m.render_gates(reports[:1]), m.render_gate(reports[0]))

    def test_p_shows_its_side_of_alpha_and_is_never_zero(self) -> None:
        # D07
        for p, alpha, text in (
            (0.04990150189, 0.05, "p = 0.0499"),
            (0.05006676549, 0.05, "p = 0.0501"),
            (0.04998317639, 0.05, "p = 0.04998"),
            (0.05, 0.05, "p = 0.0500"),
            (4.5e-23, 0.05, "p < 0.0001"),
            (1.0, 0.05, "p = 1.0000"),
        ):
            with self.subTest(p=p):
                self.assertEqual(m.p_text(p, alpha), text)
        rng = random.Random(4)
        for alpha in (0.05, 0.01, 1e-4, 1e-6, 1e-9):
            near = [alpha * (1 + sign * 10**-k) for sign in (-1, 1) for k in range(1, 15)]
            for p in (*near, *(rng.random() * alpha * 2 for _ in range(50)), alpha, 2e-308, 1e-30):
                sign, number = m.p_text(p, alpha).split()[1:]
                with self.subTest(p=p, alpha=alpha, text=number):
                    self.assertGreater(float(number), 0)
                    if sign == "<":
                        self.assertTrue(p < float(number) < alpha)
                    else:
                        self.assertEqual(float(number) < alpha, p < alpha)


class RunText(unittest.TestCase):
    def test_only_failures_are_shown_and_the_count_comes_last(self) -> None:
        text = m.render_run(run([case("good", "1"), case("bad", "0", why="x"), case("worse", "0")]))
        self.assertNotIn("good", text)
        for line in ("  FAIL  bad", "equals: read 'x'", "why: x"):
            self.assertIn(line, text)
        last = text.split("\n")[-2]
        self.assertTrue(last.startswith("1 of 3 cases passed") and "(0.06 to 0.79)" in last, last)

    def test_skips_golden_outages_and_gaps_are_never_silent(self) -> None:
        cases = [case("s", "", skip="later"), case("g", "1", golden=True), case("e", "1e")]
        text = m.render_run(run(cases, incomplete="interrupted", notes=("asked without seed",)))
        for words in ("skip  s: later", "read  g", "ERROR e", "refused", "1 of 2", "interrupted", "seed"):
            self.assertIn(words, text)

    def test_only_cases_without_any_answer_are_told_together(self) -> None:
        cases = [case("a", "e"), case("b", "e"), case("c", "0"), case("half", "1e"), case("too", "1e")]
        skipped = [case(name, "", skip="later") for name in ("s1", "s2")]
        text = m.render_run(run([*cases, *skipped]))
        self.assertIn("  ERROR 2 cases: a, b\n        connection: refused\n", text)
        self.assertEqual(text.count("refused"), 3)
        for words in ("  ERROR half\n", "  ERROR too\n", "  skip  s1: later\n", "  skip  s2: later\n"):
            self.assertIn(words, text)
        self.assertIn("NO RESULT: 4 of 7 samples asked have no answer; so far 0 of 5 cases passed", text)
        self.assertIn("  ERROR a\n", m.render_run(run(cases[:1])))

    def test_an_incomplete_run_without_an_error_is_no_result_either(self) -> None:
        text = m.render_run(run([case("a", "1"), case("b", "")], incomplete="interrupted"))
        self.assertIn(
            "incomplete: interrupted; 1 case without a result\nNO RESULT: 0 of 1 sample asked", text
        )

    def test_only_figures_that_there_are_are_shown(self) -> None:
        rubric = (m.AssertionResult("rubric", True, ""),)
        paid = m.render_run(run([case("a", "1", judge_cost_usd=0.5, assertions=rubric)], judge=JUDGE))
        self.assertIn("1 sample a case, judge judge-v1\n", paid)
        for words in (
            "p95 latency 100 ms, cost $0.001000 per call, $0.001000 in all",
            "judge cost $0.500000",
        ):
            self.assertIn(words, paid)
        free = m.render_run(run([case("a", "1", judge_cost_usd=0.0, assertions=rubric)], judge=KEYWORD))
        self.assertNotIn("judge cost", free)
        self.assertNotIn("p95", m.render_run(run([case("a", "e")])))

    def test_several_samples_show_k_of_n_with_an_interval(self) -> None:
        text = m.render_run(run([case("a", "11100")]))
        for words in ("3 of 5 passed (0.23 to 0.88)", "pass@1 0.600 over 5 samples"):
            self.assertIn(words, text)
        self.assertNotIn("pass@1", m.render_run(run([case("a", "1"), case("b", "0")])))


class JUnit(unittest.TestCase):
    def test_counts_stand_on_both_levels_and_skips_are_inside_tests(self) -> None:
        # C04, C09
        cases = [case("p", "1"), case("f", "0"), case("e", "e"), case("e2", "e"), case("s", "", skip="later")]
        root = parsed(m.render_run_junit(run([*cases, case("g", "1", golden=True)])))
        for element in (root, root[0]):
            counts = [element.get(key) for key in ("tests", "failures", "errors", "skipped")]
            self.assertEqual(counts, ["6", "1", "2", "2"])
        children = [[(child.tag, child.get("type")) for child in testcase] for testcase in root[0]]
        self.assertEqual(children[:2], [[], [("failure", "failure")]])
        self.assertTrue(children[2][0][0] == "error" and children[2][0][1])
        self.assertEqual(found(root, ".//skipped").get("message"), "later")

    def test_one_testcase_a_case_whatever_its_samples_and_attempts(self) -> None:
        # C07, C11
        root = parsed(m.render_run_junit(run([case("q1", "110", attempts=3), case("Q1", "1")])))
        names = [str(element.get("name")) for element in root[0]]
        self.assertEqual([name[:2] for name in names], ["q1", "Q1"])
        self.assertEqual(names[0], "q1")
        self.assertRegex(
            str(found(root, ".//failure").get("message")), r"^2 of 3 passed \(0\.\d\d to 0\.\d\d\): "
        )

    def test_names_are_unique_over_the_whole_file(self) -> None:
        # GitLab keeps the first of equal names: a later failure would vanish
        same = [gate(flips(0, 6, 20)), gate(flips(6, 0, 20))]  # two prompts of one model
        odd = run([case("a\x00", "1"), case("a\\x00", "0"), case("minieval gate: model", "1")])
        texts = [m.render_gate_junit(same), m.render_run_junit(odd), m.render_gate_junit([gate((odd, odd))])]
        for number, text in enumerate(texts):
            names = [element.get("name") for element in parsed(text).iter("testcase")]
            with self.subTest(number):
                self.assertEqual(len(names), len(set(names)))

    def test_seconds_have_neither_exponent_nor_comma_nor_none(self) -> None:
        # C06
        cases = [case("a", "1", latency_ms=ms) for ms in (2_120_532.0, 0.01, 0.0, 1e-4, None, 1e11)]
        cases = [c._replace(id=str(i)) for i, c in enumerate(cases)]
        root = parsed(m.render_run_junit(run(cases)))
        times = [element.get("time") for element in root[0]]
        self.assertEqual(times, ["2120.532", "0.000", "0.000", "0.000", "0.000", "100000000.000"])
        self.assertEqual(root.get("time"), "100002120.532")

    def test_nothing_that_xml_forbids_is_written_wherever_it_stands(self) -> None:
        # C01, C03
        every = dict.fromkeys(("suite_name", "suite_path", "model", "started"), HOSTILE)
        cases = (case(HOSTILE, "0", output=HOSTILE, why=HOSTILE), case("s", "", skip=HOSTILE), case("e", "e"))
        hostile = run(cases, **every)
        for text in (m.render_run_junit(hostile), m.render_gate_junit([hostile_gate()])):
            root = parsed(text)
            self.assertIn("\\x1b[31mred", str(found(root, ".//failure").text))
            self.assertFalse(set("\x00\x0b\x1f\x1b") & set(text))
        tabbed = parsed(m.render_run_junit(run([case("c", "0", output="a\tb\nc")])))
        self.assertIn("a\tb\nc", str(found(tabbed, ".//failure").text))

    def test_message_file_and_classname_are_what_their_readers_expect(self) -> None:
        # C12, C14
        detail = 'a\nb "c" <d> & e'
        failing = case("c", "0", assertions=(m.AssertionResult("equals", False, detail),))
        paths = {"suite_path": "evals\\my suite.v2.json", "suite_name": "my suite.v2/x"}
        root = parsed(m.render_run_junit(run([failing], **paths)))
        testcase = root[0][0]
        self.assertEqual(testcase.get("file"), "evals/my suite.v2.json")
        self.assertNotRegex(str(testcase.get("classname")), r"[./\\\s]")
        self.assertEqual(root[0].get("timestamp"), "2026-06-15T08:00:00")
        self.assertIn('b "c" <d> & e', str(testcase[0].get("message")))
        raw = m.render_junit("s", "f", "t", [m.JUnitCase("c", "failure", detail)])
        self.assertEqual(parsed(raw)[0][0][0].get("message"), detail)

    def test_the_declared_encoding_is_the_one_of_the_file(self) -> None:
        # Python 3.9 would declare the locale's; the file is written as UTF-8
        with mock.patch("locale.getpreferredencoding", return_value="cp1252"):
            text = m.render_run_junit(run([case("é", "0")]))
        self.assertRegex(text.split("\n")[0].lower(), r"encoding=.utf-8")

    def test_long_outputs_are_cut_head_and_tail(self) -> None:
        long = "head " + "x" * 200_000 + " tail"
        text = m.render_run_junit(run([case("c", "0", output=long), case("s", "", skip=long)]))
        self.assertLess(len(text), 20_000)
        body = str(found(parsed(text), ".//failure").text)
        self.assertTrue("head x" in body and " more]" in body and body.endswith(" tail"))

    def test_the_gate_is_a_testcase_of_its_own_and_quarantine_is_a_skip(self) -> None:
        entry = m.Quarantine("q", "ann", "OPS-7", TODAY)
        waived = gate(beside(case("q", "11"), case("q", "10")), quarantine=(entry,))
        root = parsed(m.render_gate_junit([waived]))
        outcomes = {e.get("name"): [(c.tag, str(c.get("message"))[:11]) for c in e] for e in root[0]}
        self.assertEqual(outcomes["q"], [("skipped", "quarantined")])
        self.assertEqual(outcomes["minieval gate: model"], [])
        lost = found(parsed(m.render_gate_junit([gate(flips(6, 0, 20))])), ".//testcase[last()]/failure")
        self.assertEqual(lost.get("message"), "REJECT (quality: regressed)")
        self.assertIn("quality: regressed", str(lost.text))


class Markdown(unittest.TestCase):
    def test_model_text_cannot_act(self) -> None:
        for text in (
            "[x](http://evil)", "![x](http://evil)", "<img src=x onerror=y>", "<!-- -->", "`code`",
            "| cell |", "# head", "**bold**", "@octocat", "@org/team", "a@b.example", "https://evil.example",
            "#12", "www.evil.example", "WWW.evil.example", "GH-12", "org/repo#12", "&lt;b&gt;",
            "&#64;octocat", "line\nbreak", "~~x~~", "$x$", ":tada:",
        ):  # fmt: skip
            with self.subTest(text):
                shown = m.markdown_text(text).replace("@<!-- -->", "@\0").replace("#<!-- -->", "#\0")
                shown = shown.replace("-<!-- -->", "-\0")  # a comment breaks a word, and does not show
                self.assertNotRegex(shown, r"(?<!\\)[`*_\[\]|~$#]|<|\w://|:\w+:|\n|(?i:www)\.")
                # GitHub looks for these after rendering, where neither escape nor entity is left
                # (github/cmark-gfm#181)
                plain = html.unescape(re.sub(r"\\(\W)", r"\1", shown))
                self.assertNotRegex(plain, r"@\w|#\d|(?i:gh-)\d")
                self.assertEqual(plain.replace("\0", ""), text.replace("\n", "\\n"))  # nothing is lost

    def test_a_hostile_gate_keeps_its_table_and_its_verdict(self) -> None:
        lines = m.render_gate_markdown(hostile_gate()).split("\n")
        self.assertEqual(lines[0], "### REJECT: quality no significant difference")
        for line in lines:
            self.assertTrue(line.isprintable(), line)
            if line.startswith("|"):
                cells = re.sub(r"\\.", "", line).count("|") - 1
                self.assertIn(cells, (4,), line)

    def test_a_summary_is_cut_in_whole_lines_under_its_limit(self) -> None:
        text = "\n".join(f"line {i} é" for i in range(100_000))
        for limit in (1_000_000, 5_000, 200, 100, 10, 0):
            cut = m.cut_bytes(text, limit)
            with self.subTest(limit):
                self.assertLessEqual(len(cut.encode()), limit)
                if limit >= 200:
                    self.assertIn("more lines", cut)
                    self.assertIn("line 0 é\nline 1 é\n", cut)
        self.assertEqual(m.cut_bytes("short\n", 100), "short\n")
        self.assertLess(m.STEP_SUMMARY_LIMIT, 1024 * 1024)


class Annotations(unittest.TestCase):
    def test_at_most_ten_and_none_can_carry_another_command(self) -> None:
        report = hostile_gate()
        many = report._replace(
            reasons=tuple(m.Reason(HOSTILE, f"{HOSTILE}%0A::error::{i}") for i in range(30))
        )
        for line in m.workflow_annotations(many):
            self.assertRegex(line, r"^::error title=[^:,]*::")
            self.assertTrue(line.isprintable())
            self.assertNotIn("%0A", line)
        self.assertEqual(len(m.workflow_annotations(many)), 10)

    def test_the_level_says_the_decision(self) -> None:
        inconclusive = gate(flips(0, 0, 20), non_inferiority_margin=0.1)
        for report, level in (
            (gate(flips(0, 6, 20)), "notice"), (gate(flips(6, 0, 20)), "error"), (inconclusive, "warning"),
        ):  # fmt: skip
            self.assertTrue(m.workflow_annotations(report)[0].startswith(f"::{level} title=minieval"))

    def test_the_outputs_of_a_job_are_the_worst_decision(self) -> None:
        accept, reject = gate(flips(0, 6, 20)), gate(flips(6, 0, 20))
        inconclusive = gate(flips(0, 0, 20), non_inferiority_margin=0.1)
        for reports, worst in (
            ([accept, reject], "REJECT"),
            ([inconclusive, reject], "REJECT"),
            ([accept, inconclusive], "INCONCLUSIVE"),
            ([accept], "ACCEPT"),
        ):
            with self.subTest(worst), tempfile.TemporaryDirectory() as folder:
                environ = {key: f"{folder}/{key}" for key in ("GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY")}
                stderr = io.StringIO()
                m.tell_actions(actions_world(environ, stderr), reports, "### summary\n")
                output = Path(environ["GITHUB_OUTPUT"]).read_text("utf-8").split("\n")
                self.assertEqual(output[0], f"decision={worst}")
                self.assertEqual(Path(environ["GITHUB_STEP_SUMMARY"]).read_text("utf-8"), "### summary\n")
                self.assertLessEqual(stderr.getvalue().count("\n"), 10)


def actions_world(environ: dict[str, str], stderr: io.StringIO) -> m.World:
    never: Any = None
    now = datetime.datetime(2026, 6, 15, tzinfo=datetime.timezone.utc)
    return m.World(
        io.StringIO(), stderr, io.StringIO(), environ, lambda: 0.0, lambda: now, never, random.Random(1)
    )


if __name__ == "__main__":
    unittest.main()
