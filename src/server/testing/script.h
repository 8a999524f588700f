#pragma once

// One answer as the engine could bring it, told to a writer in pieces or as a whole; and server-sent events read back.

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "server/answer_writer.h"
#include "text/chat_template.h"

namespace millrace::server::testing {

struct Script {
  std::vector<Piece> pieces;
  Ending ending;

  Answer answer() const {
    Answer answer;
    for (const Piece& piece : pieces) {
      answer.text += piece.text;
      answer.tokens.insert(answer.tokens.end(), piece.tokens.begin(), piece.tokens.end());
    }
    answer.ending = ending;
    return answer;
  }
  Totals totals() const { return {ending.usage.prompt_tokens, ending.usage.cached_tokens, ending.usage.completion_tokens, 0}; }
};

inline Script script_of(std::vector<std::string> texts, engine::Finish finish, engine::StopReason reason = {}) {
  Script script;
  for (std::string& text : texts) script.pieces.push_back({std::move(text), {{7, 0, -0.5F, {{7, -0.5F}, {8, -1.25F}}}}});
  script.ending = {finish, reason, {}, {}};
  script.ending.usage.prompt_tokens = 12;
  script.ending.usage.cached_tokens = 4;
  script.ending.usage.completion_tokens = static_cast<int>(script.pieces.size());
  return script;
}

/// A text of characters of one to four bytes, cut at random between them; some pieces are empty.
inline Script random_script(std::uint32_t seed, engine::Finish finish, engine::StopReason reason = {}) {
  static constexpr std::string_view kCharacters[] = {"a", "\"", "\\", "\n", "\xC3\xA9", "\xE2\x82\xAC", "\xF0\x9F\x98\x80", " ", "\x01", "</s>"};
  std::mt19937 random(seed);
  std::vector<std::string> texts(1 + random() % 20);
  for (std::string& text : texts)
    for (auto n = random() % 6; n > 0; --n) text += kCharacters[random() % std::size(kCharacters)];
  return script_of(std::move(texts), finish, reason);
}

inline std::string stream_of(AnswerWriter& writer, const Script& script) {
  std::string out = writer.begin();
  for (const Piece& piece : script.pieces) out += writer.piece(0, piece);
  out += writer.end(0, script.ending);
  return out += writer.close(script.totals());
}

inline std::string whole_of(AnswerWriter& writer, const Script& script) {
  const Answer answer = script.answer();
  return writer.whole({&answer, 1}, script.totals());
}

struct NamedEvent { std::string name; text::Json data; };

/// Of a stream in which each event has a name and one line of data. Anything else fails the test.
inline std::vector<NamedEvent> read_events(std::string_view stream) {
  std::vector<NamedEvent> events;
  while (!stream.empty()) {
    const auto end = stream.find("\n\n"), line = stream.find('\n');
    EXPECT_TRUE(stream.starts_with("event: ") && end != stream.npos && stream.substr(line + 1).starts_with("data: ")) << stream;
    if (end == stream.npos || line >= end) return events;
    const std::string_view data = stream.substr(line + 7, end - line - 7);
    EXPECT_EQ(data.find('\n'), data.npos) << data;
    events.push_back({std::string(stream.substr(7, line - 7)), text::Json::parse(data)});
    stream.remove_prefix(end + 2);
  }
  return events;
}

}  // namespace millrace::server::testing
