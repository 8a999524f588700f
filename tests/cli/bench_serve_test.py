#!/usr/bin/env python3
"""bench serve against a server whose every chunk has a known time, and against ones that refuse, cut, hang and break.

Times are checked within kSlack: a third of the least difference that a wrong definition of the figure would make.
"""
import asyncio
import json
import os
import pty
import re
import signal
import subprocess
import threading
import time

from support import BIN, Case, main, millrace

STEP = 0.4
SLACK = STEP / 3


def sse(*objects):
    return b"".join(b"data: " + (o if isinstance(o, bytes) else json.dumps(o).encode()) + b"\n\n" for o in objects)


def text(t):
    return {"choices": [{"index": 0, "text": t}]}


def usage(prompt, answer, cached=0):
    return {"choices": [], "usage": {"prompt_tokens": prompt, "completion_tokens": answer, "prompt_tokens_details": {"cached_tokens": cached}}}


class Server:
    """HTTP/1.1 on a free port. The path before /v1 names the behaviour: a method below."""

    def __init__(self):
        self.bodies, self.heads, self.times = [], [], []
        self.connections = self.running = self.peak = 0
        self.started = time.monotonic()
        ready = threading.Event()

        def run():
            self.loop = asyncio.new_event_loop()
            asyncio.set_event_loop(self.loop)
            server = self.loop.run_until_complete(asyncio.start_server(self.serve, "127.0.0.1", 0, backlog=4096))
            self.port = server.sockets[0].getsockname()[1]
            ready.set()
            self.loop.run_forever()
            self.loop.close()

        self.thread = threading.Thread(target=run, daemon=True)
        self.thread.start()
        ready.wait(10)

    def close(self):
        async def end():
            mine = asyncio.current_task()
            tasks = [task for task in asyncio.all_tasks() if task is not mine]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            self.loop.stop()

        asyncio.run_coroutine_threadsafe(end(), self.loop)
        self.thread.join(10)

    async def serve(self, reader, writer):
        self.connections += 1
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                length = re.search(r"(?im)^content-length: (\d+)", head)
                body = await reader.readexactly(int(length.group(1))) if length else b""
                method, path = head.split()[:2]
                behaviour, _, rest = path[1:].partition("/")
                if rest == "v1/models":
                    keep = await getattr(self, "models_" + behaviour, self.models)(writer)
                else:
                    self.heads.append(head), self.times.append(time.monotonic()), self.bodies.append(json.loads(body))
                    self.running += 1
                    self.peak = max(self.peak, self.running)
                    try:
                        keep = await getattr(self, behaviour)(writer, self.bodies[-1])
                    finally:
                        self.running -= 1
                await writer.drain()
                if not keep:
                    return
        except (asyncio.IncompleteReadError, asyncio.CancelledError, ConnectionError):
            pass
        finally:
            writer.close()

    async def answer(self, writer, status, body, more=""):
        writer.write(f"HTTP/1.1 {status} x\r\nContent-Type: application/json\r\n{more}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        return True

    async def models(self, writer):
        return await self.answer(writer, 200, json.dumps({"object": "list", "data": [{"id": "fake/model"}]}).encode())

    async def models_loading(self, writer):
        if time.monotonic() < self.started + 1:
            return await self.answer(writer, 503, b'{"error":{"message":"Loading model"}}')
        return await self.models(writer)

    async def models_nameless(self, writer):
        return await self.answer(writer, 404, b'{"error":{"message":"no such path"}}')

    def begin(self, writer):
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")

    async def chunk(self, writer, *objects):
        data = sse(*objects)
        writer.write(b"%x\r\n%s\r\n" % (len(data), data))
        await writer.drain()

    async def end(self, writer, *objects):
        await self.chunk(writer, *objects, b"[DONE]")
        writer.write(b"0\r\n\r\n")
        return True

    async def timed(self, writer, body):
        """A chunk without text at once; text after 1, 2, 3, 4 steps; the end after 5. 7 tokens in 4 chunks."""
        self.begin(writer)
        await self.chunk(writer, text(""))
        for i in range(4):
            await asyncio.sleep(STEP)
            await self.chunk(writer, text("word "))
        await asyncio.sleep(STEP)
        return await self.end(writer, usage(20, 7, 5))

    async def quick(self, writer, body):
        self.begin(writer)
        await self.chunk(writer, text("a"), text("b"))
        await asyncio.sleep(0.02)
        return await self.end(writer, text("c"), usage(9, 3))

    async def uncounted(self, writer, body):
        self.begin(writer)
        return await self.end(writer, text("a"), text(""), text("b"))

    loading = nameless = quick

    async def crowd(self, writer, body):
        """Answers once everybody is here."""
        self.begin(writer)
        while self.peak < 600:
            await asyncio.sleep(0.05)
        return await self.end(writer, text("a"), usage(9, 1))

    async def slow_wire(self, writer, body):
        """The same stream with CRLF, comments and data over two lines, byte by byte."""
        stream = b": hello\r\n\r\n" + sse(text("a")).replace(b"\n", b"\r\n") + b'data: {"choices":\r\ndata: [{"text": "b"}]}\r\n\r\n' + sse(usage(9, 2), b"[DONE]").replace(b"\n", b"\r\n")
        self.begin(writer)
        for i in range(len(stream)):
            writer.write(b"1\r\n%c\r\n" % stream[i])
            await writer.drain()
            await asyncio.sleep(0)
        writer.write(b"0\r\n\r\n")
        return True

    async def faulty(self, writer, body):
        number = int(re.search(r"question (\d+):", body["prompt"]).group(1))
        if number % 5 == 1:
            return await self.answer(writer, 429, b'{"error":{"message":"too many requests"}}', "Retry-After: 2\r\n")
        self.begin(writer)
        await self.chunk(writer, text("a"))
        if number % 5 == 2:
            return False  # within the body
        if number % 5 == 3:
            return await self.end(writer, {"error": {"message": "out of memory", "code": 500}})
        if number % 5 == 4:
            writer.write(b"0\r\n\r\n")  # no [DONE]
            return True
        return await self.end(writer, usage(9, 1))

    async def hanging(self, writer, body):
        self.begin(writer)
        await self.chunk(writer, text("a"))
        await asyncio.sleep(60)

    async def forgetful(self, writer, body):
        """Closes after each answer without having said so."""
        await self.quick(writer, body)
        return False


class BenchServe(Case):
    def setUp(self):
        super().setUp()
        self.server = Server()
        self.addCleanup(self.server.close)

    def url(self, behaviour):
        return f"http://127.0.0.1:{self.server.port}/{behaviour}"

    def bench(self, behaviour, *args, **more):
        return self.ok_json("bench", "serve", self.url(behaviour), "--json", *args, timeout=60, **more)

    def near(self, value, expected):
        self.assertGreater(value, expected - SLACK)
        self.assertLess(value, expected + SLACK)

    def test_each_figure_is_that_of_the_known_schedule(self):
        report = self.bench("timed", "--requests", 6, "--concurrency", 3, "--ttft-slo-ms", 1.5 * STEP * 1000, "--tpot-slo-ms", STEP * 1000)
        self.assertEqual((report["sent"], report["done"], report["failed"], report["errors"]), (6, 6, 0, []))
        self.near(report["ttft_s"]["p50"], STEP)  # not 0: the first chunk has no text
        self.near(report["gap_s"]["p50"], STEP)
        self.near(report["tpot_s"]["p50"], 3 * STEP / 6)  # 7 tokens from the first text to the last
        self.near(report["e2e_s"]["p50"], 5 * STEP)
        self.near(report["wall_s"], 10 * STEP)
        self.assertEqual(report["gap_s"]["n"], 6 * 3)
        self.assertEqual((report["prompt_tokens"], report["cached_tokens"], report["output_tokens"], report["chunks"]), (120, 30, 42, 24))
        self.assertAlmostEqual(report["output_tokens_per_s"], 42 / report["wall_s"])
        self.assertEqual((report["goodput"]["good"], report["goodput"]["share"]), (6, 1))
        self.assertEqual((report["model"], report["tokens_from"], report["peak_running"]), ("fake/model", "usage", 3))
        strict = self.bench("timed", "--requests", 2, "--ttft-slo-ms", STEP * 500)
        self.assertEqual(strict["goodput"]["good"], 0)

    def test_the_report_in_words(self):
        out = self.ok("bench", "serve", self.url("quick"), "--requests", 4, "--ttft-slo-ms", 10000)
        self.assertIn("4 requests, 8 at a time, prompts 128 words, answers 64 tokens\n4 sent, 4 done, 0 failed; ", out)
        for row in ("TTFT", "TPOT", "gap", "e2e"):
            self.assertRegex(out, rf"(?m)^{row} +(\d+\.\d\d +){{5}}\d+$")
        self.assertIn("goodput: 100.0 % of requests", out)

    def test_connections_are_used_again_and_concurrency_is_kept(self):
        self.bench("quick", "--requests", 40, "--concurrency", 5)
        self.assertEqual(self.server.peak, 5)
        self.assertLessEqual(self.server.connections, 1 + 5)

    def test_a_connection_that_the_server_closed_meanwhile_fails_nothing(self):
        report = self.bench("forgetful", "--requests", 20, "--concurrency", 2)
        self.assertEqual((report["done"], report["errors"]), (20, []))

    def test_bytes_may_come_one_by_one(self):
        report = self.bench("slow_wire", "--requests", 3)
        self.assertEqual((report["done"], report["chunks"], report["output_tokens"]), (3, 6, 6))

    def test_tokens_are_counted_where_the_server_does_not(self):
        report = self.bench("uncounted", "--requests", 3)
        self.assertEqual((report["tokens_from"], report["output_tokens"]), ("chunks", 6))

    def test_errors_are_grouped_and_the_others_are_measured(self):
        report = self.bench("faulty", "--requests", 20)
        self.assertEqual((report["sent"], report["done"], report["failed"]), (20, 4, 16))
        errors = {(e["status"], e["message"]): e for e in report["errors"]}
        self.assertEqual({key: e["count"] for key, e in errors.items()},
                         {(429, "too many requests"): 4, (200, "the connection was closed within the answer"): 4,
                          (200, "an error within the stream: out of memory"): 4, (200, "the stream ended without [DONE]"): 4})
        self.assertEqual(errors[429, "too many requests"]["retry_after_s"], 2)
        self.assertEqual(report["ttft_s"]["n"], 4)

    def test_a_request_without_an_end_fails_in_time(self):
        start = time.monotonic()
        done = millrace("bench", "serve", self.url("hanging"), "--requests", 3, "--timeout", 1, "--json", timeout=30)
        self.assertLess(time.monotonic() - start, 10)
        self.assertEqual(json.loads(done.stdout)["errors"], [{"count": 3, "status": 200, "message": "no end within 1 s"}])
        self.assertEqual((done.returncode, done.stderr), (1, "millrace: none of 3 requests was answered: no end within 1 s\n"))

    def test_ctrl_c_prints_what_there_is(self):
        child = subprocess.Popen([BIN, "bench", "serve", self.url("hanging"), "--requests", "50", "--concurrency", "4", "--json"], stdout=subprocess.PIPE)
        deadline = time.monotonic() + 20
        while self.server.running < 4 and time.monotonic() < deadline:
            time.sleep(0.05)
        time.sleep(0.3)
        child.send_signal(signal.SIGINT)
        report = json.loads(child.communicate(timeout=20)[0])
        self.assertEqual(child.returncode, 130)
        self.assertEqual((report["sent"], report["unfinished"], report["stopped"], report["ttft_s"]["n"]), (4, 4, True, 4))

    def test_arrivals_are_sent_when_they_are_due_whatever_is_answered(self):
        report = self.bench("timed", "--requests", 6, "--rate", 2.5, "--arrivals", "even", "--burst", 2)  # 0, 0, .8, .8, 1.6, 1.6 s
        sent = [t - self.server.times[0] for t in self.server.times]
        for at, due in zip(sent, (0, 0, 0.8, 0.8, 1.6, 1.6)):
            self.near(at, due)
        self.assertEqual(report["late_s"]["n"], 6)
        self.assertLess(report["late_s"]["max"], SLACK)
        self.assertEqual(report["peak_running"], 6)

    def test_a_trace_says_when_and_how_long(self):
        trace = self.folder / "t.jsonl"
        trace.write_text("".join(json.dumps({"arrival_s": a, "prompt_tokens": p, "new_tokens": n, "prefix_group": "g", "prefix_tokens": 10}) + "\n"
                                 for a, p, n in ((5, 30, 4), (6.6, 50, 9))))
        self.bench("quick", "--trace", trace, "--speed", 2)
        self.near(self.server.times[1] - self.server.times[0], 0.8)
        self.assertEqual([b["max_tokens"] for b in self.server.bodies], [4, 9])
        first, second = (b["prompt"] for b in self.server.bodies)
        self.assertEqual(first.splitlines()[0], second.splitlines()[0])
        self.assertEqual([len(b["prompt"].splitlines()[1].split()) - 2 for b in self.server.bodies], [20, 40])

    def test_a_duration_ends_the_sending(self):
        start = time.monotonic()
        report = self.bench("quick", "--duration", 1, "--concurrency", 2)
        self.assertLess(time.monotonic() - start, 10)
        self.assertGreater(report["done"], 2)
        self.assertEqual(report["done"], report["sent"])
        self.assertLess(report["wall_s"], 1 + SLACK)

    def test_what_is_sent_is_what_was_asked_for(self):
        self.bench("quick", "--requests", 1, "--answer-tokens", 17, "--extra-body", '{"temperature": 0.5, "top_k": 3}', env={"MILLRACE_API_KEY": "secret"})
        body, head = self.server.bodies[0], self.server.heads[0]
        self.assertEqual({k: v for k, v in body.items() if k != "prompt"},
                         {"model": "fake/model", "temperature": 0.5, "top_k": 3, "stream": True, "stream_options": {"include_usage": True}, "ignore_eos": True, "max_tokens": 17})
        self.assertTrue(head.startswith("POST /quick/v1/completions HTTP/1.1\r\n"))
        self.assertIn(f"\r\nHost: 127.0.0.1:{self.server.port}\r\n", head)
        self.assertIn("\r\nAuthorization: Bearer secret\r\n", head)
        self.bench("quick", "--requests", 1, "--api", "chat", "--prefix-words", 30, "--ignore-eos=false", "--model-name", "other")
        body = self.server.bodies[1]
        self.assertEqual([m["role"] for m in body["messages"]], ["system", "user"])
        self.assertEqual(body["model"], "other")
        self.assertNotIn("ignore_eos", body)

    def test_warming_up_is_not_counted(self):
        report = self.bench("quick", "--requests", 3, "--warmup", 2)
        self.assertEqual((report["sent"], len(self.server.bodies)), (3, 5))
        self.assertEqual(len({b["prompt"] for b in self.server.bodies}), 5)

    def test_the_scenarios(self):
        report = self.bench("quick", "--scenario", "shared")
        self.assertEqual(report["sent"], 24)
        self.assertEqual(len({b["prompt"].splitlines()[0] for b in self.server.bodies}), 1)
        report = self.bench("timed", "--scenario", "mixed", "--rate", 200)
        self.assertEqual((report["sent"], report["done"]), (32, 32))
        report = self.bench("timed", "--scenario", "stall", "--prompt-words", 50)
        self.assertEqual((report["sent"], report["stall"]["gap_s"]), (4, None))  # the streams were over before
        self.near(report["stall"]["long_ttft_s"], STEP)

    def test_hundreds_of_streams_at_a_time(self):
        report = self.bench("crowd", "--requests", 600, "--concurrency", 600)
        self.assertEqual((report["done"], report["peak_running"], self.server.peak), (600, 600, 600))

    def test_waits_for_a_server_that_is_still_loading(self):
        self.assertIn("503", self.refused("bench", "serve", self.url("loading"), "--requests", 1))
        self.assertEqual(self.bench("loading", "--requests", 2, "--wait", 20)["done"], 2)

    def test_what_cannot_work_is_one_sentence(self):
        self.assertIn("needs a URL", self.refused("bench", "serve"))
        self.assertIn("http only", self.refused("bench", "serve", "https://127.0.0.1"))
        self.assertIn("expected a URL", self.refused("bench", "serve", "http://"))
        self.assertIn("Connection refused", self.refused("bench", "serve", "http://127.0.0.1:1", timeout=20))
        self.assertIn("--model-name", self.refused("bench", "serve", self.url("nameless")))
        self.assertIn("--burst 2", self.refused("bench", "serve", self.url("quick"), "--burst", 2))
        self.assertIn("--extra-body", self.refused("bench", "serve", self.url("quick"), "--extra-body", "[1]"))
        self.assertIn("--prompt-words", self.refused("bench", "serve", self.url("quick"), "--prompt-words", "uniform:9", status=2))
        self.assertIn("--rate", self.refused("bench", "serve", self.url("quick"), "--scenario", "stall", "--rate", 2))
        self.assertEqual(self.bench("nameless", "--model-name", "m", "--requests", 1)["model"], "m")

    def test_a_terminal_sees_progress(self):
        ours, theirs = pty.openpty()
        child = subprocess.Popen([BIN, "bench", "serve", self.url("timed"), "--requests", "2"], stdout=subprocess.PIPE, stderr=theirs)
        os.close(theirs)
        out = child.communicate(timeout=30)[0].decode()
        seen = b""
        try:
            while part := os.read(ours, 4096):
                seen += part
        except OSError:  # how Linux says that the other side is closed
            pass
        os.close(ours)
        self.assertRegex(seen.decode(), r"\r\d+ s: 2 sent of 2, 2 running, 0 done, 0 failed, \d+ chunks/s")
        self.assertIn("2 sent, 2 done", out)


if __name__ == "__main__":
    main()
