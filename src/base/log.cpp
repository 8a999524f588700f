#include "base/log.h"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

namespace millrace {
namespace {

spdlog::logger& logger() {
  static const auto made = [] {
    auto l = spdlog::stderr_logger_mt("millrace");
    l->set_pattern("%Y-%m-%dT%H:%M:%S.%eZ %l %v", spdlog::pattern_time_type::utc);
    l->set_level(spdlog::level::warn);
    return l;
  }();
  return *made;
}

spdlog::level::level_enum level_of(LogLevel level) {
  switch (level) {
    case LogLevel::debug: return spdlog::level::debug;
    case LogLevel::info: return spdlog::level::info;
    case LogLevel::warn: return spdlog::level::warn;
    case LogLevel::error: return spdlog::level::err;
    case LogLevel::off: return spdlog::level::off;
  }
  return spdlog::level::off;
}

/// Values with blanks, quotes or line breaks are quoted, so that a line stays one line and parseable.
std::string quoted_if_needed(const std::string& value) {
  if (!value.empty() && value.find_first_of(" \"=\n\r\t") == std::string::npos) return value;
  std::string out = "\"";
  for (const char c : value) {
    if (c == '"' || c == '\\') out += '\\', out += c;
    else if (c == '\n') out += "\\n";
    else if (c == '\r') out += "\\r";
    else if (c == '\t') out += "\\t";
    else out += c;
  }
  return out + '"';
}

}  // namespace

void set_log_level(LogLevel level) { logger().set_level(level_of(level)); }

void log_event(LogLevel level, std::string_view event, std::initializer_list<LogField> fields) {
  if (!logger().should_log(level_of(level))) return;
  std::string line(event);
  if (fields.size() > 0) line += ' ';
  for (const LogField& f : fields) line += fmt::format(" {}={}", f.key, quoted_if_needed(f.value));
  logger().log(level_of(level), line);
}

}  // namespace millrace
