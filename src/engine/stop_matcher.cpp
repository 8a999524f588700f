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

StopMatcher::StopMatcher(std::span<const std::string> stops, Ends ends) : ends_(ends) {
  for (const std::string& text : stops) {
    Stop stop{text, {0}, 0};
    while (stop.fallback.size() < text.size())
      stop.fallback.push_back(advance(text, stop.fallback, stop.fallback.back(), text[stop.fallback.size()]));
    stops_.push_back(std::move(stop));
  }
}

std::string StopMatcher::push(std::string_view piece, Match match) {
  if (matched()) return {};
  for (const char byte : piece) {
    held_ += byte;
    std::size_t cut = 0;
    for (std::size_t i = 0; i < stops_.size(); ++i) {
      Stop& stop = stops_[i];
      stop.seen = advance(stop.text, stop.fallback, stop.seen, byte);
      if (stop.seen < stop.text.size()) continue;
      if (match == Match::counts && stop.seen > cut) cut = stop.seen, matched_ = static_cast<int>(i);
      stop.seen = stop.fallback.back();  // where another one may have begun
    }
    if (cut == 0) continue;
    if (ends_ == Ends::before_match) held_.resize(held_.size() - cut);
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
