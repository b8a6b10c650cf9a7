"""Pure readers that `fuzz.py` gives mutated documents and odd texts."""

from __future__ import annotations

import contextlib
import json
import random
from typing import Any, Callable

from fuzz_lab import HEADERS, REPLIES, STATUSES, Input, Lab, pure, target
from mutations import ODD_TEXTS, json_bytes, mutated, mutated_json
from rehearsal import helpers, m


@target(2)
def stub_answers(lab: Lab, rng: random.Random) -> Input:
    data = mutated_json(lab.answers, lab.answers, rng)
    suite = m.load_suite(lab.path("suite.json"))

    def script(text: str) -> None:
        found = m.parse_stub_script(text, suite)
        for model in found.models:
            for seed, case in enumerate(suite.cases[:3]):
                found.fault(case.id)
                with contextlib.suppress(LookupError):
                    found.answer(model, m.case_messages(suite, case), seed)

    return data, pure(script)


@target(5)
def replies(lab: Lab, rng: random.Random) -> Input:
    """`read_reply` and what a run does with the reply, without the wire."""
    status, headers, secret = rng.choice(STATUSES), rng.choice(HEADERS), rng.choice(("ok", "sk-123456789012"))

    def run(data: bytes) -> None:
        try:
            found = m.read_reply(status, headers, data, now_epoch=1.8e9, secrets=(secret,))
        except m.ProviderError as error:
            m.dropped_parameter(error, ("temperature", "seed"))
            assert error.message and "\n" not in error.message, error.message
            return
        m.without_thinking(found)
        m.cost_usd(found, m.Price(1.0, 2.0, 0.5))
        m.read_judge_reply(found.text)
        m.reply_flags(found)

    return mutated_json(rng.choice(REPLIES), lab.results, rng), run


def _check(document: Any, output: str) -> None:
    found = m.parse_assertion(document)
    m.silence_passes(found)

    def search(pattern: str, text: str) -> int | None:
        return 0 if pattern in text else None

    m.check_assertion(found, output, m.Tools(search, m.keyword_judge))


@target(4)
def assertions(lab: Lab, rng: random.Random) -> Input:
    """`parse_assertion`, JSON Schema and the checkers on odd answers."""
    known = [item for case in lab.suite["cases"] for item in case.get("assert", [])]
    output = rng.choice([*ODD_TEXTS, '{"a": 1}', "ok 42", "[" * 600, "1e5000", "−1,536.5 %"])
    data = json_bytes(mutated(rng.choice(known), known, rng), rng)
    return data, pure(lambda text: _check(m.parse_json(text), output))


TEXT_READERS: tuple[Callable[[str], Any], ...] = (
    m.parse_json,
    m.read_judge_reply,
    m.find_numbers,
    m.read_number,
    m.rubric_phrases,
    m.normal_base_url,
    m.ecma_pattern,
    m.strip_thinking,
    m.last_decision,
    lambda text: list(m.each_line(text.split("\n"))),
    lambda text: m.retry_after_s(text, 1.8e9),
    lambda text: m.header_value(text, "key"),
    lambda text: m.parse_schema(m.parse_json(text, decimals=True)),
    lambda text: helpers.run("stats", *text.split()[:5]),
)


@target(2)
def texts(lab: Lab, rng: random.Random) -> Input:
    """Readers of foreign text, on odd texts, in a JSON string."""
    seeds = [*ODD_TEXTS, "http://u:p@h:1/v1?k=v", "1,536.00", '{"pass": true}', "[0-9]\\d{2,}", "mcnemar 3 4"]
    data = json.dumps("".join(rng.choice(seeds) for _ in range(rng.randint(1, 4)))).encode()
    reader = rng.choice(TEXT_READERS)
    return data, pure(lambda text: reader(str(json.loads(text))))
