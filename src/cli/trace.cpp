#include "cli/trace.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <random>

#include "cli/draws.h"

namespace millrace::cli {
namespace {

// Beyond any context: lengths are read as they stand, the model says what it holds.
constexpr int kMostTokens = 1 << 24;

Result<TraceRequest> parse_line(const std::string& line) {
  const auto object = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!object.is_object()) return error(Code::corrupt_data, "expected a JSON object");
  const auto number = [&](const char* name, double least, double most, double& out) -> Result<void> {
    const auto found = object.find(name);
    if (found == object.end() || !found->is_number()) return error(Code::corrupt_data, "{}: expected a number", name);
    out = found->get<double>();
    if (!(out >= least && out <= most)) return error(Code::corrupt_data, "{}: expected {} to {}, got {}", name, least, most, out);
    return {};
  };
  const auto text = [&](const char* name) {
    const auto found = object.find(name);
    return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
  };
  double arrival = 0, prompt = 0, fresh = 0, prefix = 0;
  MILLRACE_TRY_VOID(number("arrival_s", 0, 1e9, arrival));
  MILLRACE_TRY_VOID(number("prompt_tokens", 1, kMostTokens, prompt));
  MILLRACE_TRY_VOID(number("new_tokens", 1, kMostTokens, fresh));
  if (object.contains("prefix_tokens")) MILLRACE_TRY_VOID(number("prefix_tokens", 0, prompt, prefix));
  return TraceRequest{arrival, static_cast<int>(prompt), static_cast<int>(fresh), text("prefix_group"), static_cast<int>(prefix), text("tenant")};
}

}  // namespace

Result<std::vector<TraceRequest>> read_trace(const std::string& path) {
  std::ifstream file(path);
  if (!file) return error(Code::not_found, "cannot read the trace '{}'", path);
  std::vector<TraceRequest> trace;
  int number = 0;
  for (std::string line; std::getline(file, line);) {
    ++number;
    if (line.find_first_not_of(" \t\r") == line.npos) continue;
    auto request = parse_line(line);
    if (!request) return std::move(request).error().in(fmt::format("'{}' line {}", path, number));
    trace.push_back(*std::move(request));
  }
  if (trace.empty()) return error(Code::corrupt_data, "the trace '{}' has no requests", path);
  std::ranges::stable_sort(trace, {}, &TraceRequest::arrival_s);
  return trace;
}

std::vector<TraceRequest> make_trace(int n, unsigned seed) {
  Draws draws(seed);
  std::vector<TraceRequest> trace;
  double arrival = 0;
  for (int i = 0; i < n; ++i) {
    arrival += draws.gap(0.3);
    const int prompt = draws.length(140, 0.8, 8, 1024);
    trace.push_back({arrival, prompt, draws.length(60, 0.5, 8, 256), "", 0, "a"});
  }
  return trace;
}

std::vector<TraceRequest> make_kv_trace(int n, unsigned seed) {
  constexpr int kPrefixes[] = {200, 260, 320};  // of three groups; real ones do not end with a block
  Draws draws(seed);
  std::vector<TraceRequest> trace;
  double arrival = 0;
  for (int i = 0; i < n; ++i) {
    arrival += draws.gap(0.1);
    const std::size_t group = draws.below(5);
    const int prefix = group < std::size(kPrefixes) ? kPrefixes[group] : 0;
    const int own = draws.length(std::exp(5.4), 1.0, 16, 3000);
    trace.push_back({.arrival_s = arrival,
                     .prompt_tokens = prefix + own,
                     .new_tokens = draws.length(std::exp(4.8), 0.9, 8, 1000),
                     .prefix_group = prefix > 0 ? "s" + std::to_string(group) : "",
                     .prefix_tokens = prefix,
                     .tenant = "a"});
  }
  return trace;
}

std::vector<std::vector<TokenId>> prompts_of(const std::vector<TraceRequest>& trace, int vocab_size, unsigned seed) {
  std::map<std::string, std::vector<TokenId>> prefixes;
  std::mt19937 random(seed);
  const auto grow = [&](std::vector<TokenId>& tokens, int length) {
    while (static_cast<int>(tokens.size()) < length) tokens.push_back(static_cast<TokenId>(random() % static_cast<unsigned>(vocab_size)));
  };
  std::vector<std::vector<TokenId>> prompts;
  for (const TraceRequest& request : trace) {
    std::vector<TokenId> prompt;
    if (!request.prefix_group.empty()) {
      auto& prefix = prefixes[request.prefix_group];
      grow(prefix, request.prefix_tokens);
      prompt.assign(prefix.begin(), prefix.begin() + request.prefix_tokens);
    }
    grow(prompt, request.prompt_tokens);
    prompts.push_back(std::move(prompt));
  }
  return prompts;
}

}  // namespace millrace::cli
