#include "base/log.h"

#include <spdlog/spdlog.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <memory>

#include "base/log_queue.h"
#include "base/utf8.h"

namespace millrace {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kMostQueuedBytes = 1 << 20;  // some 5,000 lines
constexpr std::chrono::milliseconds kStill = 500ms, kMostFlush = 2s;  // of a reader at the end; a busy machine may leave our thread alone for a while

std::atomic<LogFormat> g_format = LogFormat::text;

void set_pattern(spdlog::logger& logger, LogFormat format) {
  logger.set_pattern(format == LogFormat::json ? R"({"time":"%Y-%m-%dT%H:%M:%S.%eZ","level":"%l",%v})" : "%Y-%m-%dT%H:%M:%S.%eZ %l %v",
                     spdlog::pattern_time_type::utc);
}

/// Left behind at the end of the program: its thread may be in write() for longer than that.
const std::shared_ptr<LogQueue>& queue() {
  static const auto& made = *new std::shared_ptr<LogQueue>(std::make_shared<LogQueue>(STDERR_FILENO, kMostQueuedBytes));
  return made;
}

spdlog::logger& logger() {
  static const auto& made = *new std::shared_ptr<spdlog::logger>([] {
    auto l = std::make_shared<spdlog::logger>("millrace", queue());
    set_pattern(*l, LogFormat::text);
    l->set_level(spdlog::level::warn);
    // A sink that fails is standard error itself: there is nobody left to tell.
    l->set_error_handler([](const std::string&) {});
    return l;
  }());
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

/// As in JSON: what a client sends can neither break a line nor command a terminal.
void append_quoted(std::string& out, std::string_view value) {
  out += '"';
  const std::string repaired = is_valid_utf8(value) ? std::string() : repair_utf8(value);
  for (const char c : repaired.empty() ? value : std::string_view(repaired)) {
    if (c == '"' || c == '\\') out += '\\', out += c;
    else if (c == '\n') out += "\\n";
    else if (c == '\r') out += "\\r";
    else if (c == '\t') out += "\\t";
    else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) out += fmt::format("\\u{:04x}", static_cast<int>(c));
    else out += c;
  }
  out += '"';
}

bool stands_alone(std::string_view value) {
  if (value.empty()) return false;
  for (const char c : value)
    if (c <= ' ' || c >= 0x7F || c == '"' || c == '=' || c == '\\') return false;
  return true;
}

}  // namespace

void set_log_level(LogLevel level) { logger().set_level(level_of(level)); }

bool logs(LogLevel level) { return logger().should_log(level_of(level)); }

void set_log_json(bool json) {
  g_format = json ? LogFormat::json : LogFormat::text;
  set_pattern(logger(), g_format);
}

LogFormat log_format() { return g_format; }

void start_log_thread() {
  logger();
  queue()->start();
}

bool end_log() { return queue()->end(kStill, kMostFlush); }

std::uint64_t log_lines_dropped() { return queue()->dropped(); }

void log_text(std::string text) { queue()->add(std::move(text)); }

std::string log_line(LogFormat format, std::string_view event, const std::vector<LogField>& fields) {
  std::string line;
  if (format == LogFormat::text) {
    line = event;
    if (!fields.empty()) line += ' ';
    for (const LogField& field : fields) {
      line += fmt::format(" {}=", field.key);
      if (stands_alone(field.value)) line += field.value;
      else append_quoted(line, field.value);
    }
    return line;
  }
  line = R"("event":)";
  append_quoted(line, event);
  for (const LogField& field : fields) {
    line += fmt::format(",\"{}\":", field.key);
    // "nan" and "inf" are no JSON.
    const bool is_json = field.is_literal && field.value != "nan" && field.value != "-nan" && field.value != "inf" && field.value != "-inf";
    if (is_json) line += field.value;
    else append_quoted(line, field.value);
  }
  return line;
}

void log_event(LogLevel level, std::string_view event, const std::vector<LogField>& fields) {
  if (!logs(level)) return;
  logger().log(level_of(level), spdlog::string_view_t(log_line(g_format, event, fields)));
}

}  // namespace millrace
