#pragma once

// Arguments of a built-in function, filter, test or method, matched to its parameters' names.

#include <array>
#include <initializer_list>
#include <optional>

#include "text/jinja/access.h"
#include "text/jinja/compare.h"

namespace millrace::text::jinja {

class Params {
 public:
  /// `names`: the parameters in order; "" takes no name. The first `required` must be given.
  Params(const char* function, const Args& args, std::initializer_list<const char*> names, std::size_t required = 0)
      : function_(function) {
    if (args.positional.size() > names.size())
      raise("{}() takes at most {} arguments ({} given)", function, names.size(), args.positional.size());
    for (std::size_t i = 0; i < args.positional.size(); ++i) found_[i] = &args.positional[i];
    for (const auto& [name, value] : args.named) {
      std::size_t i = 0;
      for (const char* parameter : names) {
        if (*parameter != 0 && name.bytes() == parameter) break;
        ++i;
      }
      if (i == names.size()) raise("{}() got an unexpected keyword argument '{}'", function, name.bytes());
      if (found_[i] != nullptr) raise("{}() got multiple values for argument '{}'", function, name.bytes());
      found_[i] = &value;
    }
    for (std::size_t i = 0; i < required; ++i)
      if (found_[i] == nullptr) raise("{}() misses its argument {}{}", function, i + 1, *names.begin()[i] != 0 ? std::string(": ") + names.begin()[i] : "");
  }

  bool has(std::size_t i) const { return found_[i] != nullptr; }
  bool has_some(std::size_t i) const { return has(i) && !found_[i]->is_none(); }  // given and not none
  const Value& operator[](std::size_t i) const { return *found_[i]; }
  Value get(std::size_t i, const Value& otherwise) const { return has(i) ? *found_[i] : otherwise; }
  bool flag(std::size_t i, bool otherwise) const { return has(i) ? truth(*found_[i]) : otherwise; }

  std::int64_t integer(std::size_t i, std::int64_t otherwise) const {
    if (!has(i)) return otherwise;
    const Value& value = defined(*found_[i]);
    if (!value.is_integral()) raise("{}(): '{}' object cannot be interpreted as an integer", function_, type_name(value));
    return value.integer();
  }

  const Value& string(std::size_t i) const {
    const Value& value = defined(*found_[i]);
    if (!value.is_string()) raise("{}() argument {} must be str, not {}", function_, i + 1, type_name(value));
    return value;
  }

 private:
  const char* function_;
  std::array<const Value*, 8> found_{};
};

}  // namespace millrace::text::jinja
