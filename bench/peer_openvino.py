"""OpenVINO GenAI's continuous batching: one JSON line of tokens/s. Run by peers.py in its own environment. Usage:
peer_openvino.py IR_DIR"""
import os
import random
import sys
import time

import numpy
import openvino
import openvino_genai

from peer_measure import measure

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


measure(seconds)
