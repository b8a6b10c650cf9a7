"""The contamination check: the word rule, exactness against brute force, training files, parts."""

from __future__ import annotations

import bz2
import contextlib
import gzip
import io
import json
import lzma
import os
import random
import sys
import tempfile
import types
import unicodedata
import unittest
from pathlib import Path
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import main

SPACELESS_NAMES = (
    "CJK UNIFIED", "CJK COMPATIBILITY IDEO", "HIRAGANA", "KATAKANA", "HENTAIGANA", "IDEOGRAPHIC",
    "COMBINING KATAKANA", "VERTICAL KANA", "HANGZHOU", "MASU", "VERTICAL IDEO", "THAI ", "LAO ", "TIBETAN",
    "MYANMAR", "KHMER", "VIETNAMESE ALTERNATE", "OLD CHINESE",
)  # fmt: skip


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


def case(number: int, text: str, reference: str | None = None) -> types.SimpleNamespace:
    return types.SimpleNamespace(id=f"c{number}", input=text, reference=reference)


def brute_force(cases, n, documents):
    """Per case: (matched, total, lines, first places, longest passage in words)."""
    split = [(place_of, slow_words(text)) for place_of, text in documents]
    result = []
    for one in cases:
        found = slow_words(one.input) + slow_words(one.reference or "")
        size = min(n, len(found))
        grams = {tuple(found[i : i + size]) for i in range(len(found) - size + 1)} if found else set()
        lines: dict[tuple[str, ...], set[tuple[str, int]]] = {}
        longest = 0
        for place_of, text in split:
            for i in range(len(text)):
                gram = tuple(text[i : i + size])
                if gram not in grams:
                    continue
                lines.setdefault(gram, set()).add(place_of(i))
                for j in range(len(found)):
                    k = 0
                    while i + k < len(text) and j + k < len(found) and text[i + k] == found[j + k]:
                        k += 1
                    longest = max(longest, k if k >= size else 0)
        places = sorted(set().union(*lines.values())) if lines else []
        most = max(map(len, lines.values()), default=0)
        result.append((len(lines), len(grams), most, places[:5], longest))
    return result


def scan(cases, n, patterns, processes=1, range_bytes=1 << 24, skip_bad=False, shards=1):
    index = main.index_cases(cases, n)
    tasks = main.list_tasks(patterns, [], "auto", range_bytes, [])
    total = main.Tally()
    for shard in range(shards):
        progress = main.Progress(io.StringIO(), lambda: 0.0, 0)
        total.add(main.scan_corpus(index, tasks[shard::shards], skip_bad, processes, progress))
    return main.assess_contamination(index, total, 0.5)


def figures(report):
    return [(one.matched, one.total, one.lines, one.places, one.passage_words) for one in report.cases]


class RandomCorpora:
    """Small suites and corpora that share much, with hits at every offset."""

    def __init__(self, seed: int, folder: str) -> None:
        self.rng = rng = random.Random(seed)
        self.n = rng.randint(2, 13)
        letters = rng.choice(("ab", "abcd", "abcdefgh", "abécß", "a中文b"))
        self.cases = [case(i, self.passage(letters, 18), rng.choice((None, "", "a", "b c")))
                      for i in range(rng.randint(1, 4))]  # fmt: skip
        self.documents: list[tuple[object, str]] = []
        self.path = os.path.join(folder, f"{seed}." + rng.choice(("jsonl", "txt")))
        data = self.text(letters) if self.path.endswith("txt") else self.jsonl(letters)
        with open(self.path, "wb") as stream:
            stream.write(data)

    def passage(self, letters: str, most: int) -> str:
        rng = self.rng
        size = rng.choice((0, 1, 2, rng.randint(0, most), most))
        joints = (" ", " ", " ", ", ", "\n", "\r\n", "\u2028", "-", "\u2014", " \0 ")
        return "".join(rng.choice(letters) + rng.choice(joints) for _ in range(size))

    def leak(self, letters: str) -> str:
        one = self.rng.choice(self.cases)
        found = slow_words(one.input + " " + (one.reference or ""))
        start = self.rng.randint(0, len(found))
        middle = " ".join(found[start : start + self.rng.randint(0, 20)])
        return self.passage(letters, 5) + middle + " " + self.passage(letters, 5)

    def some(self, letters: str) -> str:
        return self.rng.choice((self.passage, lambda at, _most: self.leak(at)))(letters, 30)

    def jsonl(self, letters: str) -> bytes:
        rows = []
        for line in range(1, self.rng.randint(1, 7)):
            texts = [self.some(letters) for _ in range(self.rng.randint(0, 3))]
            record = {"text": texts[:1], "n": 1, "messages": [{"content": text} for text in texts[1:]]}
            rows.append(json.dumps(record, ensure_ascii=self.rng.random() < 0.5) + "\n")
            if self.rng.random() < 0.2:
                rows[-1] = rows[-1].replace("\n", "\r\n")
            for text in texts:
                self.documents.append((lambda _i, line=line: (self.path, line), text))
        return "".join(rows).encode()

    def text(self, letters: str) -> bytes:
        text = "".join(self.some(letters) for _ in range(self.rng.randint(0, 6)))
        text = text.replace("\0", "\x01")  # a text file with NULs is refused
        lines: list[int] = []
        for number, line in enumerate(text.split("\n"), 1):
            lines += [number] * len(slow_words(line))
        self.documents.append((lambda i: (self.path, lines[i]), text))
        return text.encode()


class ExactnessTest(unittest.TestCase):
    def check(self, seeds: range, processes: int = 1, blocks: bool = True) -> None:
        with tempfile.TemporaryDirectory() as folder:
            for seed in seeds:
                corpus = RandomCorpora(seed, folder)
                ranges = random.Random(seed).choice((1, 3, 7, 20, 64, 1 << 20))
                with self.subTest(seed=seed, n=corpus.n, ranges=ranges):
                    wanted = brute_force(corpus.cases, corpus.n, corpus.documents)
                    block = random.Random(seed).choice((1, 5, 16, 1 << 18)) if blocks else 1 << 18
                    with mock.patch.object(MODULE, "BATCH_BYTES", block):
                        got = scan(corpus.cases, corpus.n, [corpus.path], processes, ranges)
                    self.assertEqual(figures(got), wanted)
                os.remove(corpus.path)

    def test_equal_to_brute_force_for_any_range_and_block_size(self) -> None:
        self.check(range(700))  # thousands: oracles/test_contamination_exhaustive.py

    def test_equal_to_brute_force_with_two_processes(self) -> None:
        self.check(range(10_000, 10_006), processes=2, blocks=False)


MODULE = sys.modules[main.index_cases.__module__]


class WordsTest(unittest.TestCase):
    def test_examples_of_the_rule(self) -> None:
        for text, wanted in {
            "Don\u2019t STOP\u2014now": "don t stop now",
            "Stra\u00dfe STRASSE": "strasse strasse",
            "caf\u00e9 cafe\u0301": "caf\u00e9 caf\u00e9",
            "\u0939\u093f\u0928\u094d\u0926\u0940": "\u0939\u093f\u0928\u094d\u0926\u0940",
            "\u4e2d\u6587\u6d4b\u8bd5ab": "\u4e2d \u6587 \u6d4b \u8bd5 ab",
            "3.14 1,000": "3 14 1 000",
            "\u00bd \u2460": "1 2 1",
            "co\u00adop zero\u200dwidth \ufeffbom": "coop zerowidth bom",
            "a\0b \ud800c": "a b c",
            "": "",
        }.items():
            with self.subTest(text=text):
                self.assertEqual(main.words(text), wanted.split())

    def test_equal_to_the_slow_rule_on_a_sample_of_code_points_in_context(self) -> None:
        # every code point: oracles/test_contamination_exhaustive.py
        points = [*range(1, 0x3100), *range(0x3100, 0x110000, 997), 0x16FE3, 0xE0100, 0xFF76]
        for point in points:
            char = chr(point)
            text = f"a{char}b {char} Z{char}{char}\u0301 \u4e2d{char}<\u0338"
            if main.words(text) != slow_words(text):
                self.fail(f"U+{point:04X}: {main.words(text)} is not {slow_words(text)}")

    def test_cutting_before_a_safe_place_changes_no_word(self) -> None:
        before = ("a", "Z", "\u0e01", "\u304b", "e\u0301", "\u4e2d", "<", "\u1100", " ")
        after = ("", "b", "\u0338", "\u3099", "\u0301", "\u0e33", "\u200d")
        for point in [*range(1, 0x1800), *range(0x1800, 0xA000, 101)]:
            if MODULE._SAFE_CUT.match(chr(point)):
                for left, right in ((one, other) for one in before for other in after):
                    right = chr(point) + right
                    cut = main.words(left) + main.words(right)
                    self.assertEqual(main.words(left + right), cut, (left, right))


class TrainingFilesTest(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.leak = "one two three four five six seven eight nine ten"
        self.suite = self.write(
            "suite.json",
            json.dumps(
                {
                    "name": "s",
                    "prompt": "You are a helpful assistant. {{input}}",
                    "cases": [
                        {"id": "leaked", "input": self.leak, "assert": [{"type": "contains", "value": "x"}]},
                        {
                            "id": "clean",
                            "input": "nobody ever wrote these words in this order before",
                            "assert": [{"type": "contains", "value": "x"}],
                        },
                    ],
                }
            ),
        )

    def write(self, name: str, data: str | bytes) -> str:
        path = os.path.join(self.folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as stream:
            stream.write(data.encode() if isinstance(data, str) else data)
        return path

    def run_main(self, *args: str, stdin: bytes = b"") -> tuple[int, str, str]:
        out, err = io.StringIO(), io.StringIO()
        with (
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
            mock.patch.object(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin))),
        ):
            code = main.main(["contamination", *args])
        return code, out.getvalue(), err.getvalue()

    def check(self, *train: str, **options: object) -> tuple[int, str, str]:
        return self.run_main("--suite", self.suite, "--train", *train, **options)

    def test_leak_is_flagged_with_its_line_and_passage(self) -> None:
        path = self.write("a.jsonl", '{"text": "x"}\n\n{"text": "so: One, two' + self.leak[7:] + '"}\n')
        code, out, _err = self.check(path)
        self.assertEqual(code, 1)
        self.assertIn("leaked", out)
        self.assertIn(f"{path}:3", out)
        self.assertIn(self.leak, out)
        code, out, _err = self.check(path, "--json")
        report = json.loads(out)
        self.assertEqual((code, report["flagged"], report["records"]), (1, ["leaked"], 2))

    def test_every_string_of_a_record_is_a_document_and_keys_are_not(self) -> None:
        half, rest = self.leak[:20], self.leak[20:]
        chat = {"messages": [{"role": "user", "content": [{"type": "text", "text": self.leak}]}]}
        for record, code in (
            (chat, 1),
            ({"prompt": half, "completion": rest}, 0),
            ({self.leak: "x"}, 0),
            (self.leak, 1),
            ([[[{"a": {"b": [1, None, self.leak]}}]]], 1),
        ):
            with self.subTest(record=record):
                path = self.write("a.jsonl", json.dumps(record))
                self.assertEqual(self.check(path)[0], code)

    def test_text_is_one_document_over_its_lines_and_json_lines_are_not(self) -> None:
        text = self.leak.replace(" ", "\r\n\r\n")
        code, out, _err = self.check(self.write("a.txt", text))
        self.assertEqual(code, 1)
        self.assertIn("a.txt:1", out)
        rows = "".join(json.dumps({"text": word}) + "\n" for word in self.leak.split())
        self.assertEqual(self.check(self.write("a.jsonl", rows))[0], 0)

    def test_archives_are_read_by_their_magic_and_members_concatenate(self) -> None:
        row = json.dumps({"text": self.leak}).encode() + b"\n"
        filler = b'{"text": "filler"}\n'
        for name, data in (
            ("a.jsonl.gz", gzip.compress(filler) + gzip.compress(row)),
            ("a.jsonl.bz2", bz2.compress(filler) + bz2.compress(row)),
            ("a.jsonl.xz", lzma.compress(filler) + lzma.compress(row)),
            ("no-suffix", gzip.compress(filler + row)),
        ):
            with self.subTest(name=name):
                path = self.write(name, data)
                code, out, _err = self.check(path)
                self.assertEqual(code, 1)
                self.assertIn(f"{name}:2", out)
                with open(path, "rb") as stream:
                    data = stream.read()
                self.assertEqual(self.check("-", stdin=data)[0], 1)

    def test_a_damaged_or_misnamed_archive_ends_in_a_message(self) -> None:
        rng = random.Random(5)
        rows = "".join(json.dumps({"text": f"{rng.random()}"}) + "\n" for _ in range(9000)).encode()
        for suffix, packed in (
            ("gz", gzip.compress(rows)),
            ("bz2", bz2.compress(rows)),
            ("xz", lzma.compress(rows)),
        ):
            flipped = bytearray(packed)
            flipped[len(packed) // 2] ^= 0xFF
            for data in (packed[:-20], packed[: len(packed) // 2], bytes(flipped), rows, b""):
                path = self.write(f"a.jsonl.{suffix}", data)
                for skip in ((), ("--skip-bad",)):
                    code, _out, err = self.check(path, *skip)
                    self.assertEqual(code, 2, err)
                    self.assertIn(path, err)

    def test_a_bad_line_is_named_and_skip_bad_counts_it(self) -> None:
        good = json.dumps({"text": self.leak}).encode()
        for bad in (
            b"{", b"{} {}", b'{"a": 1}, {"b": 2}', b"\xff", b'{"a": "\x01"}', b"[" * 100_000,
        ):  # fmt: skip
            path = self.write("a.jsonl", good + b"\n\n" + bad + b"\n" + good)
            with self.subTest(bad=bad[:20]):
                code, _out, err = self.check(path)
                self.assertEqual(code, 2)
                self.assertIn(f"{path}:3", err)
                code, out, _err = self.check(path, "--skip-bad", "--json")
                self.assertEqual((code, json.loads(out)["bad"], json.loads(out)["records"]), (1, 1, 2))
        path = self.write("a.txt", b"fine\nnot \xff utf \xfe 8\nfine \xe2\x82")
        code, _out, err = self.check(path)
        self.assertEqual(code, 2)
        self.assertIn(f"{path}:2", err)
        self.assertEqual(json.loads(self.check(path, "--skip-bad", "--json")[1])["bad"], 2)

    def test_a_bad_line_has_the_same_number_in_any_range_and_process(self) -> None:
        path = self.write("a.jsonl", '{"text": "a"}\n' * 40 + "oops\n" + '{"text": "a"}\n' * 5)
        cases = [case(1, self.leak)]
        for ranges in (1, 5, 14, 100, 10_000):
            for processes in (1, 2) if ranges == 100 else (1,):
                named = self.assertRaisesRegex(main.UsageError, ":41: ")
                with mock.patch.object(MODULE, "BATCH_BYTES", 10), named:
                    scan(cases, 8, [path], processes, ranges)

    def test_odd_but_valid_lines(self) -> None:
        data = '\ufeff{"text":"a b c"}\r\n\r\n{"text":"d\u2028e f"}\r\n' + "9" * 5000 + "\n"
        report = scan([case(1, "d e f")], 3, [self.write("a.jsonl", data)])
        self.assertEqual((report.records, report.cases[0].share), (3, 1.0))

    def test_folders_globs_and_the_suites_own_file(self) -> None:
        self.write("deep/er/a.txt", self.leak)
        self.write("deep/data.parquet", b"PAR1" + b"\0" * 9)
        self.write("deep/.git/a.txt", "x")
        code, out, err = self.check(self.folder)
        self.assertEqual(code, 1)
        for note in ("suite.json", "data.parquet", ".git"):
            self.assertIn(note, err)
            self.assertIn(note, out)
        pattern = os.path.join(self.folder, "**", "*.txt")
        self.assertEqual(self.check(pattern)[0], 1)
        twice = self.check(pattern, pattern, os.path.join(self.folder, "deep"), "--json")[1]
        self.assertEqual(json.loads(twice)["records"], 1)
        for wrong in ("none", "no*ne", os.path.join("deep", "data.parquet")):
            code, _out, err = self.check(os.path.join(self.folder, wrong))
            self.assertEqual(code, 2)
            self.assertIn(wrong, err)

    def test_nothing_scanned_is_no_pass(self) -> None:
        for data in ("", "\n", '{"a": 1}\n', '{"a": "..."}\n'):
            code, _out, err = self.check(self.write("a.jsonl", data))
            self.assertEqual(code, 2, data)
            self.assertIn("nothing was scanned", err)
        self.assertEqual(self.check(self.suite)[0], 2)
        self.assertEqual(self.check("-")[0], 2)

    def test_wrong_flags_are_refused(self) -> None:
        path = self.write("a.txt", self.leak)
        for flags in (
            ("--n", "0"), ("--threshold", "0"), ("--threshold", "nan"), ("--threshold", "1.5"),
            ("--processes", "0"), ("--shard", "3/2"), ("--shard", "x"), ("--shard", "0/2"),
        ):  # fmt: skip
            self.assertEqual(self.check(path, *flags)[0], 2, flags)
        self.assertEqual(self.run_main("--suite", self.suite)[0], 2)
        self.assertEqual(self.check("-", "--shard", "1/2")[0], 2)

    def test_utf16_and_binary_are_named_not_misread(self) -> None:
        for data in (self.leak.encode("utf-16"), self.leak.encode("utf-16-le"), b"PK\x03\x04"):
            self.assertEqual(self.check(self.write("a.txt", data))[0], 2)
            self.assertEqual(self.check("-", stdin=data)[0], 2)

    def test_parts_add_up_to_the_whole(self) -> None:
        paths = [self.write(f"{i}.jsonl", json.dumps({"text": self.leak[i:]}) + "\n") for i in range(5)]
        whole = self.check(*paths, "--json")
        parts = [os.path.join(self.folder, f"part{i}") for i in range(3)]
        for i, part in enumerate(parts, 1):
            code = self.check(*paths, "--shard", f"{i}/3", "--out", part)[0]
            self.assertEqual(code, 0)
        merge = ("merge", "--suite", self.suite)
        self.assertEqual(self.run_main(*merge, *parts, "--json"), whole)
        for wrong, message in (
            (parts[:2], "missing"),
            ([*parts, parts[0]], "already"),
            ([*parts, self.suite], "suite.json"),
            ([*parts, self.write("empty", "")], "empty"),
        ):
            code, _out, err = self.run_main(*merge, *wrong)
            self.assertEqual(code, 2)
            self.assertIn(message, err)
        self.assertEqual(self.run_main(*merge, *parts, "--n", "7")[0], 2)

    def test_streams_give_parts_that_may_stand_in_one_file(self) -> None:
        row = json.dumps({"text": self.leak}).encode() + b"\n"
        lines = [self.check("-", "--part", stdin=data)[1] for data in (row, b"", b"\n" + row)]
        self.assertEqual([line.count("\n") for line in lines], [1, 1, 1])
        path = self.write("parts", "".join(lines))
        code, out, _err = self.run_main("merge", path, "--suite", self.suite, "--json")
        found = json.loads(out)["cases"][0]
        self.assertEqual((code, found["lines"]), (1, 2))
        self.assertEqual(found["places"], [f"{path}#1:1", f"{path}#3:2"])

    def test_long_text_without_a_space_is_cut_where_no_word_is_lost(self) -> None:
        leak = "\u8bf7\u95ee\u5982\u4f55\u91cd\u7f6e\u8def\u7531\u5668"
        filler = "\u4e2d\u6587" * 40
        cases = [case(1, leak)]
        for block in (7, 16, 64):
            for shift in range(9):
                path = self.write("a.txt", filler[:shift] + filler + leak + filler)
                with mock.patch.object(MODULE, "BATCH_BYTES", block):
                    self.assertEqual(scan(cases, 8, [path]).cases[0].share, 1.0)


class ReportedOdditiesTest(unittest.TestCase):
    """Group G of the reported oddities, in one corpus each."""

    def report(self, cases, n, texts):
        index = main.index_cases([case(i, text) for i, text in enumerate(cases)], n)
        scanner = main.Scanner(index)
        main.feed_documents(scanner, texts, list(range(len(texts))))
        return main.assess_contamination(index, scanner.tally, 0.5)

    def test_text_without_spaces_is_matched_character_by_character(self) -> None:
        text = "\u8bf7\u95ee\u5982\u4f55\u91cd\u7f6e\u8def\u7531\u5668\u7684\u7ba1\u7406\u5458\u5bc6\u7801"
        one = self.report([text], 8, [f"... {text}\uff1f ..."]).cases[0]
        self.assertEqual((one.matched, one.total, one.share, one.passage_words), (8, 8, 1.0, 15))

    def test_a_repeated_document_is_counted_and_not_listed(self) -> None:
        one = self.report(["ha " * 6], 3, ["ha ha ha"] * 1000).cases[0]
        self.assertEqual((one.matched, one.total, one.lines, len(one.places)), (1, 1, 1000, 5))

    def test_ngrams_do_not_cross_documents(self) -> None:
        one = self.report(["quick brown fox jumps"], 4, ["the quick brown", "fox jumps over"]).cases[0]
        self.assertEqual(one.share, 0.0)

    def test_a_case_without_words_has_no_share(self) -> None:
        one = self.report(["...", "a b"], 2, ["a b"]).cases[0]
        self.assertEqual((one.share, one.flagged), (None, False))

    def test_wording_that_most_cases_share_is_noted(self) -> None:
        cases = [f"answer in one word only please {word}" for word in "abcde"]
        report = self.report(cases, 6, ["answer in one word only please"])
        self.assertIn("most cases", " ".join(report.notes))


if __name__ == "__main__":
    unittest.main()
