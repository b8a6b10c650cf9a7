"""Text from outside is shown and never acts: terminals, CI commands, XML, Markdown."""

from __future__ import annotations

import html
import io
import re
import sys
import time
import unittest
from pathlib import Path
from xml.etree import ElementTree
from xml.sax.saxutils import escape, quoteattr

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import main as m

EVERY = "".join(map(chr, [*range(0x3100), *range(0xD7F0, 0xE010), *range(0xFDF0, 0x10010), 0x10FFFF]))
HOSTILE = "\x1b[31m\x07\r\n\u202e\u2028\x9b\ud800 ::error::x %0A ##[stop-commands]y ]]> <b>&lt;"


def acts(line: str) -> bool:
    """What actions/runner takes for a command (ActionCommand.cs): `::` first, or `##[` anywhere."""
    return line.strip().startswith("::") or "##[" in line


class Terminals(unittest.TestCase):
    def test_any_text_is_one_line_that_prints_and_encodes(self) -> None:
        for text in (EVERY, HOSTILE, "", "a\tb"):
            shown = m.printable(text)
            self.assertTrue(shown.isprintable())
            self.assertEqual(len(shown.splitlines() or [""]), 1)
            shown.encode("utf-8")

    def test_what_prints_stays_and_what_does_not_is_shown_as_an_escape(self) -> None:
        for text, shown in (
            *(
                ("Stra\u00dfe \u4e2d \U0001f600", "Stra\u00dfe \u4e2d \U0001f600"),
                ("a\nb\tc\r", "a\\nb\\tc\\r"),
            ),
            *(("\x1b[31m", "\\x1b[31m"), ("\u202e", "\\u202e"), ("\U000e0001", "\\U000e0001")),
            *(("\ud800", "\\ud800"), ("\u00a0", "\\xa0"), ("\x7f", "\\x7f"), ("C:\\n", "C:\\n")),
        ):
            self.assertEqual(m.printable(text), shown)

    def test_a_quoted_text_is_short_and_printable(self) -> None:
        self.assertEqual(m.quoted("a\n"), "'a\\n'")
        self.assertLess(len(m.quoted(HOSTILE * 1000)), 400)
        self.assertTrue(m.quoted(HOSTILE * 1000).isprintable())


class Shortening(unittest.TestCase):
    def test_it_keeps_head_and_tail_and_counts_what_is_left_out(self) -> None:
        text = "".join(chr(0x4E00 + i) for i in range(1000))
        for limit in (40, 60, 62, 200, 300, 900):
            short = m.shorten(text, limit)
            self.assertLessEqual(len(short), min(len(text), limit + 40))
            found = re.fullmatch(r"(.+?) \.\.\.\[(\d+) more[a-z ]*\]\.\.\. (.+)", short)
            assert found is not None
            head, count, tail = found.groups()
            self.assertTrue(text.startswith(head) and text.endswith(tail))
            self.assertEqual(len(head) + int(count) + len(tail), len(text), f"limit {limit}")
            self.assertGreater(len(head), len(tail))

    def test_a_text_within_the_limit_stays_and_none_gets_longer(self) -> None:
        for text in ("", "a", "x" * 60, "x" * 61, "x" * 90):
            self.assertLessEqual(len(m.shorten(text, 60)), len(text))
            self.assertIn(m.shorten(text, len(text)), text)


class WorkflowCommands(unittest.TestCase):
    def test_no_line_is_a_command_afterwards(self) -> None:
        for line in (
            *("::error::x", "  ::add-mask::x", "\t\u3000::x", "::", "##[group]x", " ##[error]x"),
            *("got '##[stop-commands]x'", "a ##[add-mask]b ##[c]d", "\x85::debug::x"),
        ):
            with self.subTest(line=line):
                self.assertTrue(acts(line))
                shown = m.neutral_line(line)
                self.assertFalse(acts(shown))
                self.assertIn(line.strip().strip("#:[")[:3], shown)

    def test_every_other_line_stays(self) -> None:
        for line in ("", "a::b", "# [x]", "## [x]", "std::vector", "| ::x", ":x:", "##"):
            self.assertEqual(m.neutral_line(line), line)

    def test_what_is_said_to_people_holds_no_command(self) -> None:
        stream = io.StringIO()
        world = m.real_world()._replace(stdout=stream, stderr=stream)
        m.say(world, "first\n::error::x\n  ::warning::y\nmid ##[add-mask]z")
        m.tell(world, "::error::x")
        self.assertEqual([line for line in stream.getvalue().split("\n") if acts(line)], [])

    def test_data_cannot_end_a_command_or_start_another(self) -> None:
        for is_property, free in ((False, ""), (True, ":,")):
            data = m.command_data(HOSTILE + ",:%3A", is_property=is_property)
            self.assertTrue(data.isprintable())
            self.assertEqual([c for c in free if c in data], [])
            self.assertNotRegex(data, r"%(?!25|3A|2C)")
            self.assertIn("%250A", data, "an escape of theirs stays text")
        self.assertEqual(m.command_data("50%: a, b"), "50%25: a, b")
        self.assertEqual(m.command_data("50%: a, b", is_property=True), "50%25%3A a%2C b")


class Xml(unittest.TestCase):
    def test_any_text_is_well_formed_in_content_and_attribute(self) -> None:
        for text in (EVERY, HOSTILE, "\x00\x0b\ufffe\uffff"):
            shown = m.xml_text(text)
            shown.encode("utf-8")
            parsed = ElementTree.fromstring(f"<a b={quoteattr(shown)}>{escape(shown)}</a>")
            self.assertTrue((parsed.text or "").endswith(shown[-3:]))

    def test_what_xml_can_hold_stays_and_the_rest_is_shown_as_an_escape(self) -> None:
        self.assertEqual(m.xml_text("a\tb\nc <&> \U0001f600"), "a\tb\nc <&> \U0001f600")
        self.assertEqual(m.xml_text("\x1b\x00\ufffe\ud800"), "\\x1b\\x00\\ufffe\\ud800")


class Markdown(unittest.TestCase):
    """Tried with GitHub's own renderer (cmarkgfm 2025.10.22); an unseen break is a comment or U+200B."""

    def rendered(self, shown: str) -> str:
        """What a reader sees: backslash escapes and entities are gone, a comment is a break."""
        text = re.sub("<!-- -->|&#8203;|\u200b", "\0", shown)
        return html.unescape(re.sub(r"\\([!-/:-@\[-`{-~])", r"\1", text))

    def test_no_mark_of_markdown_or_html_is_left_bare(self) -> None:
        for text in (
            *("**a** _b_ `c` ~~d~~", "[x](http://y)", "![x](y)", "<img src=x onerror=y>", "<!-- a"),
            *("a | b", "# head", "> quote", "- item", "+ item", "$x$", "a\\|b", "\\", "```\nx\n```"),
        ):
            with self.subTest(text=text):
                shown = m.markdown_text(text)
                bare = re.sub("<!-- -->|&#8203;|\u200b", "", shown)
                self.assertNotRegex(bare, r"(?<!\\)(?:\\\\)*[*_`~\[\]()|$<>{}]")
                self.assertNotRegex(bare, r"^[-+#>=]|\n")
                self.assertEqual(self.rendered(shown).replace("\0", ""), m.printable(text))

    def test_nothing_becomes_a_link_a_list_or_a_mention(self) -> None:
        for text in ("www.evil.example", "see WWW.evil.example/x", "https://evil.example", "1. item"):
            self.assertNotRegex(m.markdown_text(text), r"(?i)www\.|[^\\]://|^\d+[.)]")
        for text in ("@org/team", "me@evil.example", "mailto:me@evil.example", "#12", "org/repo#12"):
            # mentions, addresses and issues are found in the rendered text, after all escapes
            shown = self.rendered(m.markdown_text(text))
            self.assertNotRegex(shown, r"[@#]\w", text)
            self.assertEqual(shown.replace("\0", ""), text)

    def test_an_entity_of_theirs_stays_text(self) -> None:
        self.assertEqual(self.rendered(m.markdown_text("&lt;b&gt; &amp;")), "&lt;b&gt; &amp;")

    def test_it_is_one_line_and_cut_to_the_limit(self) -> None:
        shown = m.markdown_text(HOSTILE * 100, 100)
        self.assertEqual(len(shown.splitlines()), 1)
        self.assertLess(len(shown), 1500)


class Nearest(unittest.TestCase):
    def test_a_near_word_is_proposed_and_else_the_known_ones(self) -> None:
        known = ("equals", "contains", "regex")
        self.assertEqual(m.nearest("equal", known), " (did you mean 'equals'?)")
        self.assertEqual(m.nearest("similar", known), " (known: contains, equals, regex)")
        self.assertEqual(m.nearest("", known), " (known: contains, equals, regex)")

    def test_a_long_word_is_answered_at_once(self) -> None:
        started = time.process_time()
        m.nearest("contains" * 50_000, ("contains", "not-contains"))
        self.assertLess(time.process_time() - started, 1.0)


class InvisibleDifference(unittest.TestCase):
    def test_texts_that_look_alike_are_told_apart(self) -> None:
        for expected, got, word in (
            ("a b", "a  b", "white space"),
            ("a", "a\n", "white space"),
            ("a", "\u00a0a", "white space"),
            ("a b", "a\u00a0b", "white space"),
            ("caf\u00e9", "cafe\u0301", "NFC"),
            ("\ufb01ne", "fine", "NFKC"),
            ("\uff11", "1", "NFKC"),
            ("5", "\u200b5", "U+200B"),
            ("5", "\ufeff5\u00ad", "U+00AD, U+FEFF"),
            ("5\u200b", "5", "U+200B"),
        ):
            with self.subTest(expected=expected, got=got):
                self.assertIn(word, m.invisible_difference(expected, got) or "None")

    def test_texts_that_differ_visibly_are_not(self) -> None:
        for expected, got in (("a", "b"), ("a", "A"), ("ab c", "a bc"), ("a", ""), ("5", "\u200b6")):
            self.assertIsNone(m.invisible_difference(expected, got), (expected, got))

    def test_a_long_hostile_answer_is_compared_in_linear_time(self) -> None:
        started = time.process_time()
        for got in ("\u200b" * 30_000 + "x" * 30_000, " " * 10**6, "e\u0301" * 10**5):
            m.invisible_difference("5", got)
        self.assertLess(time.process_time() - started, 1.0)


if __name__ == "__main__":
    unittest.main()
