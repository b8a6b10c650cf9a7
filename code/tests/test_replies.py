"""What an endpoint sends back: every shape is an answer, or one clear provider error."""

from __future__ import annotations

import json
import os
import random
import sys
import time
import unittest
from pathlib import Path
from typing import Any
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import main as m

NOW = 1792567677.0  # 2026-10-21T07:27:57Z
KEY = "sk-canary-0123456789"


def completion(
    content: Any = "Paris", finish: Any = "stop", usage: Any = None, **message: Any
) -> dict[str, Any]:
    message = {"role": "assistant", "content": content, **message}
    choice = {"index": 0, "finish_reason": finish, "message": message}
    return {"id": "x", "object": "chat.completion", "choices": [choice], "usage": usage}


def read(body: Any, status: int = 200, secrets: Any = (), **headers: str) -> m.Reply:
    if not isinstance(body, bytes):
        body = json.dumps(body).encode()
    named = {name.replace("_", "-").lower(): value for name, value in headers.items()}
    return m.read_reply(status, named, body, now_epoch=NOW, secrets=secrets)


def refusal_of(body: Any, status: int = 200, **options: Any) -> m.ProviderError:
    try:
        reply = read(body, status, **options)
    except m.ProviderError as error:
        return error
    raise AssertionError(f"graded: {reply}")


class Answers(unittest.TestCase):
    def test_content_is_the_answer_as_it_came(self) -> None:
        reply = read(completion("  Paris\n"))
        self.assertEqual((reply.text, reply.no_text), ("  Paris\n", None))

    def test_text_parts_are_joined_and_other_parts_skipped(self) -> None:
        parts = [
            {"type": "thinking", "thinking": [{"type": "text", "text": "Lyon"}]},
            {"type": "text", "text": "Pa"},
            {"type": "image_url", "image_url": {"url": "x"}},
            "r",
            {"type": "output_text", "text": "is"},
        ]
        self.assertEqual(read(completion(parts)).text, "Paris")

    def test_a_refusal_is_the_answer_in_either_place(self) -> None:
        self.assertEqual(read(completion(None, refusal="I cannot.")).text, "I cannot.")
        self.assertEqual(read(completion([{"type": "refusal", "refusal": "No."}])).text, "No.")

    def test_a_tool_call_without_text_is_no_text_and_never_the_word_none(self) -> None:
        calls = [{"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}]
        blank: list[Any] = [None, "", "\n\n", []]
        for content in blank:
            with self.subTest(content=content):
                reply = read(completion(content, "tool_calls", tool_calls=calls))
                self.assertEqual((reply.text, reply.no_text), ("", "tool_calls"))
        old = read(completion(None, function_call={"name": "f"}))
        self.assertEqual((old.text, old.no_text), ("", "tool_calls"))

    def test_text_beside_a_tool_call_is_still_the_answer(self) -> None:
        reply = read(completion("Looking.", tool_calls=[{}, {}]))
        self.assertEqual((reply.text, reply.no_text), ("Looking.", None))

    def test_missing_or_blank_content_is_an_absent_answer(self) -> None:
        no_content = completion()
        del no_content["choices"][0]["message"]["content"]
        for document in (no_content, completion(" \n\t")):
            reply = read(document)
            self.assertEqual((reply.text, reply.no_text), ("", "empty"))

    def test_reasoning_is_never_graded_in_place_of_an_answer(self) -> None:
        cut = read(completion(None, "length", reasoning_content="Paris?"))
        self.assertEqual((cut.text, cut.no_text), ("", "length"))
        self.assertEqual(read(completion("", reasoning="Paris?")).no_text, "reasoning")

    def test_a_truncated_answer_is_graded_and_says_so(self) -> None:
        reply = read(completion("The capital is Par", "length"))
        self.assertEqual((reply.text, reply.finish_reason), ("The capital is Par", "length"))

    def test_a_filtered_answer_is_marked_whatever_text_came(self) -> None:
        reply = read(completion("The steps are", "content_filter"))
        self.assertEqual((reply.text, reply.filtered), ("The steps are", True))

    def test_a_filtered_prompt_is_an_outcome_of_the_case_and_not_an_outage(self) -> None:
        inner: dict[str, Any] = {"code": "x", "innererror": {"code": "ResponsibleAIPolicyViolation"}}
        rows: list[Any] = [(400, {"code": "content_filter", "param": "prompt", "message": "filtered"})]
        rows += [(400, {"type": "content_policy_violation"}), (400, inner)]
        rows += [(200, {"code": "content_filter"}), (200, {**inner, "code": 400})]
        for status, error in rows:
            with self.subTest(error=error, status=status):
                reply = read({"error": error}, status)
                self.assertEqual((reply.text, reply.filtered), ("", True))
                self.assertEqual(reply.no_text, "content_filter")

    def test_the_served_model_fingerprint_and_server_are_kept(self) -> None:
        served = {"model": "local-30b", "system_fingerprint": "fp_1"}
        reply = read({**completion(), **served}, Server="vllm")
        self.assertEqual((reply.model, reply.fingerprint, reply.server), ("local-30b", "fp_1", "vllm"))
        odd = read({**completion(), "model": 7, "system_fingerprint": None})
        self.assertEqual((odd.model, odd.fingerprint, odd.server), (None, None, None))

    def test_a_byte_order_mark_is_no_error(self) -> None:
        self.assertEqual(read(b"\xef\xbb\xbf" + json.dumps(completion()).encode()).text, "Paris")

    def test_the_content_type_does_not_matter_when_the_body_is_a_completion(self) -> None:
        self.assertEqual(read(completion(), content_type="text/html").text, "Paris")

    def test_unknown_fields_and_a_null_error_are_ignored(self) -> None:
        self.assertEqual(read({**completion(), "error": None, "extra": [1]}).text, "Paris")


class NoAnswers(unittest.TestCase):
    def check(self, error: m.ProviderError, kind: str, text: str = "", retry: bool = False) -> None:
        self.assertEqual(error.kind, kind, error.message)
        self.assertIn(text, error.message)
        self.assertEqual(error.kind in m.RETRIED_KINDS, retry, error.message)

    def test_an_error_inside_a_200_has_the_status_in_its_body(self) -> None:
        limited = refusal_of({"error": {"code": 429, "message": "Rate limit exceeded"}})
        self.check(limited, "rate_limit", "Rate limit exceeded", retry=True)
        self.check(refusal_of({"error": {"code": "503", "message": "x"}}), "server", retry=True)
        self.check(refusal_of({"error": {"code": 400, "message": "x"}}), "bad_request")
        self.check(refusal_of({"error": {"code": 200, "message": "x"}}), "server", retry=True)
        self.check(refusal_of({"error": {"code": True, "message": "x"}}), "server", retry=True)
        self.check(refusal_of({"error": "overloaded"}), "server", "overloaded", retry=True)
        self.check(refusal_of({"object": "error", "message": "no", "code": 404}), "not_found", "no")
        self.check(refusal_of({"error": {"code": "invalid_api_key", "message": "k"}}), "auth", "k")

    def test_an_error_beside_an_answer_wins(self) -> None:
        both = {**completion("half an ans"), "error": {"code": 502, "message": "upstream"}}
        self.check(refusal_of(both), "server", "upstream", retry=True)

    def test_an_error_in_the_choice_is_the_providers_and_not_an_empty_answer(self) -> None:
        choice = {
            "finish_reason": "error",
            "message": {"content": ""},
            "error": {"code": 502, "message": "upstream"},
        }
        self.check(refusal_of({"choices": [choice]}), "server", "upstream", retry=True)
        self.check(refusal_of(completion("", "error")), "server", "reports an error", retry=True)

    def test_empty_choices_are_named(self) -> None:
        self.check(refusal_of({"choices": []}), "bad_reply", "choices[0].message is null")

    def test_json_that_is_no_completion_is_never_graded(self) -> None:
        bodies: list[Any] = [[], [1], "Paris", 42, True, None, {}, {"choices": None}]
        choices: list[Any] = [{}, "Paris", 3, [None], ["Paris"], [[]], [{}]]
        messages: list[Any] = [None, "Paris", 1, []]
        bodies += [{"choices": value} for value in choices]
        bodies += [{"choices": [{"message": value}]} for value in messages]
        bodies += [completion(value) for value in (1, 1.5, True, False, {"text": "Paris"})]
        bodies += [completion([{"type": "text", "text": value}]) for value in (None, 1, {"value": "x"})]
        for body in bodies:
            with self.subTest(body=body):
                self.check(refusal_of(body), "bad_reply")

    def test_a_page_of_html_shows_its_status_and_its_start(self) -> None:
        gateway = refusal_of(b"<html><head><title>502 Bad Gateway</title></head></html>", 502)
        self.check(gateway, "server", "HTTP 502", retry=True)
        self.assertIn("502 Bad Gateway", gateway.message)
        login = refusal_of(b"<!DOCTYPE html><title>Sign in</title>")
        self.check(login, "bad_json", "not JSON at line 1")
        self.assertIn("<!DOCTYPE html><title>Sign in", login.message)

    def test_an_empty_body_is_named(self) -> None:
        self.check(refusal_of(b""), "bad_json", "(empty body)")
        self.check(refusal_of(b"", 500), "server", "HTTP 500: (empty body)", retry=True)

    def test_invalid_utf_8_is_an_error_and_not_a_guess(self) -> None:
        body = json.dumps(completion("Z?rich")).encode().replace(b"?", b"\xfc")
        self.check(refusal_of(body), "bad_encoding", "not UTF-8")

    def test_half_a_character_is_an_error(self) -> None:
        self.check(refusal_of(completion("smile \ud83d")), "bad_json", "surrogate")

    def test_a_stream_that_was_not_asked_for_is_named(self) -> None:
        event = b'data: {"choices":[{"delta":{"content":"Pa"}}]}\n\ndata: [DONE]\n\n'
        for start in (b"", b": keep-alive\n\n", b"retry: 3000\n\n", b"\n", b"event: x\n"):
            self.check(refusal_of(start + event), "unexpected_stream")
        self.check(refusal_of(b"x", content_type="text/event-stream"), "unexpected_stream")

    def test_json_that_python_would_read_too_kindly_is_bad_json(self) -> None:
        good = json.dumps(completion())[:-1]
        for tail in ('"x":NaN}', '"x":1e400}', '"x":-Infinity}', '"x":1}}', '"x":', '"x":"\t"}'):
            with self.subTest(tail=tail):
                self.check(refusal_of(f"{good},{tail}".encode()), "bad_json")
        self.check(refusal_of(b"[" * 100_000), "bad_json")
        self.check(refusal_of(b'{"x":' * 100_000), "bad_json")

    def test_a_number_of_5000_digits_is_no_traceback(self) -> None:
        body = f'{json.dumps(completion())[:-1]},"x":{"9" * 5000}}}'.encode()
        self.check(refusal_of(body), "bad_json")

    def test_two_contents_under_one_name_are_not_an_answer(self) -> None:
        body = b'{"choices":[{"message":{"content":"Lyon","content":"Paris"}}]}'
        self.check(refusal_of(body), "bad_json")


class Failures(unittest.TestCase):
    def test_the_message_is_found_in_any_shape(self) -> None:
        rows = [
            (404, {"error": "model 'x' not found"}, "model 'x' not found"),
            (400, {"object": "error", "message": "bad", "type": "E", "code": 400}, "bad"),
            (422, {"detail": [{"loc": ["body"], "msg": "field required"}]}, "field required"),
            (400, [{"error": {"message": "in a list"}}], "in a list"),
            (500, {"errors": [{"title": "t1"}, {"title": "t2"}]}, "t1; t2"),
            (500, {"error": {"message": {"message": "deep"}}}, "deep"),
            (500, b"plain words", "plain words"),
            (500, b"\xff\xfe", "HTTP 500"),
            (500, b"null", "HTTP 500"),
            (500, {"error": 7}, "HTTP 500"),
            (500, {"error": {"message": None, "code": "E_1"}}, "E_1"),
        ]
        for status, body, words in rows:
            with self.subTest(body=body):
                self.assertIn(words, refusal_of(body, status).message)

    def test_a_message_is_one_bounded_line_that_no_terminal_acts_on(self) -> None:
        text = "a\r\nb\x1b[31m\u202e\u2028c" + "x" * 10_000
        message = refusal_of({"error": text}, 500).message
        self.assertTrue(message.isprintable())
        self.assertLess(len(message), 2 * m.MESSAGE_CHARS)
        self.assertTrue(message.startswith("HTTP 500: a b\\x1b[31m\\u202e c"))

    def test_what_is_retried_and_what_is_hopeless(self) -> None:
        for status in (408, 409, 425, 429, 500, 502, 503, 504, 520, 524, 529, 599):
            error = refusal_of({"error": {"message": "x"}}, status)
            self.assertIn(error.kind, m.RETRIED_KINDS, status)
        for status, hopeless in ((400, False), (422, False), (401, True), (403, True), (404, True)):
            error = refusal_of({"error": {"message": "x"}}, status)
            self.assertNotIn(error.kind, m.RETRIED_KINDS, status)
            self.assertEqual(error.kind in m.HOPELESS_KINDS, hopeless, status)

    def test_a_spent_quota_is_not_a_rate_limit(self) -> None:
        for error in ({"code": "insufficient_quota"}, {"type": "insufficient_quota"}):
            self.assertEqual(refusal_of({"error": error}, 429).kind, "quota")
        self.assertEqual(refusal_of({"error": {"code": "insufficient_quota"}}).kind, "quota")

    def test_a_redirect_names_its_target_without_credentials(self) -> None:
        error = refusal_of(b"", 302, Location="http://u:pw@h:81/final?token=t")
        self.assertEqual(error.kind, "redirect")
        self.assertIn("redirected to http://h:81/final", error.message)
        self.assertNotRegex(error.message, "pw|token")
        relative = refusal_of(b"", 308, Location="/v1/chat/completions/")
        self.assertIn("redirected to /v1/chat/completions/", relative.message)
        self.assertEqual(refusal_of(json.dumps(completion()).encode(), 307).kind, "redirect")

    def test_a_key_echoed_by_the_server_is_hidden(self) -> None:
        echo = f"Incorrect key {KEY}. " * 40
        for body in ({"error": {"message": echo}}, echo.encode(), {"detail": [echo]}):
            for status in (401, 500, 200):
                error = refusal_of(body, status, secrets=[KEY])
                shown = f"{error!r} {error} {error.args} {vars(error)}"
                self.assertNotIn("sk-canary", shown)
        for padding in range(170, 310):
            cut = refusal_of(b"x" * padding + KEY.encode() + b"x" * 300, 500, secrets=[KEY])
            self.assertNotRegex(cut.message, "sk-|6789")

    def test_a_key_echoed_in_an_answer_is_hidden_also_behind_an_escape(self) -> None:
        body = json.dumps({**completion(f"it is {KEY}"), "model": KEY}).encode()
        for text in (body, body.replace(b"sk-", b"\\u0073k-")):
            reply = read(text, secrets=[KEY], Server=KEY)
            self.assertEqual((reply.text, reply.model), ("it is [secret]", "[secret]"))
            self.assertEqual(reply.server, "[secret]")

    def test_a_short_key_does_not_alter_an_answer(self) -> None:
        reply = read({**completion("ollama"), "model": "ollama"}, secrets=["ollama"])
        self.assertEqual((reply.text, reply.model), ("ollama", "ollama"))


class Waiting(unittest.TestCase):
    def test_retry_after_is_seconds_or_a_date(self) -> None:
        rows = [("3", 3.0), (" 2.5 ", 2.5), ("0", 0.0)]
        rows += [("Wed, 21 Oct 2026 07:28:00 GMT", 3.0), ("Wed, 21 Oct 2026 07:28:00 -0000", 3.0)]
        rows += [("Wed, 21 Oct 2015 07:28:00 GMT", 0.0), ("Wednesday, 21-Oct-26 07:28:00 GMT", 3.0)]
        for value, expected in rows:
            self.assertEqual(m.retry_after_s(value, NOW), expected, value)

    @unittest.skipUnless(hasattr(time, "tzset"), "this system cannot change its time zone")
    def test_a_date_is_utc_wherever_the_run_is(self) -> None:
        with mock.patch.dict(os.environ, {"TZ": "Asia/Tokyo"}):
            time.tzset()
            wait_s = m.retry_after_s("Wed, 21 Oct 2026 07:28:00 -0000", NOW)
        time.tzset()
        self.assertEqual(wait_s, 3.0)

    def test_silly_values_are_no_value(self) -> None:
        silly = [None, "", "-1", "nan", "soon", "1_0", "\u0663", "Wed, 99 Oct 2026", "1,5", "0x3", "inf"]
        for value in (*silly, "Wed, 21 Oct 99999999999 07:28:00 GMT", "," * 5000):
            self.assertIsNone(m.retry_after_s(value, NOW), value)

    def test_a_wait_beyond_the_cap_fails_and_names_the_delay(self) -> None:
        for value in ("9" * 400, "1000000000", "86400", "Fri, 23 Oct 2026 07:28:00 GMT"):
            error = refusal_of({"error": "slow down"}, 429, Retry_After=value)
            self.assertEqual(error.kind, "retry_after_too_long")
            self.assertIn("asked to wait", error.message)
        self.assertIn("86400 s", refusal_of(b"", 503, Retry_After="86400").message)

    def test_a_wait_within_the_cap_is_passed_on(self) -> None:
        self.assertEqual(refusal_of(b"", 429, Retry_After="7").retry_after_s, 7.0)
        self.assertIsNone(refusal_of(b"", 429, Retry_After="soon").retry_after_s)

    def test_backoff_doubles_is_jittered_and_capped(self) -> None:
        rng = random.Random(1)
        for attempt in (1, 2, 3, 4, 5, 6, 10, 5000):
            full = min(m.BACKOFF_CAP_S, m.BACKOFF_FIRST_S * 2 ** min(attempt - 1, 30))
            waits = {m.backoff_s(attempt, rng) for _ in range(50)}
            self.assertTrue(all(full / 2 <= wait <= full for wait in waits))
            self.assertGreater(len(waits), 40)


class Thinking(unittest.TestCase):
    def test_reasoning_before_the_answer_is_stripped(self) -> None:
        rows = [
            ("<think>\nLyon? No.\n</think>\n\nParis", "Paris"),
            ("\n <Think>a</THINK><thinking>b</thinking> Paris\n", "Paris\n"),
            ("Lyon? No, the seat moved.\n</think>\n\nParis", "Paris"),
            ("a</think>b</think>\nParis", "Paris"),
            ("<think>never closed, Paris", ""),
            ("<think></think>", ""),
            ("a</think>Wrap it in <think> and </think>", "Wrap it in <think> and </think>"),
        ]
        for text, expected in rows:
            with self.subTest(text=text):
                self.assertEqual(m.strip_thinking(text), expected)

    def test_tags_inside_the_answer_survive(self) -> None:
        for text in ("Wrap it in <think> and </think> tags.", "  Paris\n", "<thinker>x", "", "</b>"):
            self.assertEqual(m.strip_thinking(text), text)
            self.assertFalse(read(completion(text)).thinking)

    def test_thinking_stays_in_the_reply_and_is_flagged(self) -> None:
        reply = read(completion("<think>Lyon?</think>Paris"))
        self.assertEqual((reply.text, reply.thinking), ("<think>Lyon?</think>Paris", True))
        self.assertEqual(m.without_thinking(reply).text, "Paris")

    def test_thinking_that_never_ends_is_no_answer_once_stripped(self) -> None:
        reply = m.without_thinking(read(completion("<think>Paris", "length")))
        self.assertEqual((reply.text, reply.no_text), ("", "length"))
        reply = m.without_thinking(read(completion("<think>Paris</think>\n")))
        self.assertEqual((reply.text, reply.no_text), ("", "thinking"))

    def test_a_long_hostile_text_is_stripped_in_linear_time(self) -> None:
        started = time.process_time()
        for text in ("<think></think>" * 50_000, "</think>" * 50_000, "<think>" * 50_000, "<" * 10**6):
            m.strip_thinking(text)
        self.assertLess(time.process_time() - started, 1.0)


class Money(unittest.TestCase):
    PRICE = m.Price(2.5, 10, 1.25)

    def cost(
        self, asked: int | None, answered: int | None, cached: int | None = None, price: m.Price = PRICE
    ) -> float | None:
        return m.cost_usd(m.Reply("", None, asked, answered, cached), price)

    def test_counts_that_make_no_sense_are_unknown(self) -> None:
        values: list[Any] = [None, -1, True, 10.0, "10", 10**30, [], {}]
        for value in values:
            reply = read(completion(usage={"prompt_tokens": value, "completion_tokens": 5}))
            self.assertEqual((reply.prompt_tokens, reply.completion_tokens), (None, 5), value)
        usages: list[Any] = [None, [], "x", 3, {"prompt_tokens_details": None}, {"prompt_tokens_details": []}]
        for usage in usages:
            self.assertEqual(read(completion(usage=usage))[2:5], (None, None, None))

    def test_partly_null_usage_is_unknown_cost_and_still_an_answer(self) -> None:
        usage = {"prompt_tokens": 10, "completion_tokens": None, "prompt_tokens_details": None}
        reply = read(completion(usage=usage))
        self.assertEqual((reply.text, reply.prompt_tokens), ("Paris", 10))
        self.assertIsNone(self.cost(10, None))
        self.assertIsNone(self.cost(None, 10))

    def test_cached_tokens_are_inside_the_prompt_tokens(self) -> None:
        usage = {
            "prompt_tokens": 2006,
            "completion_tokens": 300,
            "prompt_tokens_details": {"cached_tokens": 1920},
        }
        # (2006 - 1920) * 2.5e-6 + 1920 * 1.25e-6 + 300 * 10e-6, by hand
        self.assertEqual(m.cost_usd(read(completion(usage=usage)), self.PRICE), 0.005615)

    def test_without_a_cached_price_cached_tokens_cost_the_full_one(self) -> None:
        self.assertEqual(self.cost(2006, 300, 1920, price=m.Price(2.5, 10)), 0.008015)

    def test_no_usage_costs_nothing_only_when_it_says_zero(self) -> None:
        self.assertEqual(self.cost(0, 0), 0.0)
        self.assertIsNone(self.cost(10, 10, 11))

    def test_a_price_is_decimal(self) -> None:
        self.assertEqual(self.cost(1_000_000, 1_000_000, 0, price=m.Price(0.1, 0.2)), 0.3)

    def test_without_a_price_the_cost_is_unknown(self) -> None:
        self.assertIsNone(m.cost_usd(m.Reply("", None, 10, 10), None))


class DroppedParameters(unittest.TestCase):
    DEFAULTS = ("temperature", "seed", "max_tokens")

    def dropped(self, error: Any, status: int = 400, defaults: Any = DEFAULTS) -> Any:
        return m.dropped_parameter(refusal_of({"error": error}, status), defaults)

    def test_a_default_that_a_400_names_is_dropped(self) -> None:
        use = "Use 'max_completion_tokens' instead."
        rows: list[tuple[Any, str]] = [  # as providers put it
            ({"message": "x", "code": "unsupported_parameter", "param": "max_tokens"}, "max_tokens"),
            (f"Unsupported parameter: 'max_tokens' is not supported with this model. {use}", "max_tokens"),
            ("Unsupported value: 'temperature' does not support 0 with this model.", "temperature"),
            ("Unrecognized request argument supplied: seed", "seed"),
            ("`temperature` is deprecated for this model.", "temperature"),
            ("`temperature` may only be set to 1 when thinking is enabled.", "temperature"),
            ('Invalid JSON payload received. Unknown name "seed": Cannot find field.', "seed"),
            ("property 'seed' is unsupported", "seed"),
            ("Argument not supported on this model: seed", "seed"),
            ("unknown field: parameter 'seed' is not a valid field", "seed"),
            ("Input validation error: `temperature` must be strictly positive", "temperature"),
            ("openai does not support parameters: ['seed', 'temperature']", "temperature"),
        ]
        for error, expected in rows:
            self.assertEqual(self.dropped(error), expected, error)

    def test_a_parameter_that_only_the_place_of_an_error_names_is_found(self) -> None:
        detail = {"type": "extra_forbidden", "loc": ["body", "seed"], "msg": "Extra inputs are not permitted"}
        refusal = refusal_of({"detail": [{**detail, "input": 0}]}, 422)
        self.assertEqual(m.dropped_parameter(refusal, self.DEFAULTS), "seed")

    def test_what_the_suite_set_is_never_dropped(self) -> None:
        error = {"message": "x", "code": "unsupported_parameter", "param": "max_tokens"}
        self.assertIsNone(self.dropped(error, defaults=("temperature", "seed")))

    def test_other_failures_drop_nothing(self) -> None:
        rows: list[Any] = [({"message": "unsupported parameter seed"}, 500)]
        rows += [({"message": "max_tokens is too large: 9999", "param": "max_tokens"}, 400)]
        rows += [("unsupported seeds", 400), ("unknown model: seed-36b", 400), ("no such model: seed", 404)]
        for error, status in rows:
            self.assertIsNone(self.dropped(error, status), error)


class BaseUrls(unittest.TestCase):
    def test_every_usual_form_ends_in_chat_completions(self) -> None:
        rows = [
            ("http://h", "http://h/v1/chat/completions"),
            ("http://h:8000/", "http://h:8000/v1/chat/completions"),
            ("https://h/v1", "https://h/v1/chat/completions"),
            ("https://h/v1/", "https://h/v1/chat/completions"),
            (" http://127.0.0.1:1/v1 ", "http://127.0.0.1:1/v1/chat/completions"),
            ("http://[::1]:6/v1", "http://[::1]:6/v1/chat/completions"),
            ("https://h/v1beta/openai", "https://h/v1beta/openai/chat/completions"),
            ("https://h/d/x?api-version=2", "https://h/d/x/chat/completions?api-version=2"),
            ("https://h/v1/chat/completions/", "https://h/v1/chat/completions"),
            ("HTTPS://H.Example/v1", "https://h.example/v1/chat/completions"),
        ]
        for text, url in rows:
            base = m.normal_base_url(text)
            self.assertEqual((base.url, base.shown), (url, url))

    def test_what_is_no_url_is_refused_in_one_sentence_without_secrets(self) -> None:
        rows = ["localhost:8000/v1", "", "ftp://h", "http://h/my path", "http://h:port", "http://"]
        rows += ["http://h:99999", "http://[::1", "http://h\n/v1", "http://h/#x", "http://h:0", "http://:80"]
        rows += ["http://me:hunter2@h:x", "me:hunter2@h", "http://bücher.example", "http://h\\x"]
        for text in rows:
            with self.subTest(text=text), self.assertRaisesRegex(ValueError, "base URL") as caught:
                m.normal_base_url(text)
            self.assertNotIn("hunter2", str(caught.exception))
        with self.assertRaisesRegex(ValueError, "base URL needs http:// or https://"):
            m.normal_base_url("localhost:8000/v1")

    def test_credentials_become_basic_authentication_and_are_never_shown(self) -> None:
        base = m.normal_base_url("https://me:hunt%40r2@h/v1?key=hidden42&api-version=7")
        self.assertEqual(base.basic_auth, "Basic bWU6aHVudEByMg==")  # base64 of me:hunt@r2
        self.assertEqual(base.url, "https://h/v1/chat/completions?key=hidden42&api-version=7")
        for secret in ("hunt%40r2", "hunt@r2", "hidden42", "bWU6aHVudEByMg=="):
            self.assertNotIn(secret, repr(base) + str(base) + base.shown)
            self.assertIn(secret, base.secrets)
        self.assertIn("api-version=7", base.shown)


class Keys(unittest.TestCase):
    def test_white_space_around_a_key_is_stripped(self) -> None:
        self.assertEqual(m.header_value(" sk-test-123\r\n", "OPENAI_API_KEY"), "sk-test-123")

    def test_a_key_that_no_header_can_carry_is_refused_unseen(self) -> None:
        for key in ("sk-canary\nX: y", "sk-canary\x00", "sk-canary\x7f", "sk-canary\u2026", "", " "):
            with self.subTest(key=key), self.assertRaisesRegex(ValueError, "K_E_Y") as caught:
                m.header_value(key, "K_E_Y")
            self.assertNotIn("canary", str(caught.exception))


if __name__ == "__main__":
    unittest.main()
