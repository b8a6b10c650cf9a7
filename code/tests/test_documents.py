"""Results files: what is written is read back, and what is not a results file is refused by place."""

from __future__ import annotations

import copy
import json
import math
import sys
import tempfile
import unittest
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import main as m

HOSTILE = "\x00\x1b[31m\ud83d\u202e]]>&<'\"\n::error::x"
GOOD = m.AssertionResult("contains", True, "found 'x'")
BAD = m.AssertionResult("rubric", False, HOSTILE, unreadable_judge=True)
FULL = m.Sample(
    0, "naïve €", "ab", None, (GOOD, BAD), 2, 12.5, 10, 20, 0.00012, "stop", "m-1", "fp_1", "vllm",
    0.001, 30.25, "judge-v1", ("truncated", "thinking"),
)  # fmt: skip
CALIBRATION = {
    "schema": "minieval/calibration/1", "judge": "judge-v1", "prompt_sha256": "j",
    "kappa": {"value": 0.8}, "confusion": dict.fromkeys(m.CONFUSION, 5),
}  # fmt: skip
QUARANTINE = (
    m.Quarantine("full", "ann", "OPS-7", "2026-12-31", "2026-06-01"),
    m.Quarantine("plain", "bob", "OPS-8", "2026-12-31"),
)
CASES = (
    m.CaseResult(
        id="full", sha256="c" * 64, samples=(FULL, m.Sample(1, HOSTILE, assertions=(GOOD,))),
        asked_sha256="a" * 64, critical=True, group="g", tags=("net", "dns"), why="copied into tickets",
        owner="ann", fixture={"reduced": "one host", "stages": ("ask", "grade")}, min_pass=1, has_rubric=True,
    ),
    m.CaseResult("outage", "d", (m.Sample(0, error=("timeout", "no answer in 60 s")),)),
    m.CaseResult(HOSTILE, "e", skip="no endpoint yet"),
    m.CaseResult("golden", "f", (m.Sample(0, "a poem"),), golden=True),
    m.CaseResult("plain", "h", (m.Sample(0, "x", assertions=(GOOD,)),)),
)  # fmt: skip
RUN = m.Run(
    suite_name="ops", suite_path="suites/ops.json", suite_sha256="s" * 64, prompt_sha256="p" * 64,
    model="model", endpoint="http://e/v1", cases=CASES,
    policy=m.Policy(0.01, 0.05, 2000, 1.5, 0.0005, 1.1, 3.0, 0.1, QUARANTINE),
    request={"temperature": 0, "stop": None}, judge={"model": "judge-v1", "prompt_sha256": "j"},
    samples=2, concurrency=4, started="2026-06-15T08:00:00Z", finished="2026-06-15T08:01:00Z",
    environment={"python": "3.9.18", "git": {"dirty": True}}, notes=("asked without seed",),
    calibration=CALIBRATION,
)  # fmt: skip


def text_of(run: m.Run) -> str:
    return "".join(m.render_results(run))


TEXT = text_of(RUN)


def document() -> dict[str, Any]:
    return dict(json.loads(TEXT))


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every path into a JSON value, the value itself first."""
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value if isinstance(value, list) else ())
    for key, item in items:
        yield from places(item, (*path, key))


def changed(path: tuple[Any, ...], value: Any) -> Any:
    """The document with one place replaced, or taken away where the value is `...`."""
    whole = document()
    holder: Any = whole
    for key in path[:-1]:
        holder = holder[key]
    if value is ...:
        del holder[path[-1]]
    else:
        holder[path[-1]] = copy.deepcopy(value)
    return whole


class RoundTrip(unittest.TestCase):
    def test_every_field_of_a_run_comes_back(self) -> None:
        self.assertEqual(m.parse_results(text_of(RUN)), RUN)
        defaults = m.Run("", "", "", "", "", "", ())
        plain = m.CaseResult("", "")
        for full, empty in ((RUN, defaults), (CASES[0], plain)):  # so that the test grows with the records
            for name in full._fields:
                if name not in ("incomplete", "skip", "golden"):
                    self.assertNotEqual(getattr(full, name), getattr(empty, name), name)
        cut = RUN._replace(incomplete="interrupted")
        self.assertEqual(m.parse_results(text_of(cut)), cut)

    def test_no_case_is_a_document_too(self) -> None:
        self.assertEqual(m.parse_results(text_of(RUN._replace(cases=()))).cases, ())

    def test_what_is_streamed_is_json_with_sorted_keys_one_line_a_case(self) -> None:
        def sorted_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
            keys = [key for key, _ in pairs]
            if not all(key.isdigit() for key in keys):
                self.assertEqual(keys, sorted(keys))
            return dict(pairs)

        pieces = list(m.render_results(RUN))
        found = json.loads("".join(pieces), object_pairs_hook=sorted_object)
        self.assertEqual(len(pieces), len(RUN.cases) + 2)
        self.assertEqual([case["id"] for case in found["cases"]], [case.id for case in RUN.cases])
        lines = "".join(pieces).split("\n")
        self.assertEqual(sum(line.startswith('{"') for line in lines), len(RUN.cases))
        self.assertTrue(lines[-1] == "" and lines[-2] == "}")

    def test_the_same_run_is_the_same_bytes(self) -> None:
        self.assertEqual(text_of(RUN), text_of(m.parse_results(text_of(RUN))))

    def test_a_digest_is_held_only_where_the_answer_does_not_say_it(self) -> None:
        said = json.loads(m.json_line(m.sample_document(m.Sample(0, "abc", assertions=(GOOD,)))))
        digest = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"  # FIPS 180-2, B.1
        self.assertEqual(said["output_sha256"], digest)
        for change, held in (({}, None), ({"output": None}, digest), ({"output_sha256": "ab"}, "ab")):
            sample = m.parse_sample("", {**said, **change})
            self.assertEqual(sample.output_sha256, held)
            self.assertEqual(json.loads(m.json_line(m.sample_document(sample))), {**said, **change})

    def test_what_samples_share_is_held_once(self) -> None:
        first, second = (m.parse_results(text_of(RUN)).cases[0].samples[0] for _ in range(2))
        for shared in ("assertions", "finish_reason", "model"):
            self.assertIs(getattr(first, shared), getattr(second, shared), shared)

    def test_summary_and_samples_say_what_was_found(self) -> None:
        found = document()
        self.assertEqual(found["schema"], "minieval/results/1")
        summary = found["summary"]
        self.assertEqual((summary["cases"], summary["passed"], summary["errors"]), (3, 2, 1))
        self.assertNotIn("latencies_ms", summary)  # every sample says its own
        self.assertIsNone(summary["total_cost_usd"])  # one call's is unknown, so the sum is
        full = found["cases"][0]
        self.assertEqual((full["verdict"], full["pass_at_k"]["1"]), ("pass", 0.5))
        self.assertEqual(full["samples"][0]["verdict"], "fail")
        self.assertEqual(full["samples"][0]["assertions"][0]["detail"], "found 'x'")
        self.assertEqual(found["cases"][1]["samples"][0]["error"]["kind"], "timeout")

    def test_a_file_with_surrogates_is_written_and_read_whole(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = str(Path(folder) / "results.json")
            m.write_text(path, m.render_results(RUN))
            self.assertEqual(m.load_run(path), RUN)
            Path(path).write_bytes(b"\xef\xbb\xbf" + Path(path).read_bytes())
            self.assertEqual(m.load_run(path), RUN)

    def test_nan_is_never_written(self) -> None:
        bad = RUN._replace(environment={"load": math.nan})
        self.assertRaises(ValueError, text_of, bad)


class Refused(unittest.TestCase):
    def assert_refused(self, text: str, *words: str) -> None:
        with self.assertRaises(m.UsageError) as caught:
            m.parse_results(text)
        for word in words:
            self.assertIn(word, str(caught.exception))
        self.assertNotIn("\n", str(caught.exception))

    def test_a_file_cut_anywhere_is_refused(self) -> None:
        text = text_of(RUN._replace(cases=RUN.cases[1:2])).rstrip()
        for end in range(len(text)):
            try:
                m.parse_results(text[:end])
            except m.UsageError:
                continue
            self.fail(f"read although cut at {end}")
        self.assert_refused(text[:400], "cut short or not JSON", "line")

    def test_a_newer_or_foreign_document_is_refused_by_name(self) -> None:
        for found, words in (
            ({**document(), "schema": "minieval/results/2"}, "update minieval"),
            ({**document(), "schema": "minieval/gate/1"}, "is no minieval/results/1 document"),
            ({"version": 3, "results": {"results": [], "stats": {}}}, "is no minieval/results/1"),
            ({**document(), "schema": 1}, "is no minieval/results/1"),
            ([], "is no minieval/results/1"),
            (None, "is no minieval/results/1"),
            ("results", "is no minieval/results/1"),
            ({}, "is no minieval/results/1"),
        ):
            with self.subTest(words=words, found=str(found)[:40]):
                self.assert_refused(json.dumps(found), words)

    def test_what_is_not_strict_json_is_refused(self) -> None:
        text = text_of(RUN)
        for broken, words in (
            (text.replace("12.5", "NaN", 1), "NaN"),
            (text.replace("12.5", "-Infinity", 1), "Infinity"),
            (text.replace("12.5", "1e999", 1), "too large"),
            (text.replace('"id": "plain"', '"id": "plain", "id": "x"', 1), "duplicate key"),
            ("[" * 100_000, "nested too deeply"),
            ('{"a":' * 100_000, "nested too deeply"),
            ("9" * 5000, "digits"),
            ("", "empty"),
            (text + text, "not JSON"),
        ):
            with self.subTest(words):
                self.assertNotEqual(broken, text)
                self.assert_refused(broken, words)

    def test_a_wrong_value_is_refused_naming_its_place(self) -> None:
        first = ("cases", 0, "samples", 0)
        for path, value, words in (
            (("model",), ..., "'model'"),
            (("suite_sha256",), 7, "suite_sha256"),
            (("cases",), ..., "'cases'"),
            (("cases",), {}, "cases"),
            (("policy",), ..., "'policy'"),
            (("policy", "alpha"), 2, "policy: alpha"),
            (("policy", "min_efect"), 0.1, "did you mean 'min_effect'"),
            (("policy", "quarantine", 0, "until"), "soon", "quarantine[0]: until"),
            (("samples",), 0, "samples"),
            (("samples",), True, "samples"),
            (("concurrency",), 1.5, "concurrency"),
            (("incomplete",), False, "incomplete"),
            (("extra",), 1, "unknown key 'extra'"),
            (("cases", 0), [], "cases[0]"),
            (("cases", 0, "id"), ..., "cases[0]"),
            (("cases", 0, "id"), " ", "cases[0]: id"),
            (("cases", 0, "sha256"), ..., "cases[0]"),
            (("cases", 0, "verdict"), ..., "cases[0]"),
            (("cases", 0, "samples"), ..., "cases[0]"),
            (("cases", 0, "critical"), "yes", "cases[0]: critical"),
            (("cases", 0, "has_rubric"), 1, "cases[0]: has_rubric"),
            (("cases", 0, "min_pass"), 0, "cases[0]: min_pass"),
            (("cases", 0, "tags"), "net", "cases[0]: tags"),
            (("cases", 0, "group"), None, "cases[0]: group"),
            (("cases", 3, "golden"), "no", "cases[3]: golden"),
            (("cases", 2, "skip"), "", "cases[2]: skip"),
            (("cases", 4, "id"), "full", "'full' is there twice"),
            ((*first, "seed"), ..., "seed"),
            ((*first, "seed"), 1, "samples: seeds must be 0, 1, 2"),
            (("cases", 0, "samples", 1, "seed"), 2, "seeds must be 0, 1, 2 ... in a complete run"),
            ((*first, "seed"), -1, "samples[0]: seed"),
            ((*first, "seed"), False, "samples[0]: seed"),
            ((*first, "output"), 7, "samples[0]: output"),
            ((*first, "latency_ms"), -1, "samples[0]: latency_ms"),
            ((*first, "cost_usd"), "0.1", "samples[0]: cost_usd: must be a number from 0 to 1e12, not '0.1'"),
            ((*first, "prompt_tokens"), 1.5, "samples[0]: prompt_tokens"),
            ((*first, "attempts"), None, "samples[0]: attempts"),
            ((*first, "flags"), [1], "samples[0]: flags[0]"),
            ((*first, "error"), "timeout", "samples[0]: error"),
            (("cases", 1, "samples", 0, "error"), {}, "samples[0]: error"),
            ((*first, "assertions"), {}, "samples[0]: assertions"),
            ((*first, "assertions", 1, "passed"), 0, "assertions[1]: passed"),
            ((*first, "assertions", 1, "passed"), ..., "assertions[1]"),
            ((*first, "assertions", 1, "type"), ..., "assertions[1]"),
            ((*first, "assertions", 1, "detail"), ..., "assertions[1]"),
        ):  # fmt: skip
            with self.subTest(path=path, value=value):
                self.assert_refused(json.dumps(changed(path, value)), words)

    def test_verdicts_that_contradict_their_evidence_are_refused(self) -> None:
        for path, value, words in (
            (("cases", 4, "verdict"), "fail", "says 'fail', but its samples say 'pass'"),
            (("cases", 1, "verdict"), "fail", "say 'error'"),
            (("cases", 2, "verdict"), "pass", "say 'skipped'"),
            (("cases", 0, "min_pass"), 2, "say 'fail'"),
            (("cases", 4, "samples", 0, "verdict"), "fail", "its assertions say 'pass'"),
            (("cases", 4, "samples", 0, "verdict"), ..., "its assertions say 'pass'"),
            (("cases", 4, "samples", 0, "assertions", 0, "passed"), False, "assertions say 'fail'"),
            (("cases", 4, "samples", 0, "assertions"), [], "assertions say 'fail'"),
            (("cases", 1, "samples", 0, "error"), None, "assertions say 'fail'"),
            (("cases", 4, "samples"), [], "samples say 'error'"),
        ):
            with self.subTest(path=path, value=value):
                self.assert_refused(json.dumps(changed(path, value)), words)

    def test_a_bar_that_no_number_of_passes_can_meet_is_refused(self) -> None:
        # a critical case that fails by its own bar in the baseline could never regress
        unreachable = RUN._replace(cases=(CASES[0]._replace(min_pass=9),))
        self.assert_refused(text_of(unreachable), "full", "min_pass")
        met = RUN._replace(cases=(CASES[0]._replace(min_pass=2), CASES[2]._replace(min_pass=2)))
        self.assertEqual(m.parse_results(text_of(met)), met)

    def test_a_rubric_result_without_its_flag_is_no_other_kind_of_case(self) -> None:
        for value in (..., False):
            try:
                run = m.parse_results(json.dumps(changed(("cases", 0, "has_rubric"), value)))
            except m.UsageError:
                continue
            self.assertTrue(run.cases[0].has_rubric)

    def test_whatever_is_read_can_be_gated_and_reported(self) -> None:
        values: tuple[Any, ...] = (..., None, 10**30, HOSTILE)
        read = 0
        for path in [path for path in places(document()) if path and path[0] != "summary"]:
            for value in values:
                try:
                    run = m.parse_results(json.dumps(changed(path, value)))
                except m.UsageError:
                    continue
                read += 1
                with self.subTest(path=path, value=value):
                    self.report(run)
        self.assertGreater(read, 80)

    def report(self, run: m.Run) -> None:
        self.assertEqual(m.parse_results(text_of(run)), run)
        self.assertTrue(m.render_run(run).replace("\n", "").isprintable())
        ElementTree.fromstring(m.render_run_junit(run).encode())
        try:
            report = m.gate(RUN, run, run.policy, m.GateOptions(today="2026-06-15"))
        except m.UsageError:
            return
        json.dumps(m.gate_document(report), allow_nan=False)
        ElementTree.fromstring(m.render_gate_junit([report]).encode())
        self.assertTrue(m.render_gate(report).replace("\n", "").isprintable())
        self.assertTrue(m.render_gate_markdown(report).replace("\n", "").isprintable())


class Loading(unittest.TestCase):
    def test_every_refusal_names_the_file(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "results.json"
            for content in (
                b"",
                b"\xff\xfe{}",
                b"{}",
                text_of(RUN).encode("utf-16"),
                text_of(RUN)[:99].encode(),
            ):
                path.write_bytes(content)
                with self.subTest(content[:9]), self.assertRaises(m.UsageError) as caught:
                    m.load_run(str(path))
                self.assertTrue(str(caught.exception).startswith(f"{path}: "))
            for missing in (folder, str(path) + ".old", str(path) + "\x00"):
                with self.subTest(missing), self.assertRaises(m.UsageError):
                    m.load_run(missing)


class GateDocument(unittest.TestCase):
    def gated(self, lost: int, n: int) -> dict[str, Any]:
        samples = [m.Sample(0, "x", assertions=(GOOD._replace(passed=i >= lost),)) for i in range(n)]
        after = RUN._replace(cases=tuple(
            m.CaseResult(f"c{i}", "s", (sample,)) for i, sample in enumerate(samples)
        ))  # fmt: skip
        good = m.Sample(0, "x", assertions=(GOOD,))
        before = after._replace(cases=tuple(case._replace(samples=(good,)) for case in after.cases))
        return m.gate_document(m.gate(before, after, m.Policy(), m.GateOptions(today="2026-06-15")))

    def test_p_is_unrounded_and_never_zero(self) -> None:
        for lost, p in ((0, 1.0), (6, 0.03125), (60, 2 * 2.0**-60), (1200, sys.float_info.min)):
            with self.subTest(lost):
                found = json.loads(m.json_pages(self.gated(lost, lost + 1)))
                self.assertGreater(found["p"], 0)
                self.assertAlmostEqual(found["p"], p, delta=p * 1e-9)

    def test_the_decision_its_code_and_its_evidence_agree(self) -> None:
        found = self.gated(6, 20)
        self.assertEqual(
            (found["decision"], found["exit_code"], found["verdict"]), ("REJECT", 1, "regressed")
        )
        self.assertEqual((found["effect"], found["pairs"], found["test"]), (-0.3, 20, "mcnemar"))
        self.assertEqual([pair["id"] for pair in found["regressed"]], [f"c{i}" for i in range(6)])
        self.assertEqual(found["reasons"][0]["kind"], "quality")
        self.assertEqual((found["schema"], found["improved"]), ("minieval/gate/1", []))

    def test_a_gate_without_a_pair_is_a_document_without_nan(self) -> None:
        outage = RUN._replace(cases=RUN.cases[1:2])
        report = m.gate(outage, outage, m.Policy(), m.GateOptions(today="2026-06-15"))
        found = json.loads(m.json_pages(m.gate_document(report)))
        self.assertEqual((found["decision"], found["pairs"], found["p"]), ("REJECT", 0, 1.0))
        self.assertIsNone(found["candidate"]["cost_per_call_usd"])


if __name__ == "__main__":
    unittest.main()
