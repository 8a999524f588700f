#include "server/message_writer.h"

#include <nlohmann/json.hpp>
#include <utility>
#include <variant>

#include "server/json_body.h"
#include "server/json_text.h"
#include "server/sse.h"
#include "text/chat_template.h"

namespace millrace::server {
namespace {

using text::Json;

/// Anthropic's input_tokens are those that were not read from the cache. What is written to it is not counted apart: it costs
/// nothing more than being computed.
Json usage_object(int prompt_tokens, int cached_tokens, int completion_tokens) {
  return {{"input_tokens", prompt_tokens - cached_tokens},
          {"cache_creation_input_tokens", 0},
          {"cache_read_input_tokens", cached_tokens},
          {"output_tokens", completion_tokens}};
}

class MessageWriter final : public AnswerWriter {
 public:
  explicit MessageWriter(MessageHead head) : head_(std::move(head)) {}

  std::string begin() override {
    std::string events = event("message_start", {{"message", message(Json::array(), Json(nullptr), Json(nullptr), usage_object(head_.prompt_tokens, 0, 0))}});
    events += event("content_block_start", {{"index", 0}, {"content_block", text_block("")}});
    events += event("ping", Json::object());
    return events;
  }

  /// The one event of every token: its text is put together by hand.
  std::string piece(int /*index*/, const Piece& piece) override {
    if (piece.text.empty()) return "";
    std::string data = R"({"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":)";
    append_json_string(data, piece.text);
    data += "}}";
    return sse_event("content_block_delta", data);
  }

  std::string end(int /*index*/, const Ending& ending) override {
    ending_ = ending;
    return event("content_block_stop", {{"index", 0}});
  }

  std::string close(const Totals& totals) override {
    std::string events = event("message_delta", {{"delta", {{"stop_reason", stop_reason(ending_)}, {"stop_sequence", stop_sequence(ending_)}}},
                                                 {"usage", usage_of(totals)}});
    events += event("message_stop", Json::object());
    return events;
  }

  std::string failure(const ApiError& error) override { return error_event(error, Dialect::anthropic); }

  std::string whole(std::span<const Answer> answers, const Totals& totals) override {
    const auto& [text, tokens, ending] = answers[0];
    return dump(message(Json::array({text_block(text)}), stop_reason(ending), stop_sequence(ending), usage_of(totals)));
  }

  Dialect dialect() const override { return Dialect::anthropic; }

 private:
  static std::string event(std::string_view name, Json fields) {
    Json data = {{"type", name}};
    data.update(std::move(fields));
    return sse_event(name, dump(data));
  }

  static Json text_block(const std::string& text) { return {{"type", "text"}, {"text", text}}; }

  static Json usage_of(const Totals& totals) { return usage_object(totals.prompt_tokens, totals.cached_tokens, totals.completion_tokens); }

  Json message(Json content, Json stop_reason, Json stop_sequence, Json usage) const {
    return {{"id", head_.id},
            {"type", "message"},
            {"role", "assistant"},
            {"model", head_.model},
            {"content", std::move(content)},
            {"stop_reason", std::move(stop_reason)},
            {"stop_sequence", std::move(stop_sequence)},
            {"usage", std::move(usage)}};
  }

  /// Of the stop strings, or nullptr.
  static const engine::StopString* stopped_by(const Ending& ending) { return std::get_if<engine::StopString>(&ending.stopped_by); }
  static Json stop_reason(const Ending& ending) {
    if (stopped_by(ending) != nullptr) return "stop_sequence";
    return ending.finish == engine::Finish::stop ? "end_turn" : "max_tokens";
  }
  Json stop_sequence(const Ending& ending) const {
    const engine::StopString* text = stopped_by(ending);
    return text != nullptr ? Json(head_.stop.at(static_cast<std::size_t>(text->index))) : Json(nullptr);
  }

  const MessageHead head_;
  Ending ending_;  // of the stream
};

}  // namespace

std::unique_ptr<AnswerWriter> make_message_writer(MessageHead head) { return std::make_unique<MessageWriter>(std::move(head)); }

}  // namespace millrace::server
