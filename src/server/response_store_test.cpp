#include "server/response_store.h"

#include <gtest/gtest.h>

#include <thread>

namespace millrace::server {
namespace {

Round round(const std::string& text, std::size_t bytes = 0) { return {text, std::string(bytes, 'x')}; }

std::vector<std::string> texts(const std::optional<Conversation>& conversation) {
  std::vector<std::string> out;
  if (conversation)
    for (const auto& one : *conversation) out.push_back(one->response);
  return out;
}

TEST(ResponseStore, a_response_is_found_with_the_rounds_before_it) {
  ResponseStore store;
  store.keep("t", "a", {}, round("1"), 0);
  store.keep("t", "b", *store.find("t", "a", 0), round("2"), 0);
  store.keep("t", "c", *store.find("t", "b", 0), round("3"), 0);
  store.keep("t", "d", *store.find("t", "b", 0), round("4"), 0);  // a conversation may fork
  EXPECT_EQ(texts(store.find("t", "c", 0)), (std::vector<std::string>{"1", "2", "3"}));
  EXPECT_EQ(texts(store.find("t", "d", 0)), (std::vector<std::string>{"1", "2", "4"}));
  EXPECT_FALSE(store.find("t", "e", 0));
}

TEST(ResponseStore, what_is_anothers_is_not_there) {
  ResponseStore store;
  store.keep("t", "a", {}, round("1"), 0);
  EXPECT_FALSE(store.find("u", "a", 0));
  EXPECT_FALSE(store.remove("u", "a", 0));
  EXPECT_TRUE(store.find("t", "a", 0));
}

TEST(ResponseStore, what_is_removed_is_gone_and_what_went_on_from_it_stays) {
  ResponseStore store;
  store.keep("t", "a", {}, round("1"), 0);
  store.keep("t", "b", *store.find("t", "a", 0), round("2"), 0);
  EXPECT_TRUE(store.remove("t", "a", 0));
  EXPECT_FALSE(store.remove("t", "a", 0));
  EXPECT_FALSE(store.find("t", "a", 0));
  EXPECT_EQ(texts(store.find("t", "b", 0)), (std::vector<std::string>{"1", "2"}));
}

TEST(ResponseStore, beyond_its_count_the_one_unused_for_longest_goes) {
  ResponseStore store({.responses = 2});
  store.keep("t", "a", {}, round("1"), 0);
  store.keep("t", "b", {}, round("2"), 0);
  EXPECT_TRUE(store.find("t", "a", 0));
  store.keep("t", "c", {}, round("3"), 0);
  EXPECT_FALSE(store.find("t", "b", 0));
  EXPECT_TRUE(store.find("t", "a", 0) && store.find("t", "c", 0));
}

TEST(ResponseStore, beyond_its_bytes_the_oldest_go_and_what_is_too_large_alone_is_not_kept) {
  ResponseStore store({.bytes = 10'000});
  for (int i = 0; i < 100; ++i) {
    store.keep("t", std::to_string(i), {}, round("x", 3000), 0);
    EXPECT_LE(store.size().bytes, 10'000U);
  }
  EXPECT_EQ(store.size().responses, 2U);
  store.keep("t", "large", {}, round("x", 10'001), 0);
  EXPECT_FALSE(store.find("t", "large", 0));
  EXPECT_EQ(store.size().responses, 2U) << "nothing makes room for what is not kept";
}

TEST(ResponseStore, the_rounds_of_a_long_conversation_count_once) {
  ResponseStore store;
  Conversation before;
  for (int i = 0; i < 50; ++i) {
    store.keep("t", std::to_string(i), before, round("x", 1000), 0);
    before = *store.find("t", std::to_string(i), 0);
  }
  EXPECT_LT(store.size().bytes, 50U * (1000 + 1 + 600) + 50 * 51 / 2 * 16);
  before.clear();
  for (int i = 0; i < 50; ++i) EXPECT_TRUE(store.remove("t", std::to_string(i), 0));
  EXPECT_EQ(store.size().bytes, 0U);
}

TEST(ResponseStore, a_chain_of_100000_rounds_ends_without_a_deep_stack) {
  ResponseStore store({.responses = 2, .bytes = std::size_t{1} << 30});
  Conversation before;
  for (int i = 0; i < 100'000; ++i) before.push_back(std::make_shared<const Round>(round("x")));
  store.keep("t", "a", before, round("x"), 0);
  before.clear();
  EXPECT_TRUE(store.remove("t", "a", 0));
  EXPECT_EQ(store.size().bytes, 0U);
}

TEST(ResponseStore, who_stores_most_forgets_first) {
  ResponseStore store({.responses = 10});
  store.keep("small", "mine", {}, round("1"), 0);
  for (int i = 0; i < 100; ++i) store.keep("large", std::to_string(i), {}, round("x"), 0);
  EXPECT_TRUE(store.find("small", "mine", 0));
  EXPECT_EQ(store.size().responses, 10U);
}

TEST(ResponseStore, what_is_too_old_is_gone_and_its_memory_with_the_next_sweep) {
  ResponseStore store({.max_age_s = 100});
  store.keep("t", "a", {}, round("1"), 1000);
  EXPECT_TRUE(store.find("t", "a", 1099));
  EXPECT_FALSE(store.find("t", "a", 1100)) << "being asked for makes nothing younger";
  store.keep("t", "b", {}, round("1"), 1200);
  EXPECT_EQ(store.size().responses, 1U);
}

TEST(ResponseStore, an_id_that_comes_again_names_the_new_one) {
  ResponseStore store;
  store.keep("t", "a", {}, round("1"), 0);
  store.keep("t", "a", *store.find("t", "a", 0), round("2"), 0);
  EXPECT_EQ(texts(store.find("t", "a", 0)), (std::vector<std::string>{"1", "2"}));
  EXPECT_EQ(store.size().responses, 1U);
}

TEST(ResponseStore, many_threads_leave_it_within_its_limits) {
  ResponseStore store({.responses = 20, .bytes = 40'000, .max_age_s = 50});
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&store, t] {
      const std::string tenant = t % 2 == 0 ? "even" : "odd";
      for (int i = 0; i < 2000; ++i) {
        const std::string id = std::to_string((i * 7 + t) % 40);
        const auto before = store.find(tenant, id, i / 20);
        store.keep(tenant, id, before && before->size() < 20 ? *before : Conversation(), round("x", 500), i / 20);
        if (i % 5 == 0) store.remove(tenant, std::to_string(i % 40), i / 20);
      }
    });
  for (std::thread& thread : threads) thread.join();
  store.keep("even", "last", {}, round("x"), 100);
  EXPECT_LE(store.size().responses, 20U);
  EXPECT_LE(store.size().bytes, 40'000U);
  for (const char* tenant : {"even", "odd"})
    for (int i = 0; i < 40; ++i) store.remove(tenant, std::to_string(i), 100);
  store.remove("even", "last", 100);
  EXPECT_EQ(store.size().bytes, 0U);
}

}  // namespace
}  // namespace millrace::server
