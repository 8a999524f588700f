// GGUF files that lie, and some that do not. Ids in comments: the cases from the field that each test answers.

#include "io/gguf.h"

#include <gtest/gtest.h>

#include <ctime>
#include <random>

#include "io/testing/model_files.h"

namespace millrace::io {
namespace {

using tensor::DType;
using testing::bytes_of;
using testing::GgufWriter;
using testing::says;
using testing::TinyModel;

std::span<const std::byte> as_span(const std::string& bytes) { return std::as_bytes(std::span(bytes)); }

/// What is wrong with these bytes; empty when nothing is. They lie in a block of their own size, so that a sanitizer
/// sees a read past their end.
std::string refusal(const std::string& bytes) {
  const std::vector<std::byte> copy(as_span(bytes).begin(), as_span(bytes).end());
  auto content = parse_gguf(copy);
  if (!content) return content.error().message;
  auto table = TensorTable::make(std::move(content->tensors));
  return table ? "" : table.error().message;
}

const std::string kOneFloat(4, '\0');

GgufWriter one_tensor(std::vector<std::uint64_t> dims, std::uint32_t type, std::uint64_t offset) {
  GgufWriter w;
  w.raw_tensor("t", dims, type, offset).data(std::string(64, '\0'));
  return w;
}

TEST(Gguf, every_kind_of_value_comes_back_widened) {
  GgufWriter w;
  w.key("u8", 0, bytes_of<std::uint8_t>(200))
      .key("i8", 1, bytes_of<std::int8_t>(-5))
      .key("u16", 2, bytes_of<std::uint16_t>(60000));
  w.key("i16", 3, bytes_of<std::int16_t>(-300))
      .u32("u32", 4000000000u)
      .i32("i32", -7)
      .f32("f32", 0.5f)
      .boolean("yes", true);
  w.text("text", "h\xC3\xA9llo")
      .texts("list", {"a", "", "b c"})
      .array("ints", 5, 2, bytes_of(-1) + bytes_of(2))
      .array("empty", 4, 0, "");
  w.array("flags", 7, 3, std::string("\1\0\1", 3))
      .key("u64", 10, bytes_of(~std::uint64_t{0}))
      .key("f64", 12, bytes_of(1e300));
  const std::string bytes = w.finish();
  const auto content = parse_gguf(as_span(bytes));
  ASSERT_TRUE(content) << content.error().message;
  const auto at = [&](const char* key) { return *content->metadata.find(key); };
  EXPECT_EQ(at("u8"), MetadataValue(std::uint64_t{200}));
  EXPECT_EQ(at("i8"), MetadataValue(std::int64_t{-5}));
  EXPECT_EQ(at("u16"), MetadataValue(std::uint64_t{60000}));
  EXPECT_EQ(at("i16"), MetadataValue(std::int64_t{-300}));
  EXPECT_EQ(at("u32"), MetadataValue(std::uint64_t{4000000000u}));
  EXPECT_EQ(at("i32"), MetadataValue(std::int64_t{-7}));
  EXPECT_EQ(at("f32"), MetadataValue(0.5));
  EXPECT_EQ(at("yes"), MetadataValue(true));
  EXPECT_EQ(at("text"), MetadataValue(std::string_view("h\xC3\xA9llo")));
  EXPECT_EQ(at("list"), MetadataValue(std::vector<std::string_view>{"a", "", "b c"}));
  EXPECT_EQ(at("ints"), MetadataValue(std::vector<std::int64_t>{-1, 2}));
  EXPECT_EQ(at("empty"), MetadataValue(std::vector<std::uint64_t>{}));
  EXPECT_EQ(at("flags"), MetadataValue(std::vector<bool>{true, false, true}));
  EXPECT_EQ(at("u64"), MetadataValue(~std::uint64_t{0}));
  EXPECT_EQ(at("f64"), MetadataValue(1e300));
}

TEST(Gguf, shapes_are_outermost_first_and_data_is_in_place) {
  GgufWriter w;
  w.alignment = 64;
  w.u32("general.alignment", 64);
  w.tensor("a", {DType::f32, {3}}, testing::bytes_of_all({1, 2, 3}));
  w.tensor("b", {DType::q4_0, {2, 64}}, std::string(4 * 18, 'q'));
  const std::string bytes = w.finish();
  const auto content = parse_gguf(as_span(bytes));
  ASSERT_TRUE(content) << content.error().message;
  ASSERT_EQ(content->tensors.size(), 2u);
  EXPECT_EQ(content->tensors[0].view.desc, (tensor::TensorDesc{DType::f32, {3}}));
  EXPECT_EQ(content->tensors[1].view.desc, (tensor::TensorDesc{DType::q4_0, {2, 64}}));
  float third = 0;
  std::memcpy(&third, content->tensors[0].view.data + 8, 4);
  EXPECT_EQ(third, 3.0f);
  EXPECT_EQ(content->tensors[1].view.data[71], std::byte{'q'});
  EXPECT_EQ(content->tensors[1].view.data - content->tensors[0].view.data, 64);
}

TEST(Gguf, version_2_is_read_and_others_are_refused_by_number) {
  GgufWriter w;
  w.version = 2;
  EXPECT_EQ(refusal(w.finish()), "");
  for (const std::uint32_t version : {0u, 1u, 4u}) {
    w.version = version;
    EXPECT_PRED2(says, refusal(w.finish()), "version is " + std::to_string(version));
  }
  w.version = 0x03000000;
  EXPECT_PRED2(says, refusal(w.finish()), "big-endian");
}

TEST(Gguf, counts_that_the_file_cannot_hold_are_refused) {  // O1.1
  EXPECT_PRED2(says, refusal("GGUF"), "cut short");
  EXPECT_PRED2(says, refusal(""), "not a GGUF file");
  EXPECT_PRED2(says, refusal("hello world, this is no model"), "not a GGUF file");
  GgufWriter keys;
  keys.promised_keys = std::uint64_t{1} << 60;
  EXPECT_PRED2(says, refusal(keys.finish()), "promises 1152921504606846976 metadata keys");
  GgufWriter tensors = TinyModel{}.gguf();
  tensors.promised_tensors = std::uint64_t{1} << 60;
  EXPECT_PRED2(says, refusal(tensors.finish()), "promises 1152921504606846976 tensors");
}

TEST(Gguf, one_entry_more_than_there_is_runs_into_what_follows_and_is_refused) {  // O1.1
  GgufWriter keys = TinyModel{}.gguf();
  keys.promised_keys = 13 + 1;
  EXPECT_NE(refusal(keys.finish()), "");
  GgufWriter tensors;
  tensors.raw_tensor("a", {1}, 0, 0);
  tensors.promised_tensors = 2;
  EXPECT_NE(refusal(tensors.finish()), "");
}

TEST(Gguf, lengths_that_wrap_are_refused) {  // O1.2
  const std::string header =
      "GGUF" + bytes_of<std::uint32_t>(3) + bytes_of<std::uint64_t>(0) + bytes_of<std::uint64_t>(1);
  EXPECT_PRED2(says, refusal(header + bytes_of(~std::uint64_t{0}) + std::string(20, 'a')), "metadata key 1 of 1");
  GgufWriter text;
  text.key("general.name", 8, bytes_of(std::uint64_t{1} << 63));
  EXPECT_PRED2(says, refusal(text.finish()), "general.name");
  GgufWriter strings;
  strings.array("tokenizer.ggml.tokens", 8, std::uint64_t{1} << 61, "");
  EXPECT_PRED2(says, refusal(strings.finish()), "tokenizer.ggml.tokens");
  GgufWriter numbers;
  numbers.array("x", 10, (std::uint64_t{1} << 61) + 1, bytes_of(std::uint64_t{0}));
  EXPECT_PRED2(says, refusal(numbers.finish()), "metadata key 'x'");
  GgufWriter some;
  some.array("x", 4, 100, std::string(12, '\0'));
  EXPECT_PRED2(says, refusal(some.finish()), "its 100 elements do not fit");
}

TEST(Gguf, an_alignment_that_is_no_power_of_two_is_refused_by_key) {  // O1.3
  for (const std::uint32_t bad : {0u, 3u, 4u, 24u, 1u << 31}) {
    GgufWriter w;
    w.u32("general.alignment", bad).tensor("t", {DType::f32, {1}}, kOneFloat);
    EXPECT_PRED2(says, refusal(w.finish()), "general.alignment") << bad;
  }
  GgufWriter negative, text;
  EXPECT_PRED2(says, refusal(negative.i32("general.alignment", -32).finish()), "general.alignment");
  EXPECT_PRED2(says, refusal(text.text("general.alignment", "32").finish()), "general.alignment");
}

TEST(Gguf, a_dimension_of_zero_is_refused) {  // O1.4
  EXPECT_PRED2(says, refusal(one_tensor({5, 0}, 0, 0).finish()), "'t'...dimension of 0");
  EXPECT_PRED2(says, refusal(one_tensor({0}, 0, 0).finish()), "dimension of 0");
}

TEST(Gguf, dimensions_whose_product_wraps_are_refused) {  // O1.5
  const std::uint64_t big = std::uint64_t{1} << 62;
  EXPECT_PRED2(says, refusal(one_tensor({320, (std::uint64_t{1} << 42) + 1}, 0, 0).finish()), "'t'");
  EXPECT_PRED2(says, refusal(one_tensor({(std::uint64_t{1} << 63) - 1, 2}, 24, 0).finish()), "product exceeds");
  EXPECT_PRED2(says, refusal(one_tensor({~std::uint64_t{0}}, 0, 0).finish()), "product exceeds");
  EXPECT_PRED2(says, refusal(one_tensor({big, 4, big, 4}, 24, 0).finish()), "product exceeds");
  EXPECT_PRED2(says, refusal(one_tensor({big}, 28, 0).finish()), "which exceed");
}

TEST(Gguf, a_tensor_beyond_the_end_is_named_and_the_file_called_cut_short) {  // O1.6
  const std::string whole = TinyModel{}.gguf().finish();
  EXPECT_EQ(refusal(whole), "");
  EXPECT_PRED2(says, refusal(whole.substr(0, whole.size() - 1)),
               "'output.weight' ends at byte " + std::to_string(whole.size()) + "..." + "cut short");
  for (const std::uint64_t offset :
       {std::uint64_t{1} << 40, ~std::uint64_t{0} - 31, std::uint64_t{64}, std::uint64_t{96}})
    EXPECT_PRED2(says, refusal(one_tensor({1}, 0, offset).finish()), "'t'...too short") << offset;
  EXPECT_PRED2(says, refusal(one_tensor({1}, 0, 33).finish()), "'t'...offset 33");
}

TEST(Gguf, every_prefix_of_a_file_is_refused) {
  TinyModel small;
  small.layers = 1;
  small.dim = 8;
  small.ffn_dim = 8;
  small.heads = small.kv_heads = 1;
  small.head_dim = 8;
  small.vocab = 4;
  const std::string whole = small.gguf().finish();
  ASSERT_EQ(refusal(whole), "");
  for (std::size_t n = 0; n < whole.size(); ++n)
    ASSERT_NE(refusal(whole.substr(0, n)), "") << n << " bytes of " << whole.size();
}

TEST(Gguf, any_damage_to_the_header_is_refused_or_gives_tensors_inside_the_file_for_3000_seeds) {
  const std::string whole = TinyModel{.layers = 1, .dim = 32, .vocab = 8}.gguf().finish();
  for (std::uint32_t seed = 0; seed < 3000; ++seed) {
    std::mt19937 rng(seed);
    std::string bytes = whole;
    for (std::uint32_t hits = rng() % 4 + 1; hits > 0; --hits)
      bytes[rng() % 1500] = static_cast<char>(rng() % 3 ? rng() : 0xFF * (rng() % 2));
    const auto content = parse_gguf(as_span(bytes));
    if (!content) continue;
    for (const NamedTensor& t : content->tensors) {
      const std::byte *first = as_span(bytes).data(), *last = first + bytes.size();
      ASSERT_TRUE(t.view.data >= first && t.view.data <= last &&
                  t.view.desc.bytes() <= static_cast<std::size_t>(last - t.view.data))
          << "seed " << seed << ", tensor " << t.name;
    }
  }
}

TEST(Gguf, what_is_there_twice_or_overlaps_is_refused) {
  GgufWriter keys, tensors, overlap;
  EXPECT_PRED2(says, refusal(keys.u32("a", 1).u32("a", 1).finish()), "'a' is there twice");
  tensors.tensor("t", {DType::f32, {1}}, kOneFloat).tensor("t", {DType::f32, {1}}, kOneFloat);
  EXPECT_PRED2(says, refusal(tensors.finish()), "'t' is there twice");
  overlap.raw_tensor("a", {16}, 0, 0).raw_tensor("b", {8}, 0, 32).data(std::string(64, '\0'));
  EXPECT_PRED2(says, refusal(overlap.finish()), "'a' and 'b' overlap");
}

TEST(Gguf, unknown_types_nested_arrays_and_odd_shapes_are_refused_by_name) {
  GgufWriter value, element, nested, flag;
  EXPECT_PRED2(says, refusal(value.key("a", 13, "").finish()), "'a'...type is 13");
  EXPECT_PRED2(says, refusal(element.array("a", 99, 1, "x").finish()), "'a'...type 99");
  EXPECT_PRED2(says, refusal(nested.array("a", 9, 1, bytes_of<std::uint32_t>(4) + bytes_of<std::uint64_t>(0)).finish()),
               "array of arrays");
  EXPECT_PRED2(says, refusal(flag.key("a", 7, "\2").finish()), "bool is 2");
  EXPECT_PRED2(says, refusal(one_tensor({32}, 4, 0).finish()), "GGUF type 4");
  EXPECT_PRED2(says, refusal(one_tensor({33}, 2, 0).finish()), "multiple of 32");
  EXPECT_PRED2(says, refusal(one_tensor({}, 0, 0).finish()), "0 dimensions");
  EXPECT_PRED2(says, refusal(one_tensor({1, 1, 1, 1, 1}, 0, 0).finish()), "5 dimensions");
}

TEST(Gguf, names_that_cannot_be_printed_are_refused_and_shown_harmlessly) {
  GgufWriter key, tensor, empty;
  EXPECT_PRED2(says, refusal(key.u32("a\x1B[2J\n", 1).finish()), "'a?[2J?'");
  tensor.raw_tensor("t\xFF", {1}, 0, 0).data(kOneFloat);
  EXPECT_PRED2(says, refusal(tensor.finish()), "tensor 1 of 1 has no valid name: 't\xEF\xBF\xBD'");
  EXPECT_PRED2(says, refusal(empty.u32("", 1).finish()), "no valid name");
}

TEST(Gguf, arrays_that_would_widen_into_gigabytes_are_refused) {
  GgufWriter w;
  w.array("a", 0, 3u << 20, std::string(3u << 20, '\0')).array("b", 0, 3u << 20, std::string(3u << 20, '\0'));
  EXPECT_PRED2(says, refusal(w.finish()), "'b'...all arrays of a file together");
}

TEST(Gguf, a_large_vocabulary_opens_quickly) {  // O10.5: 256,000 tokens and 500,000 merges in < 3 s
  std::vector<std::string> tokens, merges;
  for (int i = 0; i < 256000; ++i) tokens.push_back("token" + std::to_string(i));
  for (int i = 0; i < 500000; ++i) merges.push_back("left" + std::to_string(i) + " right" + std::to_string(i));
  GgufWriter w;
  const std::string bytes = w.texts("tokenizer.ggml.tokens", tokens).texts("tokenizer.ggml.merges", merges).finish();
  const std::clock_t start = std::clock();  // processor time: other programs do not count
  const auto content = parse_gguf(as_span(bytes));
  const double seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  ASSERT_TRUE(content) << content.error().message;
  const auto& read = std::get<std::vector<std::string_view>>(*content->metadata.find("tokenizer.ggml.merges"));
  EXPECT_EQ(read.size(), 500000u);
  EXPECT_EQ(read.back(), "left499999 right499999");
  EXPECT_LT(seconds, 3.0);
}

}  // namespace
}  // namespace millrace::io
