"""The least that a client of this API does: post on kept connections and parse the replies.

    python3 code/tests/bench/bare_loop.py URL CALLS THREADS

`bench_runner.py` runs it as the floor; so it imports nothing of minieval.
"""

from __future__ import annotations

import http.client
import json
import sys
import threading
import urllib.parse


def main(url: str, calls: int, threads: int) -> None:
    parts = urllib.parse.urlsplit(url)
    headers = {"Content-Type": "application/json"}
    numbers = iter(range(calls))
    lock = threading.Lock()

    def work() -> None:
        connection = http.client.HTTPConnection(parts.netloc, timeout=60)
        while True:
            with lock:
                number = next(numbers, None)
            if number is None:
                return
            content = f"Reply with ok.\n\nquestion {number}"
            body = {"model": "m", "messages": [{"role": "user", "content": content}], "seed": 0}
            connection.request("POST", parts.path + "/chat/completions", json.dumps(body), headers)
            answer = json.loads(connection.getresponse().read())
            assert answer["choices"][0]["message"]["content"] == "ok", answer

    workers = [threading.Thread(target=work) for _ in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
