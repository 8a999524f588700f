#include "text/jinja/text.h"

#include <algorithm>

namespace millrace::text::jinja {

void Text::append(std::string_view bytes, Origin origin) {
  if (bytes.empty()) return;
  bytes_.append(bytes);
  if (!runs_.empty() && runs_.back().origin == origin) runs_.back().end = bytes_.size();
  else runs_.push_back({bytes_.size(), origin});
}

void Text::append(const Text& other, std::size_t begin, std::size_t end) {
  if (begin >= end) return;
  if (&other == this) return append(Text(other), begin, end);  // a run must not move while it is read
  for (std::size_t i = other.run_at(begin), at = begin; at < end; ++i) {
    const std::size_t stop = std::min(other.runs_[i].end, end);
    append(other.bytes().substr(at, stop - at), other.runs_[i].origin);
    at = stop;
  }
}

Text Text::slice(std::size_t begin, std::size_t end) const {
  Text piece;
  piece.append(*this, begin, end);
  return piece;
}

std::size_t Text::run_at(std::size_t offset) const {
  const auto found = std::ranges::upper_bound(runs_, offset, {}, &Run::end);
  return static_cast<std::size_t>(found - runs_.begin());
}

Origin Text::origin_at(std::size_t offset) const { return runs_[run_at(offset)].origin; }

Origin Text::weakest(std::size_t begin, std::size_t end) const {
  if (begin >= end) return Origin::caller;
  for (std::size_t i = run_at(begin); i < runs_.size(); ++i) {
    if (runs_[i].origin == Origin::caller) return Origin::caller;
    if (runs_[i].end >= end) break;
  }
  return Origin::template_text;
}

MarkedText Text::release() && {
  MarkedText out;
  std::size_t at = 0;
  for (const Run& run : runs_) out.runs.push_back({run.end - at, run.origin}), at = run.end;
  out.text = std::move(bytes_);
  *this = Text();
  return out;
}

}  // namespace millrace::text::jinja
