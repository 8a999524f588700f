#include "cli/load_answer.h"

#include <fmt/format.h>

#include <cstdlib>

namespace millrace::cli {
namespace {

constexpr std::size_t kMostRefusalBytes = 64 << 10;

void fail(std::string sentence, Microseconds now_us, LoadRecord& record) {
  record.outcome = Outcome::failed;
  record.error = std::move(sentence);
  record.end_us = now_us;
}

}  // namespace

bool LoadAnswer::is_stream() const {
  const std::string* type = http_.header("content-type");
  return http_.status() == 200 && type && type->starts_with("text/event-stream");
}

void LoadAnswer::take_event(std::string_view data, Microseconds now_us, LoadRecord& record) {
  if (said_done_ || said_error_ || !broken_.empty()) return;
  if (data == "[DONE]") {
    said_done_ = true;
    record.end_us = now_us;
    return;
  }
  const ChunkFacts facts = read_chunk(data);
  if (!facts.is_json) broken_ = fmt::format("a chunk that is no JSON: '{}'", data.substr(0, 40));
  if (facts.has_text) record.text_us.push_back(now_us);
  if (facts.usage.completion_tokens >= 0) record.usage = facts.usage;
  if (facts.has_error) said_error_ = true, record.error = facts.error.empty() ? std::string(data.substr(0, 200)) : facts.error;
}

bool LoadAnswer::take(std::string_view bytes, Microseconds now_us, LoadRecord& record) {
  has_begun_ = true;
  std::string wrong = http_.feed(bytes, body_);
  if (http_.has_head()) record.status = http_.status();
  if (wrong.empty() && is_stream()) {
    wrong = sse_.feed(body_, [&](std::string_view data) { take_event(data, now_us, record); });
    if (wrong.empty()) wrong = broken_;
    body_.clear();
  }
  if (body_.size() > kMostRefusalBytes) body_.resize(kMostRefusalBytes);
  if (!wrong.empty()) return fail("cannot read the answer: " + wrong, now_us, record), true;
  if (!http_.done()) return false;
  end(now_us, record);
  return true;
}

void LoadAnswer::close(std::string_view why, Microseconds now_us, LoadRecord& record) {
  const std::string wrong = http_.close();
  if (wrong.empty() || said_done_ || said_error_) return end(now_us, record);
  fail(why.empty() ? wrong : std::string(why), now_us, record);
}

void LoadAnswer::end(Microseconds now_us, LoadRecord& record) {
  if (http_.status() != 200) {
    if (const std::string* seconds = http_.header("retry-after")) record.retry_after_s = std::atof(seconds->c_str());
    return fail(error_sentence(body_), now_us, record);
  }
  if (!is_stream()) return fail("answered without a stream: " + error_sentence(body_), now_us, record);
  if (said_error_) return fail("an error within the stream: " + record.error, now_us, record);
  if (!said_done_) return fail("the stream ended without [DONE]", now_us, record);
  record.outcome = Outcome::done;
}

}  // namespace millrace::cli
