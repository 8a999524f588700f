#include "text/jinja/globals.h"

#include <ctime>

#include "text/jinja/params.h"
#include "text/jinja/print.h"

namespace millrace::text::jinja {
namespace {

constexpr std::int64_t kMaxRange = 100'000;  // Jinja2's sandbox

Value make_range(Workspace& ws, const Value&, Args& args) {
  const Params p("range", args, {"", "", ""}, 1);
  const std::int64_t start = p.has(1) ? p.integer(0, 0) : 0, stop = p.has(1) ? p.integer(1, 0) : p.integer(0, 0);
  const std::int64_t step = p.integer(2, 1);
  if (step == 0) raise("range() arg 3 must not be zero");
  const bool empty = step > 0 ? start >= stop : start <= stop;
  const std::uint64_t low = static_cast<std::uint64_t>(step > 0 ? start : stop), high = static_cast<std::uint64_t>(step > 0 ? stop : start);
  const std::uint64_t stride = step > 0 ? static_cast<std::uint64_t>(step) : 0 - static_cast<std::uint64_t>(step);
  const std::uint64_t length = empty ? 0 : (high - low - 1) / stride + 1;
  if (length > kMaxRange) raise("Range too big. The sandbox blocks ranges larger than MAX_RANGE ({}).", kMaxRange);
  return Value(&ws.make<Range>(0, start, stop, step, static_cast<std::int64_t>(length)));
}

/// dict(mapping or pairs, **named), into `made`.
void fill(Workspace& ws, Dict& made, const char* function, const Args& args) {
  if (args.positional.size() > 1) raise("{} expected at most 1 argument, got {}", function, args.positional.size());
  for (const Value& from : args.positional) {
    if (from.is(Kind::dict)) {
      for (const auto& [key, value] : from.as<Dict>().items) put(ws, made, key, value);
      continue;
    }
    std::size_t index = 0;
    for (const Value& entry : items_of(ws, from)) {
      const auto pair = items_of(ws, entry);
      if (pair.size() != 2) raise("dictionary update sequence element #{} has length {}; 2 is required", index, pair.size());
      put(ws, made, pair[0], pair[1]);
      ++index;
    }
  }
  for (const auto& [key, value] : args.named) put(ws, made, key, value);
}

Value make_dict(Workspace& ws, const Value&, Args& args) {
  Dict& made = ws.dict();
  fill(ws, made, "dict", args);
  return Value(&made);
}

Value make_namespace(Workspace& ws, const Value&, Args& args) {
  NameSpace& made = ws.make<NameSpace>(0);
  made.members = &ws.dict();
  fill(ws, *made.members, "namespace", args);
  return Value(&made);
}

Value make_cycler(Workspace& ws, const Value&, Args& args) {
  if (args.positional.empty()) raise("at least one item has to be provided");
  return Value(&ws.make<Cycler>(args.positional.size() * sizeof(Value), args.positional));
}

Value make_joiner(Workspace& ws, const Value&, Args& args) {
  const Params p("joiner", args, {"sep"});
  return Value(&ws.make<Joiner>(0, p.get(0, ws.text(", ", Origin::caller))));
}

Value raise_exception(Workspace& ws, const Value&, Args& args) {
  const Params p("raise_exception", args, {"message"}, 1);
  raise("{}", to_text(ws, p[0]).bytes());
}

/// One directive, like "%d" or "%-d", of a time without a zone.
std::string time_part(const std::string& directive, const std::tm& time) {
  const char kind = directive.back();
  if (kind == 'z' || kind == 'Z') return "";
  if (kind == 'f') return "000000";
  char buffer[128];
  return std::string(buffer, std::strftime(buffer, sizeof buffer, directive.c_str(), &time));
}

Value strftime_now(Workspace& ws, const Value&, Args& args) {
  const Params p("strftime_now", args, {"format"}, 1);
  const Text& format = p.string(0).text();
  const std::time_t now = static_cast<std::time_t>(ws.now());
  std::tm time{};
  if (gmtime_r(&now, &time) == nullptr) raise("the time {} has no date", ws.now());
  TextBuilder out(ws);
  const std::string_view bytes = format.bytes();
  std::size_t done = 0;
  for (std::size_t at; (at = bytes.find('%', done)) != bytes.npos;) {
    out.add(format, done, at);
    std::size_t end = at + 1;
    while (end < bytes.size() && end < at + 8 && std::string_view("-_0^#EO").find(bytes[end]) != std::string_view::npos) ++end;
    if (end >= bytes.size()) {
      out.add(format, at, bytes.size());
      done = bytes.size();
      break;
    }
    ws.spend();
    if (bytes[end] == '%') out.add(format, end, end + 1);
    else if ((bytes[end] | 0x20) < 'a' || (bytes[end] | 0x20) > 'z') out.add(format, at, end + 1);
    else out.add(time_part(std::string(bytes.substr(at, end + 1 - at)), time), Origin::caller);
    done = end + 1;
  }
  out.add(format, done, bytes.size());
  return out.value();
}

constexpr MethodEntry kGlobals[] = {
    {"cycler", make_cycler}, {"dict", make_dict}, {"joiner", make_joiner}, {"lipsum", nullptr}, {"namespace", make_namespace},
    {"raise_exception", raise_exception}, {"range", make_range}, {"strftime_now", strftime_now}};

}  // namespace

std::span<const MethodEntry> globals() { return kGlobals; }

Value call_joiner(Workspace& ws, Joiner& joiner) {
  if (joiner.used) return joiner.separator;
  joiner.used = true;
  return ws.text(Text());
}

}  // namespace millrace::text::jinja
