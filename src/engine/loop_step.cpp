// One step of the engine: plan, run (the workers draw, too), commit, deliver.

#include <algorithm>
#include <exception>
#include <optional>
#include <string>
#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "engine/loop.h"

namespace millrace::engine {

void Engine::Loop::step() {
  const Microseconds begun_us = now_us();
  scheduler_.plan(plan_, begun_us);
  MILLRACE_CHECK(!plan_.slices.empty(), std::to_string(live_.size()) + " requests are open and nothing can run");
  metrics_.preemptions_total.add(plan_.preempted.size());
  keep_evicted();
  start_slices(begun_us);
  copy_blocks(*runner_, plan_);
  build_slices(scheduler_, plan_, groups_.n_groups(), input_);
  prepare_draws();

  const Microseconds submitted_us = now_us();
  const auto outputs = runner_->wait(runner_->submit(input_.slices, draws_.task()));
  const Microseconds ran_us = now_us();
  count_time(begun_us, ran_us, ran_us - submitted_us);
  metrics_.steps_total.add();
  moved_us_.store(ran_us, std::memory_order_relaxed);

  if (outputs) {
    read_outputs(*outputs, {.now_us = ran_us, .step_us = std::max<Microseconds>(ran_us - submitted_us, 1)});
  } else {
    // What the step wrote is void, and so are its sequences. Nobody else is touched.
    log_warn("step failed", {{"slices", plan_.slices.size()}, {"error", outputs.error().message}});
    for (const sched::Slice& slice : plan_.slices) end(slice.seq, Finish::error, outputs.error());
  }
  if (options_.check_invariants) scheduler_.check_invariants();
  record(metrics_.host_us, submitted_us - begun_us + now_us() - ran_us);
}

/// From the end of the last step, or from the beginning of this one when nothing was open before, to its end.
void Engine::Loop::count_time(Microseconds begun_us, Microseconds ran_us, Microseconds step_us) {
  const Microseconds from_us = counted_until_us_ > 0 ? counted_until_us_ : begun_us, open_us = ran_us - from_us;
  counted_until_us_ = ran_us;
  const auto add = [](Counter& counter, Microseconds us, int times = 1) { counter.add(static_cast<std::uint64_t>(std::max<Microseconds>(us, 0) * times)); };
  add(metrics_.open_us, open_us);
  add(metrics_.busy_us, step_us);
  add(metrics_.stall_host_us, open_us - step_us);
  switch (plan_.held) {
    case sched::Held::nothing: break;
    case sched::Held::slots: add(metrics_.stall_slots_us, open_us, scheduler_.n_waiting()); break;
    case sched::Held::schedule: add(metrics_.stall_schedule_us, open_us, scheduler_.n_waiting()); break;
    case sched::Held::blocks: add(metrics_.stall_blocks_us, open_us, scheduler_.n_waiting()); break;
  }
  const int n_decodes = static_cast<int>(std::ranges::count(plan_.slices, true, &sched::Slice::decode));
  const StepKind kind = plan_.work.prompt_tokens == 0 ? StepKind::decode : n_decodes == 0 ? StepKind::prefill : StepKind::mixed;
  record(metrics_.step_us[static_cast<std::size_t>(kind)], step_us);
  if (kind == StepKind::mixed) {
    metrics_.mixed_steps_total.add();
    add(metrics_.stall_prefill_us, step_us - static_cast<Microseconds>(plan_.decodes_us), n_decodes);
  }
  if (plan_.decodes_over_bound) metrics_.decode_over_bound_steps.add();
  metrics_.idle_slot_steps_total.add(static_cast<std::uint64_t>(plan_.idle_slots));
  metrics_.slot_steps_total.add(plan_.slices.size() + static_cast<std::uint64_t>(plan_.idle_slots));
}

void Engine::Loop::start_slices(Microseconds now) {
  std::unique_lock lock(mutex_, std::defer_lock);  // taken when somebody starts
  for (const sched::Slice& slice : plan_.slices) {
    LiveRequest& live = *live_.at(slice.seq);
    if (live.started()) continue;
    live.start(now);
    record(metrics_.queue_us, live.usage().queue_us);
    if (!lock.owns_lock()) lock.lock();
    leave_line(live.request(), 1, live.queued_tokens(), now);
  }
}

/// Slices in their order, as the runner returns their rows.
void Engine::Loop::prepare_draws() {
  draws_.clear();
  for (const sched::Slice& slice : plan_.slices) {
    const bool all = slice.outputs == sched::Outputs::all;
    if (!all && slice.outputs != sched::Outputs::last) continue;
    draws_.skip((all ? slice.count : 1) - (slice.draws ? 1 : 0));
    if (!slice.draws) continue;
    draws_.add(*live_.at(slice.seq), slice.first + slice.count, /*keep=*/all);
    draw_answers(slice);
  }
}

void Engine::Loop::read_outputs(const model::StepOutputs& outputs, sched::StepTimes times) {
  const auto vocab = static_cast<std::size_t>(info().vocab_size), dim = static_cast<std::size_t>(info().dim);
  std::span<const float> logits = outputs.logits, hidden = outputs.hidden;
  const auto take = [](std::span<const float>& rows, std::size_t n) {
    MILLRACE_CHECK(rows.size() >= n, "the runner returned fewer rows than the step asked for");
    const auto taken = rows.first(n);
    rows = rows.subspan(n);
    return taken;
  };
  sampled_.assign(plan_.slices.size(), {});
  accepted_.assign(plan_.slices.size(), {});
  rows_.assign(plan_.slices.size(), 0);
  for (std::size_t i = 0; i < plan_.slices.size(); ++i) {
    const sched::Slice& slice = plan_.slices[i];
    const auto count = static_cast<std::size_t>(slice.count);
    std::span<const float> rows;
    switch (slice.outputs) {
      case sched::Outputs::none:
        break;
      case sched::Outputs::last:
        rows = take(logits, vocab);
        break;
      case sched::Outputs::all:
        rows = take(logits, count * vocab);
        break;
      case sched::Outputs::hidden:
        rows = take(hidden, count * dim);
        break;
    }
    const bool whole_rows = slice.outputs == sched::Outputs::all || slice.outputs == sched::Outputs::hidden;
    const int width = slice.outputs == sched::Outputs::hidden ? info().dim : info().vocab_size;
    if (whole_rows && !hand_out_rows(slice, rows, width)) continue;
    if (!slice.draws) continue;
    rows_[i] = (outputs.logits.size() - logits.size()) / vocab - 1;
    sampled_[i] = draws_.take(rows_[i]);
    accepted_[i] = std::span(&sampled_[i].token, 1);
  }
  scheduler_.commit(plan_, accepted_, times);
  const Microseconds now = now_us();
  for (std::size_t i = 0; i < plan_.slices.size(); ++i)
    if (!accepted_[i].empty() && answers_.contains(plan_.slices[i].seq)) fork_answers(plan_.slices[i].seq, rows_[i], now);
  for (std::size_t i = 0; i < plan_.slices.size(); ++i) settle(plan_.slices[i], std::move(sampled_[i]), now);
}

/// False when the sink failed: that request ends, and only that one.
bool Engine::Loop::hand_out_rows(const sched::Slice& slice, std::span<const float> rows, int width) {
  try {
    live_.at(slice.seq)->request().row_sink(slice.first, rows, width);
    return true;
  } catch (const std::exception& failure) {
    end(slice.seq, Finish::error, error(Code::exhausted, "the receiver of prompt rows failed: {}", failure.what()));
  } catch (...) {
    end(slice.seq, Finish::error, error(Code::exhausted, "the receiver of prompt rows failed"));
  }
  return false;
}

void Engine::Loop::settle(const sched::Slice& slice, sampling::Sampled sampled, Microseconds now) {
  const auto found = live_.find(slice.seq);
  if (found == live_.end()) return;
  LiveRequest& live = *found->second;
  count_prompt(slice.seq, live);
  if (!slice.draws) {
    const bool through = slice.first + slice.count == live.usage().prompt_tokens;
    live.usage().prompt_done = slice.first + slice.count;
    if (through && live.request().max_new_tokens == 0) end(slice.seq, Finish::length);
    else if (live.request().tell_progress && !through) live.deliver();
    return;
  }
  live.usage().prompt_done = live.usage().prompt_tokens;
  deliver(slice.seq, live, std::move(sampled), now);
}

void Engine::Loop::deliver(SeqId id, LiveRequest& live, sampling::Sampled sampled, Microseconds now) {
  metrics_.generated_tokens_total.add();
  std::optional<Finish> reason;
  std::optional<Error> failed;
  try {
    reason = live.add(std::move(sampled), now);
    if (live.usage().completion_tokens == 1) {
      record(metrics_.first_token_us, live.usage().ttft_us);
      record(metrics_.prefill_us, live.usage().prefill_us);
    } else {
      record(metrics_.gap_us, live.gap_us());
    }
    if (!reason && !live.deliver()) reason = Finish::cancelled;
  } catch (const std::exception& failure) {
    reason = Finish::error;
    failed = error(Code::exhausted, "making text of a token failed: {}", failure.what());
  }
  if (reason) end(id, *reason, std::move(failed));
}

void Engine::Loop::count_prompt(SeqId id, LiveRequest& live) {
  const sched::Progress progress = scheduler_.progress(id);
  live.usage().preemptions = progress.preemptions;
  const auto [cached, computed] = live.count_prompt(progress.cached, progress.causes);
  if (cached == 0 && computed == kv::MissCounts{}) return;  // a decode
  int n_computed = 0;
  for (std::size_t c = 0; c < computed.size(); ++c) {
    n_computed += computed[c];
    metrics_.prefix_miss_tokens_total[c].add(static_cast<std::uint64_t>(computed[c]));
  }
  metrics_.prompt_tokens_total.add(static_cast<std::uint64_t>(n_computed + cached));
  metrics_.computed_tokens_total.add(static_cast<std::uint64_t>(n_computed));
  metrics_.cached_tokens_total.add(static_cast<std::uint64_t>(cached));
}

/// While the scheduler still knows it: the tokens at which it left what is known.
void Engine::Loop::report_divergence(SeqId id, LiveRequest& live) {
  const sched::Progress progress = scheduler_.progress(id);
  if (progress.diverged_at < 0) return;
  const TokenId own = scheduler_.tokens(id)[static_cast<std::size_t>(progress.diverged_at)];
  live.set_divergence(progress.diverged_at, own, progress.known);
}

}  // namespace millrace::engine
