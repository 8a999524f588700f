#include "text/jinja/loop.h"

#include <memory>

#include "text/jinja/raise.h"

namespace millrace::text::jinja {
namespace {

Value cycle(Workspace&, const Value& self, Args& args) {
  if (args.positional.empty()) raise("no items for cycling given");
  return args.positional[static_cast<std::size_t>(self.as<Loop>().index0) % args.positional.size()];
}

Value changed(Workspace& ws, const Value& self, Args& args) {
  Loop& loop = self.as<Loop>();
  const Value now = ws.tuple(args.positional);
  if (loop.last_changed && equal(ws, *loop.last_changed, now)) return Value(false);
  loop.last_changed = now;
  return Value(true);
}

}  // namespace

bool Loop::pull_next(Value& item) {
  if (at_end) return false;
  const Running guard(running);
  at_end = !pull(item);
  return !at_end;
}

bool Loop::next(Value& item) {
  before = std::move(current);
  if (after) item = std::move(*after), after.reset();
  else if (!pull_next(item)) return false;
  ++index0;
  current = item;
  return true;
}

bool Loop::peek() {
  if (after) return true;
  Value item;
  if (!pull_next(item)) return false;
  after = item;
  return true;
}

std::int64_t Loop::length(Workspace& ws) {
  if (known_length) return *known_length;
  if (sized && has_length(over)) return *(known_length = length_of(over));
  // Like Python's: the rest is read at once and given from there.
  auto rest = std::make_shared<std::vector<Value>>();
  for (Value item; pull_next(item);) rest->push_back(item), ws.hold(sizeof(Value));
  at_end = false;
  known_length = static_cast<std::int64_t>(rest->size()) + index0 + 1 + (after ? 1 : 0);
  pull = [rest, at = std::size_t{0}](Value& item) mutable {
    if (at == rest->size()) return false;
    item = (*rest)[at++];
    return true;
  };
  return *known_length;
}

std::optional<Value> loop_attribute(Workspace& ws, Loop& loop, std::string_view name) {
  if (name == "index0") return Value(loop.index0);
  if (name == "index") return Value(loop.index0 + 1);
  if (name == "first") return Value(loop.index0 == 0);
  if (name == "last") return Value(!loop.peek());
  if (name == "length") return Value(loop.length(ws));
  if (name == "revindex") return Value(loop.length(ws) - loop.index0);
  if (name == "revindex0") return Value(loop.length(ws) - loop.index0 - 1);
  if (name == "depth") return Value(loop.depth0 + 1);
  if (name == "depth0") return Value(loop.depth0);
  if (name == "previtem") return loop.index0 > 0 && loop.before ? *loop.before : ws.undefined("there is no previous item");
  if (name == "nextitem") return loop.peek() ? *loop.after : ws.undefined("there is no next item");
  if (name == "cycle") return Value(&ws.make<Method>(0, Value(&loop), "cycle", cycle));
  if (name == "changed") return Value(&ws.make<Method>(0, Value(&loop), "changed", changed));
  return std::nullopt;
}

}  // namespace millrace::text::jinja
