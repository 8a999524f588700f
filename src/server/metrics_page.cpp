#include "server/metrics_page.h"

#include <prometheus/text_serializer.h>

#include <algorithm>
#include <array>

#include "base/log.h"
#include "server/metric_families.h"
#include "server/net/http_server.h"
#include "server/process_metrics.h"

namespace millrace::server {
namespace {

constexpr double kMicro = 1e-6;  // seconds

/// Collects families under the prefix.
class Page {
 public:
  explicit Page(const std::string& prefix) : prefix_(prefix) {}

  void add(Family family) { families_.push_back(std::move(family).done()); }

  void counter(const char* name, const char* help, double value) { add(std::move(Family::counter(prefix_ + name, help).with({}, value))); }
  void counter(const char* name, const char* help, const Counter& value) { counter(name, help, static_cast<double>(value.value())); }
  void gauge(const char* name, const char* help, double value) { add(std::move(Family::gauge(prefix_ + name, help).with({}, value))); }
  void seconds(const char* name, const char* help, const Histogram& us) { add(std::move(Family::histogram(prefix_ + name, help).with({}, us, kMicro))); }
  void counts(const char* name, const char* help, const Histogram& n) { add(std::move(Family::histogram(prefix_ + name, help).with({}, n, 1))); }

  /// One for each value of `label`; the family is there without any, too.
  using Values = std::vector<std::pair<std::string, double>>;
  void counters(const char* name, const char* help, const char* label, const Values& values) { add(filled(Family::counter(prefix_ + name, help), label, values)); }
  void gauges(const char* name, const char* help, const char* label, const Values& values) { add(filled(Family::gauge(prefix_ + name, help), label, values)); }
  void counters(const char* name, const char* help, const char* label, const CounterTable& table) {
    Values values;
    for (const auto& [value, count] : table.values()) values.emplace_back(value, static_cast<double>(count));
    counters(name, help, label, values);
  }

  Family counter_family(const char* name, const char* help) const { return Family::counter(prefix_ + name, help); }
  Family histogram_family(const char* name, const char* help) const { return Family::histogram(prefix_ + name, help); }

  std::vector<prometheus::MetricFamily> done() && { return std::move(families_); }

 private:
  static Family filled(Family family, const char* label, const Values& values) {
    for (const auto& [of, value] : values) family.with({{label, of}}, value);
    return family;
  }

  const std::string prefix_;
  std::vector<prometheus::MetricFamily> families_;
};

/// Counters that lie by an enumeration, by its words.
template <class Enum, std::size_t n>
Page::Values by_word(const std::array<Counter, n>& counters, std::string_view (*word)(Enum)) {
  Page::Values values;
  for (std::size_t i = 0; i < n; ++i) values.emplace_back(word(static_cast<Enum>(i)), static_cast<double>(counters[i].value()));
  return values;
}

/// vLLM's word where it has one: boards ask for it.
std::string_view finished_reason(engine::Finish finish) { return finish == engine::Finish::cancelled ? "abort" : engine::to_string(finish); }

void add_requests(Page& page, const ServerMetrics& m) {
  page.counters("refused_requests_total", "Requests that were refused, by why.", "reason", m.refused);
  Family http = page.counter_family("http_requests_total", "Requests that ended, by endpoint and status.");
  for (const auto& [value, count] : m.http_requests.values()) {
    const auto blank = std::min(value.find(' '), value.size());
    http.with({{"endpoint", value.substr(0, blank)}, {"status", blank < value.size() ? value.substr(blank + 1) : "other"}}, static_cast<double>(count));
  }
  page.add(std::move(http));
  page.seconds("request_read_seconds", "From the arrival of a request to its tokens: waiting for the pool, reading, templates, tokenizing.", m.read_us);
  page.gauge("http_requests_in_flight", "Requests that have come and not ended, of all endpoints.", static_cast<double>(m.live_requests.value()));
  page.counters("tenant_requests_total", "Started requests that ended, by tenant.", "tenant", m.tenant_requests);
  page.counters("tenant_prompt_tokens_total", "Their prompt tokens, by tenant.", "tenant", m.tenant_prompt_tokens);
  page.counters("tenant_generation_tokens_total", "Tokens sent to clients, by tenant.", "tenant", m.tenant_generation_tokens);
  page.counters("unknown_fields_total", "Fields of requests that nobody knows, by name.", "field", m.unknown_fields);
  page.counter("log_lines_dropped_total", "Lines of the log that found no room, because nobody reads it.", static_cast<double>(log_lines_dropped()));
  page.gauge("model_load_seconds", "What loading the model took; 0 while it loads.", static_cast<double>(m.model_load_us.value()) * kMicro);
}

void add_cache(Page& page, const engine::EngineMetrics& m) {
  const double used = static_cast<double>(m.kv_blocks_used.value()), cached = static_cast<double>(m.kv_blocks_cached.value());
  const double total = static_cast<double>(m.kv_blocks_total.value());
  page.gauge("num_requests_running", "Sequences that take part in steps.", static_cast<double>(m.running.value()));
  page.gauge("num_requests_waiting", "Sequences that wait in line.", static_cast<double>(m.waiting.value()));
  page.gauge("queued_prompt_tokens", "Prompt tokens of requests that have not started.", static_cast<double>(m.queued_tokens.value()));
  page.gauge("kv_cache_usage_perc", "Part of the KV cache that live sequences hold, 0 to 1.", total > 0 ? used / total : 0);
  page.gauges("kv_cache_blocks", "Blocks of the KV cache: of live sequences, kept for later prompts, free.", "state",
              {{"used", used}, {"cached", cached}, {"free", std::max(total - used - cached, 0.0)}});

  page.counter("prompt_tokens_total", "Prompt tokens of sequences that got through their prompt.", m.prompt_tokens_total);
  page.counter("generation_tokens_total", "Generated tokens.", m.generated_tokens_total);
  page.counter("prefix_cache_queries_total", "Prompt tokens looked up in the prefix cache.", m.prompt_tokens_total);
  page.counter("prefix_cache_hits_total", "Prompt tokens found in it.", m.cached_tokens_total);
  page.counters("prefix_miss_tokens_total", "Prompt tokens that were computed, by why they were not found.", "cause",
                by_word<kv::MissCause>(m.prefix_miss_tokens_total, kv::to_string));
  page.counter("num_preemptions_total", "Sequences that gave up their blocks to others.", m.preemptions_total);
}

void add_answers(Page& page, const engine::EngineMetrics& m) {
  page.seconds("time_to_first_token_seconds", "From submission to the first token of an answer.", m.first_token_us);
  page.seconds("inter_token_latency_seconds", "From each token of an answer to the next.", m.gap_us);
  page.seconds("e2e_request_latency_seconds", "From submission to the end of an answer.", m.request_us);
  page.seconds("request_queue_time_seconds", "From submission to the first step.", m.queue_us);
  page.seconds("request_prefill_time_seconds", "From the first step to the first token.", m.prefill_us);
  page.seconds("request_decode_time_seconds", "From the first token to the last one.", m.decode_us);
  page.counts("request_prompt_tokens", "Prompt tokens of an answer.", m.request_prompt_tokens);
  page.counts("request_generation_tokens", "Generated tokens of an answer.", m.request_generated_tokens);

  page.counters("request_success_total", "Answers that ended, by how; those that were refused never began.", "finished_reason",
                by_word<engine::Finish>(m.finished_total, finished_reason));
}

void add_steps(Page& page, const engine::EngineMetrics& m) {
  Family steps = page.histogram_family("step_seconds", "Time of a step, by what ran in it: prompt tokens, decodes, both.");
  for (std::size_t i = 0; i < m.step_us.size(); ++i) steps.with({{"phase", std::string(to_string(static_cast<engine::StepKind>(i)))}}, m.step_us[i], kMicro);
  page.add(std::move(steps));
  page.seconds("host_seconds", "The engine thread's own time of a step, while the workers have nothing to do.", m.host_us);
  const auto seconds = [](const Counter& us) { return static_cast<double>(us.value()) * kMicro; };
  page.counters("stall_seconds_total", "Time lost, by why: host is the workers', the others are summed over the requests that waited.", "cause",
                {{"host", seconds(m.stall_host_us)},
                 {"slots", seconds(m.stall_slots_us)},
                 {"schedule", seconds(m.stall_schedule_us)},
                 {"blocks", seconds(m.stall_blocks_us)},
                 {"prefill", seconds(m.stall_prefill_us)}});

  // The ratio is over all the time there was; the rates of the two counters give that of any range.
  const double open_s = seconds(m.open_us), busy_s = seconds(m.busy_us);
  page.gauges("core_busy_ratio", "Part of the time with open requests in which the cores of a lane ran a step.", "lane", {{"0", open_s > 0 ? busy_s / open_s : 0}});
  page.counters("core_busy_seconds_total", "Time in which the cores of a lane ran a step.", "lane", {{"0", busy_s}});
  page.counters("core_open_seconds_total", "Time in which they had open requests.", "lane", {{"0", open_s}});
}

void add_connections(Page& page, const HttpServerMetrics& m) {
  page.gauge("http_connections", "Open connections.", static_cast<double>(m.connections.value()));
  page.counter("http_connections_total", "Connections accepted.", m.connections_total);
  page.counter("http_refused_connections_total", "Connections over the limit.", m.refused_connections_total);
  page.counter("http_bad_requests_total", "What came and was no request.", m.bad_requests_total);
  page.counter("http_timeouts_total", "Connections that took too long.", m.timeouts_total);
  page.counter("http_sent_bytes_total", "Bytes sent.", m.sent_bytes_total);
  page.counter("http_received_bytes_total", "Bytes received.", m.received_bytes_total);
}

}  // namespace

std::string metrics_page(const MetricsSources& sources) {
  static const engine::EngineMetrics kNone;
  Page page(sources.prefix);
  Labels labels;
  for (const Header& one : sources.build) labels.emplace_back(one.name, one.value);
  page.add(std::move(Family::gauge(sources.prefix + "build_info", "Which build serves which model; always 1.").with(labels, 1)));
  if (sources.server != nullptr) add_requests(page, *sources.server);
  const engine::EngineMetrics& engine = sources.engine != nullptr ? *sources.engine : kNone;
  add_answers(page, engine);
  add_cache(page, engine);
  add_steps(page, engine);
  if (sources.http != nullptr) add_connections(page, *sources.http);
  std::vector<prometheus::MetricFamily> families = std::move(page).done();
  for (prometheus::MetricFamily& one : process_metrics()) families.push_back(std::move(one));
  return prometheus::TextSerializer().Serialize(families);
}

HttpResponse metrics_response(const MetricsSources& sources) {
  HttpResponse response;
  response.content_type = "text/plain; version=0.0.4; charset=utf-8";
  response.body = metrics_page(sources);
  return response;
}

Result<void> check_metrics_prefix(const std::string& prefix) {
  const auto is_letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == ':'; };
  const bool fine = std::ranges::all_of(prefix, [&](char c) { return is_letter(c) || (c >= '0' && c <= '9'); });
  if (!fine || prefix.empty() || prefix.size() > 64 || !is_letter(prefix[0]))
    return error(Code::invalid_argument, "a prefix of metrics has 1 to 64 letters, digits, '_' and ':' and does not begin with a digit, got '{}'", prefix);
  return {};
}

}  // namespace millrace::server
