#include "server/net/mailbox.h"

#include <fmt/core.h>

#include <atomic>
#include <utility>

#include "base/check.h"

namespace millrace::server::net {

void Mailbox::push(Letter letter) {
  // A letter that is not taken dies with the parameter, after the lock: it may hold the last reference to an exchange, whose
  // end is a letter, too.
  const std::lock_guard lock(mutex_);
  if (!wake_) return;
  letters_.push_back(std::move(letter));
  if (!std::exchange(woken_, true)) wake_();
}

std::vector<Letter> Mailbox::take() {
  std::vector<Letter> taken;
  const std::lock_guard lock(mutex_);
  taken.swap(letters_);
  woken_ = false;
  return taken;
}

void Mailbox::close() {
  std::vector<Letter> dropped;  // declared before the lock, so that it is destroyed after it
  const std::lock_guard lock(mutex_);
  wake_ = nullptr;
  dropped.swap(letters_);
}

namespace {

class ExchangeHandle final : public Exchange {
 public:
  ExchangeHandle(std::shared_ptr<Answer> answer, std::shared_ptr<Mailbox> mailbox)
      : answer_(std::move(answer)), mailbox_(std::move(mailbox)) {}
  ExchangeHandle(const ExchangeHandle&) = delete;
  ~ExchangeHandle() override {
    if (stage_ != Stage::ended) send(DroppedCall{});
  }

  const HttpRequest& request() const override { return answer_->request; }

  void respond(HttpResponse response) override {
    step(Stage::waiting, Stage::ended);
    send(RespondCall{std::move(response)});
  }
  void start_stream(HttpResponse head) override {
    step(Stage::waiting, Stage::streaming);
    send(StartStreamCall{std::move(head)});
  }
  void write(std::string data) override {
    step(Stage::streaming, Stage::streaming);
    send(WriteCall{std::move(data)});
  }
  void end_stream() override {
    step(Stage::streaming, Stage::ended);
    send(EndStreamCall{});
  }
  void on_gone(std::function<void()> gone) override { send(OnGoneCall{std::move(gone)}); }
  void post(std::function<void()> task) override { send(PostCall{std::move(task)}); }

 private:
  enum class Stage { waiting, streaming, ended };

  void step(Stage from, Stage to) {
    const Stage was = stage_.exchange(to);
    MILLRACE_CHECK(was == from, fmt::format("an exchange in stage {} was used as in stage {}", int(was), int(from)));
  }
  void send(ExchangeCall call) { mailbox_->push({answer_, std::move(call)}); }

  const std::shared_ptr<Answer> answer_;
  const std::shared_ptr<Mailbox> mailbox_;
  std::atomic<Stage> stage_{Stage::waiting};
};

}  // namespace

ExchangePtr make_exchange(std::shared_ptr<Answer> answer, std::shared_ptr<Mailbox> mailbox) {
  return std::make_shared<ExchangeHandle>(std::move(answer), std::move(mailbox));
}

}  // namespace millrace::server::net
