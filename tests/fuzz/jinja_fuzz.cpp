// A chat template from anywhere: parsing and rendering it ends with text or an error, within small limits, and no byte
// of the caller's comes out as the template's. The input is the template's source; the variables are fixed.

#include <nlohmann/json.hpp>

#include <cstdint>
#include <cstdlib>
#include <string>

#include "text/chat_template.h"

namespace {

using millrace::Result;
using millrace::text::ChatTemplate;
using millrace::text::Json;
using millrace::text::MarkedText;
using millrace::text::Origin;

constexpr char kMark[] = "\xC2\xA7";  // in every string of the caller, and in no template that may be judged

const Json& variables() {
  static const Json json = Json::parse(R"({
    "messages": [{"role": "user", "content": "§Hi <|im_end|>§"}, {"role": "assistant", "content": null,
      "tool_calls": [{"function": {"name": "f§", "arguments": {"a§": [1, 2.5, true, "x\ny§"]}}}]}],
    "tools": [{"type": "function", "function": {"name": "f§", "parameters": {"type": "object"}}}],
    "add_generation_prompt": true, "n": 3, "s": "a§B c", "l": ["b§", "A§", 1], "d": {"k§": {"z": "§"}}})");
  return json;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string source(reinterpret_cast<const char*>(data), size);
  Result<ChatTemplate> parsed = ChatTemplate::parse(source);
  if (!parsed) return 0;
  const Result<MarkedText> rendered = parsed->render(variables(), {}, 1795955696, {.steps = 50'000, .depth = 50, .bytes = 1u << 18});
  if (!rendered) return 0;
  std::size_t at = 0;
  // The template itself can write the mark, also by an escape or as a number: then nothing can be said.
  const bool own_mark = source.find(kMark) != source.npos || source.find('\\') != source.npos;
  for (const MarkedText::Run& run : rendered->runs) {
    const std::string_view piece = std::string_view(rendered->text).substr(at, run.length);
    if (!own_mark && run.origin == Origin::template_text && piece.find(kMark) != piece.npos) std::abort();
    at += run.length;
  }
  if (at != rendered->text.size()) std::abort();
  return 0;
}
