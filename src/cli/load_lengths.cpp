#include "cli/load_lengths.h"

#include <charconv>
#include <vector>

namespace millrace::cli {
namespace {

constexpr int kMost = 1 << 20;  // beyond any context, and a prompt of a few MiB

std::vector<std::string_view> split_at_colons(std::string_view text) {
  std::vector<std::string_view> parts;
  for (std::size_t colon; (colon = text.find(':')) != text.npos; text.remove_prefix(colon + 1)) parts.push_back(text.substr(0, colon));
  parts.push_back(text);
  return parts;
}

template <class T>
bool read(std::string_view text, T least, T most, T& out) {
  const auto [stop, failure] = std::from_chars(text.data(), text.data() + text.size(), out);
  return failure == std::errc{} && stop == text.data() + text.size() && out >= least && out <= most;
}

}  // namespace

int Lengths::draw(Draws& draws) const {
  switch (kind) {
    case Kind::fixed: return least;
    case Kind::uniform: return least + static_cast<int>(draws.below(static_cast<unsigned>(most - least + 1)));
    case Kind::lognormal: return draws.length(median, spread, least, most);
  }
  return least;
}

Result<Lengths> parse_lengths(std::string_view text) {
  const auto parts = split_at_colons(text);
  Lengths out;
  if (parts.size() == 1 && read(parts[0], 1, kMost, out.least)) return out.most = out.least, out;
  if (parts[0] == "uniform" && parts.size() == 3 && read(parts[1], 1, kMost, out.least) && read(parts[2], out.least, kMost, out.most))
    return out.kind = Lengths::Kind::uniform, out;
  if (parts[0] == "lognormal" && (parts.size() == 3 || parts.size() == 5) && read(parts[1], 1.0, double{kMost}, out.median) && read(parts[2], 0.0, 10.0, out.spread)) {
    out.kind = Lengths::Kind::lognormal, out.most = kMost;
    if (parts.size() == 3 || (read(parts[3], 1, kMost, out.least) && read(parts[4], out.least, kMost, out.most))) return out;
  }
  return error(Code::invalid_argument, "expected a length of 1 to {}, uniform:LEAST:MOST or lognormal:MEDIAN:SPREAD[:LEAST:MOST], got '{}'", kMost, text);
}

}  // namespace millrace::cli
