#include "server/request_records.h"

#include <fmt/format.h>
#include <openssl/rand.h>

#include <algorithm>
#include <array>
#include <deque>
#include <map>
#include <set>

#include "base/log.h"

namespace millrace::server {
namespace {

constexpr std::size_t kMostIdBytes = 128, kMostLoggedBodyBytes = 64 << 10;
constexpr int kClientClosed = 499;  // no answer went out: nginx's word for it

/// Probes and scrapers come every few seconds for ever.
bool is_probe(std::string_view endpoint) { return endpoint == "/health" || endpoint == "/ready" || endpoint == "/metrics"; }

bool may_see(const Tenant& who, const std::string& tenant) { return who.name == Tenant().name || who.name == tenant; }

void log_end(const RequestFacts& facts) {
  const LogLevel level = is_probe(facts.endpoint) ? LogLevel::debug : LogLevel::info;
  if (!logs(level)) return;
  std::vector<LogField> fields = {{"id", facts.id}, {"endpoint", facts.endpoint}, {"tenant", facts.tenant}, {"status", facts.status}};
  if (!facts.reasons.empty()) fields.emplace_back("reason", facts.reasons);
  if (!facts.refused.empty()) fields.emplace_back("refused", facts.refused);
  if (facts.is_read) {
    fields.emplace_back("prompt_tokens", facts.prompt_tokens);
    fields.emplace_back("cached_tokens", facts.cached_tokens);
    fields.emplace_back("completion_tokens", facts.generated_tokens);
    fields.emplace_back("queue_ms", rounded_ms(facts.queue_us));
    fields.emplace_back("ttft_ms", rounded_ms(facts.first_token_us));
    fields.emplace_back("gap_max_ms", rounded_ms(facts.gap_max_us));
  }
  fields.emplace_back("total_ms", rounded_ms(facts.ended_us - facts.arrived_us));
  if (facts.is_read) fields.emplace_back("stream", facts.stream ? 1 : 0);
  if (facts.client_gone) fields.emplace_back("client_gone", 1);
  fields.emplace_back("peer", facts.peer);
  log_event(level, "request ended", fields);
}

}  // namespace

std::string request_id_of(const HttpRequest& request) {
  if (const std::string* given = request.header("x-request-id")) {
    const bool fine = !given->empty() && given->size() <= kMostIdBytes && std::ranges::all_of(*given, [](char c) { return c > 0x20 && c < 0x7F; });
    if (fine) return *given;
  }
  return random_id();
}

std::string random_id() {
  std::array<unsigned char, 16> bytes;
  MILLRACE_CHECK(::RAND_bytes(bytes.data(), static_cast<int>(bytes.size())) == 1, "no random bytes");
  return fmt::format("{:02x}", fmt::join(bytes, ""));
}

double rounded_ms(Microseconds us) { return static_cast<double>(us / 100) / 10; }

std::string_view RequestFacts::state() const {
  if (ended_us != 0) return "ended";
  if (!is_read) return "reading";
  return generated_tokens == 0 ? "waiting" : "generating";
}

struct RequestRecords::Book {
  explicit Book(ServerMetrics& metrics, Options options) : metrics(metrics), options(options) {}

  ServerMetrics& metrics;
  const Options options;

  mutable std::mutex mutex;  // before a record's
  std::uint64_t next = 0;
  std::map<std::uint64_t, const Record*> live;  // by the order in which they came
  std::deque<RequestFacts> ended;
};

class RequestRecords::Record final : public RequestRecord {
 public:
  Record(std::shared_ptr<Book> book, const HttpRequest& request, std::string_view endpoint, Tenant tenant)
      : book_(std::move(book)),
        id_(request_id_of(request)),
        tenant_(std::move(tenant)) {
    facts_.id = id_;
    facts_.endpoint = endpoint;
    facts_.tenant = tenant_.name;
    facts_.peer = request.peer;
    facts_.arrived_us = request.arrived_us != 0 ? request.arrived_us : now_us();
    const std::lock_guard lock(book_->mutex);
    number_ = book_->next++;
    book_->live[number_] = this;
    book_->metrics.live_requests.set(static_cast<std::int64_t>(book_->live.size()));
  }

  ~Record() override {
    RequestFacts facts = end();
    log_end(facts);
    const std::lock_guard lock(book_->mutex);
    book_->live.erase(number_);
    book_->metrics.live_requests.set(static_cast<std::int64_t>(book_->live.size()));
    book_->ended.push_back(std::move(facts));
    if (book_->ended.size() > kKeptRequests) book_->ended.pop_front();
  }

  const std::string& id() const override { return id_; }
  const Tenant& tenant() const override { return tenant_; }

  void read(int prompt_tokens, int answers, int max_tokens, bool stream) override {
    tenant_generation_tokens_ = &book_->metrics.tenant_generation_tokens.at(tenant_.name);
    const std::lock_guard lock(mutex_);
    facts_.is_read = true;
    facts_.prompt_tokens = prompt_tokens;
    facts_.answers = answers;
    facts_.max_tokens = max_tokens;
    facts_.stream = stream;
    book_->metrics.read_us.record(static_cast<std::uint64_t>(std::max<Microseconds>(now_us() - facts_.arrived_us, 0)));
  }

  void tokens(int count) override {
    generated_.fetch_add(count, std::memory_order_relaxed);
    if (tenant_generation_tokens_ != nullptr) tenant_generation_tokens_->add(static_cast<std::uint64_t>(count));
    if (book_->options.rate_limits != nullptr) book_->options.rate_limits->completion(tenant_, count, now_us());
  }

  void answer_ended(engine::Finish finish, const engine::Usage& usage, const engine::CacheReport& cache) override {
    const std::lock_guard lock(mutex_);
    const bool is_first_token = usage.completion_tokens >= 1 && (facts_.first_token_us == 0 || usage.ttft_us < facts_.first_token_us);
    if (is_first_token) facts_.first_token_us = usage.ttft_us;
    facts_.queue_us = std::max(facts_.queue_us, usage.queue_us);
    facts_.gap_max_us = std::max(facts_.gap_max_us, usage.gap_max_us);
    facts_.cached_tokens = std::max(facts_.cached_tokens, usage.cached_tokens);
    reasons_.insert(engine::to_string(finish));
    if (facts_.reports.size() < kMostReports) facts_.reports.push_back(cache);
    ++facts_.answers_ended;
  }

  void refused(int status, const std::string& reason) override {
    book_->metrics.refused.add(reason);
    const std::lock_guard lock(mutex_);
    facts_.refused = reason;
    facts_.status = status;
  }

  void sent(int status) override {
    const std::lock_guard lock(mutex_);
    facts_.status = status;
  }

  void client_gone() override {
    const std::lock_guard lock(mutex_);
    facts_.client_gone = true;
  }

  RequestFacts facts() const {
    const std::lock_guard lock(mutex_);
    RequestFacts out = facts_;
    out.generated_tokens = generated_.load(std::memory_order_relaxed);
    out.reasons = fmt::format("{}", fmt::join(reasons_, ","));
    return out;
  }

 private:
  /// Nobody else tells it anything any more; the book may still look.
  RequestFacts end() {
    const bool started = facts_.is_read && facts_.refused.empty();
    // Who handles a request may be torn down in the middle of it: then the engine cancels what nobody reads any more.
    if (started && facts_.answers_ended < facts_.answers) {
      const std::lock_guard lock(mutex_);
      reasons_.insert(engine::to_string(engine::Finish::cancelled));
    }
    RequestFacts facts = this->facts();
    facts.ended_us = std::max<Microseconds>(now_us(), 1);
    if (facts.status == 0) facts.status = facts.client_gone ? kClientClosed : 500;
    ServerMetrics& metrics = book_->metrics;
    metrics.http_requests.add(fmt::format("{} {}", facts.endpoint, facts.status));
    if (started) {
      metrics.tenant_requests.add(tenant_.name);
      metrics.tenant_prompt_tokens.add(tenant_.name, static_cast<std::uint64_t>(facts.prompt_tokens));
    }
    return facts;
  }

  const std::shared_ptr<Book> book_;
  const std::string id_;
  const Tenant tenant_;
  Counter* tenant_generation_tokens_ = nullptr;  // set by read(), before there are any
  std::uint64_t number_ = 0;
  std::atomic<int> generated_{0};
  mutable std::mutex mutex_;
  RequestFacts facts_;                  // `generated_tokens` and `reasons` are made of what follows
  std::set<std::string_view> reasons_;  // engine::to_string's
};

RequestRecords::RequestRecords(ServerMetrics& metrics, Options options) : book_(std::make_shared<Book>(metrics, options)) {}

std::shared_ptr<RequestRecord> RequestRecords::begin(const HttpRequest& request, std::string_view endpoint, Tenant tenant) {
  auto record = std::make_shared<Record>(book_, request, endpoint, std::move(tenant));
  if (book_->options.log_prompts && !request.body.empty())
    log_info("request body", {{"id", record->id()}, {"bytes", request.body.size()}, {"body", request.body.substr(0, kMostLoggedBodyBytes)}});
  return record;
}

std::vector<RequestFacts> RequestRecords::live(const Tenant& who) const {
  const std::lock_guard lock(book_->mutex);
  std::vector<RequestFacts> out;
  for (const auto& [number, record] : book_->live)
    if (may_see(who, record->tenant().name)) out.push_back(record->facts());
  return out;
}

std::optional<RequestFacts> RequestRecords::find(std::string_view id, const Tenant& who) const {
  const std::lock_guard lock(book_->mutex);
  for (auto one = book_->live.rbegin(); one != book_->live.rend(); ++one)
    if (one->second->id() == id && may_see(who, one->second->tenant().name)) return one->second->facts();
  for (auto one = book_->ended.rbegin(); one != book_->ended.rend(); ++one)
    if (one->id == id && may_see(who, one->tenant)) return *one;
  return std::nullopt;
}

}  // namespace millrace::server
