#include "base/log.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <limits>

namespace millrace {
namespace {

TEST(Log, a_line_is_an_event_and_its_fields) {
  EXPECT_EQ(log_line(LogFormat::text, "model loaded", {{"file", "m.gguf"}, {"layers", 30}, {"ms", 1.5}}), "model loaded  file=m.gguf layers=30 ms=1.5");
  EXPECT_EQ(log_line(LogFormat::text, "idle", {}), "idle");
  EXPECT_EQ(log_line(LogFormat::json, "model loaded", {{"file", "m.gguf"}, {"layers", 30}, {"ok", true}}),
            R"("event":"model loaded","file":"m.gguf","layers":30,"ok":true)");
  EXPECT_EQ(log_line(LogFormat::json, "idle", {}), R"("event":"idle")");
}

TEST(Log, what_a_client_sends_cannot_break_a_line) {
  const std::string value = "a b=\"c\"\\\n\r\t\x1b[2J\x7f \xff\xC3\xA9";
  const std::string quoted = R"("a b=\"c\"\\\n\r\t\u001b[2J\u007f )" "\xEF\xBF\xBD\xC3\xA9\"";
  EXPECT_EQ(log_line(LogFormat::text, "e", {{"v", value}}), "e  v=" + quoted);
  EXPECT_EQ(log_line(LogFormat::json, "e", {{"v", value}}), R"("event":"e","v":)" + quoted);
  EXPECT_EQ(log_line(LogFormat::text, "e", {{"v", ""}}), "e  v=\"\"");
}

TEST(Log, numbers_that_json_cannot_say_are_strings) {
  EXPECT_EQ(log_line(LogFormat::json, "e", {{"v", std::numeric_limits<double>::quiet_NaN()}}), R"("event":"e","v":"nan")");
  EXPECT_EQ(log_line(LogFormat::json, "e", {{"v", "12"}}), R"("event":"e","v":"12")") << "text stays text";
}

TEST(Log, O12_5_a_line_that_cannot_be_written_hurts_nobody) {
  const int kept = ::dup(2);
  const int full = ::open("/dev/full", O_WRONLY);
  ASSERT_TRUE(kept >= 0 && full >= 0);
  ::dup2(full, 2);
  for (int i = 0; i < 50; ++i) log_error("no room", {{"i", i}});
  ::dup2(kept, 2);
  ::close(full);
  ::close(kept);
}

}  // namespace
}  // namespace millrace
