#pragma once

// One stream of tokens as the scheduler sees it: which are known, which are in the KV cache, what rows come back.

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/ids.h"
#include "kv/cache_groups.h"
#include "sched/order.h"
#include "sched/policy.h"
#include "sched/tenants.h"

namespace millrace::sched {

/// Which rows of a slice come back. The same words as model::Outputs; the pillars do not include each other.
enum class Outputs : std::uint8_t { none, last, all, hidden };

/// Rows that come back of a slice of `count` tokens.
constexpr int rows_of(Outputs outputs, int count) {
  return outputs == Outputs::none ? 0 : outputs == Outputs::last ? 1 : count;
}

struct SequenceSpec {
  std::vector<TokenId> prompt;          // not empty
  int max_new = 0;                      // 0: the prompt is computed and nothing is drawn
  int priority = 0;                     // higher first
  Outputs prompt_rows = Outputs::none;  // none, all or hidden: each prompt position's row comes back exactly once
  bool whole = false;                   // the prompt runs in one slice; nothing is shared or drawn
  bool shares = true;                   // uses and publishes cached blocks
  std::uint64_t salt = 0;               // sequences share only within one salt
  int adapter = 0;

  int tenant = 0, tenant_weight = 1;              // equal turns go to the tenant that had least for its weight
  std::int64_t arrival_us = 0;                    // on the clock of plan()
  std::int64_t ttft_slo_us = 0, tpot_slo_us = 0;  // wished: arrival to first token, token to token; 0 = no wish
};

struct Sequence {
  SeqId id;
  SequenceSpec spec;  // its prompt moved to `tokens`
  Rank rank;
  Tenant* tenant = nullptr;
  std::int64_t due_us = kNever;        // when its next token should be there
  std::int64_t waiting_since_us = 0;
  int prompt_tokens = 0;
  std::vector<TokenId> tokens;  // accepted ones, then n_drafts proposed ones
  int n_drafts = 0;

  kv::BlockTables tables;
  int done = 0;     // positions in the KV cache
  int planned = 0;  // and those that steps not committed yet will write
  int epoch = 0;    // grows when the cache is given up: what older slices wrote is gone
  bool running = false;

  int fresh = 1;       // tokens that the last commit or propose added: behind by no more is a decode
  int rows_asked = 0;  // prompt positions whose rows are planned or delivered

  int idle_waits = 0;   // plans in a row in which who computes its next block had room and did not move
  int awaited_at = -1;  // where that one was then

  int counted = 0;  // prompt positions in `computed` or `cached`
  int computed = 0, cached = 0, preemptions = 0;
  kv::Misses misses;         // of the positions that are computed next
  bool unexplained = true;   // they are out of date: more of the prompt was found in the cache since
  kv::MissCounts causes{};   // computed prompt positions by cause

  int known() const { return static_cast<int>(tokens.size()); }
  int accepted() const { return known() - n_drafts; }
  int most() const { return prompt_tokens + spec.max_new; }  // tokens it may come to
  int behind() const { return known() - planned; }
  bool in_flight() const { return planned != done; }
  bool is_decode() const { return behind() > 0 && behind() <= fresh; }
  bool rows_pending() const { return spec.prompt_rows != Outputs::none && rows_asked < prompt_tokens; }
  bool next_has_rows() const { return rows_pending() && planned >= rows_asked; }

  /// How many tokens from `planned` on have the same outputs.
  int uniform_run() const {
    return !rows_pending() ? behind() : next_has_rows() ? prompt_tokens - planned : rows_asked - planned;
  }

  /// How far a cached prefix may reach: one token is always computed, and so is each prompt row still to come.
  int shareable() const { return rows_pending() ? std::min(rows_asked, known() - 1) : known() - 1; }

  /// Adds the prompt positions in [counted, end) to `bucket`: computed or cached, each position once.
  void count_prompt(int end, int& bucket) {
    const int upto = std::max(counted, std::min(end, prompt_tokens));
    bucket += upto - counted;
    counted = upto;
  }
  void count_computed(int end) {
    const int first = counted;
    count_prompt(end, computed);
    kv::add(causes, misses, first, counted);
  }

  void drop_drafts() {
    tokens.resize(static_cast<std::size_t>(accepted()));
    n_drafts = 0;
  }
};

}  // namespace millrace::sched
