#include "base/output_file.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

namespace millrace {
namespace {

namespace fs = std::filesystem;

std::string text_of(const std::string& path) {
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

class OutputFileTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "millrace-XXXXXX").string();
    folder_ = mkdtemp(name.data());
  }
  void TearDown() override { fs::remove_all(folder_); }
  int entries() const { return static_cast<int>(std::distance(fs::directory_iterator(folder_), fs::directory_iterator())); }
  fs::path folder_;
};

TEST_F(OutputFileTest, a_file_appears_whole_at_commit) {
  const std::string path = folder_ / "a";
  auto file = OutputFile::create(path);
  ASSERT_TRUE(file && file->append("whole", 5));
  EXPECT_FALSE(fs::exists(path));
  ASSERT_TRUE(file->commit());
  EXPECT_EQ(text_of(path), "whole");
  EXPECT_EQ(entries(), 1);
}

TEST_F(OutputFileTest, without_commit_the_old_file_stays_and_nothing_else) {
  const std::string path = folder_ / "a";
  for (const bool committed : {true, false}) {
    auto file = OutputFile::create(path);
    ASSERT_TRUE(file && file->append(committed ? "old" : "new", 3));
    ASSERT_TRUE(!committed || file->commit());
  }
  EXPECT_EQ(text_of(path), "old");
  EXPECT_EQ(entries(), 1);
}

TEST_F(OutputFileTest, a_full_device_and_a_missing_folder_are_errors_that_name_the_path) {
  auto full = OutputFile::create("/dev/full");
  ASSERT_TRUE(full);
  EXPECT_EQ(full->append("x", 1).error().message, "writing '/dev/full': No space left on device");
  const std::string path = folder_ / "none" / "a";
  EXPECT_EQ(OutputFile::create(path).error().message, fmt::format("cannot write '{}': No such file or directory", path));
}

TEST_F(OutputFileTest, two_at_once_for_one_path_do_not_mix) {
  const std::string path = folder_ / "a";
  auto one = OutputFile::create(path), two = OutputFile::create(path);
  ASSERT_TRUE(one && two && one->append("on", 2) && two->append("two", 3) && one->append("e", 1));
  ASSERT_TRUE(two->commit(OutputFile::Commit::durable));
  EXPECT_EQ(text_of(path), "two");
  ASSERT_TRUE(one->commit());
  EXPECT_EQ(text_of(path), "one");
  EXPECT_EQ(entries(), 1);
}

}  // namespace
}  // namespace millrace
