#include "model/fingerprint.h"

#include <gtest/gtest.h>

#include <set>

#include "io/testing/model_files.h"

namespace millrace::model {
namespace {

std::uint64_t fingerprint(const io::testing::TinyModel& tiny, std::string_view isa = "avx2", KvFormat kv = KvFormat::f16) {
  const io::testing::ScratchFolder scratch;
  const auto source = io::open_model(scratch.file("m.gguf", tiny.gguf().finish())).value();
  const ModelConfig config = validated(read_config(*source).value()).value();
  return fingerprint_of(*source, config, isa, kv);
}

TEST(Fingerprint, is_the_same_for_the_same_model_and_another_for_anything_that_changes_a_key) {  // A16
  EXPECT_EQ(fingerprint({}), fingerprint({}));
  std::set<std::uint64_t> all;
  all.insert(fingerprint({}));
  all.insert(fingerprint({.seed = 2}));  // other weights of the same shapes
  all.insert(fingerprint({.layers = 1}));
  all.insert(fingerprint({.heads = 2, .kv_heads = 1}));
  all.insert(fingerprint({.rope_theta = 20000.0}));
  all.insert(fingerprint({.matrices = tensor::DType::f16}));
  all.insert(fingerprint({}, "avx512"));
  all.insert(fingerprint({}, "avx2", KvFormat::f32));
  all.insert(fingerprint({}, "avx2", KvFormat::bf16));
  all.insert(fingerprint({}, "avx2", KvFormat::int8));
  EXPECT_EQ(all.size(), 10u);
  EXPECT_FALSE(all.contains(0));
}

}  // namespace
}  // namespace millrace::model
