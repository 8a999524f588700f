#include "base/output_file.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "base/testing/scratch_folder.h"

namespace millrace {
namespace {

namespace fs = std::filesystem;

class OutputFileTest : public ::testing::Test {
 protected:
  testing::ScratchFolder folder_;
};

TEST_F(OutputFileTest, a_file_appears_whole_at_commit) {
  const std::string path = folder_.file("a");
  auto file = OutputFile::create(path);
  ASSERT_TRUE(file && file->append("whole", 5));
  EXPECT_FALSE(fs::exists(path));
  ASSERT_TRUE(file->commit());
  EXPECT_EQ(testing::bytes_of_file(path), "whole");
  EXPECT_EQ(folder_.files(), std::vector<std::string>{"a"});
}

TEST_F(OutputFileTest, without_commit_the_old_file_stays_and_nothing_else) {
  const std::string path = folder_.file("a");
  for (const bool committed : {true, false}) {
    auto file = OutputFile::create(path);
    ASSERT_TRUE(file && file->append(committed ? "old" : "new", 3));
    ASSERT_TRUE(!committed || file->commit());
  }
  EXPECT_EQ(testing::bytes_of_file(path), "old");
  EXPECT_EQ(folder_.files(), std::vector<std::string>{"a"});
}

TEST_F(OutputFileTest, a_full_device_and_a_missing_folder_are_errors_that_name_the_path) {
  auto full = OutputFile::create("/dev/full");
  ASSERT_TRUE(full);
  EXPECT_EQ(full->append("x", 1).error().message, "writing '/dev/full': No space left on device");
  const std::string path = folder_.file("none/a");
  EXPECT_EQ(OutputFile::create(path).error().message, fmt::format("cannot write '{}': No such file or directory", path));
}

TEST_F(OutputFileTest, two_at_once_for_one_path_do_not_mix) {
  const std::string path = folder_.file("a");
  auto one = OutputFile::create(path), two = OutputFile::create(path);
  ASSERT_TRUE(one && two && one->append("on", 2) && two->append("two", 3) && one->append("e", 1));
  ASSERT_TRUE(two->commit(OutputFile::Commit::durable));
  EXPECT_EQ(testing::bytes_of_file(path), "two");
  ASSERT_TRUE(one->commit());
  EXPECT_EQ(testing::bytes_of_file(path), "one");
  EXPECT_EQ(folder_.files(), std::vector<std::string>{"a"});
}

}  // namespace
}  // namespace millrace
