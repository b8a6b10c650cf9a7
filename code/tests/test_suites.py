"""Suites: what is read, what is refused and where the message points."""

from __future__ import annotations

import copy
import itertools
import json
import re
import sys
import tempfile
import unittest
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import main as m

EQUALS = {"type": "equals", "value": "x"}
NEGATIVE = {"type": "not-contains", "value": "x"}
PRICE = {"prompt_usd_per_million": 0.15, "completion_usd_per_million": 0.6}
FULL: dict[str, Any] = json.loads("""{
"name": "s", "prompt": "{{input}} {{v}}", "request": {"max_tokens": 9}, "thinking": "strip",
"prices": {"m": {"prompt_usd_per_million": 0.15, "completion_usd_per_million": 0.6,
  "cached_prompt_usd_per_million": 0.1}},
"policy": {"alpha": 0.01, "min_effect": 0.05, "non_inferiority_margin": 0.1,
  "max_p95_latency_ms": 2000, "max_p95_latency_ratio": 1.5, "max_cost_ratio": 1.5,
  "max_cost_per_call_usd": 0.5, "max_total_cost_usd": 9, "quarantine": [
    {"case": "a", "owner": "o", "ticket": "t", "until": "2026-12-31", "since": "2026-01-01"}]},
"cases": [{"id": "full", "input": "{{v}}?", "reference": "r {{v}}", "vars": {"v": "w", "n": 1.5},
  "critical": true, "group": "g", "tags": ["t"], "samples": 3, "min_pass": 2, "why": "y",
  "owner": "o", "golden": false,
  "fixture": {"reduced": "r", "real": "l", "stages": ["read"]},
  "examples": {"pass": ["x"], "fail": [{"output": "y", "because": "z"}]},
  "matrix": [{"label": "l", "vars": {"v": "1"}, "why": "w"}],
  "assert": [{"type": "equals", "value": "x"}, {"type": "contains-all", "value": ["{{v}}{{n}}"]},
    {"type": "numeric", "value": 1, "pick": "last", "tolerance": 0.5},
    {"type": "numeric", "value": 1, "relative_tolerance": 0.5},
    {"type": "json-schema", "value": {"type": "string"}}, {"type": "contains", "value": "x"},
    {"type": "icontains", "value": "x"}, {"type": "starts-with", "value": "x"},
    {"type": "regex", "value": "x"}, {"type": "not-regex", "value": "x"},
    {"type": "rubric", "value": "x"}, {"type": "not-contains-any", "value": ["x"]},
    {"type": "max-chars", "value": 9}]}]}""")
WRONG: tuple[Any, ...] = (None, True, False, 0, -1, 1.5, 42, 10**30, -1e308, "", " ", "x", "{{x}}")
WRONG += ([], [None], [1], [[]], [{}], {}, {"x": 1}, {"": None}, ["\x1b[31m\n"], "\ud800", "\x00")


def case(**fields: Any) -> dict[str, Any]:
    made = {"id": "a", "input": "q", "assert": [EQUALS], **fields}
    return {key: value for key, value in made.items() if value is not ...}


def suite(*cases: Any, **fields: Any) -> dict[str, Any]:
    made = {"name": "s", "prompt": "{{input}}", "cases": list(cases) or [case()], **fields}
    return {key: value for key, value in made.items() if value is not ...}


def asserting(*assertions: Any, **fields: Any) -> dict[str, Any]:
    return suite(case(**{"assert": list(assertions), **fields}))


def parse(document: Any, **files: str) -> m.Suite:
    def read(name: str) -> str:
        if name not in files:
            raise m.UsageError(f"{name}: cannot be read: No such file or directory")
        return files[name]

    text = document if isinstance(document, str) else json.dumps(document)
    return m.parse_suite(text, "s.json", read)


def places(node: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path of everything inside a document."""
    inside = node.items() if isinstance(node, dict) else enumerate(node)
    for key, value in inside:
        yield (*at, key)
        if isinstance(value, (dict, list)):
            yield from places(value, (*at, key))


class Base(unittest.TestCase):
    def refused(self, document: Any, *words: str, **files: str) -> str:
        with self.assertRaises(m.UsageError) as caught:
            parse(document, **files)
        for word in words:
            self.assertIn(word, str(caught.exception))
        return str(caught.exception)


class Reading(Base):
    def test_a_suite_in_full_is_read(self) -> None:
        found = parse(FULL)
        (only,) = found.cases
        self.assertEqual((only.id, only.input, only.reference), ("full[l]", "1?", "r 1"))
        self.assertEqual(only.assertions[1].value, ("11.5",))
        self.assertEqual((only.samples, only.min_pass, only.critical, only.group), (3, 2, True, "g"))
        self.assertEqual((found.policy.alpha, found.policy.quarantine[0].ticket), (0.01, "t"))
        self.assertEqual(found.prices["m"], m.Price(0.15, 0.6, 0.1))
        self.assertEqual((found.request, found.warnings), ({"max_tokens": 9}, ()))

    def test_only_known_names_in_two_braces_are_replaced_and_only_once(self) -> None:
        asked = case(input="{{reference}}", reference="R", vars={"v": "{{input}}"})
        template = '{"a": {x}} {{ input }} {{reference}} {% raw %} {{{v}}} ${input}'
        found = parse(suite(asked, prompt=template))
        text = m.case_messages(found, found.cases[0])[0]["content"]
        self.assertEqual(text, '{"a": {x}} {{reference}} R {% raw %} {{{input}}} ${input}')

    def test_messages_keep_their_roles_and_every_one_is_filled(self) -> None:
        roles = [("system", "be {{v}}"), ("user", "{{input}}")]
        messages = [{"role": role, "content": text} for role, text in roles]
        found = parse(suite(case(vars={"v": "brief"}), prompt=..., messages=messages))
        filled = [(f["role"], f["content"]) for f in m.case_messages(found, found.cases[0])]
        self.assertEqual(filled, [("system", "be brief"), ("user", "q")])

    def test_cases_may_stand_in_a_jsonl_file(self) -> None:
        lines = json.dumps(case()) + "\r\n\n  \n" + json.dumps(case(id="b\u2028")) + "\n"
        found = parse(suite(cases="c.jsonl"), **{"c.jsonl": lines})
        self.assertEqual([c.id for c in found.cases], ["a", "b\u2028"])
        self.assertEqual(found.sha256, parse(suite(case(), case(id="b\u2028"))).sha256)

    def test_a_fault_in_a_jsonl_file_names_that_file_and_the_line(self) -> None:
        for line in ('{"id": ', "nonsense", '{"id": 1, "id": 2}'):
            self.refused(suite(cases="c.jsonl"), "c.jsonl", "line 2", **{"c.jsonl": "\n" + line})
        self.refused(suite(cases="none.jsonl"), "none.jsonl")
        self.refused(suite(cases="c.jsonl"), "cases", **{"c.jsonl": "\n\n"})

    def test_an_input_file_is_the_input_and_a_missing_one_names_the_case(self) -> None:
        filed = case(input=..., input_file="in.md", vars={"v": "1"})
        found = parse(suite(filed), **{"in.md": "a {{v}}\n"}).cases[0]
        self.assertEqual(found.input, "a 1\n")
        inline = parse(suite(case(input="a {{v}}\n", vars={"v": "1"}))).cases[0]
        self.assertEqual(found.sha256, inline.sha256)
        self.refused(suite(filed), "case 'a'", "in.md")
        for fields in ({"input_file": "in.md"}, {"input": ...}):
            self.refused(suite(case(**fields)), "case 'a'", "'input'", "'input_file'")

    def test_files_are_relative_to_the_suite_and_a_bom_is_accepted(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path, bom = Path(folder, "s.json"), b"\xef\xbb\xbf"
            lines = json.dumps(case(input=..., input_file="in.md")).encode()
            Path(folder, "in.md").write_bytes(bom + "é".encode())
            Path(folder, "c.jsonl").write_bytes(bom + lines)
            path.write_bytes(bom + json.dumps(suite(cases="c.jsonl")).encode())
            self.assertEqual(m.load_suite(str(path)).cases[0].input, "é")
            for data, word in ((b'{"name": "\xff"}', "UTF-8"), (b"[" * 10**5, "nested too deeply")):
                path.write_bytes(data)
                with self.assertRaisesRegex(m.UsageError, rf"s\.json.*{word}"):
                    m.load_suite(str(path))

    def test_matrix_rows_become_cases_of_one_group(self) -> None:
        rows = [{"label": "x", "vars": {"v": "1"}, "why": "one"}, {"label": "y"}]
        made = case(input="{{v}}{{w}}", vars={"w": "!", "v": "0"}, matrix=rows, why="all")
        found = [(c.id, c.input, c.why, c.group) for c in parse(suite(made)).cases]
        self.assertEqual(found, [("a[x]", "1!", "one", "a"), ("a[y]", "0!", "all", "a")])
        self.assertEqual(parse(suite({**made, "group": "g"})).cases[0].group, "g")
        self.refused(suite({**made, "matrix": []}), "case 'a'", "matrix")
        self.refused(suite({**made, "matrix": [rows[0]] * 2}), "matrix[1]", "a[x]", "twice")
        self.refused(suite({**made, "matrix": [{"vars": {}}]}), "case 'a' matrix[0]", "label")

    def test_the_suites_that_ship_parse_without_a_warning(self) -> None:
        paths = sorted((Path(m.__file__).parent / "suites").glob("*.json"))
        self.assertEqual([path.name for path in paths], ["changelog.json", "ops-assistant.json"])
        self.assertEqual([m.load_suite(str(path)).warnings for path in paths], [(), ()])


class Digests(Base):
    def test_what_decides_a_verdict_is_in_the_digest_of_the_case_and_nothing_else(self) -> None:
        deciding: list[dict[str, Any]] = [{"id": "b"}, {"input": "Q"}, {"samples": 2, "min_pass": 1}]
        deciding += [{"reference": "r"}, {"reference": ""}, {"vars": {"v": "1"}}]
        deciding += [{"assert": [EQUALS] * 2}, {"assert": [{"type": "contains", "value": "x"}]}]
        beside: list[dict[str, Any]] = [{"why": "w"}, {"owner": "o"}, {"critical": True}, {"group": "g"}]
        beside += [{"tags": ["t"]}, {"samples": 2}, {"skip": "later"}, {"examples": {"pass": ["x"]}}]
        base = parse(suite()).cases[0].sha256
        digests = [parse(suite(case(**fields))).cases[0].sha256 for fields in deciding]
        self.assertEqual(len({base, *digests}), len(deciding) + 1)
        for also in ({}, {"samples": 2, "min_pass": 1}):
            found = {parse(suite(case(**{**also, **f}))).cases[0].sha256 for f in ({}, *beside)}
            self.assertEqual(len(found), 1)

    def test_the_suite_digest_is_template_and_cases_without_policy_and_prices(self) -> None:
        base = parse(suite())
        beside: Any = {"policy": {"alpha": 0.01}, "prices": {"m": PRICE}, "request": {"top_p": 1}}
        same = parse(suite(name="t", **beside))
        self.assertEqual((same.sha256, same.prompt_sha256), (base.sha256, base.prompt_sha256))
        prompt, more = parse(suite(prompt="{{input}} ")), parse(suite(case(), case(id="b")))
        self.assertEqual(len({base.sha256, prompt.sha256, more.sha256}), 3)
        self.assertEqual(more.prompt_sha256, base.prompt_sha256)
        self.assertNotEqual(prompt.prompt_sha256, base.prompt_sha256)

    def test_layout_of_the_file_and_order_of_keys_change_no_digest(self) -> None:
        document = suite(case(vars={"b": "é", "a": "2"}))
        spaced = json.dumps(document, indent=4, ensure_ascii=False, sort_keys=True)
        self.assertEqual(parse(document).sha256, parse(spaced).sha256)


class Refusals(Base):
    def test_a_text_that_is_no_suite_says_so(self) -> None:
        rows = [("", "JSON"), ("{", "line 1"), ("[]", "object"), ("null", "null"), ("\x00", "JSON")]
        rows += [('{"a": NaN}', "NaN"), ("1e999", "large"), ('{"a": 1, "a": 2}', "duplicate key 'a'")]
        rows += [(json.dumps(suite())[:-3], "line 1")]
        rows += [(json.dumps(suite()).replace('"value"', '"type": 1, "value"'), "key 'type'")]
        for text, word in rows:
            self.refused(text, word)

    def test_an_unknown_word_is_named_with_its_place_and_the_nearest_known_one(self) -> None:
        for document, *words in (
            (suite(promt="x"), "'promt'", "did you mean 'prompt'"),
            (suite(zz=1, aa=1), "unknown key 'aa'"),
            (suite(case(crtical=True)), "case 'a'", "'crtical'", "did you mean 'critical'"),
            (suite(policy={"alhpa": 0.05}), "policy", "'alhpa'", "did you mean 'alpha'"),
            (suite(prices={"m": {"prompt": 1}}), "prices", "'m'", "'prompt'"),
            (suite(case(fixture={"reel": "x"})), "case 'a'", "fixture", "did you mean 'real'"),
            (asserting({**EQUALS, "pick": "last"}), "case 'a' assert[0]", "'pick'"),
            (asserting(EQUALS, {"type": "similar", "value": "x"}), "case 'a' assert[1]: unknown"),
            (asserting({"type": "contain", "value": "x"}), "did you mean 'contains'"),
            (asserting({"type": "not-rubric", "value": "x"}), "assert[0]", "'not-rubric'"),
        ):
            with self.subTest(words=words):
                self.refused(document, *words)

    def test_no_word_is_suggested_that_would_be_refused_too(self) -> None:
        for name in ("not-rubric", "not-rubrik"):
            said = self.refused(asserting({"type": name, "value": "x"}), "unknown assertion type")
            self.assertNotIn("did you mean 'not-rubric'", said)

    def test_an_assertion_without_a_usable_type_is_told_so_in_words_of_json(self) -> None:
        for given in ({"value": "x"}, {"type": None, "value": "x"}, {"type": [None], "value": "x"}):
            self.assertNotIn("None", self.refused(asserting(given), "assert[0]", "type"))

    def test_what_cannot_be_evaluated_is_refused(self) -> None:
        for document, *words in (
            (suite(cases=[]), "cases"),
            (suite(cases=...), "'cases'"),
            (suite(name=...), "'name'"),
            (suite(case(), case()), "'a'", "twice"),
            (suite(case(id=...)), "cases[0]", "'id'"),
            (asserting(), "case 'a'", "asserts nothing"),
            (suite(case(**{"assert": ...})), "case 'a'", "asserts nothing"),
            (suite(prompt="no placeholder"), "{{input}}"),
            (suite(prompt="{{input}} {{contxt}}"), "case 'a'", "{{contxt}}"),
            (suite(prompt="{{input}} {{reference}}"), "case 'a'", "{{reference}}"),
            (suite(prompt=...), "'prompt'", "'messages'"),
            (suite(messages=[{"role": "user", "content": "{{input}}"}]), "'prompt'", "'messages'"),
            (suite(prompt=..., messages=[]), "{{input}}"),
            (suite(case(vars={"input": "x"})), "case 'a'", "'input'"),
            (suite(case(vars={"a-b": "x"})), "case 'a'", "'a-b'"),
            (suite(case(samples=2, min_pass=3)), "case 'a'", "min_pass", "samples"),
            (suite(request={"messages": []}), "request", "'messages'"),
            (suite(policy={"alpha": 0}), "policy", "alpha"),
            (suite(policy={"quarantine": [{"case": "a"}]}), "quarantine[0]", "'owner'"),
            (suite(thinking="keep"), "thinking", "'strip'"),
        ):
            with self.subTest(words=words):
                self.refused(document, *words)

    def test_a_number_out_of_bounds_is_shown(self) -> None:
        for key in ("alpha", "min_effect", "max_p95_latency_ms", "max_total_cost_usd"):
            for value in (-0.25, 1e15):
                message = self.refused(suite(policy={key: value}), f"policy: {key}")
                self.assertTrue(str(value) in message or f"{value:g}" in message, message)

    def test_any_wrong_value_anywhere_is_taken_whole_or_refused_by_name(self) -> None:
        other = copy.deepcopy(FULL)
        only = other["cases"][0]
        del only["matrix"], only["input"], other["prompt"]
        only.update(input_file="in.md", skip="later")
        other["messages"] = [{"role": "user", "content": "{{input}}"}]
        tables = (m.SUITE_FIELDS, m.CASE_FIELDS, m.POLICY_FIELDS, m.PRICE_FIELDS, m.QUARANTINE_FIELDS)
        shown = {path[-1] for document in (FULL, other) for path in places(document)}
        self.assertEqual({key for table in tables for key in table} - shown, set())
        complaints = []
        for document, value in itertools.product((FULL, other), (*WRONG, ...)):
            for path in places(document):
                changed = node = copy.deepcopy(document)
                for step in path[:-1]:
                    node = node[step]
                node[path[-1]] = value
                if value is ...:
                    del node[path[-1]]
                complaint = self.complaint(changed, [step for step in path if isinstance(step, str)])
                complaints += [f"{path} {value!r}: {complaint}"] if complaint else []
        self.assertEqual(complaints, [], "\n" + "\n".join(complaints[:40]))

    def complaint(self, document: Any, keys: list[str]) -> str:
        """What is wrong with how a document was taken or refused."""
        try:
            found = parse(document, **{"in.md": "hi"})
            for case in found.cases:  # what was taken can also be asked and exported
                m.case_messages(found, case)
            m.promptfoo_config(found, "http://localhost", ["m"], "j")
        except m.UsageError as error:
            wanted = ("the prompt", "cannot be read", *keys[-2:])
            named = any(word in str(error) for word in wanted)
            clear = not re.search(r"Traceback|NoneType|number.*not a number$", str(error))
            return "" if named and clear else str(error)
        except Exception as error:  # noqa: BLE001
            return repr(error)
        return ""

    def test_a_hostile_word_does_not_flood_the_message(self) -> None:
        word = "x" * 100_000
        documents = [suite(case(**{word: 1})), suite(case(id=word, samples=0))]
        documents += [suite(case(vars={word + "-": 1})), asserting({"type": word, "value": 1})]
        for document in documents:
            self.assertLess(len(self.refused(document)), 2000)


class Warnings(Base):
    def test_a_case_that_silence_would_pass_is_warned_of(self) -> None:
        short = {"type": "max-chars", "value": 9}
        for given in ([NEGATIVE], [NEGATIVE, short], [short]):
            (warning,) = parse(asserting(*given)).warnings
            self.assertRegex(warning, "case 'a'.*silence")
        for given in ([NEGATIVE, EQUALS], [EQUALS]):
            self.assertEqual(parse(asserting(*given)).warnings, ())

    def test_a_javascript_style_regex_is_warned_of(self) -> None:
        for pattern, count in (("/a+/i", 1), ("/a/", 1), ("a/b", 0), ("/etc/passwd", 0), (7, 0)):
            found = parse(asserting({"type": "regex", "value": pattern})).warnings
            self.assertEqual(len(found), count, pattern)
            self.assertTrue(all("JavaScript" in text and "case 'a'" in text for text in found))

    def test_python_itself_warns_of_nothing_on_stderr(self) -> None:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            parse(asserting({"type": "regex", "value": "[[a]b"}))
        self.assertEqual([str(w.message) for w in caught], [])


if __name__ == "__main__":
    unittest.main()
