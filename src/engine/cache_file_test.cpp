// save(), restore() and the disk tier through the engine: a prefix that was on disk gives the answers of one that was
// computed (the fake runner's text shows every wrong, lost or stale block), and damage is a miss.

#include <gtest/gtest.h>

#include <filesystem>
#include <random>
#include <thread>

#include "engine/kv_disk.h"
#include "engine/testing/engine_fixture.h"
#include "base/testing/scratch_folder.h"
#include "engine/testing/quiet_log.h"

namespace millrace::engine {
namespace {

using namespace std::chrono_literals;
using namespace testing;
using millrace::testing::bytes_of_file;
using millrace::testing::ScratchFolder;
using millrace::testing::write_file;

/// A prompt of `n` tokens that differs from those of other families from the first token on.
Request ask_about(int family, int n, int max_new = 6) {
  Request request;
  for (int i = 0; i < n; ++i) request.prompt.push_back(2 + (family * 11 + i * 5 + i * i * family) % (kVocab - 2));
  request.max_new_tokens = max_new;
  request.ignore_eos = true;
  request.sampling.seed = static_cast<std::uint64_t>(family);
  return request;
}

class CacheFile : public EngineTest {
 protected:
  void TearDown() override { engine_.reset(); }  // before the folder goes
  void expect_as_alone(const Request& request, const Answer& got) {
    const Answer want = answer_alone(request, tokenizer_);
    EXPECT_EQ(got.ids, want.ids);
    EXPECT_EQ(got.text, want.text);
  }
  Engine& start_with_disk(int blocks, std::int64_t most_bytes = 1 << 20, FakeRunnerOptions runner = {}) {
    engine_.reset();
    runner.blocks = blocks;
    auto made = std::make_unique<FakeRunner>(runner);
    disk_ = KvDisk::open({folder_.path().string(), most_bytes}, made->info()).value();
    engine_ = std::make_unique<Engine>(std::move(made), tokenizer_, EngineOptions{.check_invariants = true, .kv_disk = disk_});
    return *engine_;
  }
  const KvDiskMetrics& disk() const { return disk_->metrics(); }

  ScratchFolder folder_;
  std::shared_ptr<KvDisk> disk_;
};

TEST_F(CacheFile, a_saved_prefix_is_cached_after_restore_and_gives_the_same_answer) {
  const std::string path = folder_.file("a.kv");
  const Request request = ask_about(1, 30);
  start();
  expect_as_alone(request, ask(request));
  EXPECT_EQ(engine_->save(request.prompt, path).value(), 28);  // seven blocks of four

  start();  // another engine, another runner
  EXPECT_EQ(engine_->restore(path).value(), 28);
  const Answer again = ask(request);
  expect_as_alone(request, again);
  EXPECT_EQ(again.usage.cached_tokens, 28);
  EXPECT_EQ(engine_->restore(path).value(), 28);  // known already
  EXPECT_EQ(engine_->metrics().kv_blocks_used.value(), 0);
}

TEST_F(CacheFile, saving_what_a_running_request_has_computed_and_a_conversation_with_its_answer) {
  start({.step_time = 500us});
  const Request request = ask_about(2, 30, 100);
  Handle handle = submit(request);
  while (!handle.next(1s)) {}  // the prompt is through
  EXPECT_GE(engine_->save(request.prompt, folder_.file("running")).value(), 28);
  const Answer answer = read_all(handle);
  std::vector<TokenId> all = request.prompt;
  const Answer alone = answer_alone(request, tokenizer_);
  all.insert(all.end(), alone.ids.begin(), alone.ids.end());
  EXPECT_GE(engine_->save(all, folder_.file("whole")).value(), 124);
  start();
  EXPECT_GE(engine_->restore(folder_.file("whole")).value(), 124);
}

TEST_F(CacheFile, nothing_cached_is_nothing_to_save) {
  start();
  EXPECT_EQ(engine_->save(std::vector<TokenId>{3, 4, 5, 6, 7}, folder_.file("a")).error().message, "the KV cache holds no block of these 5 tokens");
  EXPECT_TRUE(folder_.files().empty());
}

TEST_F(CacheFile, a_torn_a_damaged_and_a_foreign_file_are_refused_and_nothing_of_them_is_used) {
  const std::string path = folder_.file("a.kv");
  const Request request = ask_about(1, 13);
  start();
  (void)ask(request);
  ASSERT_TRUE(engine_->save(request.prompt, path));
  const std::string whole = bytes_of_file(path);
  start();
  for (std::size_t at = 0; at < whole.size(); ++at) {
    write_file(path, whole.substr(0, at));
    EXPECT_FALSE(engine_->restore(path).ok());
    std::string other = whole;
    other[at] = static_cast<char>(other[at] ^ 16);
    write_file(path, other);
    EXPECT_FALSE(engine_->restore(path).ok()) << at;
  }
  EXPECT_EQ(ask(request).usage.cached_tokens, 0);
  write_file(path, whole);
  start({.fingerprint = 2});
  const auto foreign = engine_->restore(path);
  ASSERT_FALSE(foreign);
  EXPECT_NE(foreign.error().message.find("was written by another model"), std::string::npos);
  EXPECT_EQ(ask(request).usage.cached_tokens, 0);
}

TEST_F(CacheFile, a_file_saved_under_one_salt_is_refused_under_another) {
  const std::string path = folder_.file("a.kv");
  Request request = ask_about(1, 30);
  request.cache_salt = "x";
  start();
  (void)ask(request);
  EXPECT_FALSE(engine_->save(request.prompt, path));
  ASSERT_TRUE(engine_->save(request.prompt, path, "x"));
  start();
  EXPECT_NE(engine_->restore(path).error().message.find("was saved under another salt"), std::string::npos);
  EXPECT_EQ(ask(request).usage.cached_tokens, 0);
  start();
  EXPECT_EQ(engine_->restore(path, "x").value(), 28);
  EXPECT_EQ(ask(request).usage.cached_tokens, 28);
}

TEST_F(CacheFile, a_restored_prefix_that_is_longer_than_the_pool_keeps_its_head) {
  const std::string path = folder_.file("a.kv");
  const Request request = ask_about(1, 100);
  start();
  (void)ask(request);
  EXPECT_GE(engine_->save(request.prompt, path).value(), 100);
  start({.blocks = 10});
  EXPECT_EQ(engine_->restore(path).value(), 40);
  Request head = request;
  head.prompt.resize(33);
  const Answer answer = ask(head);
  EXPECT_EQ(answer.usage.cached_tokens, 32);
  expect_as_alone(head, answer);
}

TEST_F(CacheFile, save_and_restore_beside_running_requests_change_no_answer) {
  start({.blocks = 40, .step_time = 100us});
  std::vector<Request> requests;
  for (int i = 0; i < 24; ++i) requests.push_back(ask_about(i % 7, 5 + i % 20, 25));
  std::vector<Handle> handles;
  for (const Request& request : requests) handles.push_back(submit(request));
  int restored = 0;
  for (int i = 0; i < 60; ++i) {
    const std::string path = folder_.file(std::to_string(i % 5));
    (void)engine_->save(requests[static_cast<std::size_t>(i) % requests.size()].prompt, path);  // a block or none
    if (const auto held = engine_->restore(path)) restored += *held > 0;
  }
  for (std::size_t i = 0; i < requests.size(); ++i) expect_as_alone(requests[i], read_all(handles[i]));
  EXPECT_GT(restored, 0);
}

TEST_F(CacheFile, evicted_blocks_come_back_from_the_disk) {
  start_with_disk(/*blocks=*/12);  // one request and a half
  const Request first = ask_about(1, 30);
  expect_as_alone(first, ask(first));
  for (int family = 2; family < 6; ++family) (void)ask(ask_about(family, 30));
  disk_->flush();
  EXPECT_GT(disk().written_total.value(), 20u);
  const Answer again = ask(first);
  expect_as_alone(first, again);
  EXPECT_EQ(again.usage.cached_tokens, 28);
  EXPECT_GE(disk().loaded_total.value(), 7u);
  disk_->flush();  // what made room for them went there
  EXPECT_EQ(ask(ask_about(5, 30)).usage.cached_tokens, 28);
  const EngineMetrics& m = engine_->metrics();
  EXPECT_EQ(m.prompt_tokens_total.value(), m.computed_tokens_total.value() + m.cached_tokens_total.value());
}

TEST_F(CacheFile, a_request_for_each_prompt_row_uses_no_blocks_and_waits_for_none) {
  start_with_disk(64);
  (void)ask(ask_about(1, 30));
  start_with_disk(64);
  Request rows = ask_about(1, 30, 1);
  rows.prompt_rows = model::Outputs::all;
  rows.row_sink = [](int, std::span<const float>, int) {};
  EXPECT_EQ(ask(std::move(rows)).usage.cached_tokens, 0);
  EXPECT_EQ(disk().loaded_total.value(), 0u);
}

TEST_F(CacheFile, the_tail_from_the_disk_does_not_push_out_the_head_in_memory) {
  start_with_disk(/*blocks=*/12);
  const Request first = ask_about(1, 30);  // leaves 8 blocks
  (void)ask(first);
  (void)ask(ask_about(2, 22));  // takes 7: the first one's tail goes, its head is the oldest that stays
  disk_->flush();
  const Answer again = ask(first);
  EXPECT_EQ(again.usage.cached_tokens, 28);
  EXPECT_EQ(disk().loaded_total.value(), 2u);
  expect_as_alone(first, again);
}

TEST_F(CacheFile, a_restart_with_the_same_folder_finds_its_prefixes) {
  const Request request = ask_about(3, 30);
  start_with_disk(64);
  (void)ask(request);
  start_with_disk(64);  // what was in memory at the end is there, too
  const Answer again = ask(request);
  expect_as_alone(request, again);
  EXPECT_EQ(again.usage.cached_tokens, 28);
  Request longer = request;
  longer.prompt.push_back(9);
  expect_as_alone(longer, ask(longer));
}

TEST_F(CacheFile, damaged_files_are_misses_and_the_answers_stay_right) {
  const QuietLog quiet;
  const Request request = ask_about(3, 30);
  start_with_disk(64);
  (void)ask(request);
  engine_.reset();
  ASSERT_GE(folder_.files().size(), 7u);
  for (const std::string& name : folder_.files()) {
    std::string bytes = bytes_of_file(folder_.file(name));
    bytes[bytes.size() - 12] = static_cast<char>(bytes[bytes.size() - 12] ^ 4);
    write_file(folder_.file(name), bytes);
  }
  start_with_disk(64);
  const Answer again = ask(request);
  expect_as_alone(request, again);
  EXPECT_EQ(again.usage.cached_tokens, 0);
  EXPECT_EQ(disk().damaged_total.value(), 1u);  // the first one ends the chain
}

TEST_F(CacheFile, requests_that_want_the_same_blocks_load_them_once) {
  const Request request = ask_about(3, 30);
  start_with_disk(64);
  (void)ask(request);
  start_with_disk(64);
  std::vector<Handle> handles;
  for (int i = 0; i < 8; ++i) handles.push_back(submit(request));
  for (Handle& handle : handles) {
    const Answer answer = read_all(handle);
    expect_as_alone(request, answer);
    EXPECT_EQ(answer.usage.cached_tokens, 28);
  }
  EXPECT_EQ(disk().loaded_total.value(), 7u);
}

TEST_F(CacheFile, a_waiting_request_ends_when_it_is_cancelled_or_late_or_the_engine_stops) {
  const Request request = ask_about(3, 120, 2);
  start_with_disk(64);
  (void)ask(request);
  for (int round = 0; round < 20; ++round) {
    start_with_disk(64);
    Request hurried = request;
    hurried.timeout_us = 1;
    Handle late = submit(hurried), cancelled = submit(request), other = submit(request);
    cancelled.cancel();
    if (round % 2 == 0) {
      EXPECT_EQ(read_all(late).finished, Finish::timeout);
      const auto ended = read_all(cancelled).finished;
      EXPECT_TRUE(ended == Finish::cancelled || ended == Finish::length);
      expect_as_alone(request, read_all(other));
    } else {
      engine_.reset();
      EXPECT_TRUE(read_all(other).finished.has_value());
    }
  }
}

// A16, A21: whatever is evicted, kept, found again or lost, at any size of memory and disk.
TEST_F(CacheFile, any_load_over_a_tiny_pool_and_a_tiny_disk_gives_the_answers_of_solo_runs) {
  for (unsigned seed = 0; seed < 12; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 rng(seed);
    start_with_disk(/*blocks=*/20 + static_cast<int>(rng() % 30), /*most_bytes=*/400 + static_cast<std::int64_t>(rng() % 20000));
    std::vector<Request> requests;
    for (int i = 0; i < 30; ++i) requests.push_back(ask_about(static_cast<int>(rng() % 5), 1 + static_cast<int>(rng() % 50), 1 + static_cast<int>(rng() % 20)));
    std::vector<Handle> handles;
    for (const Request& request : requests) {
      handles.push_back(submit(request));
      if (rng() % 4 == 0) std::this_thread::sleep_for(200us);
      if (rng() % 10 == 0)
        for (const std::string& name : folder_.files()) {  // somebody tidies up
          std::error_code ignored;
          if (rng() % 3 == 0) std::filesystem::remove(folder_.file(name), ignored);
        }
    }
    for (std::size_t i = 0; i < requests.size(); ++i) expect_as_alone(requests[i], read_all(handles[i]));
    EXPECT_EQ(engine_->metrics().kv_blocks_used.value(), 0);
    EXPECT_EQ(disk().damaged_total.value(), 0u);
  }
}

}  // namespace
}  // namespace millrace::engine
