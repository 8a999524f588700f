#!/usr/bin/env python3
"""Logits are the same bytes for every chunk size, thread count and set of batch mates, block size and schedule, through the whole program:
llama and qwen2, each weight format, each KV format, each instruction set of this machine (A15, A21)."""
import hashlib
import itertools
import random

from support import Case, main, shared

FOLDER = shared("golden/logits")
MODELS = ["tiny-llama-f32", "tiny-llama-f16", "tiny-llama-bf16", "tiny-llama-q8_0", "tiny-llama-q4_0", "tiny-llama-q4_1", "tiny-llama-q5_1",
          "tiny-llama-q2_k", "tiny-llama-q4_k", "tiny-llama-q6_k", "tiny-llama-iq4_xs", "tiny-qwen2-f32"]
TOKENS = 70
LEAST = 200  # combinations


class Identity(Case):
    def digest(self, model, tokens, **options):
        out = self.folder / "out.f32"
        args = [word for name, value in options.items() for word in (f"--{name.replace('_', '-')}", value)]
        self.ok("logits", FOLDER / f"{model}.gguf", "--tokens", tokens, "--out", out, *args)
        return hashlib.sha256(out.read_bytes()).hexdigest()

    def test_nothing_beside_a_sequence_changes_a_bit_of_it(self):
        pick = random.Random(5)
        isas = self.ok_json("inspect", "--machine", "--json")["machine"]["isa"]
        runs = 0
        for model, kv, isa in itertools.product(MODELS, ("f32", "f16", "bf16", "int8"), isas):
            tokens = ",".join(str(pick.randrange(3, 300)) for _ in range(TOKENS))
            grid = [(512, 1, 0, 32, "serial"), (1, 2, 0, 8, "mixed"), (7, 1, 5, 32, "static"), (64, 2, 5, 16, "serial"), (7, 2, 0, 64, "mixed"),
                    (512, 2, 5, 128, "static"), (3, 3, 2, 256, "mixed")]
            digests = {self.digest(model, tokens, kv=kv, isa=isa, chunk=chunk, threads=threads, batch_with=mates, block_tokens=block, schedule=schedule)
                       for chunk, threads, mates, block, schedule in grid}
            self.assertEqual(len(digests), 1, f"{model} kv {kv} isa {isa}: {tokens}")
            runs += len(grid)
        print(f"{runs} runs, 0 differing bytes")
        self.assertGreaterEqual(runs, LEAST)


if __name__ == "__main__":
    main()
