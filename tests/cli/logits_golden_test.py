#!/usr/bin/env python3
"""Logits of tiny models against an independent engine in f32, row by row, through the kernels that run uses (A1, A2)."""
import json
import math

from support import Case, floats, main, shared

FOLDER = shared("golden/logits")
FORMATS = ["f32", "f16", "bf16", "q8_0", "q4_0", "q4_1", "q5_0", "q5_1", "q2_k", "q3_k", "q4_k", "q5_k", "q6_k", "iq4_nl", "iq4_xs"]
NAMES = [f"tiny-llama-{format}" for format in FORMATS] + ["tiny-llama-mha-f32", "tiny-llama3-scaled-f32", "tiny-qwen2-f32"]
WORST = {"f32": 2e-5, "f16": 5e-3, "bf16": 1.5e-2}  # ||ours - reference|| / ||reference|| of a row
WORST_QUANTIZED, MEDIAN_QUANTIZED = 4.5e-2, 2.5e-2


class Golden(Case):
    def errors(self, name):
        meta = json.loads((FOLDER / f"{name}.json").read_text())
        out = self.folder / "out.f32"
        self.ok("logits", FOLDER / f"{name}.gguf", "--tokens", ",".join(map(str, meta["tokens"])), "--out", out, "--kv", "f32")
        ours, reference = floats(out), floats(FOLDER / f"{name}.logits.f32")
        self.assertEqual(len(ours), len(reference))
        width = len(reference) // len(meta["tokens"])
        rows = [(ours[i:i + width], reference[i:i + width]) for i in range(0, len(reference), width)]
        return [math.dist(a, b) / math.hypot(*b) for a, b in rows]

    def test_every_row_is_within_its_bound(self):
        for name in NAMES:
            errors = sorted(self.errors(name))
            worst, median = errors[-1], errors[len(errors) // 2]
            bound = WORST.get(name.rsplit("-", 1)[1])
            print(f"{name}: worst {worst:.1e}, median {median:.1e}")
            self.assertLessEqual(worst, bound or WORST_QUANTIZED, name)
            self.assertLessEqual(median, bound or MEDIAN_QUANTIZED, name)

    def test_greedy_tokens_are_the_reference_s_where_the_bound_decides_them(self):
        for name in NAMES:
            meta = json.loads((FOLDER / f"{name}.json").read_text())
            reference = floats(FOLDER / f"{name}.logits.f32")
            last = list(reference[-len(reference) // len(meta["tokens"]):])
            best, second = sorted(last)[-1:-3:-1]
            slack = WORST.get(name.rsplit("-", 1)[1], WORST_QUANTIZED) * math.hypot(*last)
            out = self.folder / "out.f32"
            self.ok("logits", FOLDER / f"{name}.gguf", "--tokens", ",".join(map(str, meta["tokens"])), "--out", out, "--kv", "f32")
            ours = list(floats(out)[-len(last):])
            self.assertEqual(last.index(best), meta["greedy"][0], name)
            if best - second > 2 * slack:
                self.assertEqual(ours.index(max(ours)), meta["greedy"][0], name)


if __name__ == "__main__":
    main()
