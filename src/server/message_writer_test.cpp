#include "server/message_writer.h"

#include "server/json_body.h"
#include "server/testing/script.h"

namespace millrace::server {
namespace {

using testing::NamedEvent;
using testing::Script;
using text::Json;

std::unique_ptr<AnswerWriter> writer() { return make_message_writer({"msg_r1", "m", 12, {"END", "\n"}}); }

/// The message as Anthropic's clients put it together from a stream.
Json joined(const std::vector<NamedEvent>& events) {
  Json message;
  for (const auto& [name, data] : events) {
    EXPECT_EQ(data["type"], name);
    if (name == "message_start") message = data["message"];
    if (name == "content_block_start") message["content"].push_back(data["content_block"]);
    if (name == "content_block_delta") message["content"][data["index"].get<std::size_t>()]["text"].get_ref<std::string&>() += data["delta"]["text"].get<std::string>();
    if (name == "message_delta") {
      message.update(data["delta"]);
      message["usage"].update(data["usage"]);
    }
  }
  return message;
}

TEST(MessageWriter, a_message_reads_as_anthropics_do) {
  const Script script = testing::script_of({"Hel", "", "lo \"x\""}, engine::Finish::stop);
  EXPECT_EQ(testing::whole_of(*writer(), script),
            R"({"id":"msg_r1","type":"message","role":"assistant","model":"m","content":[{"type":"text","text":"Hello \"x\""}],)"
            R"("stop_reason":"end_turn","stop_sequence":null,)"
            R"("usage":{"input_tokens":8,"cache_creation_input_tokens":0,"cache_read_input_tokens":4,"output_tokens":3}})");
}

TEST(MessageWriter, a_stream_reads_as_anthropics_do) {
  const Script script = testing::script_of({"Hel", "", "lo"}, engine::Finish::length);
  EXPECT_EQ(testing::stream_of(*writer(), script),
            "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"msg_r1\",\"type\":\"message\",\"role\":\"assistant\",\"model\":\"m\","
            "\"content\":[],\"stop_reason\":null,\"stop_sequence\":null,"
            "\"usage\":{\"input_tokens\":12,\"cache_creation_input_tokens\":0,\"cache_read_input_tokens\":0,\"output_tokens\":0}}}\n\n"
            "event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n"
            "event: ping\ndata: {\"type\":\"ping\"}\n\n"
            "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"Hel\"}}\n\n"
            "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"lo\"}}\n\n"
            "event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":0}\n\n"
            "event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"max_tokens\",\"stop_sequence\":null},"
            "\"usage\":{\"input_tokens\":8,\"cache_creation_input_tokens\":0,\"cache_read_input_tokens\":4,\"output_tokens\":3}}\n\n"
            "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n");
}

TEST(MessageWriter, says_what_ended_the_answer) {
  const auto ended = [](engine::Finish finish, engine::StopReason reason) {
    const Json message = Json::parse(testing::whole_of(*writer(), testing::script_of({"a"}, finish, reason)));
    return dump(Json::array({message["stop_reason"], message["stop_sequence"]}));
  };
  EXPECT_EQ(ended(engine::Finish::stop, {}), R"(["end_turn",null])");
  EXPECT_EQ(ended(engine::Finish::stop, engine::StopString{1}), R"(["stop_sequence","\n"])");
  EXPECT_EQ(ended(engine::Finish::stop, engine::StopToken{9}), R"(["end_turn",null])");
  EXPECT_EQ(ended(engine::Finish::length, {}), R"(["max_tokens",null])");
}

TEST(MessageWriter, an_answer_of_no_text_has_its_block_all_the_same) {
  const Script script = testing::script_of({""}, engine::Finish::stop);
  EXPECT_EQ(Json::parse(testing::whole_of(*writer(), script))["content"], Json::parse(R"([{"type":"text","text":""}])"));
}

TEST(MessageWriter, a_stream_that_breaks_off_says_so_in_anthropics_words) {
  const auto made = writer();
  made->begin();
  const auto events = testing::read_events(made->failure({503, "the server is shutting down, the answer was cut", "", "", 0}));
  ASSERT_EQ(events.size(), 1U);
  EXPECT_EQ(events[0].name, "error");
  EXPECT_EQ(events[0].data["type"], "error");
  EXPECT_EQ(events[0].data["error"], Json::parse(R"({"type":"overloaded_error","message":"the server is shutting down, the answer was cut"})"));
}

TEST(MessageWriter, however_a_text_is_cut_the_stream_joins_to_the_whole_message_for_300_seeds) {
  for (std::uint32_t seed = 0; seed < 300; ++seed) {
    const bool by_text = seed % 3 == 0;
    const Script script = testing::random_script(seed, seed % 2 == 0 || by_text ? engine::Finish::stop : engine::Finish::length,
                                                 by_text ? engine::StopReason(engine::StopString{static_cast<int>(seed % 2)}) : engine::StopReason());
    EXPECT_EQ(joined(testing::read_events(testing::stream_of(*writer(), script))), Json::parse(testing::whole_of(*writer(), script))) << "seed " << seed;
  }
}

}  // namespace
}  // namespace millrace::server
