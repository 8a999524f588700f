#include "cli/load_sse.h"

#include <fmt/format.h>

namespace millrace::cli {
namespace {

constexpr std::size_t kMostEventBytes = 16 << 20;
constexpr std::string_view kMark = "\xEF\xBB\xBF";

}  // namespace

std::string SseParser::feed(std::string_view bytes, const Sink& sink) {
  while (!bytes.empty()) {
    if (after_cr_) {
      after_cr_ = false;
      if (bytes[0] == '\n') {
        bytes.remove_prefix(1);
        continue;
      }
    }
    const auto end = bytes.find_first_of("\r\n");
    if (end == bytes.npos) line_.append(bytes);
    if (line_.size() + data_.size() > kMostEventBytes) return fmt::format("an event of over {} bytes", kMostEventBytes);
    if (end == bytes.npos) return "";
    after_cr_ = bytes[end] == '\r';
    if (line_.empty()) {
      take_line(bytes.substr(0, end), sink);
    } else {
      line_.append(bytes.substr(0, end));
      take_line(line_, sink);
      line_.clear();
    }
    bytes.remove_prefix(end + 1);
  }
  return "";
}

void SseParser::take_line(std::string_view line, const Sink& sink) {
  if (at_start_ && line.starts_with(kMark)) line.remove_prefix(kMark.size());
  at_start_ = false;
  if (line.empty()) {
    if (has_data_) sink(data_);
    data_.clear(), has_data_ = false;
    return;
  }
  if (!line.starts_with("data") || (line.size() > 4 && line[4] != ':')) return;  // comments, and fields that say nothing here
  line.remove_prefix(line.size() > 4 ? 5 : 4);
  if (line.starts_with(' ')) line.remove_prefix(1);
  if (has_data_) data_ += '\n';
  data_.append(line), has_data_ = true;
}

}  // namespace millrace::cli
