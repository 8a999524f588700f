"""vLLM's CPU backend: one JSON line of tokens/s. Run by peers.py in vLLM's own environment. Usage: peer_vllm.py HF_DIR"""
import os
import random
import sys
import time

from peer_measure import measure

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

    measure(seconds)


if __name__ == "__main__":
    main()
