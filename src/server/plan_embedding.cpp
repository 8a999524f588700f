// /v1/embeddings: from a body to a plan.

#include <nlohmann/json.hpp>

#include "server/embedding_writer.h"
#include "server/field_table.h"
#include "server/planners.h"
#include "server/raw_prompt.h"
#include "server/request_fields.h"

namespace millrace::server {

Result<GenerationPlan> plan_embedding(const text::Json& body, RequestContext& context) {
  MILLRACE_TRY_VOID(check_fields(body, kEmbedding, context));
  const Fields fields(body, kEmbedding);
  const int dim = context.model->embedding_dim;
  if (const auto asked = fields.integer("dimensions").value_or(dim); asked != dim) return field_error("dimensions", "this model's vectors have {}, got {}", dim, asked);
  MILLRACE_TRY(prompts, read_raw_prompts(fields, "input", context));
  MILLRACE_TRY(common, read_request_fields(fields, context));

  // A decoder's last token is the only one that has seen the whole text.
  const Pooling pooling = fields.string("pooling").value_or("last") == "mean" ? Pooling::mean : Pooling::last;
  GenerationPlan plan;
  std::vector<std::shared_ptr<const PooledRows>> rows;
  for (RawPrompt& prompt : prompts) {
    const auto pooled = std::make_shared<PooledRows>(pooling, dim);
    engine::Request request = common;
    request.prompt = std::move(prompt.ids);
    MILLRACE_TRY_VOID(limit_answer(request, 0, "input", context));
    request.prompt_rows = model::Outputs::hidden;
    request.row_sink = [pooled](int, std::span<const float> computed, int) { pooled->add(computed); };
    plan.prompts.push_back(std::move(request));
    rows.push_back(pooled);
  }
  plan.writer = std::make_unique<EmbeddingWriter>(
      EmbeddingStyle{context.model->names.front(), fields.string("encoding_format").value_or("float") == "base64", fields.boolean("normalize", true)}, std::move(rows));
  return plan;
}

}  // namespace millrace::server
