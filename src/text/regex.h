#pragma once

// The regular expressions of tokenizer.json (Oniguruma's dialect), run by PCRE2. Every search ends: backtracking uses
// heap within a limit, never the stack, and a search that hits a limit ends all searches with the same scratch memory:
// a pattern that explodes costs one encode call its limit once, not once per word.

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace millrace::text {

/// A half-open range of bytes of some text.
struct Span { std::size_t begin, end; };

class Regex {
 public:
  /// Working memory of the searches of one thread.
  class Scratch {
   public:
    Scratch();
    Scratch(Scratch&&) noexcept;
    ~Scratch();

   private:
    friend class Regex;
    struct State;
    std::unique_ptr<State> state_;
  };

  /// Errors: unsupported, for what PCRE2 does not know or reads otherwise than Oniguruma.
  static Result<Regex> compile(std::string_view pattern);

  /// A pattern that finds exactly this text.
  static std::string quoted(std::string_view text);

  /// Appends the matches in text[within], left to right, neither empty nor overlapping, as ranges of `text`. Nothing
  /// outside `within` is seen, not even by a look-ahead. Broken UTF-8 is never part of a match.
  void find_all(std::string_view text, Span within, Scratch& scratch, std::vector<Span>& matches) const;

  Regex(Regex&&) noexcept;
  Regex& operator=(Regex&&) noexcept;
  ~Regex();

 private:
  struct Code;
  explicit Regex(std::unique_ptr<Code> code);
  void find_in_valid(std::string_view text, std::size_t offset, Scratch& scratch, std::vector<Span>& matches) const;

  std::unique_ptr<Code> code_;
};

}  // namespace millrace::text
