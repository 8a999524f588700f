"""What every peer's driver measures: one JSON line of tokens/s."""
import json
import statistics


def measure(seconds):
    """seconds(batch, prompt, new): of one run of `batch` streams with `prompt` tokens each and `new` drawn ones."""

    def median_of_three(work):
        return statistics.median(work() for _ in range(3))

    def decode(batch, prompt, new):  # a long run less a short one, the short one first
        short = seconds(batch, prompt, 1)
        return batch * (new - 1) / (seconds(batch, prompt, new) - short)

    for shape in ((1, 512, 1), (1, 16, 65), (8, 128, 33), (32, 128, 33)):  # each once before it counts
        seconds(*shape)
    print(json.dumps({"prefill 512": median_of_three(lambda: 512 / seconds(1, 512, 1)),
                      "decode 1": median_of_three(lambda: decode(1, 16, 65)),
                      "decode 8": median_of_three(lambda: decode(8, 128, 33)),
                      "decode 32": median_of_three(lambda: decode(32, 128, 33))}), flush=True)
