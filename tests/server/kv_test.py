#!/usr/bin/env python3
"""Kind 9 of the reported cases through HTTP: the KV cache and the schedule, as clients see them.

Model r has attention that matters; TRUTH was computed in double precision. Ids 309 and above have no text, so log-probabilities
are compared. Token ids, and what needs no server, are in tests/cli/kv_cases_test.py.
"""
import json
import random
import threading
import time

import models
from case import Case, main
from said import COMPLETIONS, said_of_answer, said_of_events, streamed
from server_process import SLOW

P = lambda n: ("0741852963" * (n // 10 + 1))[:n]
TRUTH = {
    1: [-1.235, -0.400, -1.111, -1.139], 15: [-1.700, -1.654, -2.133, -1.215], 16: [-1.467, -1.239, -0.776, -0.268],
    17: [-1.719, -1.446, -0.998, -1.890], 31: [-0.960, -1.186, -1.641, -0.082], 33: [-1.384, -1.771, -0.866, -1.892],
    48: [-0.890, -1.772, -0.237, -1.264], 63: [-1.511, -0.696, -1.755, -1.736], 64: [-1.919, -1.076, -1.190, -1.586],
    65: [-2.022, -1.364, -0.804, -0.733], 128: [-1.319, -1.467, -1.269, -0.938],
}
BLOCK = 16
TEN_BLOCKS = "86KiB"  # 2 layers x 4 heads x 16 x (key, value) x 2 bytes are 512 a token; a block of 16 and what is known of it, 8.2 to 9 KiB


def cached_tokens(answer):
    return (answer["usage"].get("prompt_tokens_details") or {}).get("cached_tokens", 0)


class Kv(Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.r = models.random_model(cls.folder / "r", 2)

    def ask(self, server, prompt, n, **more):
        return self.ok(server, COMPLETIONS, {"prompt": prompt, "max_tokens": n, "temperature": 0, "ignore_eos": True, **more})

    def truth(self, server, n, salt):
        answer = self.ask(server, P(n), 4, logprobs=0, cache_salt=salt)
        for got, want in zip(answer["choices"][0]["logprobs"]["token_logprobs"], TRUTH[n], strict=True):
            self.assertAlmostEqual(got, want, delta=0.02, msg=f"P({n})")
        return cached_tokens(answer)

    def test_o9_1_whole_blocks_cold_and_warm(self):
        for block in (16, 32):
            server = self.serve_here(self.r, "--block-tokens", block)
            for n in TRUTH:
                whole = (n - 1) // block * block
                self.assertEqual([self.truth(server, n, f"own{n}") for _ in range(3)], [0, whole, whole], (block, n))
            for first, second in ((64, 65), (65, 64)):
                self.assertEqual(self.truth(server, first, f"{first}{second}"), 0)
                self.assertEqual(self.truth(server, second, f"{first}{second}"), (second - 1) // block * block)
            answer = self.ask(server, P(128), 1, logprobs=0)
            self.assertAlmostEqual(answer["choices"][0]["logprobs"]["token_logprobs"][0], TRUTH[128][0], delta=0.02)
            server.stop()

    def test_o9_2_log_probabilities_of_a_cached_prompt(self):
        server = self.serve_here(self.r, "--block-tokens", BLOCK)
        echo = lambda: self.ask(server, P(64), 1, echo=True, logprobs=1)["choices"][0]
        first = echo()
        self.ask(server, P(64), 4)
        second = echo()
        self.assertEqual(len(first["logprobs"]["token_logprobs"]), 65)
        self.assertIsNone(first["logprobs"]["token_logprobs"][0])
        self.assertTrue(all(isinstance(x, float) for x in first["logprobs"]["token_logprobs"][1:]))
        self.assertEqual(first["logprobs"], second["logprobs"])
        self.assertTrue(first["text"].startswith(P(64)))
        # the generated one is the table's, and a prompt token has the value that it has when it is generated
        self.assertAlmostEqual(first["logprobs"]["token_logprobs"][64], TRUTH[64][0], delta=0.02)

    def test_o9_3_ten_blocks_for_four_requests(self):
        small = self.serve_here(self.r, "--block-tokens", BLOCK, "--kv-memory", TEN_BLOCKS)
        large = self.serve_here(self.r, "--block-tokens", BLOCK)
        prompts = [P(n) for n in (5, 7, 9, 11)]
        for more in ({}, {"temperature": 1, "seed": 5}, {"logprobs": 2}, {"repetition_penalty": 1.3, "frequency_penalty": 0.5}, {"stop": ["z", "he"]}, {"stream": True}):
            stream = more.pop("stream", False)
            body = lambda p: {"prompt": p, "max_tokens": 100, "temperature": 0, "ignore_eos": True, **more}
            alone = [self.ok(large, COMPLETIONS, body(p)) for p in prompts]
            if stream:
                said = self.together([lambda p=p: said_of_events(COMPLETIONS, small.stream(COMPLETIONS, streamed(COMPLETIONS, body(p)))) for p in prompts])
            else:
                crowd = self.together([lambda p=p: self.ok(small, COMPLETIONS, body(p)) for p in prompts])
                said = [said_of_answer(COMPLETIONS, a) for a in crowd]
                self.assertEqual([a["choices"][0]["logprobs"] for a in crowd], [a["choices"][0]["logprobs"] for a in alone], more)
            self.assertEqual(said, [said_of_answer(COMPLETIONS, a) for a in alone], more)
        self.assertGreater(small.metric("millrace_num_preemptions_total"), 0)
        error = self.e400(small, COMPLETIONS, {"prompt": P(61), "max_tokens": 100}, "160")
        self.assertIn("61", error["message"])
        self.alive(small)

    def test_o9_4_salts_keep_prefixes_apart(self):
        server = self.serve_here(self.r, "--block-tokens", BLOCK)
        for salt in ("x", "y", None, ""):
            want = self.ask(server, P(64), 4, logprobs=1, cache_salt=salt)
            if salt != "":  # empty is none
                self.assertEqual(cached_tokens(want), 0, salt)
            again = self.ask(server, P(64), 4, logprobs=1, cache_salt=salt)
            self.assertEqual(cached_tokens(again), 48, salt)
            self.assertEqual(again["choices"], want["choices"])
            self.truth(server, 64, salt)

    def test_o9_5_two_thousand_requests_leave_nothing_behind(self):
        server = self.serve_here(self.r, "--block-tokens", BLOCK, "--kv-memory", "560KiB")
        pool = server.metric("millrace_kv_cache_blocks")
        self.assertTrue(60 <= pool <= 70, pool)
        done, seen = [], []
        lock = threading.Lock()

        def client(k):
            draw = random.Random(k)
            with server.wire(timeout=60 * SLOW) as wire:
                for i in range(250):
                    prompt = f"{k}:{i}:" + "".join(draw.choice("0123456789") for _ in range(draw.randint(1, 60)))
                    body = json.dumps({"prompt": prompt, "max_tokens": draw.randint(1, 8), "ignore_eos": True}).encode()
                    wire.send(b"POST /v1/completions HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
                    status = wire.answer().status
                    with lock:
                        done.append(status)

        def watch():
            while len(done) < 2000 and time.monotonic() < end:
                seen.append(server.gauges()[2])
                time.sleep(0.05)
        end = time.monotonic() + 120 * SLOW
        self.together([lambda k=k: client(k) for k in range(8)] + [watch], timeout=120)
        self.assertEqual(done, [200] * 2000)
        self.assertTrue(all(0 <= x <= 1 for x in seen), seen)
        self.assertIsNotNone(server.settle())
        self.assertLessEqual(server.metrics()['millrace_kv_cache_blocks{state="cached"}'], pool)

    def test_o9_6_keys_with_one_huge_channel_in_8_bits(self):
        for name, seed, bias, least in (("r0", 2, None, 44), ("r30", 7, 30.0, 42), ("r600", 7, 600.0, 0)):
            model = models.random_model(self.folder / name, seed, bias)
            first = {}
            for kv in ("f32", "int8"):
                server = self.serve_here(model, "--kv", kv)
                answer = self.ask(server, [P(k) for k in range(1, 49)], 1, logprobs=20)
                first[kv] = [c["logprobs"]["tokens"][0] for c in sorted(answer["choices"], key=lambda c: c["index"])]  # strict JSON: no NaN
                server.stop()
            same = sum(a == b for a, b in zip(first["f32"], first["int8"], strict=True))
            self.assertGreaterEqual(same, least, name)

    def test_o9_7_a_long_prompt_beside_a_stream(self):
        server = self.serve_here(models.heavy(self.folder / "heavy", 256, 2, context=16384))
        digits = random.Random(9)
        words = lambda n: "".join(digits.choice("0123456789") for _ in range(n))
        body = {"prompt": words(8000), "max_tokens": 1, "temperature": 0, "ignore_eos": True}
        start = time.monotonic()
        self.ok(server, COMPLETIONS, {**body, "prompt": words(8000)})
        alone = time.monotonic() - start
        marks = {}

        def stream():
            wire, events = server.start_stream(COMPLETIONS, {"prompt": "12", "max_tokens": 4000, "temperature": 0, "ignore_eos": True, "stream": True})
            times = []
            for event in events:
                times.append(event.at)
                if "long" in marks and event.at > marks["long"] + 0.2:
                    break
            wire.reset()
            return times

        def long():
            time.sleep(1.0)
            marks["start"] = time.monotonic()
            self.ok(server, COMPLETIONS, body)
            marks["long"] = time.monotonic()

        def short():
            time.sleep(1.1)
            start = time.monotonic()
            self.ok(server, COMPLETIONS, {**body, "prompt": words(10)})
            marks["short"] = time.monotonic() - start
        times = self.together([stream, long, short])[0]
        gaps = [(b - a, b) for a, b in zip(times, times[1:])]
        usual = sorted(g for g, at in gaps if at < marks["start"])
        beside = [g for g, at in gaps if marks["start"] <= at <= marks["long"]]
        took = marks["long"] - marks["start"]
        print(f"8,000 tokens: {alone:.2f} s alone, {took:.2f} s beside a stream; its gaps {usual[len(usual) // 2] * 1e3:.1f} ms, "
              f"beside the prompt at most {max(beside) * 1e3:.0f} ms; 10 tokens took {marks['short'] * 1e3:.0f} ms")
        self.assertGreater(len(beside), 5)
        self.assertLessEqual(max(beside), max(10 * usual[len(usual) // 2], 0.5 * SLOW))
        self.assertLess(marks["short"], 0.7 * took)
        self.assertLess(took, 3 * alone + 1)

    def test_o9_8_neighbours_leave_no_trace(self):
        server = self.serve_here(self.r, "--block-tokens", BLOCK)
        ask = lambda: self.ask(server, P(33), 32, logprobs=3)["choices"][0]["logprobs"]
        alone = ask()
        draw = random.Random(98)
        for turn in range(20):
            lengths = (16, 48, 65) if turn < 17 else (16, 48, 65, 1, 15, 31, 100)
            prompts = ["".join(draw.choice("0123456789") for _ in range(n)) for n in lengths]
            got = self.together([lambda p=p: self.ask(server, p, 32) for p in prompts] + [ask])
            self.assertEqual(got[-1], alone, turn)


if __name__ == "__main__":
    main()
