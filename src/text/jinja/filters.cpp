#include "text/jinja/filters.h"

#include <algorithm>
#include <charconv>

#include "text/jinja/params.h"
#include "text/jinja/str_tools.h"

namespace millrace::text::jinja {

const MethodEntry* find_filter(std::string_view name) {
  for (const auto table : {text_filters(), sequence_filters(), select_filters(), value_filters()})
    for (const MethodEntry& entry : table)
      if (name == entry.name) return &entry;
  return nullptr;
}

Value apply_filter(Workspace& ws, const MethodEntry* filter, std::string_view name, const Value& subject, Args& args) {
  if (filter == nullptr) raise("No filter named '{}' found.", name);
  if (filter->run == nullptr) raise("the filter '{}' exists in Jinja2 but not in this engine", name);
  ws.spend();
  return filter->run(ws, subject, args);
}

AttributePath::AttributePath(Workspace& ws, const Value& path) {
  if (path.is_none()) return;
  if (!path.is_string()) {
    parts_.push_back(path);
    return;
  }
  std::size_t begin = 0;
  for (bool more = true; more;) {
    const std::size_t dot = path.bytes().find('.', begin);
    more = dot != std::string_view::npos;
    const std::size_t end = more ? dot : path.bytes().size();
    const std::string_view part = path.bytes().substr(begin, end - begin);
    std::int64_t index = 0;
    const auto [stop, error] = std::from_chars(part.data(), part.data() + part.size(), index);
    const bool number = !part.empty() && part[0] != '-' && error == std::errc() && stop == part.data() + part.size();
    parts_.push_back(number ? Value(index) : ws.text(path.text().slice(begin, end)));
    begin = end + 1;
  }
}

Value AttributePath::of(Workspace& ws, const Value& start) const {
  Value at = start;
  for (const Value& part : parts_) ws.spend(), at = item(ws, at, part);
  return at;
}

Value ignoring_case(Workspace& ws, const Value& value, bool case_sensitive) {
  return !case_sensitive && value.is_string() ? in_case(ws, value, Case::lower) : value;
}

}  // namespace millrace::text::jinja
