#pragma once

// What one chunk of a streamed answer says, as far as a load cares: has it text, what was counted, did something go wrong.
// Reads both APIs, chat and completions.

#include <string>
#include <string_view>

namespace millrace::cli {

struct ChunkUsage {
  int prompt_tokens = -1, completion_tokens = -1;  // -1: not said
  int cached_tokens = 0;
};

struct ChunkFacts {
  bool is_json = false;
  bool has_text = false;  // of the answer or of the reasoning before it
  bool has_error = false;
  ChunkUsage usage;
  std::string error;  // what it says; may be empty
};

ChunkFacts read_chunk(std::string_view json);

/// The sentence in the body of a refused request: its error message, or else its first line.
std::string error_sentence(std::string_view body);

}  // namespace millrace::cli
