#!/usr/bin/env python3
"""Kind 11 of the reported cases: gauges, counters, the exposition format, health while loading. P1, P17."""
import json
import math
import re
import shutil
import subprocess
import threading
import time

import models
from case import Case, main
from said import COMPLETIONS
from server_process import SLOW
from wire import request_bytes

NAME = r"[a-zA-Z_][a-zA-Z0-9_]*"
SAMPLE = re.compile(rf'({NAME})(?:\{{((?:{NAME}="(?:[^"\\\n]|\\[\\"n])*",?)*)\}})? (-?[0-9.eE+-]+|[+-]Inf|NaN)')


def parse(page):
    """{family: (type, {(sample name, labels): value})}; raises where Prometheus would, or promtool would frown."""
    families, current = {}, None
    if not page.endswith("\n"):
        raise ValueError("the last line has no end")
    helped = set()
    for line in page[:-1].split("\n"):
        if line.startswith("# HELP "):
            name, text = line[7:].split(" ", 1)
            if name in helped or not text.strip():
                raise ValueError(f"second or empty HELP: {line}")
            helped.add(name)
        elif line.startswith("# TYPE "):
            name, kind = line[7:].split(" ")
            if name in families or kind not in ("counter", "gauge", "histogram", "summary", "untyped"):
                raise ValueError(f"second or odd TYPE: {line}")
            if name not in helped:
                raise ValueError(f"no HELP before {line}")
            if kind == "counter" and not name.endswith("_total"):
                raise ValueError(f"a counter that does not end in _total: {name}")
            families[name] = (kind, {})
            current = name
        else:
            found = SAMPLE.fullmatch(line)
            if not found:
                raise ValueError(f"no sample: {line!r}")
            name, labels, value = found[1], found[2] or "", float(found[3].replace("Inf", "inf"))
            base = re.sub(r"_(bucket|sum|count)$", "", name)
            family = base if base in families and families[base][0] in ("histogram", "summary") else name
            if family != current:
                raise ValueError(f"{name} stands outside its family")
            if (name, labels) in families[family][1]:
                raise ValueError(f"twice: {line}")
            families[family][1][(name, labels)] = value
    for name, (kind, samples) in families.items():
        if kind == "counter" and any(v < 0 for v in samples.values()):
            raise ValueError(f"{name} is negative")
        if kind == "histogram":
            check_histogram(name, samples)
    return families


def check_histogram(name, samples):
    series = {}
    for (sample, labels), value in samples.items():
        if sample == name + "_bucket":
            bound = re.search(r'(?:^|,)le="([^"]*)"', labels)[1]
            rest = re.sub(r'(?:^|,)le="[^"]*"', "", labels).strip(",")
            series.setdefault(rest, []).append((float(bound.replace("Inf", "inf")), value))
    for rest, buckets in series.items():
        if [b for b, _ in buckets] != sorted(b for b, _ in buckets) or [v for _, v in buckets] != sorted(v for _, v in buckets):
            raise ValueError(f"buckets of {name} are not cumulative")
        count = {labels.strip(","): v for (sample, labels), v in samples.items() if sample == name + "_count"}[rest]
        if buckets[-1] != (math.inf, count):
            raise ValueError(f"{name}: +Inf is {buckets[-1]}, count {count}")


class Metrics(Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.r = models.random_model(cls.folder / "r", 2, context=16384)

    def page(self, server):
        answer = server.get("/metrics")
        self.assertEqual(answer.status, 200)
        self.assertRegex(answer.headers["content-type"], r"^(text/plain; version=0\.0\.4|application/openmetrics-text)")
        return parse(answer.text)

    def values(self, server):
        return {key: value for _, samples in self.page(server).values() for key, value in samples.items()}

    def total(self, server, name, **labels):
        return sum(v for (n, have), v in self.values(server).items() if n == name and all(f'{k}="{w}"' in have for k, w in labels.items()))

    def test_o11_1_gauges_after_everything_was_cancelled(self):
        server = self.serve_here(self.r, "--kv-memory", "4MiB", "--max-running", 16)
        wires = []
        for i in range(20):
            body = {"prompt": f"{i:02d}", "max_tokens": 5000, "ignore_eos": True, "stream": True}
            wires.append(server.wire().send(request_bytes("POST", COMPLETIONS, json.dumps(body).encode())))
        end = time.monotonic() + 10 * SLOW
        while time.monotonic() < end and (server.gauges()[0] < 2 or server.gauges()[2] < 0.1):
            time.sleep(0.02)
        self.assertGreater(server.gauges()[0], 1)
        for wire in wires:
            wire.reset()
        time.sleep(SLOW)
        self.assertEqual(server.gauges(), (0, 0, 0))

    def test_o11_2_cancelled_requests_are_counted(self):
        server = self.serve_here(self.r)
        finished = lambda **labels: self.total(server, "millrace_request_success_total", **labels)
        before = self.values(server)
        body = {"prompt": "0123456789", "max_tokens": 5, "ignore_eos": True, "temperature": 0}
        for _ in range(5):
            wire, events = server.start_stream(COMPLETIONS, {**body, "max_tokens": 10000, "stream": True})
            next(events)
            wire.reset()
            self.assertIsNotNone(server.settle())
        for _ in range(5):
            self.ok(server, COMPLETIONS, body)
        for _ in range(5):
            self.e400(server, COMPLETIONS, {**body, "temperature": -1})
        self.assertIsNotNone(server.settle())
        after = self.values(server)
        grown = lambda name, **labels: sum(v - before.get(k, 0) for k, v in after.items()
                                           if k[0] == name and all(f'{a}="{b}"' in k[1] for a, b in labels.items()))
        self.assertEqual(finished(), 10)
        self.assertEqual((finished(finished_reason="abort"), finished(finished_reason="length")), (5, 5))
        self.assertEqual(grown("millrace_refused_requests_total"), 5)
        self.assertEqual(grown("millrace_prompt_tokens_total"), 100)
        self.assertGreaterEqual(grown("millrace_generation_tokens_total"), 25 + 5)
        self.assertEqual(grown("millrace_e2e_request_latency_seconds_count"), 10)
        self.assertEqual(grown("millrace_time_to_first_token_seconds_count"), 10)

    def test_o11_3_the_format(self):
        server = self.serve_here(self.r)
        pages = [self.page(server)]
        self.ok(server, COMPLETIONS, {"prompt": "0123", "max_tokens": 20, "ignore_eos": True})
        pages.append(self.page(server))
        self.e400(server, COMPLETIONS, '{"prompt":"\\"')
        server.get("/no\"such\\path\n")
        pages.append(self.page(server))
        for earlier, later in zip(pages, pages[1:]):
            for name, (kind, samples) in earlier.items():
                for key, value in samples.items():
                    if kind in ("counter", "histogram"):
                        self.assertGreaterEqual(later[name][1][key], value, key)
                    self.assertFalse(math.isnan(value), key)
        self.assertEqual(server.ask("HEAD", "/metrics").status, 200)
        self.assertEqual(server.ask("POST", "/metrics").status, 405)
        for needed in ("time_to_first_token_seconds", "inter_token_latency_seconds", "e2e_request_latency_seconds", "request_queue_time_seconds",
                       "request_prefill_time_seconds", "request_decode_time_seconds"):
            self.assertEqual(pages[-1]["millrace_" + needed][0], "histogram")
            bounds = [float(re.search(r'le="([^"]*)"', labels)[1].replace("Inf", "inf")) for n, labels in pages[-1]["millrace_" + needed][1] if n.endswith("_bucket")]
            self.assertLessEqual(min(bounds), 0.001, needed)
        tool = shutil.which("promtool")
        if tool:
            done = subprocess.run([tool, "check", "metrics"], input=server.get("/metrics").body, capture_output=True, timeout=60)
            self.assertEqual((done.returncode, done.stdout + done.stderr), (0, b""))
        other = self.serve_here(self.r, "--metrics-prefix", "vllm:")
        self.assertIn("\nvllm:num_requests_running", other.get("/metrics").text)

    def test_o11_4_health_while_loading(self):
        model = models.heavy(self.folder / "large", 1024, 6, holes=True)
        server = self.serve_here(model, wait=False)
        seen, limit = [], time.monotonic() + 60 * SLOW
        while time.monotonic() < limit:
            health, listed = server.get("/health"), server.get("/v1/models")
            asked = server.post(COMPLETIONS, {"prompt": "1", "max_tokens": 1})
            ready = server.get("/ready")
            after = server.get("/health")
            seen.append(health.status)
            self.assertIn(health.status, (200, 503))
            json.loads(health.body)
            if health.status == 503:
                self.assertEqual(health.json["status"], "loading")
            if after.status == 503:
                self.assertEqual(asked.status, 503, asked)
                self.assertGreaterEqual(int(asked.headers["retry-after"]), 1)
                self.assertTrue(listed.status == 503 or listed.json["data"], listed)
                self.assertEqual(ready.status, 503)
            if health.status == 200:
                self.assertEqual(asked.status, 200, asked)
                break
            time.sleep(0.02)
        print(f"polls while it loaded: {seen.count(503)}")
        self.assertIn(503, seen, "this model was to take a while")
        for _ in range(20):
            self.assertEqual(server.get("/health").status, 200)
        self.assertEqual(server.get("/ready").status, 200)

    def test_p1_a_server_that_works_is_ready(self):
        """A step was made lately. One that stands still is health_test's."""
        server = self.serve_here(self.r)
        stop = threading.Event()

        def busy():
            while not stop.is_set():
                server.post(COMPLETIONS, {"prompt": "0123", "max_tokens": 500, "ignore_eos": True})
        threads = [threading.Thread(target=busy) for _ in range(3)]
        for thread in threads:
            thread.start()
        states = []
        for _ in range(30):
            states.append(server.get("/ready").status)
            time.sleep(0.02)
        stop.set()
        for thread in threads:
            thread.join(60 * SLOW)
            self.assertFalse(thread.is_alive(), "a request hangs")
        self.assertEqual(set(states), {200})


if __name__ == "__main__":
    main()
