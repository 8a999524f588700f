#include "server/response_writer.h"

#include "server/json_body.h"
#include "server/testing/letter_tokenizer.h"
#include "server/testing/script.h"

namespace millrace::server {
namespace {

using testing::NamedEvent;
using testing::Script;
using text::Json;

const testing::LetterTokenizer kTokenizer;

std::unique_ptr<AnswerWriter> writer(bool with_logprobs = false) {
  Json begun = {{"id", "resp_r1"}, {"object", "response"}, {"status", "in_progress"}, {"error", nullptr}, {"incomplete_details", nullptr},
                {"output", Json::array()}, {"usage", nullptr}};
  return make_response_writer(std::make_shared<const ResponseHead>(ResponseHead{std::move(begun), "msg_r1", with_logprobs ? &kTokenizer : nullptr}));
}

/// The response as OpenAI's clients put it together from deltas, with what only the last event tells.
Json joined(const std::vector<NamedEvent>& events) {
  Json response, item, part;
  int expected = 0;
  for (const auto& [name, data] : events) {
    EXPECT_EQ(data["type"], name);
    EXPECT_EQ(data["sequence_number"], expected++) << name;
    if (name == "response.created") response = data["response"];
    if (name == "response.output_item.added") item = data["item"];
    if (name == "response.content_part.added") part = data["part"];
    if (name == "response.output_text.delta") {
      EXPECT_EQ(data["item_id"], item["id"]);
      part["text"].get_ref<std::string&>() += data["delta"].get<std::string>();
      for (const Json& one : data["logprobs"]) part["logprobs"].push_back(one);
    }
    if (name == "response.output_text.done") {
      EXPECT_EQ(data["text"], part["text"]);
      EXPECT_EQ(data["logprobs"], part["logprobs"]);
    }
    if (name == "response.content_part.done") {
      EXPECT_EQ(data["part"], part);
    }
    if (name == "response.output_item.done") {
      item["status"] = data["item"]["status"];
      item["content"] = Json::array({part});
      EXPECT_EQ(data["item"], item);
    }
    if (name == "response.completed" || name == "response.incomplete") {
      const Json& last = data["response"];
      EXPECT_EQ("response." + last["status"].get<std::string>(), name);
      for (const char* key : {"status", "incomplete_details", "usage"}) response[key] = last[key];
      response["output"] = Json::array({item});
    }
  }
  return response;
}

std::vector<std::string> names(const std::vector<NamedEvent>& events) {
  std::vector<std::string> names;
  for (const auto& [name, data] : events) names.push_back(name);
  return names;
}

TEST(ResponseWriter, a_response_reads_as_openais_do) {
  const Script script = testing::script_of({"Hel", "", "lo"}, engine::Finish::stop);
  EXPECT_EQ(testing::whole_of(*writer(), script),
            R"({"id":"resp_r1","object":"response","status":"completed","error":null,"incomplete_details":null,)"
            R"("output":[{"type":"message","id":"msg_r1","status":"completed","role":"assistant",)"
            R"("content":[{"type":"output_text","text":"Hello","annotations":[],"logprobs":[]}]}],)"
            R"("usage":{"input_tokens":12,"input_tokens_details":{"cached_tokens":4,"cache_write_tokens":0},)"
            R"("output_tokens":3,"output_tokens_details":{"reasoning_tokens":0},"total_tokens":15}})");
}

TEST(ResponseWriter, a_stream_has_openais_events_in_openais_order) {
  const Script script = testing::script_of({"Hel", "", "lo"}, engine::Finish::stop);
  const auto events = testing::read_events(testing::stream_of(*writer(), script));
  EXPECT_EQ(names(events), (std::vector<std::string>{"response.created", "response.in_progress", "response.output_item.added", "response.content_part.added",
                                                     "response.output_text.delta", "response.output_text.delta", "response.output_text.done",
                                                     "response.content_part.done", "response.output_item.done", "response.completed"}));
  EXPECT_EQ(dump(events[0].data["response"]["status"]), "\"in_progress\"");
  EXPECT_EQ(dump(events[2].data), R"({"type":"response.output_item.added","sequence_number":2,"output_index":0,)"
                                  R"("item":{"type":"message","id":"msg_r1","status":"in_progress","role":"assistant","content":[]}})");
  EXPECT_EQ(dump(events[3].data), R"({"type":"response.content_part.added","sequence_number":3,"item_id":"msg_r1","output_index":0,"content_index":0,)"
                                  R"("part":{"type":"output_text","text":"","annotations":[],"logprobs":[]}})");
  EXPECT_EQ(dump(events[5].data), R"({"type":"response.output_text.delta","sequence_number":5,"item_id":"msg_r1","output_index":0,"content_index":0,)"
                                  R"("delta":"lo","logprobs":[]})");
  EXPECT_EQ(dump(events[6].data), R"({"type":"response.output_text.done","sequence_number":6,"item_id":"msg_r1","output_index":0,"content_index":0,)"
                                  R"("text":"Hello","logprobs":[]})");
  EXPECT_EQ(events.back().data["response"], Json::parse(testing::whole_of(*writer(), script)));
}

TEST(ResponseWriter, an_answer_cut_by_its_length_is_incomplete_and_says_why) {
  const Json whole = Json::parse(testing::whole_of(*writer(), testing::script_of({"a"}, engine::Finish::length)));
  EXPECT_EQ(whole["status"], "incomplete");
  EXPECT_EQ(whole["incomplete_details"], Json::parse(R"({"reason":"max_output_tokens"})"));
  EXPECT_EQ(whole["output"][0]["status"], "incomplete");
}

TEST(ResponseWriter, log_probabilities_come_with_their_tokens) {
  const Script script = testing::script_of({"h", ""}, engine::Finish::stop);
  const auto events = testing::read_events(testing::stream_of(*writer(true), script));
  const auto of_event = [&](std::size_t i) { return events.at(i).data["logprobs"]; };
  ASSERT_EQ(names(events)[5], "response.output_text.delta") << "a token without a text is told, too";
  EXPECT_EQ(of_event(4).size(), 1U);
  EXPECT_EQ(of_event(5).size(), 1U);
  EXPECT_EQ(dump(of_event(4)[0]), R"({"token":"bytes:\\xe2\\x82","logprob":-0.5,"bytes":[226,130],"top_logprobs":[)"
                                  R"({"token":"bytes:\\xe2\\x82","logprob":-0.5,"bytes":[226,130]},{"token":"bytes:\\xac","logprob":-1.25,"bytes":[172]}]})");
}

TEST(ResponseWriter, a_stream_that_breaks_off_says_failed_and_error) {
  const auto made = writer();
  std::string stream = made->begin();
  stream += made->piece(0, {"a", {}});
  stream += made->failure({408, "the request took longer", "timeout_ms", "", 0});
  const auto events = testing::read_events(stream);
  ASSERT_EQ(events.size(), 7U);
  const Json &failed = events[5].data, &error = events[6].data;
  EXPECT_EQ(failed["type"], "response.failed");
  EXPECT_EQ(failed["response"]["status"], "failed");
  EXPECT_EQ(failed["response"]["error"]["message"], "the request took longer");
  EXPECT_EQ(events[6].name, "error");
  EXPECT_EQ(error["sequence_number"], 6);
  EXPECT_EQ(error["message"], "the request took longer");
  EXPECT_EQ(error["param"], "timeout_ms");
  EXPECT_EQ(error["error"]["message"], "the request took longer") << "OpenAI's clients raise an exception for this one only";
}

TEST(ResponseWriter, however_a_text_is_cut_the_stream_joins_to_the_whole_response_for_300_seeds) {
  for (std::uint32_t seed = 0; seed < 300; ++seed) {
    const Script script = testing::random_script(seed, seed % 2 == 0 ? engine::Finish::stop : engine::Finish::length);
    const bool with_logprobs = seed % 3 == 0;
    EXPECT_EQ(joined(testing::read_events(testing::stream_of(*writer(with_logprobs), script))), Json::parse(testing::whole_of(*writer(with_logprobs), script)))
        << "seed " << seed;
  }
}

}  // namespace
}  // namespace millrace::server
