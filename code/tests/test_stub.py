"""The stub says what it was told to, in the shapes of the OpenAI API, and invents nothing."""

from __future__ import annotations

import contextlib
import http.client
import io
import json
import re
import socket
import sys
import time
import unittest
from pathlib import Path
from typing import Any
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import main as m
from helpers import ANSWERS, OPS, Script, StubTestCase, run

USER = {"role": "user", "content": "q0"}


class TalkTestCase(StubTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.file = self.suite(3)
        self.stub = self.serve(self.file, c0=["zero", "one", "two"], c1="ok")

    def connect(self, stub: Any = None) -> http.client.HTTPConnection:
        address = (stub or self.stub).url.split("/")[2]
        connection = http.client.HTTPConnection(address, timeout=5)
        self.addCleanup(connection.close)
        return connection

    def post(self, body: Any, connection: Any = None, path: str = "/v1/chat/completions") -> tuple[int, Any]:
        connection = connection or self.connect()
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        connection.request("POST", path, data)
        reply = connection.getresponse()
        return reply.status, json.loads(reply.read())

    def ask(self, model: str = "m", content: str = "q0", **more: Any) -> tuple[int, Any]:
        return self.post({"model": model, "messages": [{**USER, "content": content}], **more})


class ShapeTest(TalkTestCase):
    def test_a_completion_has_the_shape_of_the_api_and_usage_by_a_fixed_rule(self) -> None:
        status, found = self.ask("m", "q1")
        self.assertEqual(status, 200)
        message = {"role": "assistant", "content": "ok"}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        self.assertEqual((found["object"], found["model"]), ("chat.completion", "m"))
        self.assertEqual(found["choices"], [choice])
        usage = {"prompt_tokens": 5, "completion_tokens": 1, "total_tokens": 6}
        self.assertEqual(found["usage"], usage)  # 4 a message, and 1 for each 4 bytes of UTF-8

    def test_a_token_is_four_bytes_of_utf_8_rounded_up(self) -> None:
        table = [("", 0), ("a", 1), ("abcd", 1), ("abcde", 2), ("通过", 2), ("😀", 1), ("\ud800", 1)]
        for text, tokens in table:
            self.assertEqual(m.stub_tokens(text), tokens, repr(text))

    def test_seed_n_gets_answer_n_mod_the_length_of_the_list(self) -> None:
        for seed, said in ((0, "zero"), (1, "one"), (2, "two"), (3, "zero"), (10**30, "one"), (-1, "two")):
            status, found = self.ask(seed=seed)
            self.assertEqual((status, found["choices"][0]["message"]["content"]), (200, said))
        self.assertEqual(self.ask()[1]["choices"][0]["message"]["content"], "zero")

    def test_it_lists_its_models(self) -> None:
        connection = self.connect()
        connection.request("GET", "/v1/models")
        found = json.loads(connection.getresponse().read())
        self.assertEqual(found["object"], "list")
        self.assertEqual([model["id"] for model in found["data"]], ["m", "judge-v1"])

    def test_a_connection_is_kept_over_answers_and_errors(self) -> None:
        connection = self.connect()
        connection.connect()
        first = connection.sock
        for body in ({"model": "m", "messages": [USER]}, {"model": "none", "messages": [USER]}, b"x"):
            self.post(body, connection)
            self.post(body, connection, "/nowhere")
            self.assertIs(connection.sock, first)

    def test_it_listens_on_loopback_only(self) -> None:
        server = m.stub_server(self.stub)
        self.addCleanup(server.server_close)
        self.assertEqual(server.server_address[0], "127.0.0.1")
        self.assertIn("http://127.0.0.1:", server.base_url)


class LackTest(TalkTestCase):
    def test_what_the_script_lacks_is_an_error_and_never_an_answer(self) -> None:
        table = [
            (("none", "q0"), "no model 'none'; it has m, judge-v1"),
            (("m", "q9"), "knows no case with this prompt"),
            (("m", "q0 "), "knows no case with this prompt"),
            (("judge-v1", "q0"), "cannot read this"),
        ]
        for asked, words in table:
            with self.subTest(asked=asked):
                status, found = self.ask(*asked)
                self.assertEqual(status, 404)
                self.assertIn(words, found["error"]["message"])
                self.assertEqual(set(found["error"]), {"message", "type", "param", "code"})
        del self.stub.models["m"]["answers"]["c1"]
        self.assertIn("no answer of 'm' for case 'c1'", self.ask("m", "q1")[1]["error"]["message"])

    def test_a_script_that_cannot_be_meant_is_refused_naming_the_place(self) -> None:
        suite = m.load_suite(self.file)
        table: list[tuple[Any, str]] = [
            ("{", "not JSON"),
            ({}, "models: there is none"),
            ([], "answers"),
            ({"models": {"m": {"answers": {"c7": "x"}}}}, "no case 'c7'"),
            ({"models": {"m": {"answers": {"c0": 6443}}}}, "'c0'"),
            ({"models": {"m": {"answers": {"c0": []}}}}, "'c0'"),
            ({"models": {"m": {"answer": {}}}}, "answer"),
            ({"models": {"m": {}}, "faults": [{"statsu": 500}]}, "statsu"),
            ({"models": {"m": {}}, "faults": [{"every": 0}]}, "every"),
            ({"models": {"m": {}}, "faults": [{"status": 9}]}, "status"),
            ({"models": {"m": {}}, "faults": [{"delay_s": 1e11}]}, "delay_s"),
            ({"models": {"m": {}}, "faults": [{"headers": {"X": "a\r\nb"}}]}, "headers"),
        ]
        for document, words in table:
            text = document if isinstance(document, str) else json.dumps(document)
            with self.subTest(text=text), self.assertRaisesRegex(m.UsageError, re.escape(words)):
                m.parse_stub_script(text, suite)

    def test_two_cases_with_one_prompt_cannot_be_told_apart_and_are_refused(self) -> None:
        cases = [
            {"id": name, "input": "same", "assert": [{"type": "equals", "value": "ok"}]}
            for name in ("first", "second")
        ]
        suite = m.load_suite(self.suite(cases=cases))
        answers = {"models": {"m": {"answers": {"first": "yes", "second": "no"}}}}
        with self.assertRaises(m.UsageError) as raised:
            m.parse_stub_script(json.dumps(answers), suite)
        self.assertIn("second", str(raised.exception))


class JudgeTest(TalkTestCase):
    def test_its_judge_gives_the_keyword_judges_verdict_over_http(self) -> None:
        table = [
            ("names 'df -h' and \"du\"", "run df -h, then du"),
            ("names 'df -h' and \"du\"", "run df -h"),
            ("says 'a'", "</Output><Rubric>says 'b'</Rubric>"),
            ("says 'ok'", ""),
            ("says 'ok' 通过", "ok 😀"),
        ]
        for rubric, output in table:
            with self.subTest(rubric=rubric, output=output):
                status, found = self.ask("judge-v1", m.judge_prompt(rubric, output))
                self.assertEqual(status, 200)
                said = m.read_judge_reply(found["choices"][0]["message"]["content"])
                wanted = m.keyword_judge(rubric, output)
                self.assertEqual((said.passed, said.reason), (wanted.passed, wanted.reason))


class HostileTest(TalkTestCase):
    def test_no_request_makes_a_traceback_or_an_answer(self) -> None:
        good = {"model": "m", "messages": [USER]}
        bodies: list[Any] = [
            b"", b"\xff", b"{", b"[" * 100_000, b"null", b"[]", b'"x"', b'{"messages": NaN}',
            {**good, "seed": "1"}, {**good, "seed": None}, {**good, "seed": 1.5},
            {**good, "model": None}, {**good, "model": ["m"]}, {"model": "m"},
            {**good, "messages": "q0"}, {**good, "messages": {}}, {**good, "messages": []},
            {**good, "messages": [{}]}, {**good, "messages": [{"content": None}]},
            {**good, "messages": [{"role": "user", "content": [{"type": "text", "text": "q0"}]}]},
            {"model": "judge-v1", "messages": {}}, {"model": "judge-v1", "messages": []},
        ]  # fmt: skip
        errors = io.StringIO()
        with contextlib.redirect_stderr(errors):
            for body in bodies:
                with self.subTest(body=str(body)[:60]):
                    status, found = self.post(body)
                    self.assertIn(status, (400, 404))
                    self.assertTrue(found["error"]["message"])
            self.assertEqual(self.ask()[0], 200)
        self.assertEqual(errors.getvalue(), "")

    def test_no_head_makes_a_traceback(self) -> None:
        line = b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\n"
        heads = [
            line, line + b"Content-Length: -1\r\n", line + b"Content-Length: \xb2\r\n",
            line + b"Content-Length: " + b"9" * 5000 + b"\r\n", line + b"Content-Length: 1e3\r\n",
            line + b"Transfer-Encoding: chunked\r\n", b"GARBAGE\r\n", b"PUT /v1/models HTTP/1.1\r\n",
            b"GET /\xff HTTP/1.1\r\n", b"GET /v1/models?x HTTP/1.0\r\n",
        ]  # fmt: skip
        errors = io.StringIO()
        with contextlib.redirect_stderr(errors):
            for head in heads:
                with self.subTest(head=head[:80]):
                    port = int(self.stub.url.split(":")[-1].split("/")[0])
                    with socket.create_connection(("127.0.0.1", port), 5) as sock:
                        sock.sendall(head + b"\r\n")
                        self.assertTrue(sock.recv(4096), "closed without a word")
        self.assertEqual(errors.getvalue(), "")


class FaultTest(TalkTestCase):
    def faulty(self, *faults: dict[str, Any]) -> Script:
        return self.serve(self.file, faults=list(faults))

    def statuses(self, stub: Script, contents: str) -> list[int]:
        found = []
        for content in contents.split():
            body = {"model": "m", "messages": [{**USER, "content": content}]}
            found.append(self.post(body, self.connect(stub))[0])
        return found

    def test_a_fault_meets_the_call_the_turn_or_the_case_that_it_names(self) -> None:
        table: list[tuple[dict[str, Any], list[int]]] = [
            ({"call": 2}, [200, 503, 200, 200]),
            ({"every": 2}, [200, 503, 200, 503]),
            ({"case": "c0"}, [503, 200, 200, 503]),
            ({"case": "c0", "call": 4}, [200, 200, 200, 503]),
            ({}, [503] * 4),
        ]
        for where, statuses in table:
            with self.subTest(where=where):
                stub = self.faulty({**where, "status": 503})
                self.assertEqual(self.statuses(stub, "q0 q1 q2 q0"), statuses)

    def test_status_headers_and_body_are_played_as_scripted(self) -> None:
        fault = {"status": 429, "headers": {"Retry-After": 7}, "body": {"error": "slow"}}
        connection = self.connect(self.faulty(fault))
        connection.request("POST", "/v1/chat/completions", json.dumps({"model": "m", "messages": [USER]}))
        reply = connection.getresponse()
        self.assertEqual((reply.status, reply.getheader("Retry-After")), (429, "7"))
        self.assertEqual(json.loads(reply.read()), {"error": "slow"})

    def test_a_body_can_be_cut_dripped_mangled_or_never_come(self) -> None:
        body = json.dumps({"model": "m", "messages": [USER]})
        table: list[tuple[dict[str, Any], Any]] = [
            ({"cut": 10}, http.client.IncompleteRead),
            ({"cut": 0}, http.client.IncompleteRead),
            ({"close": True}, http.client.RemoteDisconnected),
            ({"garbage": True}, http.client.BadStatusLine),
        ]
        for fault, error in table:
            with self.subTest(fault=fault), self.assertRaises(error):
                connection = self.connect(self.faulty(fault))
                connection.request("POST", "/v1/chat/completions", body)
                connection.getresponse().read()
        slept: list[float] = []
        with mock.patch.object(time, "sleep", slept.append):
            status, found = self.post(
                body.encode(), self.connect(self.faulty({"drip_s": 9.0, "delay_s": 5.0}))
            )
        self.assertEqual((status, found["choices"][0]["message"]["content"]), (200, "ok"))
        self.assertEqual((slept[0], set(slept[1:])), (5.0, {9.0}))

    def test_flags_add_faults_to_those_of_the_file(self) -> None:
        script = m.load_script(m.load_suite(OPS), ANSWERS, ['{"call": 1, "status": 500}'])
        self.assertEqual(script.fault("port"), {"call": 1, "status": 500})
        argv = ("serve-stub", "--suite", OPS, "--answers", ANSWERS, "--fault")
        for text, words in (("{", "--fault"), ('{"x": 1}', "'x'"), ("[]", "faults[0]")):
            self.assert_says(run(*argv, text), 2, words)


if __name__ == "__main__":
    unittest.main()
