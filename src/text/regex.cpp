#include "text/regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <algorithm>

#include "base/check.h"
#include "base/utf8.h"
#include "text/regex_dialect.h"

namespace millrace::text {
namespace {

constexpr std::size_t kJitStackLeast = 32u << 10, kJitStackMost = 1u << 20;
constexpr std::uint32_t kHeapKib = 256u << 10;  // the interpreter's frames: about 150 bytes per open group repetition
// Backtracking steps of one search. \s*[\r\n]+ on n blanks takes n of them, so the limit grows with the text.
constexpr std::uint32_t kLeastSteps = 10'000'000, kStepsPerByte = 64, kMostSteps = 2'000'000'000;

template <auto* free>
struct Free {
  template <class T>
  void operator()(T* pointer) const { free(pointer); }
};

}  // namespace

struct Regex::Code {
  std::unique_ptr<pcre2_code, Free<pcre2_code_free>> pattern;
};

struct Regex::Scratch::State {
  std::unique_ptr<pcre2_match_data, Free<pcre2_match_data_free>> data{pcre2_match_data_create(1, nullptr)};
  std::unique_ptr<pcre2_match_context, Free<pcre2_match_context_free>> context{pcre2_match_context_create(nullptr)};
  std::unique_ptr<pcre2_jit_stack, Free<pcre2_jit_stack_free>> stack{
      pcre2_jit_stack_create(kJitStackLeast, kJitStackMost, nullptr)};
  bool gave_up = false;
};

Regex::Scratch::Scratch() : state_(std::make_unique<State>()) {
  MILLRACE_CHECK(state_->data && state_->context, "out of memory for a regular expression");
  pcre2_set_heap_limit(state_->context.get(), kHeapKib);
  if (state_->stack) pcre2_jit_stack_assign(state_->context.get(), nullptr, state_->stack.get());
}
Regex::Scratch::Scratch(Scratch&&) noexcept = default;
Regex::Scratch::~Scratch() = default;

Regex::Regex(std::unique_ptr<Code> code) : code_(std::move(code)) {}
Regex::Regex(Regex&&) noexcept = default;
Regex& Regex::operator=(Regex&&) noexcept = default;
Regex::~Regex() = default;

Result<Regex> Regex::compile(std::string_view pattern) {
  MILLRACE_TRY(translated, pcre_from_oniguruma(pattern));
  // Oniguruma's ^ and $ stand at every line, a line ends at \n, and classes are Unicode's.
  const std::unique_ptr<pcre2_compile_context, Free<pcre2_compile_context_free>> context(
      pcre2_compile_context_create(nullptr));
  if (!context) return error(millrace::Code::exhausted, "out of memory for the regular expression '{}'", pattern);
  pcre2_set_newline(context.get(), PCRE2_NEWLINE_LF);
  int number = 0;
  std::size_t offset = 0;
  auto code = std::make_unique<Code>();
  code->pattern.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(translated.data()), translated.size(),
                                    PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C, &number, &offset,
                                    context.get()));
  if (!code->pattern) {
    PCRE2_UCHAR message[200] = {};
    pcre2_get_error_message(number, message, sizeof message);
    return error(millrace::Code::unsupported, "regular expression '{}' is refused: {}", pattern,
                 reinterpret_cast<const char*>(message));
  }
  // Where the machine forbids generated code, the interpreter runs the same pattern.
  pcre2_jit_compile(code->pattern.get(), PCRE2_JIT_COMPLETE);
  return Regex(std::move(code));
}

std::string Regex::quoted(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (std::string_view(R"(\^$.|?*+()[]{}-/&)").find(c) != std::string_view::npos) out += '\\';
    out += c;
  }
  return out;
}

void Regex::find_all(std::string_view text, Span within, Scratch& scratch, std::vector<Span>& matches) const {
  std::size_t begin = within.begin;  // of a stretch of valid UTF-8
  for (std::size_t at = begin; at < within.end;) {
    const Utf8Step step = decode_utf8(text.substr(at, within.end - at));
    if (step.kind != Utf8Step::Kind::character) {
      find_in_valid(text.substr(begin, at - begin), begin, scratch, matches);
      begin = at + static_cast<std::size_t>(step.length);
    }
    at += static_cast<std::size_t>(step.length);
  }
  find_in_valid(text.substr(begin, within.end - begin), begin, scratch, matches);
}

void Regex::find_in_valid(std::string_view text, std::size_t offset, Scratch& scratch,
                          std::vector<Span>& matches) const {
  Scratch::State& state = *scratch.state_;
  if (text.empty() || state.gave_up) return;
  const std::uint64_t steps = kLeastSteps + std::uint64_t{kStepsPerByte} * text.size();
  pcre2_set_match_limit(state.context.get(), static_cast<std::uint32_t>(std::min<std::uint64_t>(steps, kMostSteps)));
  const auto match_from = [&](std::size_t at, std::uint32_t options) {
    return pcre2_match(code_->pattern.get(), reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), at,
                       PCRE2_NO_UTF_CHECK | options, state.data.get(), state.context.get());
  };
  for (std::size_t at = 0; at < text.size();) {
    int found = match_from(at, 0);
    if (found == PCRE2_ERROR_JIT_STACKLIMIT) found = match_from(at, PCRE2_NO_JIT);
    if (found < 0) {
      state.gave_up = found != PCRE2_ERROR_NOMATCH;
      return;
    }
    const PCRE2_SIZE* range = pcre2_get_ovector_pointer(state.data.get());
    // \K in a look-ahead can put the start after the end; such a pattern matches nothing here.
    if (range[0] < range[1] && range[0] >= at) matches.push_back({offset + range[0], offset + range[1]});
    if (range[1] > at && range[0] < range[1]) at = range[1];
    else
      at = std::max(at, range[1]),
      at += at < text.size() ? static_cast<std::size_t>(decode_utf8(text.substr(at)).length) : 0;
  }
}

}  // namespace millrace::text
