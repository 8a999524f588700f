// One step of the engine: plan, run (the workers draw, too), commit, deliver.

#include <algorithm>
#include <exception>
#include <string>
#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "engine/loop.h"

namespace millrace::engine {

void Engine::Loop::step() {
  const Microseconds begun_us = now_us();
  scheduler_.plan(plan_);
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
  metrics_.steps_total.add();
  metrics_.step_us.record(static_cast<std::uint64_t>(ran_us - submitted_us));

  if (outputs) {
    read_outputs(*outputs);
  } else {
    // What the step wrote is void, and so are its sequences. Nobody else is touched.
    log_warn("step failed", {{"slices", plan_.slices.size()}, {"error", outputs.error().message}});
    for (const sched::Slice& slice : plan_.slices) end(slice.seq, Finish::error, outputs.error());
  }
  if (options_.check_invariants) scheduler_.check_invariants();
  metrics_.host_us.record(static_cast<std::uint64_t>(submitted_us - begun_us + now_us() - ran_us));
}

void Engine::Loop::start_slices(Microseconds now) {
  int n_started = 0;
  for (const sched::Slice& slice : plan_.slices) {
    LiveRequest& live = *live_.at(slice.seq);
    if (live.started()) continue;
    live.start(now);
    metrics_.queue_us.record(static_cast<std::uint64_t>(live.usage().queue_us));
    ++n_started;
  }
  if (n_started == 0) return;
  const std::lock_guard lock(mutex_);
  n_queued_ -= n_started;
}

/// Slices in their order, as the runner returns their rows.
void Engine::Loop::prepare_draws() {
  draws_.clear();
  for (const sched::Slice& slice : plan_.slices) {
    const bool all = slice.outputs == sched::Outputs::all;
    if (!all && slice.outputs != sched::Outputs::last) continue;
    draws_.skip((all ? slice.count : 1) - (slice.draws ? 1 : 0));
    if (slice.draws) draws_.add(*live_.at(slice.seq), slice.first + slice.count, /*keep=*/all);
  }
}

void Engine::Loop::read_outputs(const model::StepOutputs& outputs) {
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
    sampled_[i] = draws_.take((outputs.logits.size() - logits.size()) / vocab - 1);
    accepted_[i] = std::span(&sampled_[i].token, 1);
  }
  scheduler_.commit(plan_, accepted_);
  const Microseconds now = now_us();
  for (std::size_t i = 0; i < plan_.slices.size(); ++i) settle(plan_.slices[i], std::move(sampled_[i]), now);
}

/// False when the sink failed: that request ends, and only that one.
bool Engine::Loop::hand_out_rows(const sched::Slice& slice, std::span<const float> rows, int width) {
  try {
    live_.at(slice.seq)->request().row_sink(slice.first, rows, width);
    return true;
  } catch (const std::exception& failure) {
    end(slice.seq, Finish::error, error(Code::exhausted, "the receiver of prompt rows failed: {}", failure.what()));
    return false;
  }
}

void Engine::Loop::settle(const sched::Slice& slice, sampling::Sampled sampled, Microseconds now) {
  const auto found = live_.find(slice.seq);
  if (found == live_.end()) return;
  LiveRequest& live = *found->second;
  count_prompt(slice.seq, live);
  if (!slice.draws) {
    const bool through = slice.first + slice.count == live.usage().prompt_tokens;
    if (through && live.request().max_new_tokens == 0) end(slice.seq, Finish::length);
    return;
  }
  metrics_.generated_tokens_total.add();
  const auto reason = live.add(std::move(sampled), now);
  if (live.usage().completion_tokens == 1)
    metrics_.first_token_us.record(static_cast<std::uint64_t>(live.usage().ttft_us));
  if (reason) {
    end(slice.seq, *reason);
  } else if (!live.deliver()) {
    end(slice.seq, Finish::cancelled);
  }
}

void Engine::Loop::count_prompt(SeqId id, LiveRequest& live) {
  const sched::Progress progress = scheduler_.progress(id);
  const auto [computed, cached] = live.count_prompt(progress.computed, progress.cached);
  metrics_.prompt_tokens_total.add(static_cast<std::uint64_t>(computed + cached));
  metrics_.computed_tokens_total.add(static_cast<std::uint64_t>(computed));
  metrics_.cached_tokens_total.add(static_cast<std::uint64_t>(cached));
  live.usage().preemptions = progress.preemptions;
}

}  // namespace millrace::engine
