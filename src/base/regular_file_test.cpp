#include "base/regular_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>

#include "base/testing/scratch_folder.h"

namespace millrace {
namespace {

class RegularFileTest : public ::testing::Test {
 protected:
  std::string refusal(const std::string& path) {
    const auto file = RegularFile::open(path);
    return file ? "opened" : file.error().message;
  }
  testing::ScratchFolder folder_;
};

TEST_F(RegularFileTest, is_read_whole) {
  const std::string text = fmt::format("{:a<10000}b", "");
  const auto file = RegularFile::open(folder_.file("f", text));
  ASSERT_TRUE(file.ok());
  EXPECT_EQ(file->bytes(), 10'001);
  EXPECT_EQ(*file->read(10'001), text);
  const auto again = RegularFile::open(folder_.file("f"));
  EXPECT_EQ(again->read(10'000).error().message, "it has more than 10000 bytes");
}

TEST_F(RegularFileTest, what_is_none_is_refused_and_nothing_waits) {
  ASSERT_EQ(::mkfifo(folder_.file("pipe").c_str(), 0600), 0);
  std::filesystem::create_symlink("nowhere", folder_.file("link"));
  EXPECT_EQ(refusal(folder_.file("pipe")), "it is a pipe, expected a regular file");
  EXPECT_EQ(refusal("/dev/zero"), "it is a device, expected a regular file");
  EXPECT_EQ(refusal(folder_.path().string()), "it is a folder, expected a regular file");
  EXPECT_EQ(refusal(folder_.file("none")), "no such file or folder");
  EXPECT_EQ(refusal(folder_.file("link")), "it is a symbolic link to something that does not exist");
  EXPECT_EQ(refusal(std::string("a\0b", 3)), "its name contains a zero byte");
}

}  // namespace
}  // namespace millrace
