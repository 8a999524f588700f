#include "cli/load_answer.h"

#include <gtest/gtest.h>

namespace millrace::cli {
namespace {

constexpr std::string_view kHead = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\nConnection: close\r\n\r\n";

std::string event(std::string_view data) { return "data: " + std::string(data) + "\n\n"; }
std::string text(std::string_view t) { return event(R"({"choices":[{"text":")" + std::string(t) + R"("}]})"); }

TEST(LoadAnswer, counts_from_the_first_chunk_with_text_to_done) {
  LoadAnswer answer;
  LoadRecord record;
  EXPECT_FALSE(answer.has_begun());
  EXPECT_FALSE(answer.take(kHead, 10, record));
  EXPECT_TRUE(answer.has_begun());
  EXPECT_FALSE(answer.take(text(""), 20, record));  // a first chunk that only says who speaks
  EXPECT_FALSE(answer.take(text("a") + text("b").substr(0, 9), 30, record));
  EXPECT_FALSE(answer.take(text("b").substr(9), 40, record));
  EXPECT_FALSE(answer.take(event(R"({"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":3}})") + event("[DONE]"), 50, record));
  answer.close("", 99, record);
  EXPECT_EQ(record.outcome, Outcome::done);
  EXPECT_EQ(record.text_us, (std::vector<Microseconds>{30, 40}));
  EXPECT_EQ(record.end_us, 50);
  EXPECT_EQ(record.output_tokens(), 3);
  EXPECT_EQ(record.status, 200);
}

LoadRecord closed_after(std::string_view bytes, std::string_view why = "") {
  LoadAnswer answer;
  LoadRecord record;
  if (!answer.take(bytes, 1, record)) answer.close(why, 2, record);
  return record;
}

TEST(LoadAnswer, a_stream_that_is_cut_or_breaks_has_failed) {
  const std::string head(kHead);
  EXPECT_EQ(closed_after(head + text("a")).error, "the stream ended without [DONE]");
  EXPECT_EQ(closed_after(head + event(R"({"error":{"message":"no memory"}})") + event("[DONE]")).error, "an error within the stream: no memory");
  EXPECT_EQ(closed_after(head + event("{no")).error, "cannot read the answer: a chunk that is no JSON: '{no'");
  EXPECT_EQ(closed_after("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n").error, "the connection was closed within the answer");
  EXPECT_EQ(closed_after("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n", "no end within 3 s").error, "no end within 3 s");
  for (const auto& record : {closed_after(head + text("a")), closed_after(head + event("{no")), closed_after("")}) EXPECT_EQ(record.outcome, Outcome::failed);
}

TEST(LoadAnswer, an_end_that_is_late_behind_done_spoils_nothing) {
  const auto record = closed_after("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\nE\r\ndata: [DONE]\n\n\r\n", "no end within 3 s");
  EXPECT_EQ(record.outcome, Outcome::done);
  EXPECT_EQ(record.end_us, 1);
}

TEST(LoadAnswer, a_refusal_has_its_status_its_sentence_and_when_to_come_back) {
  LoadAnswer answer;
  LoadRecord record;
  EXPECT_FALSE(answer.take("HTTP/1.1 429 Busy\r\nRetry-After: 2\r\nContent-Length: 33\r\n\r\n{\"error\":{", 1, record));
  EXPECT_TRUE(answer.take("\"message\":\"slow down\"}}", 2, record));
  EXPECT_TRUE(answer.reusable());
  EXPECT_EQ(record.outcome, Outcome::failed);
  EXPECT_EQ(record.status, 429);
  EXPECT_EQ(record.error, "slow down");
  EXPECT_EQ(record.retry_after_s, 2);
}

TEST(LoadAnswer, a_whole_answer_where_a_stream_was_asked_for_is_said) {
  EXPECT_EQ(closed_after("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}").error, "answered without a stream: {}");
}

}  // namespace
}  // namespace millrace::cli
