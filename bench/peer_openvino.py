"""OpenVINO GenAI's continuous batching: one JSON line of tokens/s. Run by peers.py in its own environment. Usage:
peer_openvino.py IR_DIR"""
import json
import os
import random
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


seconds(1, 16, 4)
print(json.dumps({"prefill 512": 512 / seconds(1, 512, 1),
                  "decode 1": 64 / (seconds(1, 16, 65) - seconds(1, 16, 1)),
                  "decode 8": 256 / (seconds(8, 128, 33) - seconds(8, 128, 1)),
                  "decode 32": 1024 / (seconds(32, 128, 33) - seconds(32, 128, 1))}), flush=True)
