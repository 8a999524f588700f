#include "cli/output.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "cli/token_list.h"

namespace millrace::cli {
namespace {

namespace fs = std::filesystem;

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
  EXPECT_EQ(*read_file(path), "whole");
  EXPECT_EQ(entries(), 1);
}

TEST_F(OutputFileTest, without_commit_the_old_file_stays_and_nothing_else) {
  const std::string path = folder_ / "a";
  for (const bool committed : {true, false}) {
    auto file = OutputFile::create(path);
    ASSERT_TRUE(file && file->append(committed ? "old" : "new", 3));
    ASSERT_TRUE(!committed || file->commit());
  }
  EXPECT_EQ(*read_file(path), "old");
  EXPECT_EQ(entries(), 1);
}

TEST_F(OutputFileTest, a_full_device_and_a_missing_folder_are_errors_that_name_the_path) {
  auto full = OutputFile::create("/dev/full");
  ASSERT_TRUE(full);
  EXPECT_EQ(full->append("x", 1).error().message, "writing '/dev/full': No space left on device");
  const std::string path = folder_ / "none" / "a";
  EXPECT_EQ(OutputFile::create(path).error().message, fmt::format("cannot write '{}': No such file or directory", path));
}

TEST(ReadFile, a_folder_a_missing_file_and_a_file_over_the_limit_are_errors) {
  EXPECT_EQ(read_file("/nowhere/a").error().message, "cannot open '/nowhere/a': No such file or directory");
  EXPECT_EQ(read_file("/").error().message, "reading '/': Is a directory");
  EXPECT_EQ(read_file("/dev/zero", 1 << 20).error().message, "'/dev/zero' is longer than 1048576 bytes");
}

TEST(TokenList, commas_and_blanks_separate_and_anything_else_is_named) {
  EXPECT_EQ(*parse_token_list("1,2, 3\n4"), (std::vector<TokenId>{1, 2, 3, 4}));
  EXPECT_TRUE(parse_token_list(" , ")->empty());
  EXPECT_EQ(token_list(std::vector<TokenId>{7, 0, 49151}), "7,0,49151");
  for (const char* word : {"x", "-1", "1.5", "2147483648", "0x10"})
    EXPECT_EQ(parse_token_list(std::string("5,") + word).error().message,
              fmt::format("'{}' is no token id: expected whole numbers with commas between", word));
}

}  // namespace
}  // namespace millrace::cli
