"""One bounded request, whatever the network does; and when it is asked again."""

from __future__ import annotations

import contextlib
import gc
import gzip
import heapq
import io
import itertools
import json
import os
import random
import socket
import ssl
import sys
import tempfile
import threading
import time
import traceback
import tracemalloc
import unittest
import warnings
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Callable, Union
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import main as m

KEY = "sk-canary-0123456789"
BODY = b'{"model":"m"}'
# A pair for localhost, made for this test and used by nothing else.
CERTIFICATE = """\
-----BEGIN EC PRIVATE KEY-----
MHcCAQEEINqQ8aTbA6ybFm0B5B0fR+nC7rQmr6M+8UJiilzo9oVioAoGCCqGSM49
AwEHoUQDQgAEqDTn6NU2GzZEv8mT5v46BT84S+pU5k9TBmn+xlJTfDx8Hd6eOSRg
BQeZugs5ETnsuCGxsiz/JEJO7FRiPwa/PQ==
-----END EC PRIVATE KEY-----
-----BEGIN CERTIFICATE-----
MIIBdjCCAR2gAwIBAgIBATAKBggqhkjOPQQDAjAUMRIwEAYDVQQDDAlsb2NhbGhv
c3QwIBcNMjAwMTAxMDAwMDAwWhgPMjEyMDAxMDEwMDAwMDBaMBQxEjAQBgNVBAMM
CWxvY2FsaG9zdDBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABKg05+jVNhs2RL/J
k+b+OgU/OEvqVOZPUwZp/sZSU3w8fB3enjkkYAUHmboLORE57LghsbIs/yRCTuxU
Yj8Gvz2jXjBcMBoGA1UdEQQTMBGCCWxvY2FsaG9zdIcEfwAAATAPBgNVHRMBAf8E
BTADAQH/MB0GA1UdDgQWBBSoyzrFOsyAZaRSJ/geeW9WSK2hezAOBgNVHQ8BAf8E
BAMCAoQwCgYIKoZIzj0EAwIDRwAwRAIgQreta7bz/osIKhFp1fOjN2salbaIsiz8
ca69N7S2YSoCICD7dWT+E1Lh5mhwHN7TsCVjIuXUPR/zE/dHOsrZtO4W
-----END CERTIFICATE-----
"""

Step = Union[bytes, Callable[[socket.socket], None]]


def http(body: bytes = b"{}", status: str = "200 OK", **headers: str) -> bytes:
    """Return the bytes of a reply that keeps the connection."""
    head = {"Content-Length": str(len(body)), **{k.replace("_", "-"): v for k, v in headers.items()}}
    lines = "".join(f"{name}: {value}\r\n" for name, value in head.items())
    return f"HTTP/1.1 {status}\r\n{lines}\r\n".encode("latin-1") + body


def last(data: bytes) -> Step:
    """Return a step that sends `data` and ends the connection."""

    def step(sock: socket.socket) -> None:
        sock.sendall(data)
        sock.shutdown(socket.SHUT_WR)
        raise ConnectionAbortedError

    return step


def drip(data: bytes, every_s: float, first: bytes = b"") -> Step:
    """Return a step that sends `first` at once and `data` byte by byte."""

    def step(sock: socket.socket) -> None:
        sock.sendall(first)
        for byte in data:
            time.sleep(every_s)
            sock.sendall(bytes([byte]))

    return step


def flood(first: bytes, again: bytes) -> Step:
    """Return a step that repeats `again` until the client has gone."""

    def step(sock: socket.socket) -> None:
        sock.sendall(first)
        while True:
            sock.sendall(again * 1000)

    return step


class Server:
    """Plays a script: one step per request, over as many connections as the client opens."""

    def __init__(self, script: list[Step], family: Any = socket.AF_INET, tls: Any = None) -> None:
        self.script, self.tls = script, tls
        self.heads: list[str] = []
        self.bodies: list[bytes] = []
        self.connections = 0
        self.socks: list[socket.socket] = []
        self.listener = socket.socket(family)
        self.listener.bind(("::1" if family == socket.AF_INET6 else "127.0.0.1", 0))
        self.listener.listen(32)
        self.port = self.listener.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}/v1/chat/completions"
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self) -> None:
        while True:
            try:
                sock, _ = self.listener.accept()
            except OSError:
                return
            self.connections += 1
            self.socks.append(sock)
            threading.Thread(target=self.serve, args=(sock,), daemon=True).start()

    def serve(self, sock: socket.socket) -> None:
        with contextlib.suppress(OSError), contextlib.ExitStack() as stack:
            stack.enter_context(sock)
            if self.tls:
                sock = stack.enter_context(self.tls.wrap_socket(sock, server_side=True))
            while self.read(sock):
                step = self.script.pop(0) if self.script else last(http(b"{}", "500 unscripted"))
                if isinstance(step, bytes):
                    sock.sendall(step)
                else:
                    step(sock)

    def read(self, sock: socket.socket) -> bool:
        data = b""
        while b"\r\n\r\n" not in data:
            piece = sock.recv(65536)
            if not piece:
                return False
            data += piece
        head, _, body = data.partition(b"\r\n\r\n")
        text = head.decode("latin-1")
        length = int(text.lower().partition("content-length: ")[2].split("\r\n")[0] or 0)
        while len(body) < length:
            body += sock.recv(65536)
        self.heads.append(text)
        self.bodies.append(body)
        return True

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        for sock in self.socks:
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)


class HttpTest(unittest.TestCase):
    def setUp(self) -> None:
        clean = {k: v for k, v in os.environ.items() if not k.lower().endswith("_proxy")}
        patch = mock.patch.dict(os.environ, clean, clear=True)
        patch.start()
        self.addCleanup(patch.stop)

    def serve(self, *script: Step, **options: Any) -> Server:
        server = Server(list(script), **options)
        self.addCleanup(server.close)
        return server

    def client(self, **options: Any) -> m.HttpClient:
        client = m.HttpClient(**options)
        self.addCleanup(client.close)
        return client

    def post(self, target: Any, client: m.HttpClient | None = None, deadline_s: float = 5.0) -> m.RawReply:
        url = target if isinstance(target, str) else target.url
        headers = {"Authorization": f"Bearer {KEY}"}
        return (client or self.client()).post(url, headers, BODY, deadline_s)

    def fails(self, kind: str, target: Any, **options: Any) -> m.ProviderError:
        with self.assertRaises(m.ProviderError) as caught:
            self.post(target, **options)
        error = caught.exception
        self.assertEqual(error.kind, kind, error.message)
        shown = "".join(traceback.format_exception(type(error), error, error.__traceback__))
        self.assertNotIn("canary", shown + repr(error) + repr(vars(error)))
        return error


class Exchange(HttpTest):
    def test_a_request_carries_its_body_headers_and_host(self) -> None:
        server = self.serve(http(b'{"a":1}', Server="stub"))
        reply = self.post(server)
        self.assertEqual((reply.status, reply.body), (200, b'{"a":1}'))
        self.assertEqual(reply.headers["server"], "stub")
        self.assertEqual(server.bodies, [BODY])
        head = server.heads[0]
        self.assertTrue(head.startswith("POST /v1/chat/completions HTTP/1.1\r\n"))
        for line in (f"Host: 127.0.0.1:{server.port}", f"Authorization: Bearer {KEY}"):
            self.assertIn(line, head.split("\r\n"))

    def test_a_connection_is_kept_between_calls(self) -> None:
        chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n"
        server = self.serve(http(), chunked, http(b"", "204 No Content"), http())
        client = self.client()
        for _ in range(4):
            self.post(server, client)
        self.assertEqual((server.connections, len(server.heads)), (1, 4))

    def test_each_of_several_threads_has_its_connection(self) -> None:
        together = threading.Barrier(3)

        def step(sock: socket.socket) -> None:
            together.wait(5)
            sock.sendall(http())

        server = self.serve(*[step] * 6)
        client = self.client()
        for _ in range(2):
            threads = [threading.Thread(target=self.post, args=(server, client)) for _ in range(3)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        self.assertEqual((server.connections, len(server.heads)), (3, 6))

    def test_a_stale_connection_is_reopened_once_and_is_no_failure(self) -> None:
        server = self.serve(http(b"1"), last(b""), http(b"2"))
        client = self.client()
        self.assertEqual(self.post(server, client).body, b"1")
        self.assertEqual(self.post(server, client).body, b"2")
        self.assertEqual(server.connections, 2)

    def test_a_connection_that_ended_while_idle_is_not_used_again(self) -> None:
        server = self.serve(last(http(b"1")), http(b"2"))
        client = self.client()
        self.post(server, client)
        time.sleep(0.02)
        self.assertEqual(self.post(server, client).body, b"2")
        self.assertEqual((server.connections, len(server.heads)), (2, 2))

    def test_a_fresh_connection_that_is_closed_is_not_asked_twice(self) -> None:
        server = self.serve(last(b""), http())
        self.fails("connection", server)
        self.assertEqual(len(server.heads), 1)

    def test_bytes_sent_unasked_never_answer_the_next_call(self) -> None:
        for extra in (http(b"stray"), http(b"stray" * 4000), b"x"):
            with self.subTest(extra=extra):
                server = self.serve(http(b"1") + extra, http(b"2"))
                client = self.client()
                self.assertEqual(self.post(server, client).body, b"1")
                self.assertEqual(self.post(server, client).body, b"2")

        def late(sock: socket.socket) -> None:
            sock.sendall(http(b"1"))
            time.sleep(0.01)
            sock.sendall(http(b"stray"))

        server = self.serve(late, http(b"2"))
        client = self.client()
        self.post(server, client)
        time.sleep(0.03)
        self.assertEqual(self.post(server, client).body, b"2")

    def test_a_call_that_is_being_answered_is_never_asked_again(self) -> None:
        server, client = self.serve(http(), http()), self.client()
        self.post(server, client)

        def reset(client: m.HttpClient, connection: Any, request: bytes) -> None:
            connection.received = 9
            raise ConnectionResetError

        with mock.patch.object(m.HttpClient, "_exchange", autospec=True, side_effect=reset) as exchange:
            self.assertIn("was cut", self.fails("connection", server, client=client).message)
        self.assertEqual(exchange.call_count, 1)

    def test_a_connection_whose_state_cannot_be_told_is_not_used_again(self) -> None:
        for error in (
            ValueError("filedescriptor out of range in select()"),
            OSError(9, "Bad file descriptor"),
        ):
            server, client = self.serve(http(b"1"), http(b"2")), self.client()
            self.post(server, client)
            with mock.patch("select.select", side_effect=error):
                self.assertEqual(self.post(server, client).body, b"2")
            self.assertEqual(server.connections, 2)

    def test_no_connection_is_left_for_the_garbage_collector_to_close(self) -> None:
        server = self.serve(http(b"1"), http(b"2", Connection="close"), last(b""))
        client = self.client()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", ResourceWarning)
            self.post(server, client)
            with mock.patch("select.select", return_value=([1], [], [])):  # as if it had ended
                self.post(server, client)
            self.fails("connection", server, client=client)
            gc.collect()
        self.assertEqual([str(warning.message) for warning in caught], [])

    def test_a_connection_that_the_server_gives_up_is_not_used_again(self) -> None:
        server = self.serve(http(b"1", Connection="Close"), http(b"2"))
        client = self.client()
        for body in (b"1", b"2"):
            self.assertEqual(self.post(server, client).body, body)
        self.assertEqual(server.connections, 2)

    def test_a_reply_of_http_1_0_is_read_and_its_connection_not_used_again(self) -> None:
        server = self.serve(http(b"1").replace(b"HTTP/1.1", b"HTTP/1.0"), http(b"2"))
        client = self.client()
        for body in (b"1", b"2"):
            self.assertEqual(self.post(server, client).body, body)
        self.assertEqual(server.connections, 2)

    def test_a_status_without_a_body_needs_no_length_and_keeps_the_connection(self) -> None:
        heads = [
            b"HTTP/1.1 204 No Content\r\n\r\n",
            b"HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n",
        ]
        server, client = self.serve(*heads, http(b"2")), self.client()
        self.assertEqual([self.post(server, client).body for _ in range(3)], [b"", b"", b"2"])
        self.assertEqual(server.connections, 1)

    def test_ipv6_works(self) -> None:
        try:
            server = self.serve(http(), family=socket.AF_INET6)
        except OSError as error:
            self.skipTest(f"no IPv6 here: {error}")
        url = m.normal_base_url(f"http://[::1]:{server.port}/v1").url
        self.assertEqual(self.post(url).status, 200)
        self.assertIn(f"Host: [::1]:{server.port}", server.heads[0])

    def test_latency_is_from_sending_to_the_last_byte(self) -> None:
        now = 64.0

        def step(sock: socket.socket) -> None:
            nonlocal now
            now += 0.25
            sock.sendall(http())

        reply = self.post(self.serve(step), self.client(clock=lambda: now), 60.0)
        self.assertEqual(reply.latency_ms, 250.0)

    def test_a_redirect_is_not_followed(self) -> None:
        other = self.serve(http())
        server = self.serve(http(b"", "302 Found", Location=f"{other.url}?k=1"))
        raw = self.post(server)
        with self.assertRaisesRegex(m.ProviderError, f"redirected to {other.url}$"):
            m.read_reply(raw.status, raw.headers, raw.body, now_epoch=0.0)
        self.assertEqual(other.connections, 0)

    def test_a_header_that_cannot_be_sent_is_refused_unseen(self) -> None:
        server = self.serve()
        for name, value in (("A", "canary\r\nB: c"), ("A", "canary\u2026"), ("A B", "canary")):
            with self.assertRaises(m.ProviderError) as caught:
                self.client().post(server.url, {name: value}, b"", 5.0)
            self.assertNotIn("canary", str(caught.exception))
        self.assertEqual(server.heads, [])


class Encodings(HttpTest):
    def test_compressed_replies_are_read_though_none_was_asked_for(self) -> None:
        text = b'{"a":1}' * 100
        forms = [("gzip", gzip.compress(text)), ("X-GZip", gzip.compress(text))]
        forms += [("deflate", zlib.compress(text)), ("identity", text)]
        server = self.serve(*[http(body, Content_Encoding=name) for name, body in forms])
        client = self.client()
        for name, _ in forms:
            self.assertEqual(self.post(server, client).body, text, name)

    def test_what_cannot_be_decompressed_is_named(self) -> None:
        self.fails("bad_encoding", self.serve(http(b"{}", Content_Encoding="gzip")))
        self.fails("bad_encoding", self.serve(http(b"{}", Content_Encoding="br")))
        whole = gzip.compress(b"x" * 1000)
        for body in (whole[:-9], whole + whole):
            self.fails("bad_encoding", self.serve(http(body, Content_Encoding="gzip")))

    def test_a_body_is_bounded_before_and_after_decompression(self) -> None:
        client = self.client(max_body_bytes=10_000)
        self.assertEqual(len(self.post(self.serve(http(b"x" * 10_000)), client).body), 10_000)
        long = self.serve(http(b"x" * 10_001))
        self.fails("too_large", long, client=client)
        announced = self.serve(b"HTTP/1.1 200 OK\r\nContent-Length: 10001\r\n\r\n")
        self.fails("too_large", announced, client=client)
        bomb = self.serve(http(gzip.compress(bytes(50_000_000), 1), Content_Encoding="gzip"))
        self.fails("too_large", bomb, client=self.client(max_body_bytes=400_000))
        unmeasured = last(b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * 10_001)
        self.fails("too_large", self.serve(unmeasured), client=client)
        endless = flood(b"HTTP/1.1 200 OK\r\n\r\n", b"x")
        self.fails("too_large", self.serve(endless), client=client)
        chunks = flood(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"1\r\nx\r\n")
        self.fails("too_large", self.serve(chunks), client=client)

    def test_a_body_in_small_chunks_may_be_as_large_as_any(self) -> None:
        reply = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"8\r\n12345678\r\n" * 12_500
        client = self.client(max_body_bytes=100_000)
        with mock.patch.object(m, "HEADER_BYTES", 10_000):
            body = self.post(self.serve(reply + b"0\r\n\r\n"), client).body
        self.assertEqual(len(body), 100_000)

    def test_a_small_body_cannot_fill_the_memory(self) -> None:
        bomb = gzip.compress(bytes(50_000_000), 1)
        server = self.serve(http(bomb, Content_Encoding="gzip"))
        client = self.client(max_body_bytes=100_000)
        tracemalloc.start()
        self.addCleanup(tracemalloc.stop)
        self.fails("too_large", server, client=client)
        self.assertLess(tracemalloc.get_traced_memory()[1], 5_000_000)


class Faults(HttpTest):
    def test_a_cut_body_is_retried_and_never_read(self) -> None:
        for data in (
            b'HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{"a":',
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n50\r\nhello",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nhello",
            b"HTTP/1.1 200 OK\r\nContent-Type: text/pl",
        ):
            with self.subTest(data=data):
                self.assertIn("cut", self.fails("connection", self.serve(last(data))).message)

    def test_a_reply_is_read_whatever_pieces_it_comes_in(self) -> None:
        chunks = b'Transfer-Encoding: Chunked\r\n\r\n1;x=y\r\n{\r\n0A\r\n"a":"\r\n\r\n"\r\n1 \r\n}\r\n'
        chunks += b"0\r\nA: b\r\n\r\n"
        sized = b'CONTENT-LENGTH:  12\r\nA: b: c\r\n d\r\n\r\n{"a":"\r\n\r\n"}'
        both = b"Content-Length: 99999999\r\n" + chunks
        for fields in (chunks, both, sized, sized.replace(b"\r\n", b"\n", 4)):
            for head in (b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 103 Early\r\nA: b\r\n\r\nHTTP/1.1 200\r\n"):
                server, client = self.serve(drip(head + fields, 0.0), head + fields), self.client()
                for _ in range(2):
                    self.assertEqual(self.post(server, client).body, b'{"a":"\r\n\r\n"}')
                self.assertEqual(server.connections, 1)

    def test_of_a_header_that_is_there_twice_the_first_counts(self) -> None:
        head = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 1\r\n\r\n"
        self.assertEqual(self.post(self.serve(last(head + b"{}"))).body, b"{}")

    def test_a_coding_that_is_not_chunked_ends_with_the_connection(self) -> None:  # RFC 9112, 6.3
        head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\nContent-Length: 1\r\n\r\n"
        self.assertEqual(self.post(self.serve(last(head + b"{}"))).body, b"{}")

    def test_a_refused_or_unresolved_host_is_named(self) -> None:
        server = self.serve()
        server.close()
        said = rf"^no connection to 127\.0\.0\.1:{server.port}: [^\[]"  # without an error number
        self.assertRegex(self.fails("connection", server).message, said)
        with mock.patch("socket.getaddrinfo", side_effect=socket.gaierror(-2, "unknown")):
            error = self.fails("connection", "http://nowhere.invalid/v1")
        self.assertIn("cannot resolve nowhere.invalid", error.message)

    def test_what_is_not_http_is_no_traceback(self) -> None:
        for data in (
            b"SSH-2.0-OpenSSH\r\n\r\n",
            b"\x00\xff\xfe\r\n\r\n",
            b"HTTP/1.1 abc OK\r\n\r\n",
            b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 200 + b"\r\n",
            b"HTTP/1.1 200 OK\r\nX: " + b"y" * 70_000 + b"\r\n\r\n",
            b"HTTP/2 200 OK\r\n\r\n",
            b"HTTP/1.1 2000 OK\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-5\r\nhello\r\n",
        ):
            with self.subTest(data=data[:60]), self.assertRaises(m.ProviderError) as caught:
                self.post(self.serve(last(data)))
            self.assertIn(caught.exception.kind, ("bad_http", "connection"))

    def test_an_endless_head_is_bounded(self) -> None:
        self.fails("too_large", self.serve(flood(b"", b"HTTP/1.1 100 Continue\r\n\r\n")))
        self.fails("bad_http", self.serve(flood(b"HTTP/1.1 200 OK\r\nX: ", b"y")))
        self.fails("bad_http", self.serve(flood(b"HTTP/1.1 200 OK\r\n", b"X: y\r\n")))
        trailers = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n"
        client = self.client(max_body_bytes=10_000)
        self.fails("too_large", self.serve(flood(trailers, b"A: b\r\n")), client=client)

    def test_a_dripping_server_cannot_pass_the_deadline(self) -> None:
        reply = http(b"x" * 12)
        for step in (
            drip(b"x" * 12, 0.03, reply[:-12]),
            drip(reply, 0.03),
            drip(reply, 0.03, b"HTTP/1.1 100 Continue\r\n\r\n"),
            drip(b"x" * 50, 0.03, b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n32\r\n"),
            lambda sock: time.sleep(0.3),
        ):
            started = time.perf_counter()
            self.fails("timeout", self.serve(step), deadline_s=0.12)
            self.assertLess(time.perf_counter() - started, 0.25)

    def test_a_kept_connection_waits_no_longer_than_the_call_that_uses_it(self) -> None:
        over = threading.Event()
        self.addCleanup(over.set)

        def hang(sock: socket.socket) -> None:
            over.wait(5)

        server, client = self.serve(http(), hang), self.client()
        self.post(server, client, deadline_s=5.0)
        started = time.perf_counter()
        self.fails("timeout", server, client=client, deadline_s=0.05)
        self.assertLess(time.perf_counter() - started, 2)

    def test_no_time_left_is_a_timeout_before_anything_is_sent(self) -> None:
        server = self.serve(http())
        for deadline_s in (0.5, 1.0, 2.5):
            client = self.client(clock=itertools.count().__next__)
            self.fails("timeout", server, client=client, deadline_s=deadline_s)
        self.assertEqual(server.heads, [])

    def test_a_server_that_never_reads_cannot_pass_the_deadline(self) -> None:
        listener = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(listener.close)
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/"
        started = time.perf_counter()
        with self.assertRaises(m.ProviderError) as caught:
            self.client().post(url, {}, bytes(30_000_000), 0.15)
        self.assertEqual(caught.exception.kind, "timeout")
        self.assertLess(time.perf_counter() - started, 0.4)

    def test_sending_on_a_kept_connection_cannot_pass_the_deadline(self) -> None:
        listener = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(listener.close)

        def answer_once() -> None:
            sock, _ = listener.accept()
            self.addCleanup(sock.close)
            sock.recv(65536)
            sock.sendall(http())

        threading.Thread(target=answer_once, daemon=True).start()
        url, client = f"http://127.0.0.1:{listener.getsockname()[1]}/", self.client()
        client.post(url, {}, b"", 5.0)
        started = time.perf_counter()
        with self.assertRaises(m.ProviderError) as caught:
            client.post(url, {}, bytes(30_000_000), 0.05)
        self.assertEqual(caught.exception.kind, "timeout")
        self.assertLess(time.perf_counter() - started, 2)

    def test_closing_closes_what_no_call_is_using(self) -> None:
        server, client = self.serve(http(), http()), self.client()
        self.post(server, client)
        client.close()
        self.post(server, client)
        self.assertEqual(server.connections, 2)


class Proxies(HttpTest):
    def test_loopback_is_never_sent_through_a_proxy(self) -> None:
        proxy, server = self.serve(), self.serve(http())
        with mock.patch.dict(os.environ, {"http_proxy": proxy.url, "HTTP_PROXY": proxy.url}):
            self.assertEqual(self.post(server).status, 200)
        self.assertEqual(proxy.connections, 0)
        for host in ("localhost", "a.localhost", "127.9.9.9", "::1"):
            self.assertTrue(m.is_loopback(host), host)
        for host in ("127.0.0.1.evil.example", "localhost.example", "10.0.0.1", "", "::2"):
            self.assertFalse(m.is_loopback(host), host)

    def test_another_host_goes_through_the_proxy_of_the_environment(self) -> None:
        proxy = self.serve(http(b"by proxy"))
        setting = f"http://me:canary@127.0.0.1:{proxy.port}"
        with mock.patch.dict(os.environ, {"http_proxy": setting}):
            reply = self.post("http://api.invalid/v1/chat/completions?a=1")
        self.assertEqual(reply.body, b"by proxy")
        lines = proxy.heads[0].split("\r\n")
        self.assertEqual(lines[0], "POST http://api.invalid/v1/chat/completions?a=1 HTTP/1.1")
        self.assertIn("Host: api.invalid", lines)
        self.assertIn("Proxy-Authorization: Basic bWU6Y2FuYXJ5", lines)  # base64 of me:canary

    def test_a_proxy_that_cannot_be_reached_is_the_one_named(self) -> None:
        proxy = self.serve()
        proxy.close()
        with mock.patch.dict(os.environ, {"http_proxy": proxy.url}):
            error = self.fails("connection", "http://api.invalid/v1")
        self.assertIn(f"127.0.0.1:{proxy.port}", error.message)

    def test_no_proxy_is_honoured(self) -> None:
        proxy = self.serve()
        env = {"http_proxy": proxy.url, "no_proxy": "api.invalid"}
        refused = mock.patch("socket.getaddrinfo", side_effect=socket.gaierror(-2, "unknown"))
        with mock.patch.dict(os.environ, env), refused:
            self.fails("connection", "http://api.invalid/v1")
        self.assertEqual(proxy.connections, 0)

    def test_https_is_tunnelled_and_the_key_stays_inside(self) -> None:
        proxy = self.serve(last(http(b"", "407 Proxy Authentication Required")))
        setting = f"http://me:canary@127.0.0.1:{proxy.port}"
        with mock.patch.dict(os.environ, {"https_proxy": setting}):
            self.assertIn("407", self.fails("auth", "https://api.invalid/v1").message)
        self.assertTrue(proxy.heads[0].startswith("CONNECT api.invalid:443 HTTP/1."))
        self.assertNotIn(KEY, proxy.heads[0])

    def test_a_dripping_proxy_cannot_pass_the_deadline(self) -> None:
        proxy = self.serve(drip(b"X: y\r\n" * 20, 0.02, b"HTTP/1.1 200 OK\r\n"))
        with mock.patch.dict(os.environ, {"https_proxy": f"http://127.0.0.1:{proxy.port}"}):
            begun = time.monotonic()
            self.fails("timeout", "https://api.invalid/v1", deadline_s=0.12)
        self.assertLess(time.monotonic() - begun, 1.2)  # of 2.4

    def test_a_proxy_setting_that_is_no_url_is_one_message(self) -> None:
        for setting in ("socks5://me:canary@127.0.0.1:1", "http:me:canary"):
            with mock.patch.dict(os.environ, {"http_proxy": setting}):
                self.fails("bad_request", "http://api.invalid/v1")


class Tls(HttpTest):
    def setUp(self) -> None:
        super().setUp()
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.pem = str(Path(folder.name) / "localhost.pem")
        Path(self.pem).write_text(CERTIFICATE, encoding="ascii")
        self.tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.tls.load_cert_chain(self.pem)

    def test_ssl_cert_file_is_honoured_and_the_connection_kept(self) -> None:
        server = self.serve(http(b"1"), http(b"2"), tls=self.tls)
        with mock.patch.dict(os.environ, {"SSL_CERT_FILE": self.pem}):
            client = self.client()
            for body in (b"1", b"2"):
                url = server.url.replace("http:", "https:")
                self.assertEqual(self.post(url, client).body, body)
        self.assertEqual(server.connections, 1)

    def test_what_tls_has_decrypted_unasked_never_answers_the_next_call(self) -> None:
        body = b"1" * (io.DEFAULT_BUFFER_SIZE - len(http(b"1" * 8000)) + 8000)
        record = http(body) + http(b"stray")  # of which a reader takes the first reply, to the byte
        server = self.serve(record, http(b"2"), tls=self.tls)
        with mock.patch.dict(os.environ, {"SSL_CERT_FILE": self.pem}):
            client, url = self.client(), server.url.replace("http:", "https:")
            self.assertEqual(self.post(url, client).body, body)
            self.assertEqual(self.post(url, client).body, b"2")

    def test_a_certificate_that_nobody_signed_is_hopeless(self) -> None:
        server = self.serve(http(), tls=self.tls)
        error = self.fails("tls", server.url.replace("http:", "https:"))
        self.assertRegex(error.message, ": self.signed certificate$")
        self.assertEqual(server.heads, [])

    def test_https_to_a_plain_server_is_a_tls_failure(self) -> None:
        plain = mock.Mock(side_effect=lambda sock: sock.sendall(b"HTTP/1.1 400 Bad\r\n\r\n"))
        with mock.patch.object(Server, "read", plain):
            self.fails("tls", self.serve().url.replace("http:", "https:"))

    def test_an_end_within_tls_is_a_broken_connection_that_may_be_tried_again(self) -> None:
        end = ssl.SSLEOFError(8, "EOF occurred in violation of protocol")
        with mock.patch.object(m.HttpClient, "_exchange", side_effect=end):
            self.fails("connection", "https://api.invalid/v1")

    def test_a_handshake_that_never_ends_is_a_timeout(self) -> None:
        listener = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(listener.close)
        url = f"https://127.0.0.1:{listener.getsockname()[1]}/"
        self.fails("timeout", url, deadline_s=0.1)


class Clock:
    """A clock that only sleeping moves."""

    def __init__(self) -> None:
        self.now = 100.0
        self.slept: list[float] = []
        self.stop = False

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> bool:
        self.slept.append(seconds)
        self.now += seconds
        return self.stop


def limited(wait_s: float | None = None, kind: str = "rate_limit") -> m.ProviderError:
    return m.ProviderError(kind, "x", wait_s)


class Retries(unittest.TestCase):
    def setUp(self) -> None:
        self.clock = Clock()
        self.gate = m.RetryGate()

    def ask(self, *script: Any, attempts: int = 4, **options: Any) -> tuple[Any, int]:
        steps: Iterator[Any] = iter(script)

        def ask_once() -> Any:
            step = next(steps)
            if isinstance(step, m.ProviderError):
                raise step
            return step

        options = {"gate": self.gate, "rng": random.Random(1), **options}
        clock = self.clock
        return m.call_with_retries(ask_once, attempts=attempts, clock=clock, sleep=clock.sleep, **options)

    def test_an_answer_is_never_asked_again(self) -> None:
        self.assertEqual(self.ask("", "second"), ("", 1))
        self.assertEqual(self.clock.slept, [])

    def test_what_may_pass_is_asked_again_with_growing_waits(self) -> None:
        self.assertEqual(self.ask(limited(), limited(), limited(), "Paris"), ("Paris", 4))
        first, second, third = self.clock.slept
        self.assertTrue(0.25 <= first <= 0.5 <= second <= 1.0 <= third <= 2.0)

    def test_the_last_error_says_how_often_it_was_tried(self) -> None:
        with self.assertRaises(m.ProviderError) as caught:
            self.ask(limited(), limited(kind="server"), limited(), attempts=2)
        self.assertEqual((caught.exception.attempts, caught.exception.kind), (2, "server"))

    def test_what_cannot_pass_is_asked_once(self) -> None:
        with self.assertRaises(m.ProviderError) as caught:
            self.ask(m.ProviderError("auth", "x"), "Paris")
        self.assertEqual(caught.exception.attempts, 1)
        self.assertEqual(self.clock.slept, [])

    def test_retry_after_is_waited_and_holds_back_every_worker(self) -> None:
        self.assertEqual(self.ask(limited(7.0), "Paris"), ("Paris", 2))
        self.assertEqual(sum(self.clock.slept), 7.0)
        with self.assertRaises(m.ProviderError):
            self.ask(limited(0.5), attempts=1)
        self.assertEqual(self.ask("Rome"), ("Rome", 1))
        self.assertEqual(self.clock.slept[-1], 0.5)

    def test_a_wait_of_zero_still_backs_off(self) -> None:
        self.ask(limited(0.0), "Paris")
        self.assertGreater(self.clock.slept[0], 0.2)

    def test_no_attempt_starts_after_the_end_of_the_run(self) -> None:
        with self.assertRaises(m.ProviderError):
            self.ask(limited(7.0), "Paris", give_up_at=self.clock.now + 5)
        self.assertEqual(self.clock.slept, [])

    def test_a_wait_ends_when_the_run_is_told_to_stop(self) -> None:
        self.clock.stop = True
        with self.assertRaises(m.ProviderError) as caught:
            self.ask(limited(), "Paris")
        self.assertEqual((caught.exception.kind, caught.exception.attempts), ("rate_limit", 1))
        self.gate.pause.hold(self.clock.now, 5)
        with self.assertRaises(m.ProviderError) as caught:
            self.ask("Paris")
        self.assertEqual((caught.exception.kind, caught.exception.attempts), ("stopped", 0))

    def test_a_few_hopeless_errors_at_the_start_end_the_run(self) -> None:
        for _ in range(4):
            self.assertIsNone(self.gate.ended_by)
            with self.assertRaises(m.ProviderError):
                self.ask(m.ProviderError("quota", "no money"))
        self.gate.note(m.ProviderError("quota", "and later: none"))
        with self.assertRaisesRegex(m.ProviderError, "not asked, after: no money") as caught:
            self.ask("Paris")
        self.assertEqual(caught.exception.kind, "stopped")

    def play(self, outcomes: str, kind: str = "connection") -> bool:
        """Whether a gate ends the run in which samples fail (f) and are answered (a) in turn."""
        gate = m.RetryGate()
        for outcome in outcomes:
            gate.note(m.ProviderError(kind, "x") if outcome == "f" else None)
        return gate.ended_by is not None

    def test_ten_failed_samples_in_a_row_are_an_outage(self) -> None:
        self.assertTrue(self.play("a" + "f" * 10))
        self.assertFalse(self.play("fffffffffa" * 5))
        self.assertFalse(self.play("fff" + "affffff" * 5, "auth"))
        self.assertFalse(self.play("f" * 20, "stopped"))

    def test_four_timeouts_and_nothing_else_are_a_hang(self) -> None:
        for kinds, hung in (
            (["timeout"] * 4, True), (["timeout"] * 3, False), (["bad_reply"] * 3 + ["timeout"], False),
            ([None] + ["timeout"] * 4, False), (["timeout"] * 3 + ["auth"], False),
        ):  # fmt: skip
            gate = m.RetryGate()
            for kind in kinds:
                gate.note(m.ProviderError(kind, "x") if kind else None)
            self.assertEqual(gate.hung, hung, kinds)

    def test_an_endpoint_that_never_replied_hangs_when_its_patience_is_over(self) -> None:
        gate = m.RetryGate(patience_s=50)
        gate.check(99.0)  # nobody asks yet
        self.let_through(gate, 100.0)
        for elapsed_s, hung in ((49.5, False), (0.5, True)):
            gate.check(elapsed_s)
            self.assertEqual((gate.hung, gate.ended_by is not None), (hung, hung))
        self.assertRegex(str(gate.ended_by), "no answer in 50 s.*--timeout")

    def test_patience_is_spent_on_waiting_for_a_reply_and_a_pause_is_given_on_top(self) -> None:
        gate = m.RetryGate(patience_s=50)
        self.let_through(gate, 0.0)
        gate.check(30.0)
        gate.note(m.ProviderError("server", "x"))
        gate.check(470.0)  # nobody asks
        self.let_through(gate, 500.0)
        for wait_s in (60.0, 5.0):  # the longest counts, and once
            gate.pause.hold(500.0, wait_s)
        gate.check(79.5)
        self.assertIsNone(gate.ended_by)
        gate.check(0.5)
        self.assertRegex(str(gate.ended_by), "no answer in 110 s")

    def test_a_worker_that_waits_for_a_pause_asks_until_it_is_stopped(self) -> None:
        above = m.RetryGate()
        gate, seen = m.RetryGate("b", above.pause, 50, above), []
        above.pause.hold(0.0, 9.0)

        def stopped(seconds: float) -> bool:
            seen.append((len(gate.under_way), len(above.under_way)))
            return True

        with self.assertRaises(m.ProviderError):
            gate.wait(lambda: 0.0, stopped)
        self.assertEqual((seen, gate.under_way, above.under_way), ([(1, 1)], set(), set()))

    def test_providers_of_one_endpoint_are_counted_together_too(self) -> None:
        above = m.RetryGate("the endpoint", patience_s=50)
        gates = [m.RetryGate(name, above.pause, 50, above) for name in "ab"]
        for gate in gates * 5:
            self.let_through(gate, 0.0)
            self.assertIsNone(above.ended_by)
            gate.note(m.ProviderError("server", "down"))
        self.assertEqual(str(above.ended_by), "down")
        self.assertEqual([gate.ended_by for gate in gates], [None, None])
        self.let_through(gates[0], 0.0)
        gates[0].heard(None)
        above.check(99.0)
        self.assertFalse(above.hung)

    def test_an_endpoint_that_hangs_says_its_own_error_where_there_is_one(self) -> None:
        gate = m.RetryGate(patience_s=50)
        self.let_through(gate, 0.0)
        gate.heard(m.ProviderError("connection", "No route to host"))
        gate.heard(m.ProviderError("stopped", "stopped before the call"))
        gate.check(50.0)
        self.assertRegex(str(gate.ended_by), "^No route to host; no answer in 50 s; .*--timeout")

    def test_a_sign_of_life_is_not_blamed_for_the_silence_after_it(self) -> None:
        gate = m.RetryGate(patience_s=50)
        self.let_through(gate, 0.0)
        gate.heard(m.ProviderError("server", "HTTP 503"))
        gate.heard(m.ProviderError("bad_request", "context too long"))
        gate.check(50.0)
        self.assertRegex(str(gate.ended_by), "^no answer in 50 s")

    def let_through(self, gate: m.RetryGate, now: float) -> None:
        gate.wait(lambda: now, lambda seconds: False)

    def test_an_answer_or_a_refusal_shows_that_an_endpoint_lives_and_an_outage_does_not(self) -> None:
        for error, lives in (
            (None, True), (m.ProviderError("auth", "x"), True), (m.ProviderError("bad_reply", "x"), True),
            (m.ProviderError("rate_limit", "x"), False), (m.ProviderError("server", "x", 0.0), False),
            (m.ProviderError("server", "x"), False), (m.ProviderError("connection", "x"), False),
            (m.ProviderError("timeout", "x"), False), (m.ProviderError("bad_http", "x"), False),
            (m.ProviderError("stopped", "x"), False),
        ):  # fmt: skip
            gate = m.RetryGate(patience_s=50)
            self.let_through(gate, 0.0)
            gate.check(49.0)
            with contextlib.suppress(m.ProviderError):
                m.call_with_retries(
                    mock.Mock(side_effect=[error or "Paris"]), attempts=1, rng=random.Random(1),
                    clock=lambda: 0.0, sleep=lambda seconds: False, gate=gate,
                )  # fmt: skip
            self.let_through(gate, 99.0)
            gate.check(2.0)
            self.assertEqual(gate.ended_by is None, lives, error)
            gate.heard(m.ProviderError("auth", "x"))
            gate.check(9e3)
            self.assertEqual(gate.ended_by is None, error is None, "after an answer it never hangs")

    def play_fifth(self, seed: int, workers: int, kind: str) -> m.ProviderError | None:
        """What ends a run of 400 samples, a fifth of which fails, and at once."""
        gate, rng = m.RetryGate(), random.Random(seed)
        starts, worker = [(0.0, worker, False) for worker in range(workers)], 0
        with mock.patch.object(m, "threading", mock.Mock(get_ident=lambda: worker)):
            for index in range(400):
                now, worker, failed = heapq.heappop(starts)
                if index >= workers:
                    gate.note(m.ProviderError(kind, "x") if failed else None)
                if gate.ended_by is None:
                    gate.wait(time.perf_counter, lambda seconds: False)
                failed = rng.random() < 0.2
                heapq.heappush(starts, (now + (0.001 if failed else 1.0), worker, failed))
        return gate.ended_by

    def test_a_fifth_of_the_calls_may_fail_in_any_way(self) -> None:
        # Failures that come at once, while answers take their time, come in long rows.
        for seed in range(20):
            for workers, kind in itertools.product((1, 4, 32), ("auth", "bad_reply", "server")):
                with self.subTest(seed=seed, workers=workers, kind=kind):
                    self.assertIsNone(self.play_fifth(seed, workers, kind))


class Together(HttpTest):
    def test_a_bad_network_is_survived_and_counted(self) -> None:
        def hang(sock: socket.socket) -> None:
            time.sleep(0.3)

        answer = json.dumps({"choices": [{"message": {"content": "Paris"}}]}).encode()
        limit = http(b'{"error":{"code":429,"message":"slow down"}}')
        cut = last(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{")
        server = self.serve(last(b""), hang, cut, limit, http(b"", "529 Busy"), http(answer))
        client, clock = self.client(), Clock()

        def ask_once() -> m.Reply:
            raw = self.post(server, client, 0.1)
            return m.read_reply(raw.status, raw.headers, raw.body, now_epoch=0.0)

        options: Any = {"rng": random.Random(1), "gate": m.RetryGate(), "clock": clock}
        reply, attempts = m.call_with_retries(ask_once, attempts=6, sleep=clock.sleep, **options)
        self.assertEqual((reply.text, attempts), ("Paris", 6))


if __name__ == "__main__":
    unittest.main()
