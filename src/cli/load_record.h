#pragma once

// What became of one request of a load: times as the client saw them, and counts. Written by the client, read by the
// report.

#include <string>
#include <vector>

#include "base/clock.h"
#include "cli/load_chunk.h"

namespace millrace::cli {

enum class Outcome {
  done,        // the whole stream arrived
  failed,      // refused, cut, too late: error says why
  unfinished,  // the load was stopped before
};

struct LoadRecord {
  Outcome outcome = Outcome::unfinished;
  bool is_long = false;  // as the LoadRequest

  // Since the load's start. Due: as the LoadRequest. Sent: when the client began with it, before it connected.
  Microseconds due_us = 0, sent_us = 0, end_us = 0;
  std::vector<Microseconds> text_us;  // when each chunk with text was read

  ChunkUsage usage;
  int status = 0;       // of HTTP; 0: there was no answer
  std::string error;    // of a failed one
  double retry_after_s = -1;  // what a refusal said; -1: nothing

  /// Counted by the server where it says so, or else one for each chunk with text.
  int output_tokens() const { return usage.completion_tokens >= 0 ? usage.completion_tokens : static_cast<int>(text_us.size()); }
};

}  // namespace millrace::cli
