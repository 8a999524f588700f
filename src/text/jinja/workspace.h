#pragma once

// What one rendering owns: its objects and what is left of its limits. Everything that makes a value asks here, so
// that no filter can forget a limit. Not thread-safe: one rendering, one Workspace, one thread.

#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "text/jinja/raise.h"
#include "text/jinja/value.h"
#include "text/render_limits.h"

namespace millrace::text::jinja {

class Workspace {
 public:
  Workspace(const RenderLimits& limits, std::int64_t now)
      : limits_(limits), now_(now), max_live_(limits.bytes < SIZE_MAX / 8 ? 4 * limits.bytes + kFreeBytes : SIZE_MAX),
        live_(std::make_shared<std::size_t>(0)) {}

  std::int64_t now() const { return now_; }
  std::size_t max_bytes() const { return limits_.bytes; }

  /// Counts work: one per evaluated node, one per element copied.
  void spend(std::size_t steps = 1) {
    steps_ += steps;
    if (steps_ > static_cast<std::size_t>(limits_.steps)) raise_limit("rendering takes more than {} steps", limits_.steps);
  }

  /// Before a string of `bytes` is made.
  void check_size(std::size_t bytes) const {
    if (bytes > limits_.bytes) raise_limit("a text of {} bytes exceeds the limit of {}", bytes, limits_.bytes);
  }

  /// Objects live as long as the Workspace.
  template <class T, class... A>
  T& make(std::size_t extra_bytes, A&&... args) {
    hold(sizeof(T) + extra_bytes);
    auto owned = std::make_unique<T>(std::forward<A>(args)...);
    T& object = *owned;
    objects_.push_back(std::move(owned));
    return object;
  }

  Value text(Text text, bool markup = false) {
    check_size(text.size());
    spend(1 + text.size() / 1024);
    Value made(std::make_shared<const Str>(std::move(text), markup, live_));
    hold(0);
    return made;
  }
  Value text(std::string_view bytes, Origin origin) { return text(Text(bytes, origin)); }

  Value list(std::vector<Value> items) { return sequence(Kind::list, std::move(items)); }
  Value tuple(std::vector<Value> items) { return sequence(Kind::tuple, std::move(items)); }
  Value sequence(Kind kind, std::vector<Value> items) {
    spend(items.size());
    const std::size_t bytes = items.size() * sizeof(Value);
    return Value(&make<Sequence>(bytes, kind, std::move(items)));
  }
  Value pair(const Value& a, const Value& b) { return tuple({a, b}); }
  Dict& dict() { return make<Dict>(0); }
  Value generator(std::function<bool(Value&)> pull) { return Value(&make<Generator>(64, std::move(pull))); }

  template <class... Args>
  Value undefined(fmt::format_string<Args...> why, Args&&... args) {
    return Value(&make<Undefined>(0, fmt::format(why, std::forward<Args>(args)...)));
  }

  /// Memory of objects and live strings together.
  void hold(std::size_t bytes) {
    *live_ += bytes;
    if (*live_ > max_live_) raise_limit("rendering needs more than {} bytes of memory", max_live_);
  }

  /// One level of recursion of any kind: expression in expression, statement in statement, list in list.
  class Nest {
   public:
    explicit Nest(Workspace& ws) : ws_(ws) {
      // Ten levels of nodes make room for what stands around and inside one call; measured in chat_template_test.
      if (++ws_.nodes_ > 10 * ws_.limits_.depth) leave_and_raise();
    }
    ~Nest() { --ws_.nodes_; }
    Nest(const Nest&) = delete;
    Nest& operator=(const Nest&) = delete;

   private:
    [[noreturn]] void leave_and_raise() {
      --ws_.nodes_;
      raise_limit("nested more than {} levels deep", 10 * ws_.limits_.depth);
    }
    Workspace& ws_;
  };

  /// One call of a macro, caller or recursive loop.
  class Call {
   public:
    explicit Call(Workspace& ws) : ws_(ws) {
      if (ws_.calls_ >= ws_.limits_.depth) raise_limit("calls nested more than {} deep", ws_.limits_.depth);
      ++ws_.calls_;
    }
    ~Call() { --ws_.calls_; }
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;

   private:
    Workspace& ws_;
  };

 private:
  static constexpr std::size_t kFreeBytes = 1u << 20;  // for objects, however small the limit on texts

  RenderLimits limits_;
  std::int64_t now_;
  std::size_t max_live_;
  std::size_t steps_ = 0;
  int nodes_ = 0;
  int calls_ = 0;
  std::shared_ptr<std::size_t> live_;  // shared with strings, which may outlive objects of their rendering
  std::vector<std::unique_ptr<Object>> objects_;
};

/// A string under construction that cannot outgrow the limit.
class TextBuilder {
 public:
  explicit TextBuilder(Workspace& ws) : ws_(&ws) {}

  void add(std::string_view bytes, Origin origin) { room(bytes.size()), text_.append(bytes, origin); }
  void add(const Text& text) { room(text.size()), text_.append(text); }
  void add(const Text& text, std::size_t begin, std::size_t end) {
    if (begin < end) room(end - begin), text_.append(text, begin, end);
  }
  void add_repeated(const Text& text, std::size_t times) {
    if (text.empty()) return;
    if (times > ws_->max_bytes()) room(times);
    room(text.size() * times);
    ws_->spend(times);
    for (std::size_t i = 0; i < times; ++i) text_.append(text);
  }
  std::size_t size() const { return text_.size(); }
  const Text& text() const { return text_; }
  Text take() { return std::move(text_); }
  Value value(bool markup = false) { return ws_->text(std::move(text_), markup); }

 private:
  void room(std::size_t more) { ws_->check_size(text_.size() + more); }
  Workspace* ws_;
  Text text_;
};

}  // namespace millrace::text::jinja
