// Whole models on disk: paths that are none, split sets, folders with shards, and giving pages back.

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

#include "io/mapped_file.h"
#include "io/testing/model_files.h"
#include "io/weight_source.h"

namespace millrace::io {
namespace {

namespace fs = std::filesystem;
using tensor::DType;
using testing::GgufWriter;
using testing::safetensors_bytes;
using testing::says;
using testing::ScratchFolder;
using testing::TinyModel;

/// What is wrong with the model at this path; fails when nothing is. Every refusal names the path as it was given.
std::string refusal(const std::string& path) {
  const auto source = open_model(path);
  if (source) return "opened";
  EXPECT_TRUE(path.empty() || source.error().message.starts_with(fmt::format("loading '{}': ", path)))
      << source.error().message;
  return source.error().message;
}

float first_value(const WeightSource& source, std::string_view name) {
  float value = 0;
  std::memcpy(&value, source.find(name)->data, sizeof value);
  return value;
}

TEST(OpenModel, each_wrong_path_gets_its_own_true_reason) {  // O12.4
  const ScratchFolder scratch;
  const std::string at = scratch.path().string();
  EXPECT_PRED2(says, refusal(""), "path of the model is empty");
  EXPECT_PRED2(says, refusal(at + "/missing.gguf"), "no such file or folder");
  EXPECT_PRED2(says, refusal(at), "the folder has no config.json");
  EXPECT_PRED2(says, refusal(scratch.file("empty.gguf", "")), "the file is empty");
  EXPECT_PRED2(says, refusal("/dev/null"), "it is a device");
  EXPECT_PRED2(says, refusal("/dev/zero"), "it is a device");
  fs::create_symlink("nowhere", at + "/dangling");
  EXPECT_PRED2(says, refusal(at + "/dangling"), "symbolic link to something that does not exist");
  fs::create_symlink("loop", at + "/loop");
  EXPECT_PRED2(says, refusal(at + "/loop"), "symbolic links");
  ASSERT_EQ(::mkfifo((at + "/pipe").c_str(), 0600), 0);
  EXPECT_PRED2(says, refusal(at + "/pipe"), "it is a pipe");
  EXPECT_PRED2(says, refusal(scratch.file("x.gguf", "just some text, long enough for a header")), "not a GGUF file");
  EXPECT_PRED2(says, refusal(at + "/x.gguf/below"), "Not a directory");
  EXPECT_PRED2(says, refusal(std::string(5000, 'a')), "too long");
  EXPECT_PRED2(says, refusal(at + "/x.gguf" + std::string("\0z", 2)), "zero byte");
}

TEST(OpenModel, a_file_that_may_not_be_read_says_so) {  // O12.4
  const ScratchFolder scratch;
  const std::string path = scratch.file("locked.gguf", "GGUF");
  fs::permissions(path, fs::perms::none);
  if (::geteuid() == 0) {
    // Root may read everything; a plain user in a child process may not.
    fs::permissions(scratch.path(), fs::perms::owner_all | fs::perms::others_exec);
    EXPECT_EXIT(
        {
          if (::setuid(65534) != 0) ::_exit(2);
          const auto source = open_model(path);
          ::_exit(!source && source.error().message.find("Permission denied") != std::string::npos ? 0 : 1);
        },
        ::testing::ExitedWithCode(0), "");
  } else {
    EXPECT_PRED2(says, refusal(path), "Permission denied");
  }
}

TEST(OpenModel, neither_the_name_of_a_file_nor_blanks_and_accents_in_it_matter) {  // O12.4
  const ScratchFolder scratch;
  for (const char* name : {"model.bin", "a model with \xC3\xA9.gguf"}) {
    const std::string path = scratch.file(name, TinyModel{}.gguf().finish());
    const auto source = open_model(path);
    ASSERT_TRUE(source) << source.error().message;
    EXPECT_EQ((*source)->path(), path);
    EXPECT_EQ((*source)->kind(), SourceKind::gguf);
    EXPECT_EQ((*source)->text_file("config.json"), nullptr);
    EXPECT_NE((*source)->find("token_embd.weight"), nullptr);
    EXPECT_EQ((*source)->find("nothing"), nullptr);
    EXPECT_EQ((*source)->tensor_names().front(), "token_embd.weight");
  }
}

TEST(OpenModel, released_pages_leave_memory_and_come_back_from_the_file) {
  const ScratchFolder scratch;
  std::vector<float> values(1 << 18);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  GgufWriter w;
  w.tensor("before", {DType::f32, {1}}, testing::bytes_of_all({7}))
      .tensor("big", {DType::f32, {1 << 18}}, testing::bytes_of_all(values));
  const auto source = open_model(scratch.file("m.gguf", w.finish()));
  ASSERT_TRUE(source) << source.error().message;
  const tensor::ConstTensorView& big = *(*source)->find("big");
  const auto resident_kb = [&] {  // "Rss:" of the mapping that holds the tensor
    std::ifstream maps("/proc/self/smaps");
    std::string line;
    long kb = -1;
    bool inside = false;
    while (std::getline(maps, line)) {
      if (line.find("m.gguf") != std::string::npos)
        inside = true;
      else if (inside && line.starts_with("Rss:"))
        return std::stol(line.substr(4));
    }
    return kb;
  };
  const auto sum = [&] {
    double total = 0;
    for (std::size_t i = 0; i < values.size(); ++i) total += reinterpret_cast<const float*>(big.data)[i];
    return total;
  };
  const double all = sum();
  EXPECT_GE(resident_kb(), 1000);
  (*source)->release(big);
  EXPECT_LE(resident_kb(), 32);
  EXPECT_EQ(sum(), all);
  EXPECT_EQ(first_value(**source, "before"), 7.0f);
}

// ---- split sets ----------------------------------------------------------------------------------------------

/// Part `number` (from 0) of `count`, with one tensor "t<number>" of value `number`.
GgufWriter part(int number, int count) {
  GgufWriter w;
  if (number == 0) w.text("general.architecture", "llama").i32("split.tensors.count", count);
  w.key("split.no", 2, testing::bytes_of(static_cast<std::uint16_t>(number)))
      .key("split.count", 2, testing::bytes_of(static_cast<std::uint16_t>(count)));
  w.tensor(fmt::format("t{}", number), {DType::f32, {1}}, testing::bytes_of_all({static_cast<float>(number)}));
  return w;
}

TEST(SplitSet, any_part_stands_for_all) {
  const ScratchFolder scratch;
  std::vector<std::string> paths;
  for (int i = 0; i < 3; ++i)
    paths.push_back(scratch.file(fmt::format("m-{:05}-of-00003.gguf", i + 1), part(i, 3).finish()));
  for (const std::string& path : paths) {
    const auto source = open_model(path);
    ASSERT_TRUE(source) << source.error().message;
    EXPECT_EQ((*source)->tensor_names(), (std::vector<std::string_view>{"t0", "t1", "t2"}));
    EXPECT_EQ(first_value(**source, "t2"), 2.0f);
    EXPECT_EQ(*(*source)->metadata().get_string("general.architecture"), "llama");
    EXPECT_EQ((*source)->path(), path);
  }
}

TEST(SplitSet, a_part_that_is_missing_renamed_or_another_is_named) {
  const ScratchFolder scratch;
  const std::string first = scratch.file("m-00001-of-00002.gguf", part(0, 2).finish());
  EXPECT_PRED2(says, refusal(first), "m-00002-of-00002.gguf...no such file");
  scratch.file("m-00002-of-00002.gguf", part(2, 3).finish());
  EXPECT_PRED2(says, refusal(first), "says that it is part 3 of 3, expected 2 of 2");
  scratch.file("m-00002-of-00002.gguf", "GGUF");
  EXPECT_PRED2(says, refusal(first), "m-00002-of-00002.gguf...cut short");
  EXPECT_PRED2(says, refusal(scratch.file("other.gguf", part(1, 2).finish())),
               "does not end in '-00002-of-00002.gguf'");
}

TEST(SplitSet, counts_that_contradict_the_parts_are_refused) {
  const ScratchFolder scratch;
  GgufWriter head = part(0, 2);
  head.remove("split.tensors.count");
  const std::string first = scratch.file("m-00001-of-00002.gguf", head.i32("split.tensors.count", 3).finish());
  scratch.file("m-00002-of-00002.gguf", part(1, 2).finish());
  EXPECT_PRED2(says, refusal(first), "split.tensors.count");
  EXPECT_PRED2(says, refusal(scratch.file("n-00003-of-00002.gguf", part(2, 2).finish())), "split.no");
}

// ---- folders -------------------------------------------------------------------------------------------------

TEST(HfFolder, tensors_and_texts_are_found) {
  const ScratchFolder scratch;
  TinyModel{}.write_folder(scratch.path());
  scratch.file("chat_template.jinja", "{{ x }}");
  const auto source = open_model(scratch.path().string());
  ASSERT_TRUE(source) << source.error().message;
  EXPECT_EQ((*source)->kind(), SourceKind::hf_folder);
  EXPECT_EQ((*source)->find("model.layers.1.self_attn.k_proj.weight")->desc,
            (tensor::TensorDesc{DType::f32, {32, 64}}));
  EXPECT_EQ(*(*source)->text_file("chat_template.jinja"), "{{ x }}");
  EXPECT_EQ(*(*source)->text_file("config.json"), TinyModel{}.config_json());
  EXPECT_EQ((*source)->text_file("tokenizer.json"), nullptr);
  EXPECT_TRUE((*source)->metadata().all().empty());
}

TEST(HfFolder, a_folder_without_weights_opens_without_tensors) {
  const ScratchFolder scratch;
  scratch.file("config.json", "{}");
  scratch.file("tokenizer.json", "{}");
  const auto source = open_model(scratch.path().string());
  ASSERT_TRUE(source) << source.error().message;
  EXPECT_TRUE((*source)->tensor_names().empty());
}

TEST(HfFolder, shards_are_joined_and_what_is_missing_is_named) {  // O1.10
  const ScratchFolder scratch;
  scratch.file("config.json", "{}");
  scratch.file("1.safetensors", safetensors_bytes({{"a", {1}, {1}}}));
  scratch.file("model.safetensors.index.json", R"({"weight_map":{"a":"1.safetensors","b":"2.safetensors"}})");
  const std::string path = scratch.path().string();
  EXPECT_PRED2(says, refusal(path), "2.safetensors...no such file");
  scratch.file("2.safetensors", safetensors_bytes({{"c", {1}, {2}}}));
  EXPECT_PRED2(says, refusal(path), "'b'...2.safetensors");
  scratch.file("2.safetensors", safetensors_bytes({{"b", {1}, {2}}, {"a", {1}, {3}}}));
  EXPECT_PRED2(says, refusal(path), "'a' is there twice");
  scratch.file("2.safetensors", safetensors_bytes({{"b", {1}, {2}}}));
  const auto source = open_model(path);
  ASSERT_TRUE(source) << source.error().message;
  EXPECT_EQ(first_value(**source, "b"), 2.0f);
  scratch.file("model.safetensors.index.json", R"({"weight_map":{"a":"../1.safetensors"}})");
  EXPECT_PRED2(says, refusal(path), "model.safetensors.index.json...'../1.safetensors'");
}

TEST(HfFolder, texts_that_are_too_long_or_no_files_are_refused_by_name) {
  const ScratchFolder scratch;
  const std::string path = scratch.path().string();
  scratch.file("config.json", std::string((1 << 20) + 1, ' '));
  EXPECT_PRED2(says, refusal(path), "config.json...at most 1048576");
  scratch.file("config.json", "{}");
  fs::create_directory(scratch.path() / "tokenizer.json");
  EXPECT_PRED2(says, refusal(path), "tokenizer.json...it is a folder");
  fs::remove(scratch.path() / "tokenizer.json");
  fs::create_symlink("/dev/zero", scratch.path() / "model.safetensors");
  EXPECT_PRED2(says, refusal(path), "model.safetensors...it is a device");
}

}  // namespace
}  // namespace millrace::io
