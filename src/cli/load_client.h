#pragma once

// Sends a load to a server and watches the answers: one thread, any number of streams, one connection each, kept for the
// next request where the server allows it. The only part of a load that knows sockets.

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "cli/load_plan.h"
#include "cli/load_record.h"
#include "cli/load_url.h"

namespace millrace::cli {

struct LoadTarget {
  ServerUrl url;
  std::vector<std::pair<std::string, std::string>> headers;  // beside those that HTTP needs
};

struct PlainAnswer {
  int status = 0;
  std::string body;
};

/// One request that is no stream. Errors: not_found, and why: nobody answers, not in time, or no HTTP.
Result<PlainAnswer> get(const LoadTarget& target, const std::string& path, double timeout_s);

struct LoadProgress {
  double elapsed_s = 0;
  int sent = 0, running = 0, done = 0, failed = 0;
  std::uint64_t text_chunks = 0;
};

struct LoadOrder {
  std::string path;  // "/v1/completions"
  std::function<std::string(const LoadRequest&)> body;
  double timeout_s = 600;  // of one request, from its sending to its end
  /// Asked ten times a second: true stops the load, and what runs then is unfinished.
  std::function<bool(const LoadProgress&)> stop;
};

struct LoadResult {
  std::vector<LoadRecord> records;  // in order of sending
  int peak_running = 0;
  bool stopped = false;
  double cpu_s = 0;  // that this client took
};

/// Runs the whole plan. Errors: not_found when the host has no address.
Result<LoadResult> run_load(const LoadTarget& target, LoadPlan& plan, const LoadOrder& order);

}  // namespace millrace::cli
