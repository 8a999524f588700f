#include "cli/output.h"

#include <gtest/gtest.h>

#include "cli/token_list.h"

namespace millrace::cli {
namespace {

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
