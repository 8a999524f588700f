#include "sched/scenario.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

namespace millrace::sched {
namespace {

TEST(Scenarios, each_file_in_tests_scenarios_replays_to_itself) {  // A21, B4, B8
  int replayed = 0;
  for (const auto& file : std::filesystem::directory_iterator(MILLRACE_SOURCE_DIR "/tests/scenarios")) {
    if (file.path().extension() != ".txt") continue;
    std::stringstream text;
    text << std::ifstream(file.path()).rdbuf();
    EXPECT_EQ(text.str(), replay(text.str())) << file.path();
    ++replayed;
  }
  EXPECT_GE(replayed, 19);
}

TEST(Scenarios, a_wrong_answer_does_not_replay_to_itself) {
  const std::string wrong = "pool 4 4 8 2\nadd a 100 7 8\nplan a:0+6!\n";
  EXPECT_EQ(replay(wrong), "pool 4 4 8 2\nadd a 100 7 8\nplan a:0+7!\n");
}

}  // namespace
}  // namespace millrace::sched
