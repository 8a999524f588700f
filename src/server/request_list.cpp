#include "server/request_list.h"

#include <nlohmann/json.hpp>

#include "base/utf8.h"

namespace millrace::server {
namespace {

using text::Json;

/// A token may be a part of a character.
std::string spelled(const std::string& piece) { return repair_utf8(piece); }

}  // namespace

Json requests_body(std::span<const RequestFacts> live, Microseconds now) {
  Json list = Json::array();
  for (const RequestFacts& one : live) {
    Json item = {{"id", one.id}, {"tenant", one.tenant}, {"endpoint", one.endpoint}, {"state", one.state()}, {"age_ms", rounded_ms(now - one.arrived_us)}, {"peer", one.peer}};
    if (one.is_read) {
      item["prompt_tokens"] = one.prompt_tokens;
      item["generated_tokens"] = one.generated_tokens;
      item["max_tokens"] = one.max_tokens < 0 ? Json() : Json(one.max_tokens);
      item["answers"] = one.answers;
      item["answers_ended"] = one.answers_ended;
      item["stream"] = one.stream;
    }
    if (one.client_gone) item["client_gone"] = true;
    list.push_back(std::move(item));
  }
  return {{"object", "list"}, {"count", live.size()}, {"data", std::move(list)}};
}

Json report_body(const engine::CacheReport& report) {
  Json causes = Json::object();
  int computed = 0;
  for (int i = 0; i < kv::kMissCauses; ++i) {
    const int tokens = report.computed[static_cast<std::size_t>(i)];
    causes[std::string(to_string(static_cast<kv::MissCause>(i)))] = tokens;
    computed += tokens;
  }
  Json diverged;
  if (report.diverged_at >= 0) diverged = {{"at", report.diverged_at}, {"own", spelled(report.own)}, {"known", spelled(report.known)}};
  return {{"prompt_tokens", report.cached + computed}, {"cached_tokens", report.cached}, {"computed_tokens", computed}, {"computed", std::move(causes)},
          {"diverged", std::move(diverged)}};
}

Json explained_body(const RequestFacts& facts) {
  Json reports = Json::array();
  for (const engine::CacheReport& report : facts.reports) reports.push_back(report_body(report));
  return {{"object", "cache.explanation"}, {"request_id", facts.id}, {"state", facts.state()}, {"prompt_tokens", facts.prompt_tokens}, {"answers", std::move(reports)}};
}

}  // namespace millrace::server
