#!/usr/bin/env python3
"""Hours of bad company for one server, beside control streams whose text must not change by a byte. P16, A18.

    chaos.py [--minutes 2] [--seed 1]

Clients connect and leave in every state, send what is malformed, too large, too slow or too much, do not read, close one half,
pipeline; a pool of a few thousand tokens makes requests give way; SIGHUP comes every few seconds. At the end: every control
stream equal to its solo run, gauges 0, no more threads or descriptors than at the start, the least resident memory of the last
tenth less than 1 % above that of the second, exit status 0. A run of minutes is all warm-up (the book of the last 1,024 requests fills, and the
allocator learns what it needs): there memory may grow by 6 MiB. Prints its figures as one line of JSON.
"""
import argparse
import json
import pathlib
import random
import shutil
import signal
import socket
import sys
import tempfile
import threading
import time
import traceback

import models
from said import CHAT, COMPLETIONS, MESSAGES, RESPONSES, said_of_answer, said_of_events, user
from server_process import ROOT, SANITIZED, SLOW, Server
from wire import request_bytes

PATIENCE = 90 * SLOW  # who needs all of the pool waits until the engine's max_wait of 30 s puts him first
SHORT_MINUTES, SHORT_GROWTH = 30, 6 << 20
CONTROLS = 3
CLIENTS = 6
SIZES = ("0123456789", "0741852963" * 12, "5" * 300)


class Chaos:
    def __init__(self, server, seed, corpus):
        self.server, self.seed, self.corpus = server, seed, corpus
        self.stop = threading.Event()
        self.lock = threading.Lock()
        self.counts, self.wrong = {}, []

    def count(self, what):
        with self.lock:
            self.counts[what] = self.counts.get(what, 0) + 1

    def fault(self, what):
        with self.lock:
            self.wrong.append(what)

    # control streams

    def control(self, k):
        draw = random.Random(self.seed * 1000 + k)
        bodies = [{"prompt": f"{k}{i}" + draw.choice(SIZES), "max_tokens": draw.randint(20, 150), "ignore_eos": True, "seed": i,
                   "temperature": draw.choice([0, 1])} for i in range(4)]
        bodies.append({"messages": user(f"control {k}"), "max_tokens": 60, "ignore_eos": True, "temperature": 0})
        path_of = lambda body: CHAT if "messages" in body else COMPLETIONS
        solo = [said_of_answer(path_of(b), self.server.post(path_of(b), b).json).choices for b in bodies]
        return [(path_of(b), b, want) for b, want in zip(bodies, solo)]

    def run_control(self, jobs):
        while not self.stop.is_set():
            for path, body, want in jobs:
                try:
                    got = said_of_events(path, self.server.stream(path, {**body, "stream": True}, timeout=PATIENCE)).choices
                    self.count("control")
                    if got != want:
                        self.fault(f"control {body}: {got}, alone {want}")
                except Exception:
                    self.fault(f"control {body}: {traceback.format_exc()}")
                if self.stop.wait(0.02):
                    return

    # what bad clients do

    def body(self, draw):
        path = draw.choice([COMPLETIONS, COMPLETIONS, CHAT, MESSAGES, RESPONSES])
        prompt = draw.choice(SIZES) + str(draw.randrange(1000))
        most = draw.choice([1, 5, 50, 400])
        body = {COMPLETIONS: {"prompt": prompt, "max_tokens": most, "ignore_eos": True}, CHAT: {"messages": user(prompt), "max_tokens": most, "ignore_eos": True},
                MESSAGES: {"model": "m", "messages": user(prompt), "max_tokens": most}, RESPONSES: {"input": prompt, "max_output_tokens": max(16, most), "store": False}}[path]  # what is stored grows, up to its bound
        if draw.random() < 0.6:
            body["stream"] = True
        if path in (COMPLETIONS, CHAT) and draw.random() < 0.3:
            body["n"] = draw.randint(2, 4)
        if path == COMPLETIONS and draw.random() < 0.3:
            body["logprobs"] = 5
        if draw.random() < 0.1:
            body["timeout_ms"] = draw.choice([1, 20, 200])
        return path, json.dumps(body).encode()

    def asked(self, draw, **more):
        path, body = self.body(draw)
        return self.server.wire(timeout=PATIENCE, **more).send(request_bytes("POST", path, body))

    def connect_only(self, draw):
        wires = [self.server.wire() for _ in range(draw.randint(1, 20))]
        time.sleep(draw.random() * 0.1)
        for wire in wires:
            draw.choice([wire.close, wire.reset])()

    def leave_at_once(self, draw):
        wire = self.asked(draw)
        draw.choice([wire.close, wire.reset])()

    def leave_in_the_stream(self, draw):
        wire = self.asked(draw)
        for _ in range(draw.randint(1, 4)):
            wire.more()
        time.sleep(draw.random() * 0.05)
        draw.choice([wire.close, wire.reset])()

    def leave_in_the_head(self, draw):
        path, body = self.body(draw)
        data = request_bytes("POST", path, body)
        wire = self.server.wire().send(data[:draw.randrange(1, len(data))])
        time.sleep(draw.random() * 0.05)
        draw.choice([wire.close, wire.reset])()

    def read_to_the_end(self, draw):
        with self.asked(draw) as wire:
            status, headers, _ = wire.head()
            for _ in wire.pieces(headers):
                pass
            if status not in (200, 400, 408, 429, 503):
                self.fault(f"status {status}")

    def malformed(self, draw):
        data = bytearray(draw.choice(self.corpus))
        for _ in range(draw.randint(0, 6)):
            at = draw.randrange(len(data) + 1)
            data[at:at + draw.randint(0, 3)] = bytes(draw.randrange(256) for _ in range(draw.randint(0, 3)))
        with self.server.wire(timeout=PATIENCE) as wire:
            wire.send(bytes(data))
            wire.socket.shutdown(socket.SHUT_WR)
            wire.rest()

    def malformed_json(self, draw):
        path, body = self.body(draw)
        data = bytearray(body)
        for _ in range(draw.randint(1, 4)):
            at = draw.randrange(len(data))
            data[at:at + 1] = draw.choice([b"", b'"', b"{", b"]", b"\xff", b"\\ud800", b"-1", b"1e999", b"null", b"[" * 3000])
        answer = self.server.post(path, bytes(data), timeout=PATIENCE)
        if answer.status >= 500 and answer.status != 503:
            self.fault(f"{answer.status} for {bytes(data)!r}")

    def slow_writer(self, draw):
        path, body = self.body(draw)
        data = request_bytes("POST", path, body)
        with self.server.wire(timeout=PATIENCE) as wire:
            for at in range(0, len(data), 16):
                wire.send(data[at:at + 16])
                time.sleep(0.02)
            wire.more()

    def slow_reader(self, draw):
        with self.asked(draw, receive_buffer=2048) as wire:
            for _ in range(20):
                if not wire.socket.recv(64):
                    return
                time.sleep(0.02)

    def no_reader(self, draw):
        body = json.dumps({"prompt": "01", "max_tokens": 450, "ignore_eos": True, "stream": True, "n": 4, "logprobs": 5}).encode()
        wire = self.server.wire(receive_buffer=2048).send(request_bytes("POST", COMPLETIONS, body))
        self.stop.wait(draw.random() * 3)
        wire.close()

    def half_closed(self, draw):
        with self.asked(draw) as wire:
            wire.socket.shutdown(socket.SHUT_WR)
            wire.rest()

    def pipelined(self, draw):
        with self.server.wire(timeout=PATIENCE) as wire:
            for _ in range(draw.randint(2, 6)):
                path, body = self.body(draw)
                wire.send(request_bytes("POST", path, body) if draw.random() < 0.7 else request_bytes("GET", draw.choice(["/health", "/v1/models", "/nothing"])))
            if draw.random() < 0.5:
                wire.more()
                wire.reset()
            else:
                wire.head()

    def oversized(self, draw):
        with self.server.wire(timeout=PATIENCE) as wire:
            if draw.random() < 0.5:
                wire.send(b"POST /v1/completions HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000000\r\n\r\n" + b"{" * 100_000)
            else:
                wire.send(b"GET / HTTP/1.1\r\nX: " + b"y" * 200_000 + b"\r\n\r\n")
            wire.rest()

    def too_long(self, draw):
        answer = self.server.post(COMPLETIONS, {"prompt": "7" * draw.choice([600, 100_000]), "max_tokens": 5}, timeout=PATIENCE)
        if answer.status != 400:
            self.fault(f"too long: {answer}")

    def look(self, draw):
        page = self.server.get(draw.choice(["/metrics", "/health", "/ready", "/debug/requests", "/v1/models", "/v1/capabilities", "/openapi.json"]), timeout=PATIENCE)
        if page.status not in (200, 503):
            self.fault(f"look: {page}")

    def run_client(self, k):
        draw = random.Random(self.seed * 7919 + k)
        acts = [self.connect_only, self.leave_at_once, self.leave_in_the_stream, self.leave_in_the_stream, self.leave_in_the_head, self.read_to_the_end,
                self.read_to_the_end, self.malformed, self.malformed_json, self.slow_writer, self.slow_reader, self.no_reader, self.half_closed, self.pipelined,
                self.oversized, self.too_long, self.look]
        while not self.stop.is_set():
            act = draw.choice(acts)
            try:
                act(draw)
            except TimeoutError:
                self.fault(f"{act.__name__}: no answer")
            except (ConnectionResetError, BrokenPipeError, ConnectionError):
                pass
            except OSError as error:
                if error.errno != 107:  # shutdown() of what the other side has closed
                    self.fault(f"{act.__name__}: {error!r}")
            except Exception:
                self.fault(f"{act.__name__}: {traceback.format_exc()}")
            self.count(act.__name__)


def quiet(server):
    """Waits for gauges at 0 and connections that have gone; what the process holds then."""
    settled = server.settle(40)
    end = time.monotonic() + 20 * SLOW
    held = (server.threads(), server.descriptors())
    while time.monotonic() < end:
        time.sleep(0.5)
        now = (server.threads(), server.descriptors())
        if now == held:
            break
        held = now
    return settled, held


def main():
    ask = argparse.ArgumentParser()
    ask.add_argument("--minutes", type=float, default=2)
    ask.add_argument("--seed", type=int, default=1)
    ask = ask.parse_args()
    folder = pathlib.Path(tempfile.mkdtemp())
    try:
        return run(ask, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def run(ask, folder):
    model = models.random_model(folder / "r", 2)
    server = Server(model, "--kv-memory", "1MiB", "--block-tokens", 16, "--max-running", 8, "--max-queued-requests", 64, "--served-model-name", "m",
                    "--write-timeout-s", 2, "--header-timeout-s", 5, "--body-timeout-s", 5, "--idle-timeout-s", 5)
    corpus = [path.read_bytes() for path in sorted((ROOT / "tests/fuzz/corpus/http").iterdir())]
    chaos = Chaos(server, ask.seed, corpus)
    jobs = [chaos.control(k) for k in range(CONTROLS)]
    _, (threads, descriptors) = quiet(server)
    clients = [threading.Thread(target=chaos.run_control, args=(job,)) for job in jobs]
    clients += [threading.Thread(target=chaos.run_client, args=(k,)) for k in range(CLIENTS)]
    start = time.monotonic()
    for client in clients:
        client.start()
    seconds, rss, next_look, hups = ask.minutes * 60, [], 0.0, 0
    while (now := time.monotonic() - start) < seconds and server.process.poll() is None:
        if now >= next_look:
            rss.append((now, server.rss()))
            next_look += seconds / 200
        if now >= 3 * (hups + 1):
            server.send_signal(signal.SIGHUP)
            hups += 1
        time.sleep(0.05)
    chaos.stop.set()
    for client in clients:
        client.join(2 * PATIENCE)
    hung = sum(client.is_alive() for client in clients)
    alive = server.process.poll() is None
    settled, (threads_end, descriptors_end) = quiet(server) if alive else (None, (0, 0))
    gauges = server.gauges() if alive else None
    # The tenth behind the warm-up, against the last: the least of each, which is what stays when no large body is on its way.
    tenths = [min((r for at, r in rss if k / 10 <= at / seconds < (k + 1) / 10), default=0) for k in range(10)]
    early, late = tenths[1], tenths[-1]
    drift = late / early - 1 if early else 0.0
    steady = SANITIZED or (late - early < SHORT_GROWTH if ask.minutes < SHORT_MINUTES else drift < 0.01)
    metrics = server.metrics() if alive else {}
    preempted = sum(v for k, v in metrics.items() if k.startswith("millrace_num_preemptions_total"))
    status = server.stop() if alive else server.process.returncode
    faults = list(chaos.wrong)
    for holds, what in [(alive, f"the process ended with {status}: {server.log()[-2000:]}"), (not hung, f"{hung} clients hang"), (status == 0, f"exit {status}"),
                        (settled is not None, f"gauges at the end: {gauges}"), (threads_end <= threads, f"{threads} threads, {threads_end} at the end"),
                        (descriptors_end <= descriptors, f"{descriptors} descriptors, {descriptors_end} at the end"),
                        (steady, f"resident memory drifted by {drift:.2%}, from {early / 2**20:.1f} to {late / 2**20:.1f} MiB"), (chaos.counts.get("control", 0) > 0, "no control stream ended")]:
        if not holds:
            faults.append(what)
    print(json.dumps({"minutes": ask.minutes, "seed": ask.seed, "clients": sum(chaos.counts.values()), **chaos.counts, "sighup": hups, "preemptions": preempted,
                      "resident_mib": [round(r / 2**20, 2) for r in tenths], "drift_percent": round(100 * drift, 2), "threads": [threads, threads_end],
                      "descriptors": [descriptors, descriptors_end], "exit": status, "faults": len(faults)}))
    for what in faults[:20]:
        print(what, file=sys.stderr)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
