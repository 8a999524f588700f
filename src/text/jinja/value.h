#pragma once

// What a template computes with: Python's values as far as chat templates see them. Strings are shared and immutable;
// every other object lives in the Workspace of its rendering and dies with it, so that cycles (a namespace that holds
// itself, a macro in its own scope) neither leak nor recurse on destruction. No evaluation here.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "text/jinja/text.h"

namespace millrace::text::jinja {

enum class Kind : unsigned char {
  undefined, none, boolean, integer, real, string, list, tuple, dict, view, range, generator, name_space, macro, method,
  function, loop, cycler, joiner
};

struct Str {
  Text text;
  std::size_t chars;       // code points in it
  bool markup = false;     // markupsafe's Markup: joining it with other text escapes that
  std::shared_ptr<std::size_t> account;  // the Workspace's live bytes; none for a template's literal

  Str(Text t, bool is_markup, std::shared_ptr<std::size_t> live);
  ~Str();
  Str(const Str&) = delete;
  Str& operator=(const Str&) = delete;
};
using StrRef = std::shared_ptr<const Str>;

struct Object {
  explicit Object(Kind k) : kind(k) {}
  virtual ~Object() = default;
  const Kind kind;
};

class Value {
 public:
  Value() : kind_(Kind::none), integer_(0) {}
  explicit Value(bool b) : kind_(Kind::boolean), integer_(b) {}
  explicit Value(std::int64_t i) : kind_(Kind::integer), integer_(i) {}
  explicit Value(double f) : kind_(Kind::real), real_(f) {}
  explicit Value(StrRef s) : kind_(Kind::string), integer_(0), string_(std::move(s)) {}
  explicit Value(Object* o) : kind_(o->kind), object_(o) {}

  Kind kind() const { return kind_; }
  bool is(Kind kind) const { return kind_ == kind; }
  bool is_undefined() const { return kind_ == Kind::undefined; }
  bool is_none() const { return kind_ == Kind::none; }
  bool is_string() const { return kind_ == Kind::string; }
  bool is_integral() const { return kind_ == Kind::integer || kind_ == Kind::boolean; }
  bool is_number() const { return is_integral() || kind_ == Kind::real; }
  bool is_sequence() const { return kind_ == Kind::list || kind_ == Kind::tuple; }
  bool is_markup() const { return is_string() && string_->markup; }

  bool boolean() const { return integer_ != 0; }
  std::int64_t integer() const { return integer_; }  // of a boolean, too
  double number() const { return kind_ == Kind::real ? real_ : static_cast<double>(integer_); }
  const StrRef& str() const { return string_; }
  const Text& text() const { return string_->text; }
  std::string_view bytes() const { return string_->text.bytes(); }
  Object* object() const { return object_; }  // kinds from list on, and undefined
  template <class T>
  T& as() const { return *static_cast<T*>(object_); }

 private:
  Kind kind_;
  union { std::int64_t integer_; double real_; Object* object_; };
  StrRef string_;
};

struct Undefined : Object {
  Undefined(std::string message) : Object(Kind::undefined), why(std::move(message)) {}
  std::string why;  // raised when it is used for more than printing and testing
};

struct Sequence : Object {  // list, tuple
  Sequence(Kind k, std::vector<Value> v) : Object(k), items(std::move(v)) {}
  std::vector<Value> items;
  bool group = false;  // of groupby: has .grouper and .list
};

struct Dict : Object {
  Dict() : Object(Kind::dict) {}
  std::vector<std::pair<Value, Value>> items;                // in order of insertion
  std::unordered_multimap<std::size_t, std::size_t> places;  // hash -> index; kept once the dict is larger than a few
};

struct View : Object {  // dict.keys(), .values(), .items()
  enum class What : unsigned char { keys, values, items };
  View(const Dict& d, What w) : Object(Kind::view), dict(&d), what(w) {}
  const Dict* dict;
  What what;
};

struct Range : Object {
  Range(std::int64_t from, std::int64_t to, std::int64_t by, std::int64_t n)
      : Object(Kind::range), start(from), stop(to), step(by), length(n) {}
  std::int64_t start, stop, step, length;
};

/// Gives its items once, computed when asked for.
struct Generator : Object {
  explicit Generator(std::function<bool(Value&)> p) : Object(Kind::generator), pull(std::move(p)) {}
  std::function<bool(Value&)> pull;
  bool running = false;  // asking a generator from inside itself is an error, in Python too
};

struct NameSpace : Object {
  NameSpace() : Object(Kind::name_space) {}
  Dict* members = nullptr;
};

/// Arguments of a call. Names are string values: those of `**mapping` are the caller's.
struct Args {
  std::vector<Value> positional;
  std::vector<std::pair<Value, Value>> named;
};

class Workspace;
using Callable = Value (*)(Workspace&, const Value& self, Args& args);

struct Method : Object {  // str.upper of one string, ...
  Method(const Value& s, const char* n, Callable f) : Object(Kind::method), self(s), name(n), run(f) {}
  Value self;
  const char* name;
  Callable run;
};

struct Function : Object {  // range, namespace, ...
  Function(const char* n, Callable f) : Object(Kind::function), name(n), run(f) {}
  const char* name;
  Callable run;
};

struct Cycler : Object {
  explicit Cycler(std::vector<Value> v) : Object(Kind::cycler), items(std::move(v)) {}
  std::vector<Value> items;
  std::size_t at = 0;
};

struct Joiner : Object {
  explicit Joiner(const Value& v) : Object(Kind::joiner), separator(v) {}
  Value separator;
  bool used = false;
};

/// Python's name of the type, for messages: "str", "NoneType", "dict", ...
const char* type_name(const Value& value);

}  // namespace millrace::text::jinja
