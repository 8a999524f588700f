#pragma once

// What the user asked for: the words of one call as plain values. The option table (option_table.h) names each field;
// parse.cpp fills it from flags and the environment; commands read it and nothing else.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace millrace::cli {

enum class Command { run, chat, bench, inspect, tokenize, detokenize, logits, perplexity, template_, fetch };

/// A context that has to be reserved before its need is known (chat, run -n -1) is no longer than this by default.
inline constexpr int kContextCap = 8192;

struct Options {
  std::string model;                // as given: a file, a folder or a known name
  std::string mode;                 // bench: what to measure; "" is a model's speed
  std::optional<std::string> text;  // second positional: TEXT, IDS, FILE

  std::vector<std::string> prompts;
  std::int64_t max_tokens = 512;  // -1: no limit but the context
  bool chat = false;
  std::string system;
  std::vector<std::string> stop;

  double temperature = 0;
  double top_p = 1;
  std::int64_t top_k = 0;
  double min_p = 0;
  double typical_p = 1;
  double repetition_penalty = 1;
  double presence_penalty = 0;
  double frequency_penalty = 0;
  std::uint64_t seed = 0;

  std::int64_t threads = 0;  // 0: what the machine suits
  std::string isa;           // "": the best
  std::string kv = "f16";
  std::string kv_memory;     // "": what the call needs
  std::string kv_disk;       // a folder; "": none
  std::string kv_disk_size = "4GiB";
  std::int64_t context = 0;  // 0: the model's, at most kContextCap where it has to be reserved at once
  std::int64_t block_tokens = 32;
  std::int64_t chunk = 512;

  std::string tokens;
  std::string out;
  std::int64_t batch_with = 0;
  std::int64_t window = 512;
  std::int64_t windows = 0;  // 0: all whole ones

  bool special = false;
  bool add_special = false;
  bool jsonl = false;
  bool json = false;
  bool machine = false;
  bool kernels = false;
  bool long_context = false;
  bool sweep = false;
  bool no_cache = false;
  std::string schedule = "mixed";
  double max_step_ms = 100;  // 0: no bound
  double speed = 0;          // bench schedule: how much faster requests arrive than the trace says; 0: so that work waits
  double minutes = 30;       // bench soak: how long

  // bench serve: the load. "" and 0: its own default, or what the scenario says.
  std::string scenario, prompt_words, answer_tokens;
  std::int64_t requests = 0, concurrency = 0, burst = 1, prefix_words = 0, prefix_groups = 1, warmup = 0;
  double rate = 0, duration_s = 0, request_timeout_s = 600, wait_s = 0;
  std::string arrivals = "poisson";
  double ttft_slo_ms = 0, tpot_slo_ms = 0, e2e_slo_ms = 0;
  std::string api = "completions", api_key, model_name, extra_body;
  bool ignore_eos = true;

  std::string trace;  // bench: a file of requests; "": one that the bench makes
  std::string messages;
  std::string now;

  std::string log_level = "warn";
};

}  // namespace millrace::cli
