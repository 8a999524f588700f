#pragma once

// One line per event, key=value, units in the key:
//   log_info("model loaded", {{"file", path}, {"layers", 30}, {"ms", 412}});
// prints "model loaded  file=m.gguf layers=30 ms=412" to standard error. The library behind it is spdlog.

#include <fmt/core.h>

#include <initializer_list>
#include <string>
#include <string_view>

namespace millrace {

struct LogField {
  std::string_view key;
  std::string value;

  template <class T>
  LogField(std::string_view key, const T& value) : key(key), value(fmt::format("{}", value)) {}
};

enum class LogLevel { debug, info, warn, error, off };

/// Events below `level` are dropped. Default: warn, so that commands print their answer only.
void set_log_level(LogLevel level);

void log_event(LogLevel level, std::string_view event, std::initializer_list<LogField> fields);

inline void log_debug(std::string_view event, std::initializer_list<LogField> fields = {}) { log_event(LogLevel::debug, event, fields); }
inline void log_info(std::string_view event, std::initializer_list<LogField> fields = {}) { log_event(LogLevel::info, event, fields); }
inline void log_warn(std::string_view event, std::initializer_list<LogField> fields = {}) { log_event(LogLevel::warn, event, fields); }
inline void log_error(std::string_view event, std::initializer_list<LogField> fields = {}) { log_event(LogLevel::error, event, fields); }

}  // namespace millrace
