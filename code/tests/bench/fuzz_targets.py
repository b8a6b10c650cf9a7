"""Commands that `fuzz.py` runs on mutated files: each target makes an input and says how to run it."""

from __future__ import annotations

import json
import random

from fuzz_lab import HEADERS, REPLIES, STATUSES, Input, Lab, http, target
from mutations import json_bytes, mangled, mutated, mutated_json, mutated_lines, mutated_xml


def variant(rng: random.Random, *variants: list[str]) -> list[str]:
    return rng.choice(variants)


@target(5)
def suites(lab: Lab, rng: random.Random) -> Input:
    data = mutated_json(rng.choice(lab.suites), lab.suite, rng)
    argv = variant(
        rng,
        ["run", "--dry-run", "--model", "m", "--suite"],
        ["run", "--dry-run", "--model", "m", "--suite"],
        ["prove", "--strict", "--json", "--suite"],
        ["prove", "--results", lab.path("base.json"), "--suite"],
        ["promptfoo-config", "--base-url", "http://h/v1", "--model", "m", "--judge-model", "j", "--suite"],
        ["plan", "--drop", "0.1", "--suite"],
        ["rescore", "--results", lab.path("base.json"), "--suite"],
    )
    return data, lambda data: lab.check(*argv, lab.write("s.json", data))


def repaired(data: bytes) -> bytes:
    """A results file whose stored verdicts and seeds follow from its samples, as a reader demands."""
    try:
        document = json.loads(data)
        for case in document["cases"]:
            for seed, sample in enumerate(case["samples"]):
                passed = bool(sample["assertions"]) and all(item["passed"] for item in sample["assertions"])
                sample.update(seed=seed, verdict="error" if sample["error"] else "pass" if passed else "fail")
            verdicts = [sample["verdict"] for sample in case["samples"]]
            needed = case.get("min_pass") or len(verdicts)
            passed = verdicts.count("pass") >= needed
            case["verdict"] = "error" if "error" in verdicts or not verdicts else "pass" if passed else "fail"
            case["verdict"] = "skipped" if "skip" in case else case["verdict"]
        return json.dumps(document).encode()
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return data


@target(5)
def results(lab: Lab, rng: random.Random) -> Input:
    data = mutated_json(lab.results, lab.results, rng)
    if rng.random() < 0.8:
        data = repaired(data)
    r, base = lab.path("r.json"), lab.path("base.json")
    out = ("--out", lab.path("o.json"), "--junit", lab.path("o.xml"), "--markdown", lab.path("o.md"))
    argv = variant(
        rng,
        ["gate", "--baseline", base, "--candidate", r, "--json", *out],
        ["gate", "--baseline", r, "--candidate", base, *out],
        ["gate", "--baseline", base, "--candidate", r, "--candidate", base, "--anchor", r, "--margin", "0.1"],
        ["gate", "--baseline", r, "--candidate", r, "--require-improvement", "--test", "sign-flip", "--json"],
        ["rescore", "--suite", lab.path("suite.json"), "--results", r, "--out", lab.path("o.json")],
        ["ledger", "build", r, "--out", lab.path("o.json")],
        ["prove", "--suite", lab.path("suite.json"), "--results", r],
        ["plan", "--drop", "0.1", "--results", base, r],
        ["plan", "--false-alarms", r, base, "--trials", "5", "--json"],
        ["baseline", "update", "--baseline", r, "--candidate", base, "--reason", "r"],
        ["baseline", "update", "--baseline", lab.path("o.json"), "--candidate", r, "--reason", "r"],
    )
    reports = ("o.json", "o.xml") if "--junit" in argv else ("o.json",)

    def run(data: bytes) -> str | None:
        lab.write("r.json", data)
        return lab.check(*argv, reports=reports)

    return data, run


@target(2)
def journals(lab: Lab, rng: random.Random) -> Input:
    data = mutated_lines(lab.journal, lab.results, rng, fixed=rng.random() < 0.8)

    def run(data: bytes) -> str | None:
        lab.write("journal.json.journal", data)
        lab.endpoint.answer = http(200, {}, json.dumps(REPLIES[0]).encode())
        argv = ["run", *lab.asked(lab.endpoint.url), "--resume", "-j", "1", "--attempts", "1"]
        return lab.check(*argv, "--out", lab.path("journal.json"), reports=("journal.json",))

    return data, run


@target(3)
def ledgers(lab: Lab, rng: random.Random) -> Input:
    data = mutated_json(lab.ledger, lab.ledger, rng)
    path, base = lab.path("l.json"), lab.path("ledger.json")
    out = ("--json", "--junit", lab.path("o.xml"), "--markdown", lab.path("o.md"), "--min-runs", "1")
    argv = variant(
        rng,
        ["check", "--ledger", path, "--baseline", base, *out],
        ["check", "--ledger", base, "--baseline", path, "--flaky-budget", "1"],
        ["check", "--ledger", path],
        ["quarantine", "text", "--ledger", path, "--owner", "o", "--ticket", "t", "--until", "2099-01-01"],
        ["rebaseline", "--ledger", path, "--baseline", lab.path("o.json"), "--reason", "r"],
    )

    def run(data: bytes) -> str | None:
        lab.write("l.json", data)
        return lab.check("ledger", *argv, reports=("o.xml",) if "--junit" in argv else ())

    return data, run


@target(2)
def labels(lab: Lab, rng: random.Random) -> Input:
    argv = ["calibrate", "--judge", "keyword", *variant(rng, ["--json"], [], ["--out", lab.path("o.json")])]
    data = mutated_lines(lab.labels, lab.labels, rng)
    return data, lambda data: lab.check(*argv, "--labels", lab.write("x.jsonl", data))


@target(1)
def records(lab: Lab, rng: random.Random) -> Input:
    """Calibration records, alone and inside a results file."""
    if rng.random() < 0.5:
        data = mutated_json(lab.record, lab.results, rng)
        argv = ["run", *lab.asked("http://127.0.0.1:9/"), "--attempts", "1", "--calibration"]
        return data, lambda data: lab.check(*argv, lab.write("x.json", data))
    inside = {**lab.results, "calibration": mutated(lab.record, lab.results, rng)}
    argv = ["gate", "--baseline", lab.path("base.json"), "--candidate"]
    return json_bytes(inside, rng), lambda data: lab.check(*argv, lab.write("r.json", data))


@target(2, is_json=False)
def junit(lab: Lab, rng: random.Random) -> Input:
    data = mutated_xml(rng.choice(lab.junits), rng)
    argv = ["ledger", "build", "--out", lab.path("o.json")]
    return data, lambda data: lab.check(*argv, lab.write("x.xml", data), reports=("o.json",))


@target(2)
def run_logs(lab: Lab, rng: random.Random) -> Input:
    rows = [{"run": f"r{i}", "case": "c", "passed": i != 1, "critical": True} for i in range(4)]
    data = mutated_lines(rows, lab.ledger, rng)
    argv = ["ledger", "build", "--endpoint", "e", "--out", lab.path("o.json")]
    return data, lambda data: lab.check(*argv, lab.write("x.jsonl", data), reports=("o.json",))


@target(1)
def decision_logs(lab: Lab, rng: random.Random) -> Input:
    data = mutated_lines([lab.decision, lab.decision], lab.results, rng)
    argv = ["gate", "--baseline", lab.path("base.json"), "--candidate", lab.path("cand.json")]

    def run(data: bytes) -> str | None:
        lab.write("base.json.decisions.jsonl", data)
        try:
            return lab.check(*argv)
        finally:
            (lab.folder / "base.json.decisions.jsonl").unlink()

    return data, run


@target(2)
def training(lab: Lab, rng: random.Random) -> Input:
    data = mutated_lines(lab.trained, lab.trained, rng)
    more = variant(
        rng, [], ["--json", "--n", "1", "--skip-bad"], ["--results", lab.path("base.json"), "--n", "2"]
    )
    argv = ["contamination", "--suite", lab.path("suite.json"), *more, "--train"]
    return data, lambda data: lab.check(*argv, lab.write("x.jsonl", data))


@target(1)
def parts(lab: Lab, rng: random.Random) -> Input:
    """Shards of a contamination check, to be merged."""
    data = mutated_json(lab.part, lab.results, rng)
    argv = ["contamination", "--suite", lab.path("suite.json"), "--json", "merge", lab.path("part.json")]
    return data, lambda data: lab.check(*argv, lab.write("x.json", data))


@target(3)
def wire(lab: Lab, rng: random.Random) -> Input:
    """Whole HTTP replies to a run and its judge, some of them no HTTP."""
    status, headers = rng.choice(STATUSES), rng.choice(HEADERS)
    as_model = rng.random() < 0.3
    data = mutated_json(rng.choice(REPLIES), lab.results, rng)
    broken = random.Random(rng.random()) if rng.random() < 0.2 else None

    def run(data: bytes) -> str | None:
        answer = http(status, headers, data)
        lab.endpoint.answer = mangled(answer, random.Random(1)) if broken else answer
        argv = ["run", *lab.asked(lab.endpoint.url), "--attempts", "2", "--timeout", "2", "-j", "1"]
        more = ["--judge", "j", "--junit", lab.path("o.xml")] if as_model else ["--out", lab.path("w.json")]
        (lab.folder / "w.json.journal").unlink(missing_ok=True)
        return lab.check(*argv, *more, reports=("o.xml",) if as_model else ("w.json",))

    return data, run
