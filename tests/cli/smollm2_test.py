#!/usr/bin/env python3
"""The default model against a forward pass in double precision: ids, greedy tokens, log-probabilities, perplexity, KL."""
import json
import math

from support import Case, default_model, floats, main, shared

FOLDER = shared("golden/smollm2")
MODEL = default_model()
DECIDED = 0.5  # a greedy step whose two best logits are closer may turn by rounding


def log_softmax(row):
    top = max(row)
    total = top + math.log(sum(math.exp(x - top) for x in row))
    return [x - total for x in row]


class SmolLM2(Case):
    def test_generations(self):  # A18
        for one in map(json.loads, (FOLDER / "generate.jsonl").read_text().rstrip("\n").split("\n")):
            args = ["run", MODEL, "--json", "-n", len(one["greedy"])]
            raw = self.ok_json(*args, "-p", one["text"])
            self.assertEqual(raw["prompt_ids"], one["ids"], one["name"])
            answers = [raw]
            if len(one.get("messages", [])) == 1:
                answers.append(self.ok_json(*args, "--chat", "-p", one["messages"][0]["content"]))
                self.assertEqual(answers[1]["prompt_ids"], one["ids"], one["name"])
            decided = next((i for i, gap in enumerate(one["greedy_gap"]) if gap < DECIDED), len(one["greedy"]))
            for answer in answers:
                self.assertEqual(answer["ids"][:decided], one["greedy"][:decided], one["name"])

    def logits(self, ids, *args):
        out = self.folder / "out.f32"
        self.ok("logits", MODEL, "--tokens", ",".join(map(str, ids)), "--out", out, *args)
        values = floats(out)
        width = len(values) // len(ids)
        return lambda position: values[position * width:(position + 1) * width]

    def test_last_log_probabilities(self):
        for one in map(json.loads, (FOLDER / "generate.jsonl").read_text().rstrip("\n").split("\n")):
            ours = log_softmax(self.logits(one["ids"])(len(one["ids"]) - 1))
            for token, want in one["last_top20"]:
                self.assertLess(abs(ours[token] - want), 0.6, f"{one['name']}: token {token}")

    def test_perplexity(self):
        want = json.loads((FOLDER / "perplexity.json").read_text())
        got = self.ok_json("perplexity", MODEL, FOLDER / "gpl-3.txt", "--window", want["window"], "--windows", want["windows"], "--json")
        print(f"perplexity {got['perplexity']:.4f}, exact {want['perplexity']}")
        self.assertLess(abs(got["perplexity"] / want["perplexity"] - 1), 0.01)
        self.assertEqual(len(got["nll_per_window"]), want["windows"])

    def test_int8_cache_costs_half_a_percent_of_perplexity_at_most(self):  # A14
        # All 14 windows: over the first four f32 itself is 0.5 % above f16, by the chances of rounding.
        args = ["perplexity", MODEL, FOLDER / "gpl-3.txt", "--window", "512", "--json", "--kv"]
        f16, int8 = (self.ok_json(*args, kv)["perplexity"] for kv in ("f16", "int8"))
        print(f"perplexity with an int8 cache {int8:.4f}, f16 {f16:.4f}: {100 * (int8 / f16 - 1):+.2f} %")
        self.assertLessEqual(int8 / f16 - 1, 0.005)

    def test_kl_divergence(self):
        window = json.loads((FOLDER / "window0.json").read_text())
        row_of = self.logits(window["ids"], "--kv", "f32")
        divergences = []
        for position, top in zip(window["positions"], window["top32"]):
            ours = log_softmax(row_of(position))
            rest = 1 - sum(math.exp(p) for _, p in top), 1 - sum(math.exp(ours[token]) for token, _ in top)
            divergence = sum(math.exp(p) * (p - ours[token]) for token, p in top)
            divergences.append(divergence + (rest[0] * math.log(rest[0] / rest[1]) if rest[0] > 1e-9 and rest[1] > 0 else 0))
        mean = sum(divergences) / len(divergences)
        print(f"mean KL divergence {mean:.5f}")
        self.assertLessEqual(mean, 0.005)

    def test_inspect_predicts_the_memory_of_a_run(self):  # A13
        report = self.ok_json("inspect", MODEL, "--json", "--context", "2048")
        self.assertEqual(report["memory"]["context_tokens"], 2048)
        self.assertEqual(report["memory"]["kv_bytes_per_token"], 2 * 30 * 3 * 64 * 2)
        int8 = self.ok_json("inspect", MODEL, "--json", "--context", "2048", "--kv", "int8")  # A14
        self.assertEqual(int8["memory"]["kv_bytes_per_token"], 2 * 30 * 3 * (64 + 4))
        self.assertLessEqual(int8["memory"]["kv_bytes"], 0.54 * report["memory"]["kv_bytes"])


if __name__ == "__main__":
    main()
