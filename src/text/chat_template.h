#pragma once

// A chat template: messages in, marked text out. Parsed once; immutable and safe from any thread afterwards.

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "base/result.h"
#include "text/marked_text.h"
#include "text/render_limits.h"

namespace millrace::text {

using Json = nlohmann::ordered_json;  // key order of objects is the caller's: templates print them

class ChatTemplate {
 public:
  /// Errors: corrupt_data, with line and what was expected.
  static Result<ChatTemplate> parse(std::string source);

  ChatTemplate(ChatTemplate&&) noexcept;
  ChatTemplate& operator=(ChatTemplate&&) noexcept;
  ~ChatTemplate();

  /// `variables`: all variables of the template (messages, tools, add_generation_prompt, ...). Every string in it is the
  /// caller's, except those named in `trusted` (bos_token, eos_token: the vocabulary's own).
  /// `now`: for strftime_now, seconds since the epoch, read as local time without a zone.
  /// Errors: invalid_argument (raise_exception's text, undefined names, wrong types; with the line), exhausted (limits).
  Result<MarkedText> render(const Json& variables, std::span<const std::string> trusted, std::int64_t now,
                            const RenderLimits& limits = {}) const;

 private:
  struct Impl;
  explicit ChatTemplate(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace millrace::text
