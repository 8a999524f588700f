#!/bin/bash
# Millrace beside llama.cpp (or a fork with its llama-bench), in turns, in one run: tokens/s of each, and their ratio.
# Usage: bench/peers.sh --llama-cpp DIR [--threads N] [--rounds N] MODEL.gguf...     DIR: where llama-bench lies
# Other work on the machine spoils it: the load average is printed first. Medians over the rounds.
set -euo pipefail
cd "$(dirname "$0")/.."
peer= threads=$(nproc) rounds=3 models=()
while [ $# -gt 0 ]; do
  case $1 in
    --llama-cpp) peer=$2; shift 2 ;;
    --threads) threads=$2; shift 2 ;;
    --rounds) rounds=$2; shift 2 ;;
    -*) echo "peers.sh: unknown option '$1'" >&2; exit 2 ;;
    *) models+=("$1"); shift ;;
  esac
done
[ -n "$peer" ] && [ ${#models[@]} -gt 0 ] || { sed -n '2,4s/^# //p' "$0" >&2; exit 2; }
[ -x "$peer/llama-bench" ] || { echo "peers.sh: no llama-bench in '$peer'" >&2; exit 1; }

echo "load average: $(cut -d' ' -f1-3 /proc/loadavg)"
for model in "${models[@]}"; do
  results=$(mktemp -d)
  for round in $(seq "$rounds"); do
    build/release/millrace bench "$model" --threads "$threads" --json >"$results/own-$round.json" 2>/dev/null
    "$peer/llama-bench" -m "$model" -t "$threads" -p 512 -n 64 -r 1 -o json >"$results/peer-$round.json" 2>/dev/null
  done
  python3 - "$model" "$results" "$rounds" <<'PY'
import json, statistics, sys
model, folder, rounds = sys.argv[1], sys.argv[2], int(sys.argv[3])
load = lambda who, i: json.load(open(f"{folder}/{who}-{i}.json"))
own, peer = [load("own", i + 1) for i in range(rounds)], [load("peer", i + 1) for i in range(rounds)]
def row(name, ours, theirs):
    print(f"  {name:<12} {statistics.median(ours):9.1f} {statistics.median(theirs):9.1f} {statistics.median(ours) / statistics.median(theirs):6.2f}x"
          f"   rounds: {' '.join(f'{a:.1f}/{b:.1f}' for a, b in zip(ours, theirs))}")
print(f"{model}\n  {'work':<12} {'millrace':>9} {'peer':>9}   ratio")
of = lambda r, work: next(x["tokens_per_s"] for x in r["rows"] if (x["work"], x["batch"]) == (work, 1))
row("prefill 512", [of(r, "prefill") for r in own], [next(x["avg_ts"] for x in r if x["n_prompt"]) for r in peer])
row("decode 1", [of(r, "decode") for r in own], [next(x["avg_ts"] for x in r if x["n_gen"]) for r in peer])
share = lambda work, batch: statistics.median(x["roof_share"] for r in own for x in r["rows"] if (x["work"], x["batch"]) == (work, batch))
print(f"  of the roof: prefill {share('prefill', 1):.2f}, decode 1 {share('decode', 1):.2f}, decode 8 {share('decode', 8):.2f}, decode 32 {share('decode', 32):.2f}")
PY
  rm -rf "$results"
done
