#include "server/response_writer.h"

#include <fmt/core.h>

#include <memory>
#include <utility>

#include "server/json_body.h"
#include "server/json_text.h"
#include "server/response_object.h"
#include "server/sse.h"
#include "server/writer_parts.h"

namespace millrace::server {
namespace {

using text::Json;

std::string logprobs_of(const ResponseHead& head, std::span<const engine::TokenEvent> tokens) {
  return head.tokenizer != nullptr ? chat_logprobs(tokens, *head.tokenizer) : "[]";
}

Json message_of(const ResponseHead& head, const Answer& answer) {
  Json logprobs = Json::parse(logprobs_of(head, answer.tokens));
  return output_message(head.message_id, response_status(answer.ending.finish), Json::array({output_text(answer.text, std::move(logprobs))}));
}

/// {"message", "type", "param", "code"}
Json error_object(const ApiError& error) { return Json::parse(error_response(error, Dialect::openai).body)["error"]; }

class ResponseWriter final : public AnswerWriter {
 public:
  explicit ResponseWriter(std::shared_ptr<const ResponseHead> head) : head_(std::move(head)) {}

  std::string begin() override {
    std::string events = event("response.created", {{"response", head_->object}});
    events += event("response.in_progress", {{"response", head_->object}});
    events += event("response.output_item.added", {{"output_index", 0}, {"item", output_message(head_->message_id, "in_progress", Json::array())}});
    events += event("response.content_part.added", of_text({{"part", output_text("", Json::array())}}));
    return events;
  }

  std::string piece(int /*index*/, const Piece& piece) override {
    answer_.text += piece.text;
    const bool tells_tokens = head_->tokenizer != nullptr && !piece.tokens.empty();
    if (piece.text.empty() && !tells_tokens) return "";
    if (tells_tokens) answer_.tokens.insert(answer_.tokens.end(), piece.tokens.begin(), piece.tokens.end());
    return delta(piece);
  }

  std::string end(int /*index*/, const Ending& ending) override {
    answer_.ending = ending;
    const Json message = message_of(*head_, answer_);
    const Json& part = message["content"][0];
    std::string events = event("response.output_text.done", of_text({{"text", answer_.text}, {"logprobs", part["logprobs"]}}));
    events += event("response.content_part.done", of_text({{"part", part}}));
    events += event("response.output_item.done", {{"output_index", 0}, {"item", message}});
    return events;
  }

  std::string close(const Totals& totals) override {
    const Json response = response_of(*head_, answer_, totals);
    return event(fmt::format("response.{}", response_status(answer_.ending.finish)), {{"response", response}});
  }

  // Documented are both events, the second flat; OpenAI's clients raise an exception only where an event has an "error".
  std::string failure(const ApiError& error) override {
    Json error_data = error_object(error);
    Json flat = {{"code", error_data["code"]}, {"message", error_data["message"]}, {"param", error_data["param"]}, {"error", error_data}};
    std::string events = event("response.failed", {{"response", failed_response(head_->object, error)}});
    events += event("error", std::move(flat));
    return events;
  }

  std::string whole(std::span<const Answer> answers, const Totals& totals) override { return dump(response_of(*head_, answers[0], totals)); }

 private:
  std::string event(std::string_view name, Json fields) {
    Json data = {{"type", name}, {"sequence_number", events_++}};
    data.update(std::move(fields));
    return sse_event(name, dump(data));
  }

  /// `fields` with what says which of a response's texts is meant: the first part of the first item.
  Json of_text(Json fields) const {
    Json where = {{"item_id", head_->message_id}, {"output_index", 0}, {"content_index", 0}};
    where.update(std::move(fields));
    return where;
  }

  /// The one event of every token: its text is put together by hand.
  std::string delta(const Piece& piece) {
    std::string data = fmt::format(R"({{"type":"response.output_text.delta","sequence_number":{},"item_id":{},"output_index":0,"content_index":0,"delta":)",
                                   events_++, json_string(head_->message_id));
    append_json_string(data, piece.text);
    data.append(",\"logprobs\":").append(logprobs_of(*head_, piece.tokens)).append("}");
    return sse_event("response.output_text.delta", data);
  }

  const std::shared_ptr<const ResponseHead> head_;
  int events_ = 0;
  Answer answer_;  // of the stream so far; tokens only where log-probabilities were asked for
};

}  // namespace

Json response_of(const ResponseHead& head, const Answer& answer, const Totals& totals) {
  return ended_response(head.object, message_of(head, answer), answer.ending.finish, totals);
}

std::unique_ptr<AnswerWriter> make_response_writer(std::shared_ptr<const ResponseHead> head) { return std::make_unique<ResponseWriter>(std::move(head)); }

}  // namespace millrace::server
