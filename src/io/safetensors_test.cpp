// safetensors headers and shard indexes that lie, and some that do not.

#include "io/safetensors.h"

#include <gtest/gtest.h>

#include "io/testing/model_files.h"

namespace millrace::io {
namespace {

using testing::bytes_of;
using testing::safetensors_bytes;
using testing::says;

/// What is wrong with these bytes; empty when nothing is. Aligned like a mapping, and with nothing readable behind.
std::string refusal(const std::string& bytes) {
  const std::vector<std::byte> copy(std::as_bytes(std::span(bytes)).begin(), std::as_bytes(std::span(bytes)).end());
  auto tensors = parse_safetensors(copy);
  if (!tensors) return tensors.error().message;
  auto table = TensorTable::make(*std::move(tensors));
  return table ? "" : table.error().message;
}

/// One tensor "w" whose entry is `entry`, and 16 bytes of data.
std::string with_entry(const std::string& entry) {
  return safetensors_bytes(R"({"w":)" + entry + "}", std::string(16, '\0'));
}

TEST(Safetensors, names_shapes_and_data_come_back_in_order) {
  const std::string bytes = safetensors_bytes({{"b", {2, 2}, {1, 2, 3, 4}}, {"a", {}, {5}}});
  const auto tensors = parse_safetensors(std::as_bytes(std::span(bytes)));
  ASSERT_TRUE(tensors) << tensors.error().message;
  ASSERT_EQ(tensors->size(), 2u);
  EXPECT_EQ((*tensors)[0].name, "b");
  EXPECT_EQ((*tensors)[0].view.desc, (tensor::TensorDesc{tensor::DType::f32, {2, 2}}));
  EXPECT_EQ((*tensors)[1].view.desc, (tensor::TensorDesc{tensor::DType::f32, {}}));
  float last = 0;
  std::memcpy(&last, (*tensors)[1].view.data, 4);
  EXPECT_EQ(last, 5.0f);
}

TEST(Safetensors, a_metadata_entry_is_no_tensor) {
  const std::string bytes = safetensors_bytes(R"({"__metadata__":{"format":"pt","more":{"a":[1]}}})", "");
  const auto tensors = parse_safetensors(std::as_bytes(std::span(bytes)));
  ASSERT_TRUE(tensors) << tensors.error().message;
  EXPECT_TRUE(tensors->empty());
}

TEST(Safetensors, a_false_header_length_or_broken_header_is_refused) {  // O1.8
  EXPECT_PRED2(says, refusal(bytes_of(~std::uint64_t{0}) + "{}"), "18446744073709551615 bytes");
  EXPECT_PRED2(says, refusal(bytes_of(std::uint64_t{1} << 40) + "{}"), "cut short");
  EXPECT_PRED2(says, refusal(bytes_of(std::uint64_t{3}) + "{}"), "cut short");
  EXPECT_PRED2(says, refusal(bytes_of(std::uint64_t{0})), "not valid JSON");
  EXPECT_PRED2(says, refusal(std::string("\2\0\0", 3)), "8 bytes");
  EXPECT_PRED2(says, refusal(safetensors_bytes("[]", "")), "not a JSON object");
  EXPECT_PRED2(says, refusal(safetensors_bytes("1", "")), "not a JSON object");
  EXPECT_PRED2(says, refusal(safetensors_bytes(R"({"a":)", "")), "not valid JSON");
  EXPECT_PRED2(says, refusal(safetensors_bytes(R"({"a":)" + std::string(100000, '['), "")), "'a'");
  EXPECT_PRED2(says, refusal(safetensors_bytes(R"({"__metadata__":)" + std::string(100000, '['), "")),
               "nested more than 16 deep");
  EXPECT_PRED2(says, refusal(safetensors_bytes(R"({"a":1})", "")), "'a'");
  EXPECT_PRED2(says, refusal(safetensors_bytes(R"({} {})", "")), "not valid JSON");
}

TEST(Safetensors, a_header_beyond_the_limit_is_refused_before_it_is_read) {
  const std::uint64_t n = (std::uint64_t{1} << 24) + 8;
  EXPECT_PRED2(says, refusal(bytes_of(n) + std::string(n, ' ')), "at most 16777216");
}

TEST(Safetensors, offsets_that_do_not_fit_shape_and_type_are_refused_by_name) {  // O1.9
  EXPECT_EQ(refusal(with_entry(R"({"dtype":"F32","shape":[2,2],"data_offsets":[0,16]})")), "");
  for (const char* offsets :
       {"[8,4]", "[-4,4]", "[0,4]", "[0,9223372036854775808]", "[0,18446744073709551616]", R"(["0","4"])", "[0]", "[]",
        "[0,4,8]", "[1,17]", "[0.0,16]", "16", "{}", "[[0,16]]", "[0,20]"})
    EXPECT_PRED2(says,
                 refusal(with_entry(R"({"dtype":"F32","shape":[2,2],"data_offsets":)" + std::string(offsets) + "}")),
                 "'w'")
        << offsets;
  for (const char* shape :
       {"[-1,4]", "[8589934592,8589934592]", "[9223372036854775807,2]", "[0]", "[2,3]", "[1,1,1,2,2]", "4", "[null]"})
    EXPECT_PRED2(
        says, refusal(with_entry(R"({"dtype":"F32","data_offsets":[0,16],"shape":)" + std::string(shape) + "}")), "'w'")
        << shape;
  for (const char* dtype : {R"("F99")", R"("F16")", R"("F8_E4M3")", R"("")", "4", "null", R"(["F32"])"})
    EXPECT_PRED2(
        says, refusal(with_entry(R"({"shape":[2,2],"data_offsets":[0,16],"dtype":)" + std::string(dtype) + "}")), "'w'")
        << dtype;
}

TEST(Safetensors, an_entry_that_lacks_a_member_or_has_another_is_refused) {
  EXPECT_PRED2(says, refusal(with_entry(R"({"shape":[4],"data_offsets":[0,16]})")), "no dtype");
  EXPECT_PRED2(says, refusal(with_entry(R"({"dtype":"F32","data_offsets":[0,16]})")), "no shape");
  EXPECT_PRED2(says, refusal(with_entry(R"({"dtype":"F32","shape":[4]})")), "no data_offsets");
  EXPECT_PRED2(says, refusal(with_entry(R"({"dtype":"F32","shape":[4],"data_offsets":[0,16],"stride":[1]})")),
               "stride");
  EXPECT_PRED2(says, refusal(with_entry("[]")), "'w'");
}

TEST(Safetensors, keys_and_bytes_that_are_used_twice_are_refused) {
  const std::string entry = R"({"dtype":"F32","shape":[2],"data_offsets":[0,8]})",
                    half = R"({"dtype":"F32","shape":[2],"data_offsets":[4,12]})";
  EXPECT_PRED2(says, refusal(safetensors_bytes(R"({"w":)" + entry + R"(,"w":)" + half + "}", std::string(16, '\0'))),
               "w is there twice");
  EXPECT_PRED2(says, refusal(with_entry(R"({"dtype":"F32","shape":[4],"data_offsets":[0,16],"shape":[4]})")),
               "there twice");
  EXPECT_PRED2(says, refusal(safetensors_bytes(R"({"v":)" + entry + R"(,"w":)" + half + "}", std::string(16, '\0'))),
               "'v' and 'w' overlap");
}

// Older writers do not pad the header, so every tensor may begin at an odd byte.
TEST(Safetensors, a_tensor_need_not_be_aligned_for_its_type) {
  const std::string bytes =
      safetensors_bytes(R"({"w":{"dtype":"F32","shape":[2],"data_offsets":[2,10]}})", std::string(16, '\0'));
  EXPECT_EQ(refusal(bytes), "");
}

TEST(Safetensors, a_valid_file_cut_anywhere_is_refused) {
  const std::string whole = safetensors_bytes({{"b", {2, 2}, {1, 2, 3, 4}}, {"a", {1}, {5}}});
  ASSERT_EQ(refusal(whole), "");
  for (std::size_t n = 0; n < whole.size(); ++n) ASSERT_NE(refusal(whole.substr(0, n)), "") << n;
}

std::string index_refusal(const std::string& text) {
  const auto entries = parse_shard_index(text);
  return entries ? "" : entries.error().message;
}

TEST(ShardIndex, tensors_and_their_files_come_back) {
  const auto entries = parse_shard_index(
      R"({"metadata":{"total_size":8,"x":[{}]},"weight_map":{"a":"1.safetensors","b":"2.safetensors"}})");
  ASSERT_TRUE(entries) << entries.error().message;
  ASSERT_EQ(entries->size(), 2u);
  EXPECT_EQ((*entries)[1].tensor, "b");
  EXPECT_EQ((*entries)[1].shard, "2.safetensors");
}

TEST(ShardIndex, a_file_outside_the_folder_is_refused) {  // O1.10
  for (const char* shard : {"../x.safetensors", "/etc/passwd", "a/b", "..", ".", "", R"(a\\b)", R"(a\u0000/../b)"})
    EXPECT_PRED2(says, index_refusal(R"({"weight_map":{"w":")" + std::string(shard) + R"("}})"), "'w'...plain name")
        << shard;
}

TEST(ShardIndex, a_map_that_is_none_is_refused) {
  for (const char* text : {"", "[]", "7", "{}", R"({"weight_map":[]})", R"({"weight_map":{}})", R"({"weight_map":1})",
                           R"({"weight_map":{"w":1}})", R"({"weight_map":{"w":{}}})",
                           R"({"weight_map":{"w":"a","w":"b"}})", R"({"metadata":{})"})
    EXPECT_NE(index_refusal(text), "") << text;
}

}  // namespace
}  // namespace millrace::io
