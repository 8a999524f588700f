#include "text/added_tokens.h"

#include <algorithm>

#include "base/utf8.h"
#include "text/unicode.h"

namespace millrace::text {
namespace {

/// The character before / after a place; nothing at the ends of the text and next to broken bytes.
std::optional<Utf8Step> character_after(std::string_view text, std::size_t at) {
  if (at >= text.size()) return std::nullopt;
  const Utf8Step step = decode_utf8(text.substr(at));
  if (step.kind != Utf8Step::Kind::character) return std::nullopt;
  return step;
}

std::optional<Utf8Step> character_before(std::string_view text, std::size_t at) {
  for (std::size_t length = 1; length <= std::min<std::size_t>(4, at); ++length) {
    const auto step = character_after(text, at - length);
    if (step && static_cast<std::size_t>(step->length) == length) return step;
  }
  return std::nullopt;
}

bool is_word(const std::optional<Utf8Step>& step) { return step && is_word_character(step->code_point); }
bool is_blank(const std::optional<Utf8Step>& step) { return step && is_white_space(step->code_point); }

std::size_t first_of_blanks_before(std::string_view text, std::size_t least, std::size_t at) {
  while (at > least) {
    const auto step = character_before(text, at);
    if (!is_blank(step)) break;
    at -= static_cast<std::size_t>(step->length);
  }
  return std::max(at, least);
}

std::size_t end_of_blanks_after(std::string_view text, std::size_t at) {
  for (auto step = character_after(text, at); is_blank(step); step = character_after(text, at))
    at += static_cast<std::size_t>(step->length);
  return at;
}

}  // namespace

ControlRanges ControlRanges::all(std::size_t size) {
  ControlRanges ranges;
  ranges.ranges_.push_back({0, size});
  return ranges;
}

ControlRanges ControlRanges::of(const MarkedText& text) {
  ControlRanges ranges;
  std::size_t at = 0;
  for (const MarkedText::Run& run : text.runs) {
    if (run.origin == Origin::template_text) {
      if (!ranges.ranges_.empty() && ranges.ranges_.back().end == at) ranges.ranges_.back().end += run.length;
      else ranges.ranges_.push_back({at, at + run.length});
    }
    at += run.length;
  }
  return ranges;
}

bool ControlRanges::contain(std::size_t begin, std::size_t end) const {
  const auto after = std::ranges::upper_bound(ranges_, begin, {}, &Range::begin);
  return after != ranges_.begin() && end <= std::prev(after)->end;
}

void AddedTokens::add(Entry entry) {
  if (entry.text.empty()) return;
  std::uint32_t node = 0;
  for (const char byte : entry.text) {
    const auto next = static_cast<std::uint32_t>(entry_of_node_.size());
    const auto [found, is_new] = edges_.emplace(edge(node, byte), next);
    if (is_new) entry_of_node_.push_back(-1);
    node = found->second;
  }
  if (entry_of_node_[node] >= 0) return;
  entry_of_node_[node] = static_cast<std::int32_t>(entries_.size());
  begins_[static_cast<unsigned char>(entry.text.front())] = true;
  entries_.push_back(std::move(entry));
}

const AddedTokens::Entry* AddedTokens::longest_at(std::string_view text, std::size_t at,
                                                  const ControlRanges& control) const {
  const Entry* longest = nullptr;
  std::uint32_t node = 0;
  for (std::size_t end = at; end < text.size();) {
    const auto next = edges_.find(edge(node, text[end]));
    if (next == edges_.end()) break;
    node = next->second;
    ++end;
    if (entry_of_node_[node] < 0) continue;
    const Entry& entry = entries_[static_cast<std::size_t>(entry_of_node_[node])];
    if (!entry.special || control.contain(at, end)) longest = &entry;
  }
  return longest;
}

std::vector<AddedTokens::Part> AddedTokens::split(std::string_view text, const ControlRanges& control) const {
  std::vector<Part> parts;
  std::size_t done = 0;  // everything before is in `parts`
  for (std::size_t at = 0; at < text.size();) {
    const Entry* entry = begins_[static_cast<unsigned char>(text[at])] ? longest_at(text, at, control) : nullptr;
    if (!entry) {
      ++at;
      continue;
    }
    std::size_t begin = at, end = at + entry->text.size();
    at = end;
    if (entry->single_word && (is_word(character_before(text, begin)) || is_word(character_after(text, end)))) continue;
    if (entry->lstrip) begin = first_of_blanks_before(text, done, begin);
    if (entry->rstrip) at = end = end_of_blanks_after(text, end);
    if (begin > done) parts.push_back({done, begin, std::nullopt});
    parts.push_back({begin, end, entry->token});
    done = end;
  }
  if (done < text.size()) parts.push_back({done, text.size(), std::nullopt});
  return parts;
}

}  // namespace millrace::text
