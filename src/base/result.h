#pragma once

// Result<T>: a value or an Error. For failures that a file, a request, a flag
// or the machine can cause. A bug in our own code is CHECK's job (check.h).

#include <fmt/core.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "base/check.h"

namespace millrace {

/// What the caller can do about it, not where it came from. The server maps each
/// code to one HTTP status; cli/main.cpp to one exit status.
enum class Code {
  invalid_argument,  // the request or flag is wrong; the same call fails again
  not_found,         // no such model, tensor or session
  unsupported,       // valid, but this build or machine cannot do it
  corrupt_data,      // a file breaks its own format
  exhausted,         // no memory, no slot; may succeed later
  cancelled,         // the caller asked us to stop
  deadline,          // the caller's time was up
};

/// Reads as one sentence: what was being done, where, what was found, what was
/// expected. `message` is shown to users as it is: lower case, no final full stop.
struct [[nodiscard]] Error {
  Code code;
  std::string message;
  std::int64_t retry_after_us = 0;  // > 0: the same call is likely to succeed then
  std::string where;                // path of the field that is wrong, "messages[2].role"; empty where none is

  /// Adds the outer context on the way up: error.in("loading 'm.gguf'").
  Error in(const std::string& context) && { return {code, context + ": " + std::move(message), retry_after_us, std::move(where)}; }
};

/// error(Code::corrupt_data, "GGUF version is {}, this build reads 2 and 3", version)
template <class... Args>
Error error(Code code, fmt::format_string<Args...> format, Args&&... args) {
  return {code, fmt::format(format, std::forward<Args>(args)...), 0, {}};
}

/// The same for a field of a request: field_error("messages[2].role", "expected one of system, user; got '{}'", role). The
/// path stands in front of the message, too.
template <class... Args>
Error field_error(std::string where, fmt::format_string<Args...> format, Args&&... args) {
  std::string message = where + ": " + fmt::format(format, std::forward<Args>(args)...);
  return {Code::invalid_argument, std::move(message), 0, std::move(where)};
}

template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::move(value)) {}
  Result(Error error) : state_(std::move(error)) {}

  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }

  const T& value() const& { return check_ok(), *std::get_if<0>(&state_); }
  T& value() & { return check_ok(), *std::get_if<0>(&state_); }
  T&& value() && { return check_ok(), std::move(*std::get_if<0>(&state_)); }
  const T& operator*() const& { return value(); }
  T& operator*() & { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  const T* operator->() const { return &value(); }
  T* operator->() { return &value(); }

  const Error& error() const& { return check_failed_state(), *std::get_if<1>(&state_); }
  Error&& error() && { return check_failed_state(), std::move(*std::get_if<1>(&state_)); }

 private:
  void check_ok() const {
    if (!ok()) check_failed(__FILE__, __LINE__, "Result::ok()", std::get_if<1>(&state_)->message);
  }
  void check_failed_state() const {
    if (ok()) check_failed(__FILE__, __LINE__, "!Result::ok()", "error() of a value");
  }
  std::variant<T, Error> state_;
};

template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Error error) : error_(std::move(error)) {}

  bool ok() const { return !error_; }
  explicit operator bool() const { return ok(); }
  const Error& error() const& { return *error_; }
  Error&& error() && { return *std::move(error_); }

 private:
  std::optional<Error> error_;
};

}  // namespace millrace

/// MILLRACE_TRY(header, read_header(file)): declares `header`, or returns the Error from this function.
#define MILLRACE_TRY(var, expr)                      \
  auto var##_or = (expr);                            \
  if (!var##_or) return std::move(var##_or).error(); \
  auto& var = var##_or.value()

/// The same for a Result<void>, or where the value is not needed.
#define MILLRACE_TRY_VOID(expr) \
  if (auto result_or = (expr); !result_or) return std::move(result_or).error()
