#include "server/choice_writer.h"

#include <fmt/core.h>

#include <utility>

#include "server/json_text.h"
#include "server/sse.h"

namespace millrace::server {

ChoiceWriter::ChoiceWriter(AnswerStyle style, std::string_view chunk_object)
    : style_(std::move(style)), head_("data: " + head_of(chunk_object)), tail_(style_.include_usage ? ",\"usage\":null}\n\n" : "}\n\n") {}

std::string ChoiceWriter::head_of(std::string_view object) const {
  return fmt::format(R"({{"id":{},"object":"{}","created":{},"model":{},"system_fingerprint":{},"choices":[)", json_string(style_.id), object,
                     style_.created_s, json_string(style_.model), json_string(style_.fingerprint));
}

std::string ChoiceWriter::chunk(int index, std::string_view inside) const {
  std::string out;
  out.reserve(head_.size() + inside.size() + tail_.size() + 24);
  out += head_;
  out += "{\"index\":";
  out += std::to_string(index);
  out += inside;
  out += "}]";
  out += tail_;
  return out;
}

std::string ChoiceWriter::end_of_body() const { return style_.timings ? ",\"timings\":" + timings_.json() + "}" : "}"; }

std::string ChoiceWriter::progress(int index, const Progress& progress) { return head_ + "]," + progress_json(index, progress) + tail_; }

std::string ChoiceWriter::close(const Totals& totals) {
  std::string out;
  if (style_.include_usage || style_.timings) {
    out = head_ + "]";
    if (style_.include_usage) out += ",\"usage\":" + usage_json(totals);
    out += end_of_body() + "\n\n";
  }
  out += kSseDone;
  return out;
}

}  // namespace millrace::server
