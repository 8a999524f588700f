#include "server/answer_style.h"

namespace millrace::server {

Result<AnswerStyle> read_answer_style(const Fields& fields, const char* id_prefix, const RequestContext& context) {
  if (fields.find("stream_options") != nullptr && !fields.boolean("stream", false))
    return field_error("stream_options", "only with \"stream\": true");
  AnswerStyle style;
  style.id = id_prefix + context.id;
  style.created_s = context.now_s;
  style.model = context.model->names.front();
  style.fingerprint = context.model->fingerprint;
  style.tokenizer = context.model->tokenizer;
  style.include_usage = fields.boolean("stream_options.include_usage", false);
  style.timings = fields.boolean("timings", false);
  return style;
}

}  // namespace millrace::server
