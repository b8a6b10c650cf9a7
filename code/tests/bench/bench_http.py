"""CPU and wall time of HttpClient against a bare http.client loop, as ratios in one run.

    python code/tests/bench/bench_http.py [calls] [threads]

A trivial keep-alive server runs in another process; both clients use the same threads and kept
connections, in turns; medians of the rounds are compared. Exit code 1 when the client costs more
than 1.25 times the CPU of the bare loop.
"""

from __future__ import annotations

import http.client
import json
import multiprocessing
import socket
import statistics
import sys
import threading
import time
from pathlib import Path
from typing import Any, Callable

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import main as minieval

ROUNDS = 7
CPU_LIMIT = 1.25
ANSWER = json.dumps(
    {
        "id": "x",
        "object": "chat.completion",
        "model": "m",
        "choices": [
            {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "6443"}}
        ],
        "usage": {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15},
    }
).encode()
REPLY = (
    b"HTTP/1.1 200 OK\r\nServer: bench\r\nDate: Wed, 21 Oct 2026 07:28:00 GMT\r\n"
    b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(ANSWER)
) + ANSWER
BODY = json.dumps({"model": "m", "messages": [{"role": "user", "content": "x" * 400}]}).encode()
HEADERS = {"Content-Type": "application/json", "Authorization": "Bearer sk-bench"}


def serve_connection(sock: socket.socket) -> None:
    """Answer every request on one connection with REPLY."""
    data = b""
    with sock:
        while True:
            while not data.endswith(BODY):
                piece = sock.recv(65536)
                if not piece:
                    return
                data += piece
            data = b""
            sock.sendall(REPLY)


def serve(pipe: Any) -> None:
    """Listen on a free port, report it, serve for ever."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=128)
    pipe.send(listener.getsockname()[1])
    while True:
        sock, _ = listener.accept()
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        threading.Thread(target=serve_connection, args=(sock,), daemon=True).start()


def bare_worker(port: int) -> Callable[[], object]:
    """Return one call of a kept http.client connection that parses the reply."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)

    def call() -> object:
        connection.request("POST", "/v1/chat/completions", BODY, HEADERS)
        response = connection.getresponse()
        return json.loads(response.read())

    return call


def client_worker(client: Any, url: str, read: bool) -> Callable[[], object]:
    """Return one call of the shared HttpClient; `read` reads the reply as a run does."""

    def call() -> object:
        raw = client.post(url, HEADERS, BODY, 30.0)
        if not read:
            return json.loads(raw.body)
        return minieval.read_reply(raw.status, raw.headers, raw.body, now_epoch=time.time())

    return call


def measure(workers: list[Callable[[], object]], calls: int) -> tuple[float, float]:
    """Return CPU and wall seconds of `calls` calls shared out to one thread per worker."""
    share = [calls // len(workers) + (i < calls % len(workers)) for i in range(len(workers))]

    def loop(call: Callable[[], object], n: int) -> None:
        for _ in range(n):
            call()

    threads = [threading.Thread(target=loop, args=pair) for pair in zip(workers, share)]
    cpu, wall = time.process_time(), time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return time.process_time() - cpu, time.perf_counter() - wall


def main() -> int:
    calls = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    n = int(sys.argv[2]) if len(sys.argv) > 2 else 32
    here, there = multiprocessing.Pipe()
    server = multiprocessing.Process(target=serve, args=(there,), daemon=True)
    server.start()
    port = here.recv()
    url = f"http://127.0.0.1:{port}/v1/chat/completions"
    times: dict[str, list[tuple[float, float]]] = {"bare": [], "client": [], "client + reply": []}
    for _ in range(ROUNDS):
        times["bare"].append(measure([bare_worker(port) for _ in range(n)], calls))
        for name, read in (("client", False), ("client + reply", True)):
            client = minieval.HttpClient()
            workers = [client_worker(client, url, read) for _ in range(n)]
            times[name].append(measure(workers, calls))
            client.close()
    server.terminate()
    bare = [statistics.median(column) for column in zip(*times["bare"])]
    ratio = 0.0
    for name, rows in times.items():
        cpu, wall = (statistics.median(column) for column in zip(*rows))
        ratios = (cpu / bare[0], wall / bare[1])
        print(f"{name:15} CPU {cpu:.3f} s ({ratios[0]:.2f})  wall {wall:.3f} s ({ratios[1]:.2f})")
        ratio = cpu / bare[0] if name == "client" else ratio
    return 0 if ratio <= CPU_LIMIT else 1


if __name__ == "__main__":
    sys.exit(main())
