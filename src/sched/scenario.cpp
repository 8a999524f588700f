#include "sched/scenario.h"

#include <fmt/format.h>

#include <deque>
#include <numeric>
#include <optional>
#include <sstream>
#include <vector>

#include "sched/scheduler.h"

namespace millrace::sched {
namespace {

char name_of(SeqId id) { return static_cast<char>('a' + id.value); }

std::string describe(const StepPlan& step) {
  std::string out;
  for (const Slice& s : step.slices)
    out += fmt::format(" {}:{}+{}{}{}", name_of(s.seq), s.first, s.count,
                       s.outputs == Outputs::all || s.outputs == Outputs::hidden ? "*" : "", s.draws ? "!" : "");
  for (const SeqId id : step.preempted) out += fmt::format(" -{}", name_of(id));
  if (!step.copies.empty()) out += fmt::format(" copies:{}", step.copies.size());
  return out.empty() ? " nothing" : out;
}

std::string_view held_name(Held held) {
  switch (held) {
    case Held::nothing:
      return "nobody waits";
    case Held::slots:
      return "no slot";
    case Held::schedule:
      return "not their turn";
    case Held::blocks:
      return "no blocks";
  }
  return "";
}

/// The causes of the prompt tokens that were computed.
std::string describe(const Progress& p) {
  std::string out;
  for (std::size_t c = 0; c < p.causes.size(); ++c)
    if (p.causes[c] > 0) out += fmt::format(" {} {}", kv::to_string(static_cast<kv::MissCause>(c)), p.causes[c]);
  if (p.diverged_at >= 0) out += fmt::format(" at {} known {}", p.diverged_at, p.known);
  return out;
}

class Story {
 public:
  /// The line with its answer.
  std::string tell(const std::string& line) {
    words_ = std::istringstream(line);
    const std::string verb = word();
    if (verb == "pool") return start(), line;
    if (verb == "add") return line.substr(0, line.find("  refused")) + add();
    if (verb == "end") return scheduler_->remove(seq()), line;
    if (verb == "answer") return answer_ = numbers(), line;
    if (verb == "propose") return propose(), line;
    if (verb == "rewind") return rewind(), line;
    if (verb == "fork") return fork(), line;
    if (verb == "submit") return verb + submit();
    if (verb == "commit") return commit(), line;
    if (verb == "plan") {
      const std::string answer = submit();
      commit();
      return verb + answer;
    }
    if (verb == "cost") {
      const SeqId id = seq();
      const Progress p = scheduler_->progress(id);
      return fmt::format("cost {} computed {} cached {} preempted {}", name_of(id), p.computed, p.cached,
                         p.preemptions);
    }
    if (verb == "now") return now_us_ = std::int64_t{1000} * number(), line;
    if (verb == "held") return verb + held_;
    if (verb == "why") {
      const SeqId id = seq();
      return fmt::format("why {}{}", name_of(id), describe(scheduler_->progress(id)));
    }
    if (verb == "blocks") {
      const auto& pool = groups_->pool(0);
      return fmt::format("blocks used {} cached {} free {}", pool.n_used(), pool.n_cached(), pool.n_free());
    }
    return verb.empty() || verb[0] == '#' ? line : line + "  no such verb";
  }

 private:
  std::string word() {
    std::string w;
    words_ >> w;
    return w;
  }
  int number() {
    int n = 0;
    words_ >> n;
    return n;
  }
  std::vector<TokenId> numbers() {
    std::vector<TokenId> all;
    for (int n = 0; words_ >> n;) all.push_back(n);
    return all;
  }
  SeqId seq() { return SeqId{word().at(0) - 'a'}; }

  void start() {
    const int blocks = number(), block_tokens = number();
    Limits limits{.step_tokens = number(), .step_outputs = 1000, .max_running = number()};
    std::vector<kv::GroupSpec> specs = {{block_tokens, 0, blocks}};
    for (std::string option = word(); !option.empty(); option = word()) {
      if (option == "rows") limits.step_outputs = number();
      if (option == "max-step-ms") limits.max_step_us = std::int64_t{1000} * number();
      if (option == "max-wait-ms") limits.max_wait_us = std::int64_t{1000} * number();
      if (option == "serial") limits.schedule = Schedule::serial;
      if (option == "static") limits.schedule = Schedule::static_;
      if (option == "window") {
        const int window = number();
        specs.push_back({block_tokens, window, number()});
      }
    }
    groups_.emplace(std::move(specs), 2 * limits.step_tokens);
    scheduler_.emplace(limits, *groups_);
  }

  std::string add() {
    const SeqId id = seq();
    const int first = number();
    SequenceSpec spec;
    spec.prompt.resize(static_cast<std::size_t>(number()));
    std::iota(spec.prompt.begin(), spec.prompt.end(), first);
    spec.max_new = number();
    spec.arrival_us = now_us_;
    for (std::string option = word(); !option.empty(); option = word()) {
      if (option == "priority") spec.priority = number();
      if (option == "tenant") spec.tenant = number();
      if (option == "weight") spec.tenant_weight = number();
      if (option == "ttft-ms") spec.ttft_slo_us = std::int64_t{1000} * number();
      if (option == "tpot-ms") spec.tpot_slo_us = std::int64_t{1000} * number();
      if (option == "salt") spec.salt = static_cast<std::uint64_t>(number());
      if (option == "rows") spec.prompt_rows = Outputs::all;
      if (option == "hidden") spec.prompt_rows = Outputs::hidden;
      if (option == "whole") spec.whole = true;
      if (option == "private") spec.shares = false;
      if (option == "refused:") break;  // the answer of an earlier replay
    }
    const auto added = scheduler_->add(id, std::move(spec));
    return added ? "" : "  refused: " + added.error().message;
  }

  void propose() {
    const SeqId id = seq();
    scheduler_->propose(id, numbers());
  }

  void rewind() {
    const SeqId id = seq();
    scheduler_->rewind(id, number());
  }

  void fork() {
    const SeqId parent = seq(), child = seq();
    const int keep = number();
    scheduler_->fork(parent, child, keep, numbers());
  }

  std::string submit() {
    StepPlan& step = in_flight_.emplace_back();
    scheduler_->plan(step, now_us_);
    scheduler_->check_invariants();
    held_ = fmt::format(" {}{}{}", held_name(step.held), step.idle_slots > 0 ? fmt::format(" idle:{}", step.idle_slots) : "",
                       step.decodes_over_bound ? " decodes-over-bound" : "");
    return describe(step);
  }

  void commit() {
    const StepPlan& step = in_flight_.front();
    std::vector<std::span<const TokenId>> accepted;
    for (const Slice& slice : step.slices)
      accepted.push_back(slice.draws ? std::span<const TokenId>(answer_) : std::span<const TokenId>());
    scheduler_->commit(step, accepted, {.now_us = now_us_});
    in_flight_.pop_front();
    scheduler_->check_invariants();
  }

  std::istringstream words_;
  std::optional<kv::CacheGroups> groups_;
  std::optional<Scheduler> scheduler_;
  std::deque<StepPlan> in_flight_;
  std::vector<TokenId> answer_ = {9};
  std::int64_t now_us_ = 0;
  std::string held_;
};

}  // namespace

std::string replay(std::string_view script) {
  std::istringstream lines{std::string(script)};
  std::string out;
  Story story;
  for (std::string line; std::getline(lines, line);) out += story.tell(line) + '\n';
  return out;
}

}  // namespace millrace::sched
