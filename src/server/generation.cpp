#include "server/generation.h"

#include <mutex>
#include <utility>

#include "server/sse.h"

namespace millrace::server {
namespace {

/// What a client is told where the engine ended an answer that nobody asked it to end.
ApiError ending_error(const engine::Event& event) {
  switch (*event.finished) {
    case engine::Finish::timeout: return to_api_error(error(Code::deadline, "the request took longer than its time of timeout_ms"));
    case engine::Finish::cancelled: return to_api_error(error(Code::cancelled, "the server is shutting down, the answer was cut"));
    default: return event.error ? to_api_error(*event.error) : to_api_error(error(Code::corrupt_data, "the engine failed"));
  }
}

/// One request's answers, index p * n + i. All of it runs on the connection's thread, but tell(), which the engine's thread calls and which
/// only notes and posts: so a step waits for nobody.
class Generation : public std::enable_shared_from_this<Generation> {
 public:
  Generation(engine::Engine& engine, GenerationPlan plan, ExchangePtr exchange, std::shared_ptr<RequestRecord> record)
      : engine_(&engine), plan_(std::move(plan)), exchange_(std::move(exchange)), record_(std::move(record)) {}

  void start() {
    exchange_->on_gone([self = shared_from_this()] { self->leave(); });
    if (state_ == State::over) return;
    const engine::Request& first = plan_.prompts.front();
    std::size_t prompt_tokens = 0;
    for (const engine::Request& prompt : plan_.prompts) prompt_tokens += prompt.prompt.size();
    record_->read(static_cast<int>(prompt_tokens), plan_.answers * static_cast<int>(plan_.prompts.size()), first.max_new_tokens, plan_.stream);
    answers_.resize(plan_.prompts.size() * static_cast<std::size_t>(plan_.answers));
    for (std::size_t p = 0; p < plan_.prompts.size(); ++p)
      if (!submit(p)) return;
  }

 private:
  enum class State { waiting, streaming, over };  // over: nothing more is said; the engine may still be ending answers

  bool submit(std::size_t p) {
    engine::Request request = std::move(plan_.prompts[p]);
    const int first = static_cast<int>(p) * plan_.answers;
    request.on_event = [self = shared_from_this(), first](int answer) { self->tell(first + answer); };
    auto handles = engine_->submit(std::move(request), plan_.answers);
    if (!handles) {
      const ApiError error = to_api_error(handles.error());
      record_->refused(error.status, refusal_reason(error));
      fail(error);
      return false;
    }
    for (engine::Handle& handle : *handles) handles_.push_back(std::move(handle)), ++open_;
    return true;
  }

  /// The engine's thread.
  void tell(int index) {
    bool first = false;
    {
      const std::lock_guard lock(mutex_);
      first = told_.empty();
      told_.push_back(index);
    }
    if (first) exchange_->post([self = shared_from_this()] { self->drain(); });
  }

  /// Everything that is new, in one write.
  void drain() {
    std::vector<int> told;
    {
      const std::lock_guard lock(mutex_);
      told.swap(told_);
    }
    std::string out;
    for (const int index : told)
      if (static_cast<std::size_t>(index) < handles_.size())
        if (auto event = handles_[static_cast<std::size_t>(index)].next(std::chrono::milliseconds(0))) take(index, std::move(*event), out);
    if (state_ == State::streaming && !out.empty()) exchange_->write(std::move(out));
    if (open_ == 0 && state_ != State::over) complete();
  }

  void take(int index, engine::Event event, std::string& out) {
    if (!event.tokens.empty()) record_->tokens(static_cast<int>(event.tokens.size()));
    if (event.finished) {
      --open_;
      record_->answer_ended(*event.finished, event.usage, event.cache);
    }
    if (state_ == State::over) return;
    if (event.finished && *event.finished != engine::Finish::stop && *event.finished != engine::Finish::length) {
      if (state_ == State::streaming) exchange_->write(std::exchange(out, {}));  // what the others said before
      return fail(ending_error(event));
    }
    if (plan_.stream && state_ == State::waiting) {
      exchange_->start_stream(stream_head());
      state_ = State::streaming;
      out += plan_.writer->begin();
    }
    const Piece piece{std::move(event.text), std::move(event.tokens)};
    // Request::tell_progress: nothing else comes without a token.
    if (plan_.stream && piece.tokens.empty() && !event.finished)
      out += plan_.writer->progress(index, {event.usage.prompt_done, event.usage.cached_tokens, event.usage.prompt_tokens});
    if (plan_.stream && (!piece.text.empty() || !piece.tokens.empty())) out += plan_.writer->piece(index, piece);
    Answer& answer = answers_[static_cast<std::size_t>(index)];
    if (!plan_.stream || plan_.on_complete) {
      answer.text += piece.text;
      answer.tokens.insert(answer.tokens.end(), piece.tokens.begin(), piece.tokens.end());
    }
    if (!event.finished) return;
    answer.ending = {*event.finished, event.stop_reason, event.usage, std::move(event.cache)};
    if (plan_.stream) out += plan_.writer->end(index, answer.ending);
  }

  Totals totals() const {
    Totals totals;
    for (std::size_t i = 0; i < answers_.size(); ++i) {
      const engine::Usage& usage = answers_[i].ending.usage;
      totals.completion_tokens += usage.completion_tokens;
      if (i % static_cast<std::size_t>(plan_.answers) != 0) continue;  // a prompt counts once
      totals.prompt_tokens += usage.prompt_tokens;
      totals.cached_tokens += usage.cached_tokens;
    }
    return totals;
  }

  void complete() {
    const Totals all = totals();
    if (plan_.on_complete) plan_.on_complete(answers_, all);
    if (plan_.stream) {
      exchange_->write(plan_.writer->close(all));
      exchange_->end_stream();
    } else {
      HttpResponse response;
      response.body = plan_.writer->whole(answers_, all);
      exchange_->respond(std::move(response));
    }
    finish();
  }

  void fail(ApiError error) {
    error.request_id = record_->id();
    if (state_ == State::streaming) {
      exchange_->write(plan_.writer->failure(error));
      exchange_->end_stream();
    } else {
      exchange_->respond(error_response(error, plan_.writer->dialect()));
    }
    finish();
  }

  void leave() {
    if (state_ != State::over) finish();
  }

  /// What still runs is cancelled; tell() goes on until the engine has ended it, for the record.
  void finish() {
    state_ = State::over;
    for (engine::Handle& handle : handles_) handle.cancel();
    answers_ = {};
  }

  engine::Engine* engine_;
  GenerationPlan plan_;
  ExchangePtr exchange_;
  std::shared_ptr<RequestRecord> record_;
  State state_ = State::waiting;
  std::vector<engine::Handle> handles_;  // by index
  std::vector<Answer> answers_;
  int open_ = 0;  // answers that have not ended

  std::mutex mutex_;
  std::vector<int> told_;  // indices with something to read, by mutex_
};

}  // namespace

void start_generation(engine::Engine& engine, GenerationPlan plan, ExchangePtr exchange, std::shared_ptr<RequestRecord> record) {
  auto generation = std::make_shared<Generation>(engine, std::move(plan), exchange, std::move(record));
  exchange->post([generation] { generation->start(); });
}

}  // namespace millrace::server
