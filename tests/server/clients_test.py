#!/usr/bin/env python3
"""Kind 8 of the reported cases, the part that is about clients: keys and browsers (O8.5), clients that leave (O8.6) or do not
read (O8.7), uploads (O8.11); and HTTP as odd clients speak it: 1.0, pipelined, half closed, one byte a second, hostile."""
import json
import random
import statistics
import threading
import time

import models
from case import Case, main
from said import CHAT, COMPLETIONS, said_of_answer
from server_process import ROOT, SANITIZED, SLOW
from wire import Wire, request_bytes

ORIGIN = ("Origin", "https://app.example")
TINY = json.dumps({"prompt": "A", "max_tokens": 1}).encode()


class Keys(Case):
    def test_o8_5_preflight_health_and_keys(self):
        server = self.serve_here(models.scripted(self.folder / "m", {}), "--api-key", "k", "--cors", "*")
        asked = [ORIGIN, ("Access-Control-Request-Method", "POST"), ("Access-Control-Request-Headers", "authorization, content-type")]
        answer = server.ask("OPTIONS", CHAT, headers=asked)
        self.assertIn(answer.status, (200, 204))
        self.assertIn("POST", answer.headers["access-control-allow-methods"])
        allowed = answer.headers["access-control-allow-headers"].lower()
        self.assertTrue(allowed == "*" or ("authorization" in allowed and "content-type" in allowed), allowed)
        self.assertIn(answer.headers["access-control-allow-origin"], ("*", ORIGIN[1]))
        self.assertEqual(server.get("/health").status, 200)
        self.assertEqual(server.get("/metrics").status, 200)
        bodies = set()
        for headers, want in [([], 401), ([("Authorization", "Bearer x")], 401), ([("Authorization", "Bearer k")], 200), ([("Authorization", "bearer k")], 200),
                              ([("Authorization", "BEARER k")], 200), ([("AUTHORIZATION", "Bearer k")], 200), ([("Authorization", "")], 401),
                              ([("Authorization", "Bearer")], 401), ([("Authorization", "Bearer kk")], 401), ([("Authorization", "Bearer K")], 401),
                              ([("Authorization", "Basic k")], 401), ([("Authorization", "k")], 401), ([("x-api-key", "k")], 200),
                              ([("Authorization", "Bearer \udcff")], 401), ([("Authorization", "Bearer " + "k" * 5000)], 401)]:
            answer = server.post(COMPLETIONS, TINY, headers=[*headers, ORIGIN])
            self.assertEqual(answer.status, want, headers)
            self.assertIn(answer.headers["access-control-allow-origin"], ("*", ORIGIN[1]), "a browser has to see the answer")
            readable = answer.headers["access-control-expose-headers"]
            for name in ("x-request-id", "retry-after", "x-millrace-unknown-fields", "x-ratelimit-limit-requests", "x-ratelimit-remaining-tokens", "x-ratelimit-reset-tokens"):
                self.assertIn(name, readable.split(", "))
            if want == 401:
                bodies.add(answer.json["error"]["message"])
        self.assertLessEqual(len(bodies), 2, "what is wrong with a key is told to nobody")  # none, and a wrong one
        self.assertIn(server.post(COMPLETIONS, TINY, headers=[("Authorization", "Bearer  k")]).status, (200, 401))
        self.assertEqual(server.post("/v1/messages", {}, headers=[]).json["type"], "error")

    def test_one_tenant_cannot_fill_the_line(self):
        """A line full of one's requests takes what another sends."""
        keys = self.folder / "keys"
        keys.write_text("ka tenant=a\nkb tenant=b\n")
        model = models.heavy(self.folder / "heavy")
        server = self.serve_here(model, "--api-keys", keys, "--max-running", 1, "--max-queued-requests", 4)
        of = lambda key: [("Authorization", "Bearer " + key)]
        ask = lambda n, i=0: {"prompt": f"{i}", "max_tokens": n, "ignore_eos": True}
        end = time.monotonic() + 20 * SLOW
        wires = []
        for i in range(5):  # one runs, the others wait
            wires.append(server.wire().send(request_bytes("POST", COMPLETIONS, json.dumps(ask(3000, i)).encode(), of("ka"))))
            while sum(server.gauges()[:2]) <= i and time.monotonic() < end:
                time.sleep(0.01)
            while server.gauges()[0] == 0 and time.monotonic() < end:
                time.sleep(0.01)
        refused = server.post(COMPLETIONS, ask(1), of("ka"))
        self.assertEqual(refused.status, 429, refused)
        answers = []
        other = threading.Thread(target=lambda: answers.append(server.post(COMPLETIONS, ask(1), of("kb"))))
        other.start()
        while server.gauges()[1] < 5 and not answers and time.monotonic() < end:
            time.sleep(0.02)
        self.assertEqual(server.post(COMPLETIONS, ask(1), of("ka")).status, 429)
        for wire in wires:
            wire.reset()
        other.join(60 * SLOW)
        self.assertEqual([answer.status for answer in answers], [200], answers)
        self.assertIsNotNone(server.settle())

    def test_cors_is_off_unless_asked(self):
        server = self.serve_here(models.scripted(self.folder / "off", {}))
        self.assertNotIn("access-control-allow-origin", server.post(COMPLETIONS, TINY, headers=[ORIGIN]).headers)
        self.assertNotIn("access-control-allow-origin", server.ask("OPTIONS", CHAT, headers=[ORIGIN]).headers)


class Leaving(Case):
    """O8.6 and O8.7."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.server = cls.serve(models.random_model(cls.folder / "r", 2, context=16384), "--max-running", 8, "--write-timeout-s", 2)

    def gone(self, how_many, act):
        """`act(i)` leaves a request behind; within a second nothing of it is left."""
        for i in range(how_many):
            act(i)
        self.assertIsNotNone(self.server.settle(1.0), self.server.gauges())
        before = self.server.metric("millrace_generation_tokens_total")
        time.sleep(0.1)
        self.assertEqual(self.server.metric("millrace_generation_tokens_total"), before)

    def ask(self, **more):
        return {"prompt": "0741852963", "ignore_eos": True, "max_tokens": 8000, **more}

    def test_o8_6_in_the_stream(self):
        def act(i):
            wire, events = self.server.start_stream(COMPLETIONS, self.ask(stream=True))
            for _ in range(3):
                next(events)
            (wire.reset if i % 2 else wire.close)()
        self.gone(20, act)
        self.alive(self.server)

    def test_o8_6_not_streamed(self):
        def act(i):
            wire = self.server.wire().send(request_bytes("POST", COMPLETIONS, json.dumps(self.ask()).encode()))
            time.sleep(0.02)
            (wire.reset if i % 2 else wire.close)()
        self.gone(20, act)
        self.alive(self.server)

    def test_o8_6_in_the_queue(self):
        wires = [self.server.wire().send(request_bytes("POST", COMPLETIONS, json.dumps(self.ask(stream=i % 2 == 0)).encode())) for i in range(28)]
        end = time.monotonic() + 5 * SLOW
        while self.server.gauges()[0] < 8 and time.monotonic() < end:
            time.sleep(0.01)
        self.assertGreater(self.server.gauges()[1], 0, "some wait in line")
        for wire in reversed(wires):
            wire.close()
        self.assertIsNotNone(self.server.settle(1.0), self.server.gauges())
        self.alive(self.server)

    def test_o8_6_in_the_prefill(self):
        prompt = "0741852963" * 1200

        def act(i):
            wire = self.server.wire().send(request_bytes("POST", COMPLETIONS, json.dumps(self.ask(prompt=f"{i}" + prompt, max_tokens=400)).encode()))
            time.sleep(0.005 * i)
            wire.reset()
        self.gone(20, act)
        self.alive(self.server)

    def test_o8_6_behind_the_last_token(self):
        def act(_):
            wire = self.server.wire().send(request_bytes("POST", COMPLETIONS, json.dumps(self.ask(max_tokens=2)).encode()))
            wire.socket.recv(1)
            wire.reset()
        self.gone(20, act)
        self.alive(self.server)

    def test_a_time_that_is_over_when_the_request_is_read(self):
        answer = self.server.post(COMPLETIONS, self.ask(timeout_ms=0.0001))
        self.assertEqual(answer.status, 408, answer)
        self.assertIn("the 0.001 ms of timeout_ms were over", answer.json["error"]["message"])

    def test_o8_7_clients_that_do_not_read(self):
        def usual(n):
            took = []
            for i in range(n):
                start = time.monotonic()
                self.ok(self.server, COMPLETIONS, {"prompt": f"{i}", "max_tokens": 8, "ignore_eos": True})
                took.append(time.monotonic() - start)
            return statistics.median(took)

        before = usual(50)
        body = json.dumps(self.ask(stream=True, logprobs=5, n=4)).encode()
        rss = self.server.rss()
        stalled = [self.server.wire(receive_buffer=2048).send(request_bytes("POST", COMPLETIONS, body)) for _ in range(8)]
        time.sleep(0.3)
        beside = usual(50)
        end = time.monotonic() + 12 * SLOW  # until what the kernel takes is full, then the write timeout
        while self.server.gauges()[0] > 0 and time.monotonic() < end:
            time.sleep(0.05)
        self.assertEqual(self.server.gauges()[:2], (0, 0), "who does not read is cancelled")
        grown = self.server.rss() - rss
        print(f"8 clients that do not read: {before * 1e3:.1f} ms alone, {beside * 1e3:.1f} ms beside them, {grown / 2**20:.1f} MiB more")
        self.assertLess(beside, 1.5 * before + 0.05 * SLOW)  # they, too, run until they are found out
        if not SANITIZED:  # which keeps what was freed
            self.assertLess(grown, 50 << 20)
        for wire in stalled:
            wire.close()
        self.alive(self.server)


class Uploads(Case):
    """O8.11 and what else a byte stream may hold."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.server = cls.serve(models.scripted(cls.folder / "m", {66: 66}), "--body-timeout-s", 1, "--header-timeout-s", 1)

    def talk(self, data, timeout=10):
        with self.server.wire(timeout=timeout) as wire:
            return wire.send(data).answer()

    def head(self, *lines, path=COMPLETIONS):
        return ("\r\n".join([f"POST {path} HTTP/1.1", "Host: a", "Content-Type: application/json", *lines]) + "\r\n\r\n").encode()

    def test_o8_11_chunked_bodies(self):
        one = b"".join(b"%x;note=\"a b\"\r\n%c\r\n" % (1, byte) for byte in TINY) + b"0\r\nTrailer: x\r\n\r\n"
        whole = b"%X\r\n%s\r\n0\r\n\r\n" % (len(TINY), TINY)
        for body in (one, whole):
            self.assertEqual(self.talk(self.head("Transfer-Encoding: chunked", "Connection: close") + body).status, 200)
        for bad in (b"zz\r\nabc\r\n0\r\n\r\n", b"-1\r\nabc", b"FFFFFFFFFFFFFFFFF\r\nabc", b"5\r\n12345xx0\r\n\r\n", b"1000000000\r\n"):
            self.assertIn(self.talk(self.head("Transfer-Encoding: chunked") + bad).status, (400, 408, 413), bad)
        self.alive(self.server)

    def test_o8_11_expect_100_continue(self):
        large = json.dumps({"prompt": "A", "max_tokens": 1, "user": "x" * (2 << 20)}).encode()
        for path, want in ((COMPLETIONS, (200, 400)), ("/v1/nothing", (404,))):
            with self.server.wire() as wire:
                start = time.monotonic()
                wire.send(self.head("Expect: 100-continue", f"Content-Length: {len(large)}", path=path))
                first = wire.line()
                self.assertLess(time.monotonic() - start, 0.5 * SLOW)
                wire.buffer = first + b"\r\n" + wire.buffer
                if b" 100 " in first:
                    wire.send(large)
                answer = wire.answer()
                self.assertIn(answer.status, want, answer)

    def test_o8_11_lengths_that_lie(self):
        start = time.monotonic()
        with self.server.wire() as wire:
            answer = wire.send(self.head("Content-Length: 1000") + TINY).answer()
            self.assertEqual(answer.status, 408)
            self.assertTrue(wire.at_end())
        self.assertLess(time.monotonic() - start, 4 * SLOW)
        follows = b"GET /health HTTP/1.1\r\nHost: a\r\n\r\n"
        for lines in (["Content-Length: -1"], ["Content-Length: 99999999999999999999"], ["Content-Length: 5", "Content-Length: 6"], ["Content-Length: 1x"],
                      ["Content-Length: 5", "Transfer-Encoding: chunked"], ["Content-Length: +5"], ["Content-Length: 0x5"],
                      ["Transfer-Encoding: gzip, chunked"], ["Transfer-Encoding: chunked", "Transfer-Encoding: identity"], ["Content-Length: 5, 6"]):
            with self.server.wire() as wire:
                answer = wire.send(self.head(*lines) + b"0\r\n\r\n" + follows).answer()
                self.assertIn(answer.status, (400, 413, 501), lines)
                self.assertTrue(wire.at_end(), f"{lines}: the rest is no second request")
        with self.server.wire() as wire:  # shorter: the rest starts the next request, which is none
            wire.send(self.head(f"Content-Length: {len(TINY)}") + TINY + b"}}}")
            self.assertEqual(wire.answer().status, 200)
            wire.send(b"\r\n\r\n")
            self.assertIn(wire.answer().status, (400, 408))
        self.alive(self.server)

    def test_sizes_beyond_the_limits(self):
        with self.server.wire() as wire:
            try:
                wire.send(self.head(f"Content-Length: {1 << 30}"))
                answer = wire.answer()
            except ConnectionError:
                self.fail("closed without a word")
            self.assertEqual(answer.status, 413)
        with self.server.wire() as wire:
            try:
                wire.send(b"GET /health HTTP/1.1\r\nHost: a\r\n" + b"".join(b"X-%d: %s\r\n" % (i, b"y" * 1000) for i in range(200)) + b"\r\n")
            except (BrokenPipeError, ConnectionResetError):
                pass
            self.assertIn(wire.head()[0], (400, 431))
        with self.server.wire() as wire:
            try:
                wire.send(b"GET /" + b"a" * 200_000 + b" HTTP/1.1\r\nHost: a\r\n\r\n")
            except (BrokenPipeError, ConnectionResetError):
                pass
            self.assertIn(wire.head()[0], (400, 414, 431))
        self.alive(self.server)

    def test_pipelined_requests_are_answered_in_order(self):
        with self.server.wire() as wire:
            bodies = [json.dumps({"prompt": "B", "max_tokens": n, "ignore_eos": True}).encode() for n in (60, 1, 30, 2)]
            wire.send(b"".join(request_bytes("POST", COMPLETIONS, body) for body in bodies) + request_bytes("GET", "/health"))
            counts = [wire.answer().json["usage"]["completion_tokens"] for _ in bodies]
            self.assertEqual(counts, [60, 1, 30, 2])
            self.assertEqual(wire.answer("GET").status, 200)
        with self.server.wire() as wire:  # a stream in the middle
            body = json.dumps({"prompt": "B", "max_tokens": 9, "stream": True}).encode()
            wire.send(request_bytes("POST", COMPLETIONS, body) + request_bytes("GET", "/health"))
            _, headers, _ = wire.head()
            self.assertEqual(list(wire.events(headers))[-1].data, "[DONE]")
            self.assertEqual(wire.answer("GET").status, 200)

    def test_http_1_0(self):
        for stream in (False, True):
            body = json.dumps({"prompt": "B", "max_tokens": 9, "stream": stream}).encode()
            with self.server.wire() as wire:
                wire.send(request_bytes("POST", COMPLETIONS, body, version="1.0"))
                status, headers, _ = wire.head()
                self.assertEqual(status, 200)
                self.assertNotIn("transfer-encoding", headers)
                if stream:
                    self.assertEqual(list(wire.events(headers))[-1].data, "[DONE]")
                else:
                    self.assertEqual(json.loads(b"".join(wire.pieces(headers)))["usage"]["completion_tokens"], 9)
                self.assertTrue(wire.at_end())

    def test_half_closed_connections(self):
        """Who sends no more may still read; curl and `nc -N` do so."""
        for stream in (False, True):
            body = json.dumps({"prompt": "B", "max_tokens": 50, "ignore_eos": True, "stream": stream}).encode()
            with self.server.wire() as wire:
                wire.send(request_bytes("POST", COMPLETIONS, body, [("Connection", "close")]))
                wire.socket.shutdown(1)
                status, headers, interim = wire.head()  # a 100 in front asks whether anybody is there
                self.assertEqual((status, set(interim) - {100}), (200, set()))
                if stream:
                    self.assertEqual(list(wire.events(headers))[-1].data, "[DONE]")
                else:
                    self.assertEqual(json.loads(b"".join(wire.pieces(headers)))["usage"]["completion_tokens"], 50)
                self.assertTrue(wire.at_end())
        self.alive(self.server)

    def test_one_byte_a_second(self):
        """slow-loris: the time for a header runs from its first byte."""
        wires = [self.server.wire(timeout=10).send(b"POST ") for _ in range(20)]
        start = time.monotonic()
        for byte in b"/v1/c":
            for wire in wires:
                try:
                    wire.send(bytes([byte]))
                except OSError:
                    pass
            time.sleep(0.4)
        for wire in wires:
            try:
                data = wire.rest()
            except ConnectionResetError:
                data = b""
            self.assertTrue(not data or data.startswith(b"HTTP/1.1 408"), data[:100])
            wire.close()
        self.assertLess(time.monotonic() - start, 8 * SLOW)
        self.alive(self.server)

    def test_malformed_everything(self):
        """The corpus, and 300 seeded mutations of it: each is answered or closed, and nobody else notices."""
        seeds = [path.read_bytes() for path in sorted((ROOT / "tests/fuzz/corpus/http").iterdir())]
        self.assertGreater(len(seeds), 20)
        draw = random.Random(8)
        tries = list(seeds)
        for _ in range(300):
            data = bytearray(draw.choice(seeds))
            for _ in range(draw.randint(1, 8)):
                at = draw.randrange(len(data)) if data else 0
                what = draw.randrange(4)
                if what == 0:
                    data[at:at + 1] = bytes([draw.randrange(256)])
                elif what == 1:
                    del data[at:at + draw.randint(1, 20)]
                elif what == 2:
                    data[at:at] = draw.choice([b"\r\n", b"\0", b"\n", b" ", b":", b"0", b"-1", b"%", b"chunked", b"\xff"])
                else:
                    data += draw.choice(seeds)[:draw.randint(1, 200)]
            tries.append(bytes(data))

        def go(part):
            for data in part:
                try:
                    with Wire(self.server.where, timeout=20 * SLOW) as wire:
                        wire.send(data)
                        wire.socket.shutdown(1)
                        wire.rest()
                except (ConnectionResetError, BrokenPipeError):
                    pass
                except TimeoutError:
                    hung.append(data)
                except OSError as error:
                    if error.errno != 107:  # not connected any more: shutdown after the other side's reset
                        raise

        hung = []
        self.together([lambda i=i: go(tries[i::8]) for i in range(8)], timeout=120)
        self.assertEqual(hung, [])
        self.alive(self.server)


class Body(Case):
    def test_two_clients_beside_a_stalled_one(self):
        """A client that stops in the middle of its body holds up nobody."""
        server = self.serve_here(models.scripted(self.folder / "m", {66: 66}))
        stuck = [server.wire().send(b"POST /v1/completions HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n{") for _ in range(50)]
        body = {"prompt": "B", "max_tokens": 5}
        self.assertEqual(said_of_answer(COMPLETIONS, self.ok(server, COMPLETIONS, body)).choices[0], ("BBBBB", "length"))
        for wire in stuck:
            wire.close()
        self.alive(server)


if __name__ == "__main__":
    main()
