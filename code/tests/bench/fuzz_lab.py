"""Where `fuzz.py` works: valid documents of every kind, an endpoint that says anything, and commands."""

from __future__ import annotations

import contextlib
import json
import random
import socket
import threading
from pathlib import Path
from typing import Any, Callable, NamedTuple, Optional
from xml.etree import ElementTree

from rehearsal import OPS, helpers, m

FIXTURES = helpers.CODE / "fixtures"
DOCUMENTED = (m.UsageError, m.ProviderError, m.RegexTimeout, ValueError)
Run = Callable[[bytes], Optional[str]]
Input = tuple[bytes, Run]


class Target(NamedTuple):
    make: Callable[[Any, random.Random], Input]
    weight: int
    json: bool


TARGETS: dict[str, Target] = {}


def target(weight: int, is_json: bool = True) -> Callable[[Any], Any]:
    """Registers the decorated maker under its name; the weight is its share of the inputs."""

    def register(make: Any) -> Any:
        TARGETS[make.__name__.replace("_", "-")] = Target(make, weight, is_json)
        return make

    return register


def reply(text: str, **more: Any) -> dict[str, Any]:
    """A chat completion."""
    message = {"role": "assistant", "content": text, **more}
    usage = {"prompt_tokens": 9, "completion_tokens": 3, "prompt_tokens_details": {"cached_tokens": 1}}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    return {"id": "x", "model": "m", "system_fingerprint": "f", "choices": [choice], "usage": usage}


REPLIES: tuple[Any, ...] = (
    reply("ok"),
    reply('{"a": 1}'),
    reply("<think>x</think> 42"),
    reply('{"reason": "r", "pass": true, "score": 1}'),
    {**reply(""), "choices": [{"message": {"content": [{"type": "text", "text": "ok"}, {"type": "image"}]}}]},
    reply("", refusal="no", tool_calls=[{"id": "c", "function": {"name": "f", "arguments": "{}"}}]),
    {"error": {"message": "bad", "type": "invalid_request_error", "param": "seed", "code": "unsupported"}},
    {"error": {"message": "x", "code": 429, "innererror": {"code": "ResponsibleAIPolicyViolation"}}},
    {"detail": [{"loc": ["body", 0], "msg": "field required"}]},
    [{"error": {"message": "in a list", "status": "RESOURCE_EXHAUSTED"}}],
)
HEADERS: tuple[dict[str, str], ...] = (
    {}, {"retry-after": "3"}, {"retry-after": "Wed, 21 Oct 2026 07:28:00 GMT"}, {"retry-after": "9" * 400},
    {"retry-after": "-1e9"}, {"retry-after": "Mon, 99 Foo 99999999 99:99:99 +9999"},
    {"server": "\x1b]0;x\x07"},
    {"content-type": "text/event-stream"}, {"content-type": "text/html"},
    {"location": "http://u:p@h/x?k=s"}
)  # fmt: skip
STATUSES = (200, 200, 200, 201, 204, 301, 400, 401, 404, 418, 429, 500, 503, 529)


class Endpoint:
    """Answers every connection with the bytes that stand in `answer`, then closes it."""

    def __init__(self) -> None:
        self.answer = b""
        self._socket = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}/v1"
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            connection, _ = self._socket.accept()
            with contextlib.suppress(OSError), connection:
                data = b""
                while b"\r\n\r\n" not in data:
                    data += connection.recv(65_536) or b"\r\n\r\n"
                connection.sendall(self.answer)


def read(path: Path) -> Any:
    return json.loads(path.read_text("utf-8"))


def rows(path: Path, most: int = 6) -> list[Any]:
    """The first rows of a JSONL file."""
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()[:most]]


class Lab:
    """Valid documents of every kind in a folder, and the ways to run a mutated one."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.endpoint = folder, Endpoint()
        self.suite, *others = map(read, (Path(__file__).with_name("fuzz_suite.json"), Path(OPS)))
        self.suites = [self.suite, *others]
        self.write("suite.json", json.dumps(self.suite).encode())
        suite = m.load_suite(self.path("suite.json"))
        answers = {c.id: ["ok", "no"] if c.id == "text" else "ok 42 'yes'" for c in suite.cases if not c.skip}
        models = {"m": {"answers": answers}, "j": {"judge": True}}
        self.answers = {"models": models, "faults": [{"every": 7, "delay_s": 0}]}
        self.write("answers.json", json.dumps(self.answers).encode())
        with m.serving(m.load_script(suite, self.path("answers.json"))) as stub:
            for name in ("base.json", "cand.json"):
                self.must("run", *self.asked(stub.base_url), "--samples", "2", "--out", self.path(name))
        self.must("ledger", "build", self.path("base.json"), "--out", self.path("ledger.json"))
        labels = FIXTURES / "human-labels.jsonl"
        measure = ["calibrate", "--labels", str(labels), "--judge", "keyword", "--min-kappa", "0"]
        self.must(*measure, "--out", self.path("judge.json"))
        train = ["contamination", "--suite", self.path("suite.json"), "--part", "--shard", "1/2"]
        corpus = str(FIXTURES / "train-sample.jsonl")
        self.must(*train, "--out", self.path("part.json"), "--train", corpus)
        update = ["baseline", "update", "--baseline", self.path("log.json"), "--reason", "r"]
        self.must(*update, "--candidate", self.path("base.json"))
        names = ("base.json", "ledger.json", "judge.json")
        self.results, self.ledger, self.record = (read(folder / name) for name in names)
        self.part = read(folder / "part.json")
        self.decision = read(folder / "log.json.decisions.jsonl")
        self.labels, self.trained = rows(labels), rows(FIXTURES / "train-sample.jsonl")
        self.junits = [path.read_text("utf-8") for path in sorted((FIXTURES / "junit").rglob("*.xml"))]
        self.journal = self.cut_journal()

    def asked(self, url: str) -> list[str]:
        return ["--suite", self.path("suite.json"), "--base-url", url, "--model", "m", "--judge", "keyword"]

    def cut_journal(self) -> list[Any]:
        """The lines of a run that an outage ended."""
        self.endpoint.answer = http(200, {}, json.dumps(reply("ok")).encode())
        out = self.path("journal.json")
        self.command("run", *self.asked(self.endpoint.url), "--max-time", "0.001", "-j", "1", "--out", out)
        return rows(Path(out + ".journal"), 99)

    def path(self, name: str) -> str:
        return str(self.folder / name)

    def write(self, name: str, data: bytes) -> str:
        (self.folder / name).write_bytes(data)
        return self.path(name)

    def command(self, *argv: str) -> helpers.Result:
        return helpers.run(*argv, environ={"PATH": "/nowhere", "TERM": "dumb"})

    def must(self, *argv: str) -> None:
        found = self.command(*argv)
        assert found.code in (0, 1), found

    def check(self, *argv: str, reports: tuple[str, ...] = ()) -> str | None:
        """The traceback of a command that has a bug, or what is wrong with what it wrote."""
        for name in reports:
            (self.folder / name).unlink(missing_ok=True)
        found = self.command(*argv)
        if found.code not in (0, 1, 2, 3) or "Traceback" in found.err:
            return found.err or f"ExitError: code {found.code}"
        with contextlib.suppress(FileNotFoundError):
            for name in reports:
                text = (self.folder / name).read_bytes().decode("utf-8")
                ElementTree.fromstring(text) if name.endswith(".xml") else m.parse_json(text)
        if "--json" in argv and found.code != 2:
            m.parse_json(found.out)
        return None


def http(status: int, headers: Any, body: bytes) -> bytes:
    """An HTTP reply as it goes over the wire."""
    lines = [f"HTTP/1.1 {status} X", f"Content-Length: {len(body)}", "Connection: close"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode("latin-1", "replace") + body


def pure(function: Callable[..., Any]) -> Run:
    """A function of the input's text, which may raise its documented errors."""

    def run(data: bytes) -> None:
        with contextlib.suppress(*DOCUMENTED):
            function(data.decode("utf-8", "surrogatepass"))

    return run
