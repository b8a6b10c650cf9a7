"""Suites: what is read, what is refused and where the message points."""

from __future__ import annotations

import json
import sys
import tempfile
import unittest
import warnings
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import main as m

EQUALS = {"type": "equals", "value": "x"}
WRONG: tuple[Any, ...] = (
    None,
    True,
    False,
    0,
    -1,
    1.5,
    10**30,
    "",
    " ",
    "x",
    [],
    [None],
    [1],
    [[]],
)
WRONG += ({}, {"x": 1}, {"": None}, [{}], [{"x": None}], ["\x1b[31m\n"], "\ud800", 2**70, -1e308)


def case(**fields: Any) -> dict[str, Any]:
    made = {"id": "a", "input": "q", "assert": [EQUALS], **fields}
    return {key: value for key, value in made.items() if value is not ...}


def suite(*cases: Any, **fields: Any) -> dict[str, Any]:
    made = {"name": "s", "prompt": "{{input}}", "cases": list(cases) or [case()], **fields}
    return {key: value for key, value in made.items() if value is not ...}


def parse(document: Any, **files: str) -> m.Suite:
    def read(name: str) -> str:
        if name not in files:
            raise m.UsageError(f"{name}: cannot be read: No such file or directory")
        return files[name]

    text = document if isinstance(document, str) else json.dumps(document)
    return m.parse_suite(text, "s.json", read)


class Base(unittest.TestCase):
    def refused(self, document: Any, *words: str, **files: str) -> str:
        """The message of the refusal, which holds the words and reads like a sentence."""
        with self.assertRaises(m.UsageError) as caught:
            parse(document, **files)
        message = str(caught.exception)
        for word in words:
            self.assertIn(word, message)
        self.assertNotRegex(
            message, r"Traceback|<class|NoneType|object has no|\bNone\b|not a number$"
        )
        return message


class Reading(Base):
    def test_a_suite_in_full_is_read(self) -> None:
        full = case(
            reference="r {{v}}",
            input="{{v}}?",
            vars={"v": "w", "n": 1.5},
            critical=True,
            group="g",
            tags=["t"],
            samples=3,
            min_pass=2,
            why="w",
            owner="o",
            fixture={"reduced": "r", "real": "s"},
            examples={"pass": ["x"], "fail": [{"output": "y", "because": "z"}]},
            **{"assert": [{"type": "contains", "value": "{{v}}{{n}}"}]},
        )
        policy = {"alpha": 0.01, "min_effect": 0.05, "max_cost_per_call_usd": 0.5}
        price = {"prompt_usd_per_million": 0.15, "completion_usd_per_million": 0.6}
        found = parse(suite(full, policy=policy, prices={"m": price}, request={"max_tokens": 9}))
        only = found.cases[0]
        self.assertEqual((only.input, only.reference), ("w?", "r w"))
        self.assertEqual(only.assertions[0].value, "w1.5")
        self.assertEqual(
            (only.samples, only.min_pass, only.critical, only.group), (3, 2, True, "g")
        )
        self.assertEqual((found.policy.alpha, found.policy.min_effect), (0.01, 0.05))
        self.assertEqual(found.prices["m"], m.Price(0.15, 0.6))
        self.assertEqual(found.request, {"max_tokens": 9})
        self.assertEqual(found.warnings, ())

    def test_only_known_names_in_two_braces_are_replaced_and_only_once(self) -> None:
        template = '{"a": {x}} {{ input }} {{reference}} {% raw %} {{{v}}} ${input}'
        found = parse(
            suite(
                case(input="{{reference}}", reference="R", vars={"v": "{{input}}"}), prompt=template
            )
        )
        text = m.case_messages(found, found.cases[0])[0]["content"]
        self.assertEqual(text, '{"a": {x}} {{reference}} R {% raw %} {{{input}}} ${input}')

    def test_messages_keep_their_roles_and_every_one_is_filled(self) -> None:
        messages = [
            {"role": "system", "content": "be {{v}}"},
            {"role": "user", "content": "{{input}}"},
        ]
        found = parse(suite(case(vars={"v": "brief"}), prompt=..., messages=messages))
        filled = [{"role": "system", "content": "be brief"}, {"role": "user", "content": "q"}]
        self.assertEqual(m.case_messages(found, found.cases[0]), filled)

    def test_cases_may_stand_in_a_jsonl_file(self) -> None:
        lines = json.dumps(case(id="a")) + "\r\n\n  \n" + json.dumps(case(id="b\u2028")) + "\n"
        found = parse(suite(cases="c.jsonl"), **{"c.jsonl": lines})
        self.assertEqual([c.id for c in found.cases], ["a", "b\u2028"])
        self.assertEqual(found.sha256, parse(suite(case(id="a"), case(id="b\u2028"))).sha256)

    def test_a_fault_in_a_jsonl_file_names_that_file_and_the_line(self) -> None:
        for line in ('{"id": ', "\ufeff{}", '{"id": 1, "id": 2}'):
            self.refused(suite(cases="c.jsonl"), "c.jsonl", "line 2", **{"c.jsonl": "\n" + line})
        self.refused(suite(cases="none.jsonl"), "none.jsonl")
        self.refused(suite(cases="c.jsonl"), "cases", **{"c.jsonl": "\n\n"})

    def test_an_input_file_is_the_input_and_a_missing_one_names_the_case(self) -> None:
        found = parse(
            suite(case(input=..., input_file="in.md", vars={"v": "1"})), **{"in.md": "a {{v}}\n"}
        )
        self.assertEqual(found.cases[0].input, "a 1\n")
        inline = parse(suite(case(input="a {{v}}\n", vars={"v": "1"})))
        self.assertEqual(found.cases[0].sha256, inline.cases[0].sha256)
        self.refused(suite(case(input=..., input_file="none.md")), "case 'a'", "none.md")
        for fields in ({"input_file": "in.md"}, {"input": ...}):
            self.refused(suite(case(**fields)), "case 'a'", "'input'", "'input_file'")

    def test_files_are_relative_to_the_suite_and_a_bom_is_accepted(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            place = Path(folder, "suites")
            place.mkdir()
            (place / "in.md").write_bytes("\ufeffé".encode())
            (place / "c.jsonl").write_bytes(
                b"\xef\xbb\xbf" + json.dumps(case(input=..., input_file="in.md")).encode()
            )
            path = place / "s.json"
            path.write_bytes(b"\xef\xbb\xbf" + json.dumps(suite(cases="c.jsonl")).encode())
            self.assertEqual(m.load_suite(str(path)).cases[0].input, "é")
            path.write_bytes(b'{"name": "\xff"}')
            with self.assertRaisesRegex(m.UsageError, r"s\.json.*UTF-8"):
                m.load_suite(str(path))
            path.write_text("[" * 100_000)
            with self.assertRaisesRegex(m.UsageError, r"s\.json.*nested too deeply"):
                m.load_suite(str(path))

    def test_matrix_rows_become_cases_of_one_group(self) -> None:
        rows = [
            {"label": "x", "vars": {"v": "1"}, "why": "one"},
            {"label": "y", "vars": {"v": "2"}},
        ]
        made = case(
            input="{{v}}{{w}}", vars={"w": "!", "v": "0"}, matrix=rows, why="all", critical=True
        )
        first, second = parse(suite(made)).cases
        self.assertEqual(
            (first.id, first.input, first.why, first.group), ("a[x]", "1!", "one", "a")
        )
        self.assertEqual(
            (second.id, second.input, second.why, second.critical), ("a[y]", "2!", "all", True)
        )
        self.assertEqual(parse(suite({**made, "group": "g"})).cases[0].group, "g")
        self.refused(suite({**made, "matrix": []}), "case 'a'", "matrix")
        self.refused(suite({**made, "matrix": [rows[0], rows[0]]}), "matrix[1]", "a[x]", "twice")
        self.refused(suite({**made, "matrix": [{"vars": {}}]}), "case 'a' matrix[0]", "label")


class Digests(Base):
    def test_what_decides_a_verdict_is_in_the_digest_of_the_case_and_nothing_else(self) -> None:
        base = parse(suite()).cases[0].sha256
        deciding: list[dict[str, Any]] = [
            {"id": "b"}, {"input": "Q"}, {"reference": "r"}, {"reference": ""}, {"vars": {"v": "1"}},
            {"assert": [EQUALS, EQUALS]}, {"assert": [{"type": "contains", "value": "x"}]},
            {"samples": 2, "min_pass": 1},
        ]  # fmt: skip
        beside: list[dict[str, Any]] = [
            {"why": "w"}, {"owner": "o"}, {"critical": True}, {"group": "g"}, {"tags": ["t"]},
            {"samples": 2}, {"skip": "later"}, {"fixture": {"real": "r"}}, {"examples": {"pass": ["x"]}},
        ]  # fmt: skip
        digests = [parse(suite(case(**fields))).cases[0].sha256 for fields in deciding]
        self.assertEqual(len({base, *digests}), len(deciding) + 1)
        for fields in beside:
            self.assertEqual(parse(suite(case(**fields))).cases[0].sha256, base, fields)

    def test_the_suite_digest_is_template_and_cases_without_policy_and_prices(self) -> None:
        base = parse(suite())
        price = {"prompt_usd_per_million": 1, "completion_usd_per_million": 1}
        same = parse(
            suite(name="t", policy={"alpha": 0.01}, prices={"m": price}, request={"top_p": 1})
        )
        self.assertEqual((same.sha256, same.prompt_sha256), (base.sha256, base.prompt_sha256))
        other = parse(suite(prompt="{{input}} "))
        self.assertNotIn(other.sha256, (base.sha256,))
        self.assertNotEqual(other.prompt_sha256, base.prompt_sha256)
        more = parse(suite(case(), case(id="b")))
        self.assertNotEqual(more.sha256, base.sha256)
        self.assertEqual(more.prompt_sha256, base.prompt_sha256)

    def test_layout_of_the_file_and_order_of_keys_change_no_digest(self) -> None:
        document = suite(
            case(vars={"a": "1", "b": "2"}, **{"assert": [{"type": "equals", "value": "é"}]})
        )
        shuffled = json.loads(json.dumps(document, sort_keys=True))
        spaced = json.dumps(shuffled, indent=4, ensure_ascii=False)
        self.assertEqual(parse(document).sha256, parse(spaced).sha256)


class Refusals(Base):
    def test_a_text_that_is_no_suite_says_so(self) -> None:
        for text, word in (
            ("", "JSON"), ("{", "line 1"), ("[]", "object"), ("null", "null"), ('{"a": NaN}', "NaN"),
            ('{"name": "a", "name": "b"}', "duplicate key 'name'"), ("\x00", "JSON"), ("1e999", "large"),
        ):  # fmt: skip
            self.refused(text, word)

    def test_duplicate_keys_are_refused_at_any_depth(self) -> None:
        text = json.dumps(suite()).replace('"value": "x"', '"value": "x", "value": "y"')
        self.refused(text, "duplicate key 'value'")

    def test_an_unknown_key_is_named_with_the_nearest_word(self) -> None:
        for document, *words in (
            (suite(promt="x"), "'promt'", "did you mean 'prompt'"),
            (suite(case(crtical=True)), "case 'a'", "'crtical'", "did you mean 'critical'"),
            (suite(policy={"alhpa": 0.05}), "policy", "'alhpa'", "did you mean 'alpha'"),
            (suite(prices={"m": {"prompt": 1}}), "prices", "'m'", "'prompt'"),
            (suite(case(fixture={"reel": "x"})), "case 'a'", "fixture", "did you mean 'real'"),
            (suite(case(**{"assert": [{**EQUALS, "pick": "last"}]})), "case 'a' assert[0]", "'pick'"),
            (suite(case(**{"assert": [EQUALS, {"type": "similar", "value": "x"}]})),
             "case 'a' assert[1]: unknown assertion type 'similar'"),
            (suite(case(**{"assert": [{"type": "contain", "value": "x"}]})), "did you mean 'contains'"),
            (suite(case(**{"assert": [{"value": "x"}]})), "case 'a' assert[0]", "'type'"),
        ):  # fmt: skip
            with self.subTest(words=words):
                self.refused(document, *words)

    def test_what_cannot_be_evaluated_is_refused(self) -> None:
        for document, *words in (
            (suite(cases=[]), "cases"),
            (suite(cases=...), "'cases'"),
            (suite(name=...), "'name'"),
            (suite(case(), case()), "'a'", "twice"),
            (suite(case(id=...)), "cases[0]", "'id'"),
            (suite(case(**{"assert": []})), "case 'a'", "asserts nothing"),
            (suite(case(**{"assert": ...})), "case 'a'", "asserts nothing"),
            (suite(prompt="no placeholder"), "{{input}}"),
            (suite(prompt="{{input}} {{contxt}}"), "case 'a'", "{{contxt}}"),
            (suite(prompt="{{input}} {{reference}}"), "case 'a'", "{{reference}}"),
            (suite(prompt=...), "'prompt'", "'messages'"),
            (suite(messages=[{"role": "user", "content": "{{input}}"}]), "'prompt'", "'messages'"),
            (suite(prompt=..., messages=[]), "{{input}}"),
            (suite(case(vars={"input": "x"})), "case 'a'", "'input'"),
            (suite(case(vars={"a-b": "x"})), "case 'a'", "'a-b'"),
            (suite(case(min_pass=2)), "case 'a'", "min_pass", "samples"),
            (suite(case(samples=2, min_pass=3)), "case 'a'", "min_pass", "samples"),
            (suite(request={"messages": []}), "request", "'messages'"),
            (suite(request={"stream": True}), "request", "'stream'"),
            (suite(policy={"alpha": 0}), "policy", "alpha"),
            (suite(policy={"alpha": 1}), "policy", "alpha"),
            (suite(thinking="keep"), "thinking", "'strip'"),
        ):  # fmt: skip
            with self.subTest(words=words):
                self.refused(document, *words)

    def test_a_number_out_of_bounds_is_shown(self) -> None:
        for key in ("alpha", "min_effect", "max_p95_latency_ms", "max_total_cost_usd"):
            for value in (-0.25, 1e15):
                self.refused(suite(policy={key: value}), f"policy: {key}", str(value))

    def test_every_wrong_value_of_every_field_is_taken_or_refused_by_name(self) -> None:
        places: list[tuple[str, Any]] = [
            (key, lambda v, k=key: suite(**{k: v})) for key in m.SUITE_FIELDS
        ]
        places += [(key, lambda v, k=key: suite(case(**{k: v}))) for key in m.CASE_FIELDS]
        places += [(key, lambda v, k=key: suite(policy={k: v})) for key in m.POLICY_FIELDS]
        places += [(key, lambda v, k=key: suite(prices={"m": {k: v}})) for key in m.PRICE_FIELDS]
        waiver = {"case": "a", "owner": "o", "ticket": "t", "until": "2026-12-31"}
        for key in m.QUARANTINE_FIELDS:
            places.append((key, lambda v, k=key: suite(policy={"quarantine": [{**waiver, k: v}]})))
        rest: dict[str, Any] = {
            "matrix[0]": lambda v: suite(case(matrix=[{"label": "l", "vars": v}])),
            "messages[0]": lambda v: suite(prompt=..., messages=[v]),
            "role": lambda v: suite(prompt=..., messages=[{"role": v, "content": "{{input}}"}]),
            "content": lambda v: suite(prompt=..., messages=[{"role": "user", "content": v}]),
            "fail[0]": lambda v: suite(case(examples={"fail": [v]})),
            "vars.v": lambda v: suite(case(vars={"v": v})),
            "cases[0]": lambda v: suite(v),
        }
        for kind, known in m.ASSERTION_TYPES.items():
            for key in ("value", *known.options):
                rest[f"assert[0] {kind}.{key}"] = lambda v, t=kind, k=key: suite(
                    case(**{"assert": [{"type": t, "value": 1, **{k: v}}]})
                )
        rest["assert[0] type"] = lambda v: suite(case(**{"assert": [{"type": v, "value": "x"}]}))
        for place, build in [*places, *rest.items()]:
            for value in WRONG:
                with self.subTest(place=place, value=value):
                    try:
                        parse(build(value))
                    except m.UsageError as error:
                        named = {
                            "messages",
                            "prompt",
                            "{{input}}",
                            "cases",
                            "asserts",
                            *place.split(" "),
                        }
                        self.assertTrue(any(n in str(error) for n in named), str(error))
                        self.assertLess(len(str(error)), 800)
                        self.assertNotRegex(str(error), r"\bNone\b|not a number$")

    def test_a_hostile_word_does_not_flood_the_message(self) -> None:
        for build in (
            lambda word: suite(case(**{word: 1})),
            lambda word: suite(case(**{"assert": [{"type": word, "value": 1}]})),
            lambda word: suite(case(id=word, samples=0)),
        ):
            self.assertLess(len(self.refused(build("x" * 100_000))), 2000)


class Warnings(Base):
    def test_a_case_that_silence_would_pass_is_warned_of(self) -> None:
        negative = {"type": "not-contains", "value": "x"}
        short = {"type": "max-chars", "value": 9}
        for assertions, warned in (
            ([negative], True), ([negative, short], True), ([negative, EQUALS], False), ([EQUALS], False),
        ):  # fmt: skip
            found = parse(suite(case(**{"assert": assertions}))).warnings
            self.assertEqual(bool(found), warned, assertions)
            for text in found:
                self.assertIn("case 'a'", text)
                self.assertIn("silence", text)

    def test_a_javascript_style_regex_is_warned_of(self) -> None:
        for pattern, warned in (
            ("/a+/i", True),
            ("/a/", True),
            ("a/b", False),
            ("/etc/passwd", False),
            (7, False),
        ):
            found = parse(suite(case(**{"assert": [{"type": "regex", "value": pattern}]}))).warnings
            self.assertEqual(bool(found), warned, pattern)
            self.assertTrue(all("JavaScript" in text and "case 'a'" in text for text in found))

    def test_python_itself_warns_of_nothing_on_stderr(self) -> None:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            parse(suite(case(**{"assert": [{"type": "regex", "value": "[[a]b"}]})))
        self.assertEqual([str(w.message) for w in caught], [])


class Shipped(unittest.TestCase):
    def test_the_suites_that_ship_parse_without_a_warning(self) -> None:
        paths = sorted((Path(m.__file__).parent / "suites").glob("*.json"))
        self.assertGreaterEqual(len(paths), 2)
        for path in paths:
            with self.subTest(suite=path.name):
                self.assertEqual(m.load_suite(str(path)).warnings, ())


if __name__ == "__main__":
    unittest.main()
