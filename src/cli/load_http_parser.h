#pragma once

// One HTTP/1.1 answer out of bytes that come in pieces of any size. Knows no socket and nothing of what the body says.

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace millrace::cli {

class HttpAnswerParser {
 public:
  /// The body that `bytes` hold is appended to `body`. Returns "" or what is wrong with the bytes; then no more may be fed.
  /// Bytes behind the end of the answer are left out, and the connection is not reusable().
  std::string feed(std::string_view bytes, std::string& body);

  /// The server closed its side. Returns "" when the answer is whole.
  std::string close();

  bool has_head() const { return state_ > State::head; }
  bool done() const { return state_ == State::done; }
  int status() const { return status_; }

  /// The value of the first header of that (lower case) name, or nullptr.
  const std::string* header(std::string_view name) const;

  /// Whether another request may follow on the same connection once this answer is done.
  bool reusable() const { return done() && keeps_alive_ && !excess_; }

 private:
  enum class State { status_line, head, until_close, counted, chunk_size, chunk_data, chunk_end, trailer, done };

  std::string take_line();
  std::string take_status_line();
  std::string take_header();
  std::string end_head();
  std::string take_chunk_size();

  State state_ = State::status_line;
  std::string line_;  // what there is of a line that is not whole yet
  std::size_t head_bytes_ = 0;
  int status_ = 0;
  std::vector<std::pair<std::string, std::string>> headers_;
  std::uint64_t left_ = 0;  // of the body or the chunk
  bool keeps_alive_ = true, excess_ = false;
};

}  // namespace millrace::cli
