#include "engine/stop_matcher.h"

#include <algorithm>
#include <utility>

namespace millrace::engine {
namespace {

/// One byte further in a Knuth-Morris-Pratt automaton: the new length of the matched prefix.
std::size_t advance(std::string_view text, std::span<const std::size_t> fallback, std::size_t seen, char byte) {
  while (seen > 0 && text[seen] != byte) seen = fallback[seen - 1];
  return seen + (text[seen] == byte ? 1 : 0);
}

}  // namespace

StopMatcher::StopMatcher(std::span<const std::string> stops) {
  for (const std::string& text : stops) {
    Stop stop{text, {0}, 0};
    while (stop.fallback.size() < text.size())
      stop.fallback.push_back(advance(text, stop.fallback, stop.fallback.back(), text[stop.fallback.size()]));
    stops_.push_back(std::move(stop));
  }
}

std::string StopMatcher::push(std::string_view piece) {
  if (matched_) return {};
  for (const char byte : piece) {
    held_ += byte;
    std::size_t cut = 0;
    for (Stop& stop : stops_) {
      stop.seen = advance(stop.text, stop.fallback, stop.seen, byte);
      if (stop.seen == stop.text.size()) cut = std::max(cut, stop.seen);
    }
    if (cut == 0) continue;
    matched_ = true;
    held_.resize(held_.size() - cut);
    return std::exchange(held_, {});
  }
  std::size_t hold = 0;
  for (const Stop& stop : stops_) hold = std::max(hold, stop.seen);
  std::string safe = held_.substr(0, held_.size() - hold);
  held_.erase(0, safe.size());
  return safe;
}

std::string StopMatcher::finish() { return std::exchange(held_, {}); }

}  // namespace millrace::engine
