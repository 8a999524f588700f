#pragma once

// The engine: one thread that owns the scheduler, the KV pool and the runner, and repeats
// "read inbox, plan, run, sample, deliver". Everything mutable about a request lives on
// that thread; other threads talk to it through submit() and Handle.

#include <array>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/clock.h"
#include "base/ids.h"
#include "base/metrics.h"
#include "base/result.h"
#include "kv/miss.h"
#include "model/runner.h"
#include "sampling/sampler.h"
#include "sched/cache_state.h"
#include "sched/policy.h"
#include "text/tokenizer.h"

namespace millrace::engine {

/// Tells a reader that waits elsewhere (an event loop) of answer number `answer`: called when there is something to read
/// where nothing was unread, and always for the last event, also when the handle is gone by then. Who was told reads with
/// Handle::next(0ms), once: it returns all that has piled up, or nothing where that was read meanwhile.
/// On the engine thread, which every request waits for: post it and return. It must not wait, call the engine or throw (that
/// ends the program); it may call Handle::next(0ms) and Handle::cancel(). The engine holds no lock meanwhile. Once the last
/// event was told there are no more calls, and none begins after Engine::drain() or ~Engine() has returned.
using OnEvent = std::function<void(int answer)>;

/// Rows of a prompt as they are computed, on the engine thread: take them and return. `first` is the position of the
/// first row; rows are [n, width], width = vocab or dim.
using RowSink = std::function<void(int first, std::span<const float> rows, int width)>;

struct Request {
  std::vector<TokenId> prompt;  // not empty
  int max_new_tokens = -1;      // 0 = none (rows only); -1 = what is left of min(context, pool) after the prompt
  sampling::Params sampling;
  std::vector<std::string> stop;        // ends before the first match; matched across tokens, never leaked
  std::vector<TokenId> stop_token_ids;  // end like the end token
  bool include_stop = false;  // what ended the text stays in it: the stop string, or the stop token where it has a text that is shown
  /// So many tokens come before one can end the request: until then neither the end token nor stop_token_ids are drawn, and
  /// a stop string that is complete by then is none.
  int min_tokens = 0;  // [0, max_new_tokens]
  bool ignore_eos = false;
  bool keep_special = false;  // special tokens stay in the text
  std::string cache_salt;     // requests share cached prefixes only with those of the same salt: one per tenant
  Microseconds timeout_us = 0;  // from submit; 0 = none

  // Who goes first: the tenant that was served least for its weight; among its requests who has waited for
  // EngineOptions::max_wait_us, then priority, then who has a deadline, by least laxity, then first come.
  int priority = 0;  // higher first
  Microseconds ttft_slo_us = 0, tpot_slo_us = 0;  // wished from submit to first token, and from token to token; 0 = no wish
  int tenant = 0, tenant_weight = 1;

  model::Outputs prompt_rows = model::Outputs::none;  // none, all or hidden: handed to row_sink
  RowSink row_sink;

  OnEvent on_event;  // or none; the same one for all answers
  bool tell_progress = false;  // an event without tokens after each step that took more of the prompt, but the last: Usage::prompt_done

  /// A client that leaves more tokens than this unread is cancelled, never waited for.
  int max_unread_tokens = 4096;
};

enum class Finish { stop, length, cancelled, timeout, error };
inline constexpr std::size_t kFinishes = 5;
std::string_view to_string(Finish finish);  // "stop", "length", ...

/// What ended a request with Finish::stop, if it was not the end token.
struct StopString { int index; };  // in Request::stop; the longest, if several were complete with the same byte
struct StopToken { TokenId id; };  // of Request::stop_token_ids
using StopReason = std::variant<std::monostate, StopString, StopToken>;

struct TokenEvent {
  TokenId id;
  Microseconds at_us = 0;                   // from submit until it was there
  float logprob = 0;                        // with sampling.top_logprobs >= 0
  std::vector<sampling::TokenLogprob> top;  // likewise
};

struct Usage {
  int prompt_done = 0;  // prompt tokens that are cached or computed so far
  int prompt_tokens = 0, cached_tokens = 0, completion_tokens = 0;  // completion_tokens counts the end token
  int preemptions = 0;
  Microseconds queue_us = 0, ttft_us = 0;   // submit to first step, submit to first token
  Microseconds prefill_us = 0, decode_us = 0;  // first step to first token, first to last token
  Microseconds gap_max_us = 0;                 // longest time between two tokens
};

/// What the prefix cache did for one prompt. Once the prompt is through, cached and computed add up to its tokens, each
/// counted once, preempted or not. What `diverged_at` and `known` say comes from other requests of the same cache_salt,
/// and MissCause::salt from those of another: it is for who operates the engine.
struct CacheReport {
  int cached = 0;
  kv::MissCounts computed{};  // by kv::MissCause; kv/miss.h says which cause wins
  int diverged_at = -1;       // the position where the prompt left what is known; -1: it did not
  std::string own, known;     // then: the text of its token there, and of the token in the nearest that is known
};

struct Event {
  std::string text;                // whole UTF-8 characters; may be empty
  std::vector<TokenEvent> tokens;  // behind `text`, the end token included
  std::optional<Finish> finished;  // set in the last event of a request, with `usage`
  StopReason stop_reason;          // with finished == Finish::stop
  std::optional<Error> error;      // set when finished == Finish::error
  Usage usage;
  CacheReport cache;  // with `finished`
};

class EventChannel;

/// One request as its client sees it. Dropping the handle cancels the request.
class Handle {
 public:
  Handle(Handle&&) noexcept;
  Handle& operator=(Handle&&) noexcept;
  ~Handle();

  /// The next event; what has piled up since the last call comes merged into one. nullopt: nothing within `timeout`; with
  /// 0 it does not wait at all.
  /// After the last event (finished set) it returns nullopt at once.
  std::optional<Event> next(std::chrono::milliseconds timeout);

  /// Any thread. The last event comes within one step.
  void cancel();

 private:
  friend class Engine;
  explicit Handle(std::shared_ptr<EventChannel> channel);
  std::shared_ptr<EventChannel> channel_;
};

class KvDisk;

struct EngineOptions {
  int step_tokens = 512;     // most tokens of one step; smaller chunks, smoother streams
  int max_running = 64;      // sequences per step; others wait in line
  int max_queued = 1024;     // more are refused, and told when to come again, but for who has less than its share (sched/share.h)
  std::int64_t max_queued_tokens = 1 << 20;  // of their prompts; one request may always wait
  bool prefix_sharing = true;
  sched::Schedule schedule = sched::Schedule::mixed;
  Microseconds max_step_us = 0;  // steps are sized to take no longer; 0 = by tokens only
  Microseconds max_wait_us = 30'000'000;  // who has waited that long is next; 0: may wait for ever
  bool calibrate = false;  // times two or three tiny steps at the start, 50 ms at most, so that the first real ones fit max_step_us
  bool check_invariants = false;  // after each step; for tests
  std::shared_ptr<KvDisk> kv_disk;  // keeps prefix blocks that memory gives up, and those there are at the end; or none
};

/// What runs in a step: prompt tokens, tokens that were drawn, or both.
enum class StepKind { prefill, decode, mixed };
inline constexpr std::size_t kStepKinds = 3;
std::string_view to_string(StepKind kind);

/// Each answer is a request of its own here. A request that came to its end is in finished_total, request_us and both token
/// histograms, however it ended; in the others as far as it came.
struct EngineMetrics {
  Counter requests_total, refused_total;
  std::array<Counter, kFinishes> finished_total;  // by Finish
  Counter prompt_tokens_total, computed_tokens_total, cached_tokens_total, generated_tokens_total, preemptions_total, steps_total;
  Counter mixed_steps_total;        // of steps: prompt tokens ran beside decodes
  Counter decode_over_bound_steps;  // of steps: decodes alone were expected to take longer than max_step_us
  Counter slot_steps_total, idle_slot_steps_total;  // sequences per step; members of a static batch that had ended

  // Time of the workers. busy + stall_host = open: a request was open. Stalls of the workers within a step are not in here.
  Counter open_us, busy_us, stall_host_us;
  // Time of requests, summed over them: waiting in line, by what holds up its head; and decodes beside prompt tokens, as
  // far as the step took longer than it would have without these.
  Counter stall_slots_us, stall_schedule_us, stall_blocks_us, stall_prefill_us;

  std::array<Counter, kv::kMissCauses> prefix_miss_tokens_total;  // computed ones by kv::MissCause
  Gauge running, waiting, kv_blocks_used, kv_blocks_cached, kv_blocks_total;
  Gauge queued, queued_tokens;  // submitted and not started, the engine thread may not have seen them yet; and their prompts' tokens

  Histogram queue_us{bounds::kLatencyUs}, first_token_us{bounds::kLatencyUs}, request_us{bounds::kLatencyUs};  // from submit: to its first step, first token, end
  Histogram prefill_us{bounds::kLatencyUs}, decode_us{bounds::kLatencyUs};  // first step to first token; first to last, of those that have one
  Histogram gap_us{bounds::kLatencyUs};                                     // from each token to the next
  Histogram request_prompt_tokens{bounds::kTokens}, request_generated_tokens{bounds::kTokens};
  std::array<Histogram, kStepKinds> step_us{Histogram(bounds::kWorkUs), Histogram(bounds::kWorkUs), Histogram(bounds::kWorkUs)};  // by StepKind
  Histogram host_us{bounds::kWorkUs};  // of each step: the engine thread's own work, while the workers have none

  std::uint64_t finished(Finish reason) const { return finished_total[static_cast<std::size_t>(reason)].value(); }
};

class Engine {
 public:
  /// `tokenizer` outlives the engine. The runner gives a row task sampling::scratch_bytes(vocab) of scratch or more.
  Engine(std::unique_ptr<model::Runner> runner, const text::Tokenizer& tokenizer, EngineOptions options);

  /// Stops after the current step; every open request gets Finish::cancelled.
  ~Engine();

  /// Any thread. Errors: invalid_argument (the request, with the numbers), exhausted (the queue is full: retry_after_us says
  /// when to come again; or it could not fit even alone), cancelled (draining).
  Result<Handle> submit(Request request);

  /// `n` answers to one prompt, which is computed once: then each goes on as a request of its own, and answer i draws with
  /// the stream (seed, i, position). What ends one, ends no other. Errors: as above; invalid_argument (n outside 1 to
  /// kMostAnswers; more than one with prompt_rows or without new tokens).
  Result<std::vector<Handle>> submit(Request request, int n);
  static constexpr int kMostAnswers = 128;

  /// Any thread but the engine's own (a row sink runs there): how the KV cache is filled now, between two steps.
  sched::CacheState cache();

  /// Any thread but the engine's own: what the prefix cache would do for `prompt` if it came now, without running it. What
  /// only the disk tier has counts as not cached. Looks between two steps, and changes nothing.
  CacheReport explain(std::span<const TokenId> prompt, const std::string& cache_salt = "");

  /// Any thread, takes no lock: for how long requests have been open and no step has ended; 0 when none is open. More than a
  /// step may take says that the engine is stuck.
  Microseconds pulse() const;

  /// No new requests; waits until the running ones have ended, at most `timeout`, then cancels the rest.
  /// Returns how many were cut.
  int drain(std::chrono::milliseconds timeout);

  /// Writes what the cache holds of `tokens`, whole blocks from the first on, to a file that appears whole at `path`;
  /// returns how many tokens that are. restore() brings it back, also in a later process: from then on a request whose
  /// prompt starts with these tokens finds them cached, and its answer is the same bits as if it had computed them.
  /// Returns how many tokens are cached then; fewer than the file has where memory does not hold them.
  /// Any thread but the engine's own (a row sink); requests go on meanwhile. Errors: not_found (nothing cached; no such
  /// file), exhausted (no room; the prefix left the cache meanwhile), corrupt_data (torn, damaged), unsupported (the file
  /// of another model, KV format or version); each one sentence.
  /// `cache_salt`: as in Request; a file restored under another salt than it was saved under is refused.
  Result<int> save(std::span<const TokenId> tokens, const std::string& path, const std::string& cache_salt = "");
  Result<int> restore(const std::string& path, const std::string& cache_salt = "");

  const EngineMetrics& metrics() const;
  const model::RunnerInfo& info() const;

 private:
  class Loop;
  std::unique_ptr<Loop> loop_;
};

}  // namespace millrace::engine
