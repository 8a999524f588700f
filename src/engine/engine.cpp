#include "engine/engine.h"

#include <utility>

#include "engine/event_channel.h"
#include "engine/loop.h"

namespace millrace::engine {

std::string_view to_string(Finish finish) {
  switch (finish) {
    case Finish::stop: return "stop";
    case Finish::length: return "length";
    case Finish::cancelled: return "cancelled";
    case Finish::timeout: return "timeout";
    case Finish::error: return "error";
  }
  return "unknown";
}

std::string_view to_string(StepKind kind) {
  switch (kind) {
    case StepKind::prefill: return "prefill";
    case StepKind::decode: return "decode";
    case StepKind::mixed: return "mixed";
  }
  return "unknown";
}

Handle::Handle(std::shared_ptr<EventChannel> channel) : channel_(std::move(channel)) {}
Handle::Handle(Handle&&) noexcept = default;

Handle& Handle::operator=(Handle&& other) noexcept {
  if (this == &other) return *this;
  cancel();
  channel_ = std::move(other.channel_);
  return *this;
}

Handle::~Handle() { cancel(); }

std::optional<Event> Handle::next(std::chrono::milliseconds timeout) {
  return channel_ ? channel_->next(timeout) : std::nullopt;
}

void Handle::cancel() {
  if (channel_) channel_->cancel();
}

Engine::Engine(std::unique_ptr<model::Runner> runner, const text::Tokenizer& tokenizer, EngineOptions options)
    : loop_(std::make_unique<Loop>(std::move(runner), tokenizer, options)) {}

Engine::~Engine() = default;

Result<Handle> Engine::submit(Request request) {
  MILLRACE_TRY(channels, loop_->submit(std::move(request), 1));
  return Handle(std::move(channels[0]));
}

Result<std::vector<Handle>> Engine::submit(Request request, int n) {
  MILLRACE_TRY(channels, loop_->submit(std::move(request), n));
  std::vector<Handle> handles;
  for (auto& channel : channels) handles.push_back(Handle(std::move(channel)));
  return handles;
}

sched::CacheState Engine::cache() { return loop_->cache(); }

CacheReport Engine::explain(std::span<const TokenId> prompt, const std::string& cache_salt) { return loop_->explain(prompt, cache_salt); }
Microseconds Engine::pulse() const { return loop_->pulse(); }

int Engine::drain(std::chrono::milliseconds timeout) { return loop_->drain(timeout); }
Result<int> Engine::save(std::span<const TokenId> tokens, const std::string& path, const std::string& cache_salt) { return loop_->save(tokens, path, cache_salt); }
Result<int> Engine::restore(const std::string& path, const std::string& cache_salt) { return loop_->restore(path, cache_salt); }
const EngineMetrics& Engine::metrics() const { return loop_->metrics(); }
const model::RunnerInfo& Engine::info() const { return loop_->info(); }

}  // namespace millrace::engine
