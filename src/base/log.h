#pragma once

// One line per event, key=value, units in the key:
//   log_info("model loaded", {{"file", path}, {"layers", 30}, {"ms", 412}});
// prints "model loaded  file=m.gguf layers=30 ms=412" to standard error; or, as JSON, one object
// {"time":"...","level":"info","event":"model loaded","file":"m.gguf","layers":30,"ms":412}. A line that cannot be written
// (full disk, closed pipe) is lost, and nothing else happens. A line is written before its call returns, unless the log has a
// thread: then nobody who logs ever waits (log_queue.h). The library behind it is spdlog.

#include <fmt/core.h>

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace millrace {

struct LogField {
  std::string_view key;  // a literal: it is printed as it is
  std::string value;
  bool is_literal = false;  // a number or a truth value: JSON has no quotes around it

  template <class T>
  LogField(std::string_view key, const T& value)
      : key(key), value(fmt::format("{}", value)), is_literal(std::is_arithmetic_v<T> && !std::is_same_v<T, char>) {}
};

enum class LogLevel { debug, info, warn, error, off };

/// Events below `level` are dropped. Default: warn, so that commands print their answer only.
void set_log_level(LogLevel level);
bool logs(LogLevel level);

enum class LogFormat { text, json };
void set_log_json(bool json);
LogFormat log_format();

/// From now on a thread of its own writes, so that a standard error which nobody reads stops the log and nothing else: lines
/// that find no room are dropped and counted. The thread inherits the caller's signal mask.
void start_log_thread();

/// At the end of a program: waits until all lines are out, or for about half a second in which none goes out; then false.
bool end_log();

std::uint64_t log_lines_dropped();

/// Whole lines for a person, as they are and at any level, in order with the events.
void log_text(std::string text);

void log_event(LogLevel level, std::string_view event, const std::vector<LogField>& fields);

inline void log_debug(std::string_view event, const std::vector<LogField>& fields = {}) { log_event(LogLevel::debug, event, fields); }
inline void log_info(std::string_view event, const std::vector<LogField>& fields = {}) { log_event(LogLevel::info, event, fields); }
inline void log_warn(std::string_view event, const std::vector<LogField>& fields = {}) { log_event(LogLevel::warn, event, fields); }
inline void log_error(std::string_view event, const std::vector<LogField>& fields = {}) { log_event(LogLevel::error, event, fields); }

/// The line of an event without time and level: for log_event, and for tests.
std::string log_line(LogFormat format, std::string_view event, const std::vector<LogField>& fields);

}  // namespace millrace
