#include "cli/load_http_parser.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "base/ascii.h"

namespace millrace::cli {
namespace {

constexpr std::size_t kMostHeadBytes = 64 << 10;  // of head, chunk sizes and trailer: real ones have a few hundred

std::string_view trimmed(std::string_view text) {
  const auto first = text.find_first_not_of(" \t");
  return first == text.npos ? "" : text.substr(first, text.find_last_not_of(" \t") + 1 - first);
}

}  // namespace

const std::string* HttpAnswerParser::header(std::string_view name) const {
  for (const auto& [known, value] : headers_)
    if (known == name) return &value;
  return nullptr;
}

std::string HttpAnswerParser::feed(std::string_view bytes, std::string& body) {
  while (!bytes.empty()) {
    if (state_ == State::done) return excess_ = true, "";
    if (state_ == State::until_close) return body.append(bytes), "";
    if (state_ == State::counted || state_ == State::chunk_data) {
      const std::size_t n = std::min<std::uint64_t>(left_, bytes.size());
      body.append(bytes.substr(0, n));
      bytes.remove_prefix(n);
      left_ -= n;
      if (left_ == 0) state_ = state_ == State::counted ? State::done : State::chunk_end;
      continue;
    }
    const auto end = bytes.find('\n');
    const std::size_t n = end == bytes.npos ? bytes.size() : end + 1;
    head_bytes_ = state_ == State::chunk_size || state_ == State::chunk_end ? line_.size() + n : head_bytes_ + n;
    if (head_bytes_ > kMostHeadBytes) return fmt::format("a head of over {} bytes", kMostHeadBytes);
    line_.append(bytes.substr(0, n));
    bytes.remove_prefix(n);
    if (end == bytes.npos) return "";
    line_.pop_back();
    if (line_.ends_with('\r')) line_.pop_back();
    std::string wrong = take_line();
    line_.clear();
    if (!wrong.empty()) return wrong;
  }
  return "";
}

std::string HttpAnswerParser::close() {
  keeps_alive_ = false;
  if (state_ == State::until_close) state_ = State::done;
  if (state_ == State::done) return "";
  if (state_ == State::status_line) return "the connection was closed before an answer";
  return state_ == State::head ? "the connection was closed within the head" : "the connection was closed within the answer";
}

std::string HttpAnswerParser::take_line() {
  switch (state_) {
    case State::status_line: return take_status_line();
    case State::head: return line_.empty() ? end_head() : take_header();
    case State::chunk_size: return take_chunk_size();
    case State::chunk_end:
      if (!line_.empty()) return "a chunk that is longer than its size";
      return state_ = State::chunk_size, "";
    case State::trailer:
      if (line_.empty()) state_ = State::done;
      return "";
    default: return "";
  }
}

std::string HttpAnswerParser::take_status_line() {
  const std::string_view line = line_;
  const bool is_http = line.starts_with("HTTP/1.") && line.size() >= 12 && line[8] == ' ';
  if (!is_http || std::from_chars(line.data() + 9, line.data() + 12, status_).ptr != line.data() + 12)
    return fmt::format("no HTTP/1.1 answer: '{}'", line.substr(0, 40));
  keeps_alive_ = line[7] != '0';
  return state_ = State::head, "";
}

std::string HttpAnswerParser::take_header() {
  const std::string_view line = line_;
  const auto colon = line.find(':');
  if (colon == line.npos) return fmt::format("a header without a colon: '{}'", line.substr(0, 40));
  headers_.emplace_back(ascii_lower(line.substr(0, colon)), trimmed(line.substr(colon + 1)));
  return "";
}

std::string HttpAnswerParser::end_head() {
  if (status_ >= 100 && status_ < 200) {  // "100 Continue": the answer itself is still to come
    headers_.clear();
    return state_ = State::status_line, "";
  }
  if (const std::string* connection = header("connection")) keeps_alive_ = ascii_lower(*connection) != "close" && (keeps_alive_ || ascii_lower(*connection) == "keep-alive");
  if (status_ == 204 || status_ == 304) return state_ = State::done, "";
  if (const std::string* coding = header("transfer-encoding")) {
    if (ascii_lower(*coding) != "chunked") return fmt::format("a transfer encoding '{}'", coding->substr(0, 40));
    return state_ = State::chunk_size, "";
  }
  const std::string* length = header("content-length");
  if (!length) return state_ = State::until_close, "";
  const char* end = length->data() + length->size();
  if (const auto [stop, failure] = std::from_chars(length->data(), end, left_); failure != std::errc{} || stop != end)
    return fmt::format("a content length '{}'", length->substr(0, 40));
  return state_ = left_ > 0 ? State::counted : State::done, "";
}

std::string HttpAnswerParser::take_chunk_size() {
  const std::string_view size = trimmed(std::string_view(line_).substr(0, line_.find(';')));  // what follows a ';' is an extension
  const auto [stop, failure] = std::from_chars(size.data(), size.data() + size.size(), left_, 16);
  if (failure != std::errc{} || stop != size.data() + size.size()) return fmt::format("a chunk size '{}'", size.substr(0, 40));
  if (left_ == 0) head_bytes_ = 0;  // the trailer's own
  return state_ = left_ > 0 ? State::chunk_data : State::trailer, "";
}

}  // namespace millrace::cli
