#pragma once

// Exchanges, and how calls on them travel from any thread to the thread of their connection. A burst of calls on any number
// of exchanges wakes that thread once. Knows no socket.

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <variant>
#include <vector>

#include "server/http.h"
#include "server/net/body_share.h"

namespace millrace::server::net {

class Connection;

/// One request and where its answer goes. Everything but `request` belongs to the connection's thread.
struct Answer {
  HttpRequest request;
  BodyShare body_share;  // of request.body
  Connection* connection = nullptr;  // null once the answer is through or the client is gone
  bool gone = false;
  bool streaming = false;
  std::function<void()> on_gone;
};

struct RespondCall { HttpResponse response; };
struct StartStreamCall { HttpResponse head; };
struct WriteCall { std::string data; };
struct EndStreamCall {};
struct OnGoneCall { std::function<void()> gone; };
struct PostCall { std::function<void()> task; };
struct DroppedCall {};  // the exchange was let go before its answer ended
using ExchangeCall = std::variant<RespondCall, StartStreamCall, WriteCall, EndStreamCall, OnGoneCall, PostCall, DroppedCall>;

struct Letter {
  std::shared_ptr<Answer> answer;
  ExchangeCall call;
};

/// One per I/O thread; outlives it, as exchanges outlive a server. Any thread may call.
class Mailbox {
 public:
  /// `wake` makes the thread call take(); it is called under the lock.
  explicit Mailbox(std::function<void()> wake) : wake_(std::move(wake)) {}

  void push(Letter letter);
  std::vector<Letter> take();

  /// From here on letters are thrown away.
  void close();

 private:
  std::mutex mutex_;
  std::vector<Letter> letters_;
  bool woken_ = false;
  std::function<void()> wake_;  // empty: closed
};

ExchangePtr make_exchange(std::shared_ptr<Answer> answer, std::shared_ptr<Mailbox> mailbox);

}  // namespace millrace::server::net
