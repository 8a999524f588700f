#pragma once

// One call of an endpoint: the exchange, and what the application found out before it got there (key, model, record).

#include <memory>
#include <string>
#include <vector>

#include "server/api_error.h"
#include "server/http.h"
#include "server/recorded_exchange.h"
#include "server/request_record.h"
#include "server/served_model.h"

namespace millrace::server {

class Application;

struct Call {
  std::shared_ptr<RecordedExchange> exchange;
  std::shared_ptr<RequestRecord> record;
  std::shared_ptr<const ServedModel> model;  // ready; null only for endpoints that need none
  Application* application = nullptr;        // outlives every call
  std::vector<std::string> parts;            // what stood for each "{}" of the route's path
  Dialect dialect = Dialect::openai;         // the route's: errors are told in it
};

using Endpoint = void (*)(Call);

}  // namespace millrace::server
