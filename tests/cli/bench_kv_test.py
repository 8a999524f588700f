#!/usr/bin/env python3
"""bench kv: the figures that scripts read, from a trace of its own, from a file and from a model."""
import json

from support import MODEL_FILE, SHARED, Case, cache_folder, main


class BenchKv(Case):
    def check(self, report):
        for side in ("contiguous", "paged"):
            self.assertGreater(report[side]["utilisation"], 0)
            self.assertLessEqual(report[side]["utilisation"], 1)
            self.assertEqual(report[side]["failures"], 0)
        self.assertGreaterEqual(report["paged"]["utilisation"], 0.95)  # A24, B6
        self.assertGreaterEqual(report["paged"]["max_batch"], 2.5 * report["contiguous"]["max_batch"])
        self.assertLessEqual(report["int8_bytes_ratio"], 0.54)  # A14
        self.assertGreater(report["paged"]["prefix_hit_rate"], 0.2)

    def test_without_a_file_it_makes_a_trace_and_needs_no_model(self):
        report = self.ok_json("bench", "kv", "--json")
        self.check(report)
        self.assertIsNone(report["trace"])
        self.assertEqual(self.ok_json("bench", "kv", "--json")["paged"]["utilisation"], report["paged"]["utilisation"])
        text = self.ok("bench", "kv")
        for line in ("contiguous, prompt + any answer", "paged", "at the largest batch", "empty slots"):  # A28
            self.assertIn(line, text)
        pool = report["inspect"]["pools"][0]
        self.assertEqual(pool["free"] + pool["used"] + pool["cached"], pool["blocks"])

    def test_the_reference_trace(self):
        path = SHARED / "traces/kv.jsonl"
        if not path.exists():
            self.skipTest(f"{path} is not there")
        report = self.ok_json("bench", "kv", "--trace", path, "--json")
        self.check(report)
        self.assertEqual(report["trace"], str(path))

    def test_block_sizes(self):  # A27
        rows = self.ok_json("bench", "kv", "--sweep", "--json")["sweep"]
        self.assertEqual([row["block_tokens"] for row in rows], [8, 16, 32, 64, 128, 256])
        rates = [row["prefix_hit_rate"] for row in rows]
        self.assertEqual(rates, sorted(rates, reverse=True))  # smaller blocks find more
        self.assertEqual(self.ok_json("bench", "kv", "--block-tokens", "8", "--json")["paged"]["max_batch"], rows[0]["max_batch"])

    def test_wrong_use(self):
        trace = self.folder / "t.jsonl"
        trace.write_text(json.dumps({"arrival_s": 0, "prompt_tokens": 0, "new_tokens": 1}))
        self.assertIn("line 1: prompt_tokens", self.refused("bench", "kv", "--trace", trace))
        self.assertIn("needs a model", self.refused("bench", "kv", "--no-cache"))
        self.assertIn("needs a model", self.refused("bench"))
        self.assertIn("--block-tokens: expected one of", self.refused("bench", "kv", "--block-tokens", "24", status=2))

    def test_what_no_cache_costs(self):  # A12
        model = cache_folder() / MODEL_FILE
        if not model.exists():
            self.skipTest(f"{model} is not there: millrace fetch smollm2-135m-instruct gets it")
        cost = self.ok_json("bench", "kv", model, "--no-cache", "--json", timeout=800)["no_cache"]
        self.assertEqual((cost["prompt_tokens"], cost["new_tokens"]), (1000, 1000))
        self.assertGreaterEqual(cost["prefills"], 1000 * 0.8)  # each is a prefill of that prompt or a longer one; timing is noisy
        self.assertGreater(cost["computed_s"], cost["with_cache_s"])


if __name__ == "__main__":
    main()
