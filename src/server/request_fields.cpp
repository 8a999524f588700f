#include "server/request_fields.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

namespace millrace::server {
namespace {

using text::Json;

Result<TokenId> read_id(std::string_view digits, const RequestContext& context) {
  TokenId id = -1;
  const auto [end, failed] = std::from_chars(digits.data(), digits.data() + digits.size(), id);
  const int vocab = context.model->tokenizer->vocab_size();
  if (failed != std::errc() || end != digits.data() + digits.size() || id < 0 || id >= vocab)
    return field_error("logit_bias", "expected token ids from 0 to {} as keys, got {}", vocab - 1, shown(Json(std::string(digits))));
  return id;
}

Result<void> read_logit_bias(const Fields& fields, const RequestContext& context, sampling::Params& params) {
  const Json* bias = fields.find("logit_bias");
  if (bias == nullptr) return {};
  for (const auto& [key, value] : bias->get_ref<const Json::object_t&>()) {
    MILLRACE_TRY(id, read_id(key, context));
    const std::string where = "logit_bias." + std::to_string(id);
    if (!value.is_number() || value.get<double>() < -100 || value.get<double>() > 100)
      return field_error(where, "expected a number from -100 to 100, got {}", shown(value));
    params.logit_bias.emplace_back(id, value.get<float>());
  }
  return {};
}

template <class T>
void set(T& to, const std::optional<double>& asked, const std::optional<T>& model_default) {
  if (asked) to = static_cast<T>(*asked);
  else if (model_default) to = *model_default;
}

Result<void> read_sampling(const Fields& fields, const RequestContext& context, sampling::Params& params) {
  const ServedModel& model = *context.model;
  set(params.temperature, fields.number("temperature"), model.default_temperature);
  set(params.top_p, fields.number("top_p"), model.default_top_p);
  set(params.min_p, fields.number("min_p"), model.default_min_p);
  set(params.typical_p, fields.number("typical_p"), {});
  const auto penalty = fields.number("repetition_penalty");
  set(params.repetition_penalty, penalty ? penalty : fields.number("repeat_penalty"), model.default_repetition_penalty);
  set(params.presence_penalty, fields.number("presence_penalty"), {});
  set(params.frequency_penalty, fields.number("frequency_penalty"), {});
  const auto top_k = fields.integer("top_k");
  params.top_k = static_cast<int>(std::max<std::int64_t>(top_k ? *top_k : model.default_top_k.value_or(0), 0));
  // 1e-60 is more than 0 and no float.
  for (float* positive : {&params.top_p, &params.typical_p, &params.repetition_penalty}) *positive = std::max(*positive, std::numeric_limits<float>::min());
  const auto seed = fields.integer("seed");
  params.seed = seed ? static_cast<std::uint64_t>(*seed) : context.random_seed;
  return read_logit_bias(fields, context, params);
}

Microseconds microseconds(const Fields& fields, const char* name) { return static_cast<Microseconds>(std::ceil(fields.number(name).value_or(0) * 1000)); }

/// Prefixes are shared within a tenant: how fast an answer comes must not tell what others have asked.
std::string salt_of(const Fields& fields, const RequestContext& context) {
  const std::string own = fields.string("cache_salt").value_or("");
  const bool alone = context.tenant == nullptr || context.tenant->name == Tenant().name;
  // No tenant's name is empty or has a line break: nobody can spell another's salt.
  if (alone) return own.empty() ? "" : "\n" + own;
  return context.tenant->name + "\n" + own;
}

}  // namespace

Result<std::vector<TokenId>> read_ids(const Json& ids, const std::string& where, const RequestContext& context) {
  const int vocab = context.model->tokenizer->vocab_size();
  std::vector<TokenId> out;
  out.reserve(ids.size());
  for (const Json& one : ids) {
    const auto id = as_integer(one);
    if (!id || *id < 0 || *id >= vocab) return field_error(fmt::format("{}[{}]", where, out.size()), "expected a token id from 0 to {}, got {}", vocab - 1, shown(one));
    out.push_back(static_cast<TokenId>(*id));
  }
  return out;
}

Result<int> read_prompt_logprobs(const Fields& fields, int answers) {
  const auto top = fields.integer("prompt_logprobs");
  if (!top) return -1;
  if (fields.boolean("stream", false)) return field_error("prompt_logprobs", "not together with stream");
  if (answers > 1) return field_error("prompt_logprobs", "not together with n {}: what is told of a prompt is told for one answer", answers);
  return static_cast<int>(*top);
}

Result<engine::Request> read_request_fields(const Fields& fields, const RequestContext& context) {
  engine::Request request;
  MILLRACE_TRY_VOID(read_sampling(fields, context, request.sampling));
  request.stop = fields.strings("stop");
  if (const Json* ids = fields.find("stop_token_ids")) {
    MILLRACE_TRY(read, read_ids(*ids, "stop_token_ids", context));
    request.stop_token_ids = std::move(read);
  }
  request.include_stop = fields.boolean("include_stop_str_in_output", false);
  request.min_tokens = static_cast<int>(fields.integer("min_tokens").value_or(0));
  request.ignore_eos = fields.boolean("ignore_eos", false);
  request.keep_special = !fields.boolean("skip_special_tokens", true);
  request.cache_salt = salt_of(fields, context);
  request.timeout_us = microseconds(fields, "timeout_ms");
  request.ttft_slo_us = microseconds(fields, "ttft_slo_ms");
  request.tpot_slo_us = microseconds(fields, "tpot_slo_ms");
  request.priority = static_cast<int>(fields.integer("priority").value_or(0));
  if (context.tenant != nullptr) {
    request.tenant = context.tenant->id;
    request.tenant_weight = context.tenant->weight;
  }
  return request;
}

Result<void> limit_answer(engine::Request& request, std::optional<std::int64_t> asked, const char* field, const RequestContext& context) {
  const auto prompt = static_cast<std::int64_t>(request.prompt.size());
  const std::int64_t context_tokens = context.model->context_tokens;
  const auto refusal = [&](std::string sentence) { return Error{Code::invalid_argument, std::move(sentence), 0, field}; };
  if (asked && prompt + *asked > context_tokens)
    return refusal(fmt::format("prompt of {} tokens plus {} new ones exceeds the context of {} tokens", prompt, *asked, context_tokens));
  if (!asked && prompt >= context_tokens)
    return refusal(fmt::format("prompt of {} tokens leaves no room for an answer, {} tokens fit", prompt, context_tokens));
  if (request.min_tokens > (asked ? *asked : context_tokens - prompt))
    return field_error("min_tokens", "expected at most the {} new tokens of the answer, got {}", asked ? *asked : context_tokens - prompt, request.min_tokens);
  // Absent: the engine takes what is left of its pool, too, and only it knows its pool.
  const bool engine_knows = context.model->engine != nullptr && context.model->engine->info().max_positions == context_tokens;
  request.max_new_tokens = static_cast<int>(asked ? *asked : engine_knows ? -1 : context_tokens - prompt);
  return {};
}

}  // namespace millrace::server
