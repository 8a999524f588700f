#pragma once

// The variable `loop` of a for statement: where the iteration stands, looking one item ahead only when asked.

#include <functional>
#include <optional>
#include <string_view>

#include "text/jinja/compare.h"

namespace millrace::text::jinja {

struct Statement;
struct Scope;

struct Loop : Object {
  /// `pull`: the next item that passes the loop's filter. `sized`: no filter, so that len(over) is the loop's length.
  Loop(const Value& o, bool s, std::function<bool(Value&)> p, std::int64_t depth)
      : Object(Kind::loop), over(o), sized(s), pull(std::move(p)), depth0(depth) {}

  /// Steps on; false at the end.
  bool next(Value& item);

  /// Whether there is an item after this one; it is kept for next().
  bool peek();
  std::int64_t length(Workspace& ws);

  Value over;
  bool sized;
  std::function<bool(Value&)> pull;
  bool running = false;
  std::int64_t depth0;
  std::int64_t index0 = -1;
  std::optional<Value> before, current, after, last_changed;
  bool at_end = false;
  std::optional<std::int64_t> known_length;
  const Statement* statement = nullptr;  // of a recursive loop: what loop(...) runs, and where
  Scope* scope = nullptr;

 private:
  bool pull_next(Value& item);
};

/// loop.index and so on; nullopt when there is no such attribute.
std::optional<Value> loop_attribute(Workspace& ws, Loop& loop, std::string_view name);

}  // namespace millrace::text::jinja
