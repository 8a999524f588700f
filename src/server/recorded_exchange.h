#pragma once

// An exchange that adds what belongs on every answer (request id, rate limits, CORS) and tells the request's record what
// became of it.

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "server/http.h"
#include "server/request_record.h"

namespace millrace::server {

class RecordedExchange final : public Exchange {
 public:
  RecordedExchange(ExchangePtr inner, std::shared_ptr<RequestRecord> record, std::vector<Header> headers)
      : inner_(std::move(inner)), record_(std::move(record)), headers_(std::move(headers)) {}

  /// Before the answer starts; one thread at a time.
  void add_header(Header header) { headers_.push_back(std::move(header)); }

  const HttpRequest& request() const override { return inner_->request(); }

  void respond(HttpResponse response) override {
    const int status = response.status;
    inner_->respond(completed(std::move(response)));
    record_->sent(status);
  }

  void start_stream(HttpResponse head) override {
    status_ = head.status;
    inner_->start_stream(completed(std::move(head)));
  }

  void write(std::string data) override { inner_->write(std::move(data)); }

  void end_stream() override {
    inner_->end_stream();
    record_->sent(status_);
  }

  void on_gone(std::function<void()> gone) override {
    inner_->on_gone([gone = std::move(gone), record = record_] {
      record->client_gone();
      gone();
    });
  }

  void post(std::function<void()> task) override { inner_->post(std::move(task)); }

 private:
  HttpResponse completed(HttpResponse response) {
    for (Header& header : headers_) response.headers.push_back(std::move(header));
    return response;
  }

  const ExchangePtr inner_;
  const std::shared_ptr<RequestRecord> record_;
  std::vector<Header> headers_;
  int status_ = 200;
};

}  // namespace millrace::server
