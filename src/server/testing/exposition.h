#pragma once

// A strict reader of Prometheus' text format 0.0.4, for tests: what Prometheus itself lets pass and what O11.3 asks beyond
// it (one HELP and TYPE per family before its samples, counters in _total, buckets that agree with their count).

#include <cmath>
#include <cstdlib>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/utf8.h"

namespace millrace::server::testing {

struct Exposition {
  std::map<std::string, std::string> types;     // by family
  std::map<std::string, double> samples;        // by name and labels as they stand: a{b="c"}
  std::vector<std::string> complaints;          // empty: right

  double at(const std::string& sample) const {
    const auto found = samples.find(sample);
    return found == samples.end() ? std::nan("") : found->second;
  }
};

inline bool is_metric_name(std::string_view name, bool colons) {
  if (name.empty() || (name[0] >= '0' && name[0] <= '9')) return false;
  for (const char c : name)
    if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || (colons && c == ':'))) return false;
  return true;
}

class ExpositionReader {
 public:
  explicit ExpositionReader(bool colons) : colons_(colons) {}

  Exposition read(std::string_view text) {
    if (text.empty() || text.back() != '\n') complain("no final newline");
    if (!is_valid_utf8(text)) complain("no UTF-8");
    while (!text.empty()) {
      const auto end = std::min(text.find('\n'), text.size());
      line(std::string(text.substr(0, end)));
      text.remove_prefix(std::min(end + 1, text.size()));
    }
    for (const auto& [series, buckets] : buckets_) check_buckets(series, buckets);
    return std::move(out_);
  }

 private:
  void complain(const std::string& what) { out_.complaints.push_back(what); }

  void line(const std::string& line) {
    if (line.empty()) return complain("empty line");
    if (line.starts_with("# HELP ")) {
      const std::string name = line.substr(7, line.find(' ', 7) - 7);
      if (!helped_.insert(name).second) complain("two HELPs: " + name);
      if (line.size() <= 8 + name.size()) complain("empty HELP: " + name);
      family_ = name;
    } else if (line.starts_with("# TYPE ")) {
      const auto blank = line.find(' ', 7);
      const std::string name = line.substr(7, blank - 7), type = blank == line.npos ? "" : line.substr(blank + 1);
      if (!is_metric_name(name, colons_)) complain("name: " + name);
      if (name != family_) complain("TYPE without its HELP before it: " + name);
      if (type != "counter" && type != "gauge" && type != "histogram") complain("type: " + line);
      if (!out_.types.emplace(name, type).second) complain("two TYPEs: " + name);
      if ((type == "counter") != name.ends_with("_total")) complain("counters, and only they, end in _total: " + name);
    } else if (line[0] == '#') {
      complain("comment: " + line);
    } else {
      sample(line);
    }
  }

  void sample(const std::string& line) {
    std::size_t i = line.find_first_of("{ ");
    if (i == line.npos) return complain("no value: " + line);
    const std::string name = line.substr(0, i);
    std::string le;
    std::string other_labels;
    if (line[i] == '{') {
      std::set<std::string> seen;
      ++i;
      while (i < line.size() && line[i] != '}') {
        const auto equals = line.find('=', i);
        if (equals == line.npos || equals + 1 >= line.size() || line[equals + 1] != '"') return complain("label: " + line);
        const std::string label = line.substr(i, equals - i);
        if (!is_metric_name(label, false) || !seen.insert(label).second) complain("label: " + line);
        std::string value;
        for (i = equals + 2; i < line.size() && line[i] != '"'; ++i) {
          if (line[i] == '\\') {
            ++i;
            if (i >= line.size() || (line[i] != '\\' && line[i] != 'n' && line[i] != '"')) return complain("escape: " + line);
          }
          value += line[i];
        }
        if (i >= line.size()) return complain("open label: " + line);
        ++i;
        if (i < line.size() && line[i] == ',') ++i;
        if (label == "le") le = value;
        else other_labels += label + "=" + value + ",";
      }
      if (i >= line.size()) return complain("open labels: " + line);
      ++i;
    }
    if (i >= line.size() || line[i] != ' ') return complain("no blank before the value: " + line);
    const std::string word = line.substr(i + 1);
    char* end = nullptr;
    const double value = word == "+Inf" ? HUGE_VAL : std::strtod(word.c_str(), &end);
    if (word.empty() || (word != "+Inf" && *end != '\0') || !std::isfinite(value)) return complain("value: " + line);
    if (!out_.samples.emplace(line.substr(0, i), value).second) complain("twice: " + line);

    const auto type = out_.types.find(family_);
    if (type == out_.types.end()) return complain("no TYPE before: " + line);
    if (type->second == "histogram") {
      if (name == family_ + "_bucket") buckets_[family_ + "{" + other_labels].push_back({le, value});
      else if (name == family_ + "_count") counts_[family_ + "{" + other_labels] = value;
      else if (name != family_ + "_sum") complain("not of its family: " + line);
    } else if (name != family_) {
      complain("not of its family: " + line);
    } else if (type->second == "counter" && value < 0) {
      complain("counter below 0: " + line);
    }
  }

  void check_buckets(const std::string& series, const std::vector<std::pair<std::string, double>>& buckets) {
    double bound = -HUGE_VAL, count = 0;
    for (const auto& [le, n] : buckets) {
      const double b = le == "+Inf" ? HUGE_VAL : std::strtod(le.c_str(), nullptr);
      if (!(b > bound)) complain("bounds do not rise: " + series);
      if (n < count) complain("buckets are not cumulative: " + series);
      bound = b, count = n;
    }
    if (bound != HUGE_VAL) complain("no +Inf: " + series);
    if (const auto found = counts_.find(series); found == counts_.end() || found->second != count) complain("+Inf is not _count: " + series);
  }

  const bool colons_;
  Exposition out_;
  std::string family_;
  std::set<std::string> helped_;
  std::map<std::string, std::vector<std::pair<std::string, double>>> buckets_;
  std::map<std::string, double> counts_;
};

inline Exposition read_exposition(std::string_view text, bool colons = false) { return ExpositionReader(colons).read(text); }

}  // namespace millrace::server::testing
