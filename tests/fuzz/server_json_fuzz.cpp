// Any bytes as the body of any endpoint: refused in one sentence of text, or planned, without an abort. The first byte chooses the
// endpoint.

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "base/check.h"
#include "base/utf8.h"
#include "server/api_error.h"
#include "server/json_body.h"
#include "server/planners.h"
#include "server/response_store.h"
#include "server/testing/letter_tokenizer.h"
#include "server/text_endpoints.h"

namespace {

using namespace millrace;
using namespace millrace::server;

struct Served {
  server::testing::LetterTokenizer tokenizer;
  text::ChatTemplate chat_template =
      text::ChatTemplate::parse("{% for m in messages %}<control>{{ m.role }} {{ m.content | trim }}{% for c in m.tool_calls or [] %}{{ c.function.arguments | tojson }}{% endfor %}{% endfor %}"
                                "{% if add_generation_prompt %}<control>{{ documents | tojson }}{% endif %}")
          .value();
  ServedModel model;
  Tenant tenant;

  Served() {
    model.names = {"m"};
    model.tokenizer = &tokenizer;
    model.chat_template = &chat_template;
    model.context_tokens = 200;
    model.embedding_dim = 3;
  }
};

void check_error(const Error& error) {
  MILLRACE_CHECK(is_valid_utf8(error.message) && is_valid_utf8(error.where), "an error message that is no text");
  for (const Dialect dialect : {Dialect::openai, Dialect::anthropic})
    MILLRACE_CHECK(text::Json::accept(error_response(to_api_error(error), dialect).body), "an error that is no JSON");
}

template <class T>
void check(const Result<T>& result) {
  if (!result) check_error(result.error());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const Served served;
  if (size == 0) return 0;
  const auto body = parse_body(std::string_view(reinterpret_cast<const char*>(data) + 1, size - 1));
  if (!body) return check_error(body.error()), 0;
  const auto again = parse_body(dump(*body));
  MILLRACE_CHECK(again && *again == *body, "a body that is written differs from what was read");
  RequestContext context;
  context.model = &served.model;
  context.tenant = &served.tenant;
  context.id = "r";
  context.strict = (data[0] & 128) != 0;
  static ResponseStore store;
  switch (data[0] % 9) {
    case 0: check(plan_chat_completion(*body, context)); break;
    case 1: check(plan_completion(*body, context)); break;
    case 2: check(plan_embedding(*body, context)); break;
    case 3: check(plan_response(*body, context, store)); break;
    case 4: check(plan_message(*body, context)); break;
    case 5: check(count_message_tokens(*body, context)); break;
    case 6: check(answer_tokenize(*body, context)); break;
    case 7: check(answer_detokenize(*body, context)); break;
    default: check(answer_apply_template(*body, context)); break;
  }
  for (const std::string& name : context.unknown_fields)
    for (const char c : name) MILLRACE_CHECK(c > 0x20 && c < 0x7F, "a name that fits no header");
  return 0;
}
