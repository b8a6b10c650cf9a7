"""A key is nowhere but in the request, whoever says it."""

from __future__ import annotations

import os
import sys
import unittest
from pathlib import Path
from typing import Any
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import main as m
from helpers import Result, RunTestCase

CANARY = "sk-canary-7f3a9c51d2"


class SecretTest(RunTestCase):
    def everything(self, result: Result) -> str:
        files = [path.read_text("utf-8", "replace") for path in self.folder.rglob("*") if path.is_file()]
        return "\n".join([result.out, result.err, *files])

    def test_a_key_is_nowhere_whoever_says_it(self) -> None:
        said = {"error": {"message": f"bad key {CANARY}", "type": CANARY, "code": CANARY}}
        message = {"content": f"your key is {CANARY}"}
        reply = {"model": CANARY, "system_fingerprint": CANARY, "choices": [{"message": message}]}
        headers = {"X-Key": CANARY, "Server": CANARY}
        faults: list[dict[str, Any]] = [
            {"case": "c0", "status": 400, "body": said, "headers": headers},
            {"case": "c1", "body": reply, "headers": headers},
            {"case": "c2", "status": 500, "body": f"<html>{CANARY}</html>"},
            {"case": "c3", "body": f'{{"choices": {CANARY}'},
            {"case": "c4", "status": 302, "headers": {"Location": f"http://x/{CANARY}"}},
        ]
        suite = self.suite(6)
        stub = self.serve(suite, faults=faults)
        port = stub.url.split(":")[-1]
        url = f"http://user:{CANARY}@127.0.0.1:{port}?api-version=1&key={CANARY}"
        ways: list[tuple[list[str], dict[str, str], str | None]] = [
            ([], {"OPENAI_API_KEY": CANARY}, None),
            (["--api-key-env", "AZ", "--api-key-header", "api-key"], {"AZ": CANARY + "\r\n"}, None),
            (["--header", "X-Gate=GATE"], {"GATE": CANARY}, None),
            ([], {}, url),
        ]
        for flags, environ, other in ways:
            if other:
                stub.url = other
            with self.subTest(flags=flags, other=other):
                more = ["--junit", self.path("j.xml"), *flags]
                result = self.ask(suite, stub, *more, environ=environ)
                self.assert_says(result, 1)
                self.assertNotIn(CANARY, self.everything(result))
                self.assertNotIn(CANARY[3:], self.everything(result))
                os.unlink(self.path("r.json.journal"))

    def test_a_traceback_and_a_refusal_hold_no_key(self) -> None:
        suite = self.suite()
        stub = self.serve(suite)
        environ = {"OPENAI_API_KEY": CANARY, "BAD": CANARY + "\n\x01" + CANARY, "WIDE": CANARY + "→"}
        with mock.patch.object(m, "read_reply", side_effect=RuntimeError("bug")):
            bug = self.ask(suite, stub, environ=environ)
        self.assert_says(bug, 70, "this is a bug in minieval")
        refused = [
            self.ask(suite, stub, "--api-key-env", "BAD", environ=environ),
            self.ask(suite, stub, "--header", "X=WIDE", environ=environ),
            self.ask(suite, stub, "--judge-base-url", f"ftp://u:{CANARY}@h", "--judge", "j", environ=environ),
        ]  # fmt: skip
        for url in (f"http://u:{CANARY}@[::1", f"http://u:{CANARY}@h:port", f"//u:{CANARY}@h"):
            stub.url = url
            refused.append(self.ask(suite, stub, environ=environ))
        for result in (bug, *refused):
            self.assertNotIn(CANARY, self.everything(result))
        self.assertEqual([result.code for result in refused], [2] * 6)

    def test_a_header_whose_variable_is_not_set_is_refused(self) -> None:
        suite = self.suite()
        result = self.ask(suite, self.serve(suite), "--header", "X-Gate=GATE")
        self.assert_says(result, 2, "GATE is empty")


if __name__ == "__main__":
    unittest.main()
