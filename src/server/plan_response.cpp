// What /v1/responses asks: a conversation of stored rounds and new items, through the model's template.

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "server/chat_prompt.h"
#include "server/field_table.h"
#include "server/json_body.h"
#include "server/planners.h"
#include "server/request_fields.h"
#include "server/response_items.h"
#include "server/response_store.h"
#include "server/response_writer.h"

namespace millrace::server {
namespace {

using text::Json;

constexpr const char* kLogprobs = "message.output_text.logprobs";

/// What OpenAI's clients may ask to be included. All but the first belong to items that are never made here: there is nothing to leave out.
constexpr std::array<std::string_view, 8> kIncludable = {kLogprobs,
                                                         "message.input_image.image_url",
                                                         "reasoning.encrypted_content",
                                                         "web_search_call.results",
                                                         "web_search_call.action.sources",
                                                         "code_interpreter_call.outputs",
                                                         "computer_call_output.output.image_url",
                                                         "file_search_call.results"};

Result<Conversation> find_previous(const Fields& fields, const RequestContext& context, ResponseStore& store) {
  const auto id = fields.string("previous_response_id");
  if (!id) return Conversation();
  auto found = store.find(context.tenant->name, *id, context.now_s);
  if (!found) return Error{Code::not_found, fmt::format("previous_response_id: no response {} is kept", shown(*id)), 0, "previous_response_id"};
  return *std::move(found);
}

/// The texts in the store are our own.
Json messages_of(const Fields& fields, const Conversation& before, const Json& items) {
  Json messages = Json::array();
  if (const auto instructions = fields.string("instructions")) messages.push_back({{"role", "system"}, {"content", *instructions}});
  for (const auto& round : before) {
    append_item_messages(messages, Json::parse(round->input_items));
    append_item_messages(messages, Json::parse(round->response)["output"]);
  }
  append_item_messages(messages, items);
  return messages;
}

Result<std::vector<TokenId>> read_prompt(const Fields& fields, const Conversation& before, const Json& items, const RequestContext& context) {
  ChatPrompt prompt;
  prompt.messages = messages_of(fields, before, items);
  MILLRACE_TRY_VOID(read_template_variables(fields, prompt));
  auto ids = encode(prompt, context);
  if (!ids && ids.error().where == "messages") return Error{ids.error().code, "input" + ids.error().message.substr(ids.error().where.size()), 0, "input"};
  return ids;
}

/// -1: no log-probabilities.
Result<int> read_logprobs(const Fields& fields) {
  const auto top = static_cast<int>(fields.integer("top_logprobs").value_or(0));
  bool wanted = top > 0;
  if (const Json* include = fields.find("include"))
    for (std::size_t i = 0; i < include->size(); ++i) {
      const Json& one = (*include)[i];
      if (!one.is_string() || std::ranges::find(kIncludable, one.get_ref<const std::string&>()) == kIncludable.end())
        return field_error(fmt::format("include[{}]", i), "expected {} or another of OpenAI's names, got {}", kLogprobs, shown(one));
      wanted = wanted || one == kLogprobs;
    }
  return wanted ? top : -1;
}

/// OpenAI's limits.
Result<Json> read_metadata(const Fields& fields) {
  constexpr std::size_t kMostKeyBytes = 64, kMostValueBytes = 512;
  const Json* metadata = fields.find("metadata");
  if (metadata == nullptr) return Json::object();
  for (const auto& [key, value] : metadata->get_ref<const Json::object_t&>()) {
    if (key.size() > kMostKeyBytes) return field_error("metadata", "a key has {} bytes, at most {} are possible", key.size(), kMostKeyBytes);
    if (!value.is_string() || value.get_ref<const std::string&>().size() > kMostValueBytes)
      return field_error("metadata." + key, "expected a string of at most {} bytes, got {}", kMostValueBytes, shown(value));
  }
  return *metadata;
}

Result<void> limit_output(engine::Request& request, const Fields& fields, const RequestContext& context) {
  auto limited = limit_answer(request, fields.integer("max_output_tokens"), "max_output_tokens", context);
  if (!limited && fields.string("truncation") == "auto")
    return field_error("truncation", "{}; auto would drop the oldest items, and nothing is dropped here", limited.error().message);
  return limited;
}

/// The shortest number that reads back as the same float, where the request did not say one itself.
Json said_or(const Fields& fields, const char* name, float value) {
  const Json* said = fields.find(name);
  return said != nullptr ? *said : Json::parse(fmt::format("{}", value));
}

/// The body's own value; it may stand there as null.
Json or_else(const Json& body, const char* name, Json fallback) {
  const auto found = body.find(name);
  return found == body.end() || found->is_null() ? std::move(fallback) : *found;
}
Json or_null(const Json& body, const char* name) { return or_else(body, name, nullptr); }

/// As OpenAI's: what was asked, and what stood for what was not.
Json begun_response(const Json& body, const Fields& fields, const RequestContext& context, const engine::Request& request, Json metadata) {
  return {{"id", "resp_" + context.id},
          {"object", "response"},
          {"created_at", context.now_s},
          {"status", "in_progress"},
          {"background", false},
          {"error", nullptr},
          {"incomplete_details", nullptr},
          {"instructions", or_null(body, "instructions")},
          {"max_output_tokens", or_null(body, "max_output_tokens")},
          {"max_tool_calls", or_null(body, "max_tool_calls")},
          {"model", context.model->names[0]},
          {"output", Json::array()},
          {"parallel_tool_calls", or_else(body, "parallel_tool_calls", true)},
          {"previous_response_id", or_null(body, "previous_response_id")},
          {"prompt_cache_key", or_null(body, "prompt_cache_key")},
          {"reasoning", {{"effort", nullptr}, {"summary", nullptr}}},
          {"safety_identifier", or_null(body, "safety_identifier")},
          {"service_tier", "default"},
          {"store", fields.boolean("store", true)},
          {"temperature", said_or(fields, "temperature", request.sampling.temperature)},
          {"text", {{"format", {{"type", "text"}}}}},
          {"tool_choice", or_else(body, "tool_choice", "auto")},
          {"tools", Json::array()},
          {"top_logprobs", std::max(request.sampling.top_logprobs, 0)},
          {"top_p", said_or(fields, "top_p", request.sampling.top_p)},
          {"truncation", fields.string("truncation").value_or("disabled")},
          {"usage", nullptr},
          {"user", or_null(body, "user")},
          {"metadata", std::move(metadata)}};
}

}  // namespace

Result<GenerationPlan> plan_response(const Json& body, RequestContext& context, ResponseStore& store) {
  MILLRACE_TRY_VOID(check_fields(body, kResponse, context));
  const Fields fields(body, kResponse);
  const Json* input = fields.find("input");
  if (input == nullptr) return field_error("input", "missing, expected a string or a list of items");
  MILLRACE_TRY(items, read_input_items(*input, context.id));
  MILLRACE_TRY(metadata, read_metadata(fields));
  MILLRACE_TRY(top_logprobs, read_logprobs(fields));
  MILLRACE_TRY(before, find_previous(fields, context, store));

  MILLRACE_TRY(request, read_request_fields(fields, context));
  request.sampling.top_logprobs = top_logprobs;
  MILLRACE_TRY(prompt, read_prompt(fields, before, items, context));
  request.prompt = std::move(prompt);
  MILLRACE_TRY_VOID(limit_output(request, fields, context));

  const auto head = std::make_shared<const ResponseHead>(
      ResponseHead{begun_response(body, fields, context, request, std::move(metadata)), "msg_" + context.id, top_logprobs >= 0 ? context.model->tokenizer : nullptr});
  GenerationPlan plan;
  plan.prompts.push_back(std::move(request));
  plan.stream = fields.boolean("stream", false);
  plan.writer = make_response_writer(head);
  if (fields.boolean("store", true))
    plan.on_complete = [head, &store, before, tenant = context.tenant->name, id = "resp_" + context.id, input_items = dump(items), now_s = context.now_s](
                           std::span<const Answer> answers, const Totals& totals) {
      store.keep(tenant, id, before, {dump(response_of(*head, answers[0], totals)), input_items}, now_s);
    };
  return plan;
}

}  // namespace millrace::server
