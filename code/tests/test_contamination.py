"""The contamination check: the word rule, exactness against brute force, training files, parts."""

from __future__ import annotations

import bz2
import gzip
import io
import itertools
import json
import lzma
import os
import random
import sys
import tempfile
import unicodedata
import unittest
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parent))
import helpers
import main

Documents = list[tuple[list[str], list[tuple[str, int]]]]  # words, file and line of each

SPACELESS_NAMES = (
    "CJK UNIFIED", "CJK COMPATIBILITY IDEO", "HIRAGANA", "KATAKANA", "HENTAIGANA", "IDEOGRAPHIC",
    "COMBINING KATAKANA", "VERTICAL KANA", "HANGZHOU", "MASU", "VERTICAL IDEO", "THAI ", "LAO ", "TIBETAN",
    "MYANMAR", "KHMER", "VIETNAMESE ALTERNATE", "OLD CHINESE",
)  # fmt: skip
LEAK = "one two three four five six seven eight nine ten"


def slow_words(text: str) -> list[str]:
    """The word rule, one character at a time and by Unicode names: slow, and written apart."""
    vanish = {0xAD, 0x200C, 0x200D, 0x2060, 0xFEFF, 0x180B, 0x180C, 0x180D, 0x180F}
    vanish |= {*range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0)}
    text = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    found, word = [], ""
    for char in text:
        if ord(char) in vanish:
            continue
        kept = unicodedata.category(char)[0] in "LNM"
        alone = kept and unicodedata.name(char, "").startswith(SPACELESS_NAMES)
        alone = alone and not unicodedata.name(char).startswith("IDEOGRAPHIC TALLY")
        if (not kept or alone) and word:
            found.append(word)
            word = ""
        if alone:
            found.append(char)
        elif kept:
            word += char
    return [*found, word] if word else found


def words(text: str) -> list[str]:
    return [word.decode() for word in main.words(text)]


def assert_word_rule(test: unittest.TestCase, points: Sequence[int]) -> None:
    for char in map(chr, points):
        text = f"a{char}b {char} Z{char}{char}\u0301 \u4e2d{char}<\u0338 e\u0301{char}\u0345"
        if words(text) != slow_words(text):
            test.fail(f"U+{ord(char):04X}: {words(text)}, not {slow_words(text)}")


def case(number: int, text: str, reference: str | None = None) -> main.Case:
    return main.Case(f"c{number}", text, (), "", reference)


def brute_force(cases: Sequence[main.Case], n: int, documents: Documents) -> list[tuple[object, ...]]:
    """Per case: n-grams found, n-grams, most hits of one, first places, words of the passage."""
    result: list[tuple[object, ...]] = []
    for one in cases:
        found = slow_words(one.input) + slow_words(one.reference or "")
        size = min(n, len(found))
        grams = [tuple(found[i : i + size]) for i in range(len(found) - size + 1)] if found else []
        hits: dict[tuple[str, ...], list[tuple[str, int]]] = {}
        for known, at in documents:
            for i in range(len(known) - size + 1):
                if tuple(known[i : i + size]) in grams:
                    hits.setdefault(tuple(known[i : i + size]), []).append(at[i])
        shown = [f"{path}:{line}" for path, line in sorted({min(at) for at in hits.values()})[:5]]
        pairs = itertools.combinations(range(len(grams) + 1), 2)
        runs = [j - i + size - 1 for i, j in pairs if hits.keys() >= set(grams[i:j])]
        most = max(map(len, hits.values()), default=0)
        result.append((len(hits), len(set(grams)), most, shown, max(runs, default=0)))
    return result


def scan(cases: Sequence[main.Case], n: int, path: str, processes: int = 1) -> main.ContaminationReport:
    index, world = main.index_cases(cases, n), helpers.world()
    tally = main.scan_corpus(index, main.list_tasks([path], "", world), False, processes, world)
    return main.assess_contamination("s", index, tally, 0.5)


class RandomCorpus:
    """A small suite and a corpus that shares much with it, with hits at every offset."""

    def __init__(self, seed: int, folder: str) -> None:
        self.rng = rng = random.Random(seed)
        self.n = rng.randint(2, 13)
        self.letters = rng.choice(("ab", "abcd", "abcdefgh", "abécß", "a中文b"))
        references = (None, "", "a", "b c")
        self.cases = [case(i, self.passage(18), rng.choice(references)) for i in range(rng.randint(1, 4))]
        self.documents: Documents = []
        self.path = os.path.join(folder, f"{seed}." + rng.choice(("jsonl", "txt")))
        Path(self.path).write_bytes(self.text() if self.path.endswith("txt") else self.jsonl())

    def passage(self, most: int) -> str:
        size = self.rng.choice((0, 1, 2, self.rng.randint(0, most), most))
        joints = (" ", " ", " ", ", ", "\n", "\r\n", "\u3002", "-", "\u2028", " \x01 ")
        return "".join(self.rng.choice(self.letters) + self.rng.choice(joints) for _ in range(size))

    def some(self) -> str:
        if self.rng.random() < 0.5:
            return self.passage(30)
        one = self.rng.choice(self.cases)
        found = slow_words(one.input + " " + (one.reference or ""))
        start = self.rng.randint(0, len(found))
        middle = " ".join(found[start : start + self.rng.randint(0, 20)])
        return self.passage(5) + middle + " " + self.passage(5)

    def jsonl(self) -> bytes:
        rows = []
        for line in range(1, self.rng.randint(1, 7)):
            texts = [self.some() for _ in range(self.rng.randint(0, 3))]
            record = {"text": texts[:1], "n": 1, "messages": [{"content": text} for text in texts[1:]]}
            end = "\r\n" if self.rng.random() < 0.2 else "\n"
            rows.append(json.dumps(record, ensure_ascii=self.rng.random() < 0.5) + end)
            for found in map(slow_words, texts):
                self.documents.append((found, [(self.path, line)] * len(found)))
        return "".join(rows).encode()

    def text(self) -> bytes:
        text = "".join(self.some() for _ in range(self.rng.randint(0, 6)))
        at = [(self.path, i) for i, line in enumerate(text.split("\n"), 1) for _ in slow_words(line)]
        self.documents.append((slow_words(text), at))
        return text.encode()


def assert_exact(test: unittest.TestCase, seeds: Sequence[int], processes: int = 1) -> None:
    """Equal to brute force, for ranges, pieces and blocks of any size."""
    with tempfile.TemporaryDirectory() as folder:
        for seed in seeds:
            corpus, rng = RandomCorpus(seed, folder), random.Random(seed)
            sizes = {"RANGE_BYTES": (1, 3, 7, 20, 64, 1 << 20), "PIECE_BYTES": (1, 5, 16, 1 << 18),
                     "BLOCK_WORDS": (1, 4, 16, 1 << 12)}  # fmt: skip
            chosen = {name: rng.choice(choices) for name, choices in sizes.items()}
            with test.subTest(seed=seed, n=corpus.n, **chosen), mock.patch.dict(vars(main), chosen):
                report = scan(corpus.cases, corpus.n, corpus.path, processes)
                got = [(c.matched, c.total, c.times, c.places, len(c.passage.split())) for c in report.cases]
                test.assertEqual(got, brute_force(corpus.cases, corpus.n, corpus.documents))


class ExactnessTest(unittest.TestCase):
    """Thousands of corpora and every code point: oracles/test_contamination_exhaustive.py."""

    def test_equal_to_brute_force_for_any_range_and_block_size(self) -> None:
        assert_exact(self, range(300))

    def test_equal_to_brute_force_with_two_processes(self) -> None:
        assert_exact(self, range(10_000, 10_004), processes=2)

    def test_the_word_rule_is_the_slow_rule_on_code_points_in_context(self) -> None:
        points = [*range(1, 0x600), *range(0x600, 0x3100, 11), *range(0x3100, 0x110000, 1997)]
        assert_word_rule(self, [*points, 0x16FE3, 0xE0100, 0xFF76, 0xFF9E])

    def test_examples_of_the_word_rule(self) -> None:
        for text, wanted in {
            "Don\u2019t STOP\u2014now": "don t stop now",
            "Stra\u00dfe STRASSE": "strasse strasse",
            "caf\u00e9 cafe\u0301": "caf\u00e9 caf\u00e9",
            "\u0939\u093f\u0928\u094d\u0926\u0940": "\u0939\u093f\u0928\u094d\u0926\u0940",
            "\u4e2d\u6587\u6d4b\u8bd5ab": "\u4e2d \u6587 \u6d4b \u8bd5 ab",
            "3.14 1,000 \u00bd \u2460": "3 14 1 000 1 2 1",
            "co\u00adop zero\u200dwidth \ufeffbom a\0b \ud800c": "coop zerowidth bom a b c",
        }.items():
            self.assertEqual(words(text), wanted.split())


class TrainingFilesTest(helpers.StubTestCase):
    def setUp(self) -> None:
        super().setUp()
        ask = {"assert": [{"type": "contains", "value": "x"}]}
        texts = {"leaked": LEAK, "clean": "nobody ever wrote these words in this order before"}
        self.suite_path = self.suite([{"id": name, "input": text, **ask} for name, text in texts.items()])

    def write(self, name: str, data: str | bytes) -> str:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data.encode() if isinstance(data, str) else data)
        return str(path)

    def check(self, *train: str, stdin: bytes = b"") -> helpers.Result:
        return self.command("--train", *train, stdin=stdin)

    def command(self, *argv: str, stdin: bytes = b"") -> helpers.Result:
        buffer = io.BufferedReader(io.BytesIO(stdin))
        world = helpers.world()._replace(stdin=io.TextIOWrapper(buffer))
        code = main.main(["contamination", *argv, "--suite", self.suite_path], world)
        assert isinstance(world.stdout, io.StringIO) and isinstance(world.stderr, io.StringIO)
        return helpers.Result(code, world.stdout.getvalue(), world.stderr.getvalue())

    def report(self, *argv: str) -> Any:
        return json.loads(self.command(*argv, "--json").out)

    def test_a_leak_is_flagged_with_its_line_and_passage_and_left_out_of_the_score(self) -> None:
        path = self.write("a.jsonl", '{"text": "x"}\n\n{"text": "so: One, two' + LEAK[7:] + '"}\n')
        self.assert_says(self.check(path), 1, "FLAGGED leaked: 100 %", f"{path}:3", LEAK, "1 of 2 cases")
        url = self.serve(self.suite_path, leaked="x", clean="no").url
        run = f"run --suite {self.suite_path} --base-url {url} --model m --out {self.path('r.json')}"
        helpers.run(*run.split())
        junit, out = self.path("j.xml"), self.path("o.json")
        argv = ("--train", path, "--results", self.path("r.json"), "--junit", junit, "--out", out)
        self.assert_says(self.command(*argv), 1, "without the flagged cases 0 of 1 pass")
        self.assertEqual(self.document("o.json"), self.report(*argv))
        self.assertEqual(self.document("o.json")["counts"], {"lines": 3, "records": 2, "words": 12})
        self.assertIn('failures="1"', Path(junit).read_text("utf-8"))

    def test_every_string_of_a_record_is_a_document_and_keys_are_not(self) -> None:
        chat = {"messages": [{"role": "user", "content": [{"type": "text", "text": LEAK}]}]}
        deep = [[[{"a": {"b": [1, None, LEAK]}}]]]
        split = {"prompt": LEAK[:20], "completion": LEAK[20:]}
        for record, code in ((chat, 1), (split, 0), ({LEAK: "x"}, 0), (LEAK, 1), (deep, 1)):
            self.assert_says(self.check(self.write("a.jsonl", json.dumps(record))), code)

    def test_text_is_one_document_over_its_lines_and_json_lines_are_not(self) -> None:
        self.assert_says(self.check(self.write("a.txt", LEAK.replace(" ", "\r\n\r\n"))), 1, "a.txt:1")
        rows = "".join(json.dumps({"text": word}) + "\n" for word in LEAK.split())
        self.assert_says(self.check(self.write("a.jsonl", rows)), 0)

    def test_archives_are_read_and_damaged_or_misnamed_ones_end_in_a_message(self) -> None:
        row = json.dumps({"text": LEAK}).encode() + b"\n"
        rng = random.Random(5)
        rows = "".join(json.dumps({"text": f"{rng.random()}"}) + "\n" for _ in range(3000)).encode()
        for suffix, pack in (("gz", gzip.compress), ("bz2", bz2.compress), ("xz", lzma.compress)):
            name = f"a.jsonl.{suffix}"
            self.assert_says(self.check(self.write(name, pack(b'{"a": "x"}\n') + pack(row))), 1, f"{name}:2")
            packed, half = pack(rows), len(pack(rows)) // 2
            flipped = packed[:half] + bytes([packed[half] ^ 0xFF]) + packed[half + 1 :]
            for data in (packed[:-20], packed[:half], flipped, rows, b""):
                self.assert_says(self.check(self.write(name, data), "--skip-bad"), 2, name, "cannot be read")

    def test_a_bad_line_is_named_and_skip_bad_counts_it(self) -> None:
        good = json.dumps({"text": LEAK}).encode()
        for bad in (b"{", b"{} {}", b'{"a": 1}, {"b": 2}', b"\xff", b'{"a": "\x01"}', b"[" * 100_000):
            path = self.write("a.jsonl", good + b"\n\n" + bad + b"\n" + good)
            self.assert_says(self.check(path), 2, f"{path}:3")
            self.assert_says(self.check(path, "--skip-bad"), 1, "2 records", "1 bad line skipped")
        path = self.write("a.txt", b"fine\nnot \xff utf \xfe 8\nfine \xe2\x82")
        self.assert_says(self.check(path), 2, f"{path}:2")
        self.assert_says(self.check(path, "--skip-bad"), 0, "2 bad lines skipped")
        path = self.write("b.jsonl", '{"text": "a"}\n' * 40 + "oops\n" + '{"text": "a"}\n' * 5)
        for ranges, processes in ((1, 1), (14, 1), (100, 2), (100, 1), (10_000, 1)):
            with mock.patch.object(main, "RANGE_BYTES", ranges):
                self.assert_says(self.check(path, "--processes", str(processes)), 2, f"{path}:41: ")

    def test_progress_is_about_twenty_plain_lines(self) -> None:
        path = self.write("a.txt", "word " * 20 + "\n" * 900)
        with mock.patch.object(main, "RANGE_BYTES", 5):
            said = self.check(path).err.splitlines()
        self.assertTrue(10 <= len(said) <= 20, said)
        self.assertRegex(said[-1], r"^scanned 0 of 0 MB, \d+\.\d MB/s, 0 s left$")

    def test_odd_but_valid_lines(self) -> None:
        data = '\ufeff{"text":"a b c"}\r\n\r\n{"text":"d\u2028e f"}\r\n' + "9" * 5000 + "\n"
        report = scan([case(1, "d e f")], 3, self.write("a.jsonl", data))
        self.assertEqual((report.counts["records"], report.cases[0].share), (3, 1.0))

    def test_folders_globs_streams_and_the_suites_own_file(self) -> None:
        path = self.write("deep/er/a.txt", LEAK)
        self.write("deep/.git/a.txt", "\0")
        self.assert_says(self.check(str(self.folder)), 1, "suite.json is the suite itself")
        pattern = self.path("**/*.txt")
        self.assertEqual(self.report("--train", pattern, pattern, self.path("deep"))["counts"]["records"], 1)
        row = json.dumps({"text": LEAK}).encode()
        self.assert_says(self.check("-", stdin=b"\n" + row), 1, "-:2")
        self.assert_says(self.check("-", path, "--processes", "2", stdin=row), 1, "found 2 times")
        self.assert_says(self.check(self.path("no*ne")), 2, "no*ne: no such file")
        for data in (LEAK.encode("utf-16"), LEAK.encode("utf-16-le"), b"PK\x03\x04\0"):
            self.assert_says(self.check(self.write("a.txt", data)), 2, "a.txt")

    def test_nothing_scanned_and_wrong_flags_are_refused(self) -> None:
        for data in ("", "\n", '{"a": 1}\n', '{"a": "..."}\n'):
            self.assert_says(self.check(self.write("a.jsonl", data)), 2, "nothing was scanned")
        self.assert_says(self.check(self.suite_path), 2, "nothing was scanned")
        path = self.write("a.txt", LEAK)
        for flags in (
            "--n 0",
            "--threshold 2",
            "--threshold nan",
            "--processes 0",
            "--shard 3/2",
            "--shard x",
        ):
            self.assert_says(self.check(path, *flags.split()), 2, flags.split()[0])
        self.assert_says(self.command(), 2, "--train")
        self.assert_says(self.check("-", "--shard", "1/2"), 2, "--part")

    def test_shards_add_up_to_the_whole_and_a_missing_one_is_refused(self) -> None:
        rows = ['{"text": "so"}\n' * 4 + json.dumps({"text": text}) for text in (LEAK[:-4], LEAK[4:])]
        files = [self.write(f"{i}.jsonl", row) for i, row in enumerate((*rows, "0"))]
        parts = [self.path(f"part{i}") for i in (1, 2, 3)]
        with mock.patch.object(main, "RANGE_BYTES", 20):
            whole = self.report("--train", *files)
            self.assertEqual(whole["cases"][0]["places"], [f"{file}:5" for file in files[:2]])
            for i, part in enumerate(parts, 1):
                self.assert_says(self.check(*files, "--shard", f"{i}/3", "--out", part), 0)
            foreign = self.write("foreign", self.check(*files[:2], "--shard", "3/3").out)
        self.assertEqual(self.report("merge", *parts), whole)
        for given, message in (
            (parts[:2], "needed, once"),
            ([*parts, parts[0]], "needed, once"),
            ([*parts[:2], foreign], "different lists"),
            ([*parts, self.suite_path], "suite.json"),
            ([*parts[:2], self.write("empty", "")], "needed, once"),
            ([*parts, "--n", "7"], "another --n"),
        ):
            self.assert_says(self.command("merge", *given), 2, message)

    def test_parts_of_streams_may_stand_in_one_file(self) -> None:
        row = json.dumps({"text": LEAK}).encode() + b"\n"
        lines = [self.check("-", "--part", stdin=data).out for data in (row, b"", b"\n" + row)]
        found = self.report("merge", self.write("parts", "".join(lines)))
        self.assertEqual((found["flagged"], found["cases"][0]["times"]), (["leaked"], 2))


class ReportedOdditiesTest(unittest.TestCase):
    def test_group_g_of_the_reported_oddities(self) -> None:
        chinese = "\u8bf7\u95ee\u5982\u4f55\u91cd\u7f6e\u8def\u7531\u5668\u7684\u7ba1\u7406\u5458\u5bc6\u7801"
        for text, n, documents, wanted in (
            (chinese, 8, [f"... {chinese}\uff1f ..."], (8, 8, 1.0, 1, ["f:0"])),  # no spaces
            ("ha " * 6, 3, ["ha ha ha"] * 1000, (1, 1, 1.0, 1000, ["f:0"])),  # counted, not listed
            ("quick brown fox jumps", 4, ["the quick brown", "fox jumps over"], (0, 1, 0.0, 0, [])),
            ("...", 2, ["a b"], (0, 0, None, 0, [])),  # no words
        ):
            index = main.index_cases([case(1, text)], n)
            scanner = main.Scanner(index, "f")
            main.scan_jsonl(scanner, [json.dumps(document).encode() + b"\n" for document in documents], 1e9)
            one = main.assess_contamination("s", index, scanner.tally, 0.5).cases[0]
            self.assertEqual((one.matched, one.total, one.share, one.times, one.places), wanted)


if __name__ == "__main__":
    unittest.main()
