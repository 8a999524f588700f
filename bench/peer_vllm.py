"""vLLM's CPU backend: one JSON line of tokens/s. Run by peers.py in vLLM's own environment. Usage: peer_vllm.py HF_DIR"""
import json
import os
import random
import statistics
import sys
import time

threads = int(os.environ.get("PEER_THREADS", os.cpu_count()))
os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "4")
os.environ.setdefault("VLLM_CPU_OMP_THREADS_BIND", f"0-{threads - 1}")
os.environ.update(HF_HUB_OFFLINE="1", VLLM_NO_USAGE_STATS="1", VLLM_LOGGING_LEVEL="ERROR")


def main():
    from vllm import LLM, SamplingParams

    llm = LLM(sys.argv[1], dtype="bfloat16", max_model_len=8192, max_num_seqs=32, enable_prefix_caching=False)
    numbers = random.Random(1)

    def seconds(batch, prompt, new):
        prompts = [{"prompt_token_ids": [numbers.randint(1000, 100000) for _ in range(prompt)]} for _ in range(batch)]
        begin = time.time()
        llm.generate(prompts, SamplingParams(temperature=0, max_tokens=new, ignore_eos=True), use_tqdm=False)
        return time.time() - begin

    def median_of_three(work):
        return statistics.median(work() for _ in range(3))

    def decode(batch, prompt, new):
        """Tokens/s behind the prompt: a long run less a short one, the short one first."""
        short = seconds(batch, prompt, 1)
        return batch * (new - 1) / (seconds(batch, prompt, new) - short)

    for batch, prompt, new in ((1, 512, 1), (1, 16, 65), (8, 128, 33), (32, 128, 33)):  # each shape once before it counts
        seconds(batch, prompt, new)
    print(json.dumps({"prefill 512": median_of_three(lambda: 512 / seconds(1, 512, 1)),
                      "decode 1": median_of_three(lambda: decode(1, 16, 65)),
                      "decode 8": median_of_three(lambda: decode(8, 128, 33)),
                      "decode 32": median_of_three(lambda: decode(32, 128, 33))}), flush=True)


if __name__ == "__main__":
    main()
