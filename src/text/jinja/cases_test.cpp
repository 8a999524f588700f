// Small templates and what Python's Jinja2 made of them: cases.jsonl, one object per line. The first line holds the
// variables all of them see. `out` is the text; `error` says that Jinja2 raised, and a part of our own message.

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <fstream>

#include "text/chat_template.h"

namespace millrace::text {
namespace {

constexpr std::int64_t kNow = 1795955696;  // 2026-11-29 12:34:56

TEST(Jinja, agrees_with_jinja2_on_every_case_of_the_table) {
  std::ifstream lines(MILLRACE_SOURCE_DIR "/src/text/jinja/cases.jsonl");
  std::string line;
  ASSERT_TRUE(std::getline(lines, line));
  const Json variables = Json::parse(line)["variables"];
  int n = 0;
  for (; std::getline(lines, line); ++n) {
    const Json wanted = Json::parse(line);
    const auto source = wanted["t"].get<std::string>();
    auto parsed = ChatTemplate::parse(source);
    const auto rendered = parsed ? parsed->render(variables, {}, kNow) : Result<MarkedText>(parsed.error());
    if (wanted.contains("out")) {
      ASSERT_TRUE(rendered.ok()) << source << "\n" << rendered.error().message;
      EXPECT_EQ(rendered->text, wanted["out"].get<std::string>()) << source;
    } else {
      ASSERT_FALSE(rendered.ok()) << source << "\n" << rendered->text;
      EXPECT_NE(rendered.error().message.find(wanted["error"].get<std::string>()), std::string::npos) << source << "\n" << rendered.error().message;
    }
  }
  EXPECT_GT(n, 250);
}

}  // namespace
}  // namespace millrace::text
