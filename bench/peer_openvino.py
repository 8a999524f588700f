"""OpenVINO GenAI's continuous batching: one JSON line of tokens/s. Run by peers.py in its own environment. Usage:
peer_openvino.py IR_DIR"""
import json
import os
import random
import statistics
import sys
import time

import numpy
import openvino
import openvino_genai

config = openvino_genai.SchedulerConfig()
config.cache_size, config.max_num_batched_tokens, config.max_num_seqs, config.enable_prefix_caching = 4, 4096, 64, False
threads = int(os.environ.get("PEER_THREADS", os.cpu_count()))
pipeline = openvino_genai.ContinuousBatchingPipeline(sys.argv[1], config, "CPU", {"INFERENCE_NUM_THREADS": threads})
numbers = random.Random(1)


def seconds(batch, prompt, new):
    generation = openvino_genai.GenerationConfig()
    generation.max_new_tokens, generation.ignore_eos, generation.do_sample = new, True, False
    handles = []
    for i in range(batch):
        ids = numpy.array([[numbers.randint(1000, 100000) for _ in range(prompt)]], dtype=numpy.int64)
        handles.append(pipeline.add_request(i, openvino.Tensor(ids), generation))
    begin = time.time()
    while pipeline.has_non_finished_requests():
        pipeline.step()
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
