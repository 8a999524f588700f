#include "server/stored_responses.h"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <string_view>
#include <system_error>

#include "server/field_table.h"
#include "server/json_body.h"

namespace millrace::server {
namespace {

using text::Json;

Error not_kept(const std::string& id) { return error(Code::not_found, "no response {} is kept", shown(Json(id))); }

Result<Conversation> find(const std::string& id, const RequestContext& context, ResponseStore& store) {
  auto found = store.find(context.tenant->name, id, context.now_s);
  if (!found) return not_kept(id);
  return *std::move(found);
}

const std::string* find(const Query& query, std::string_view key) {
  for (const auto& [name, value] : query)
    if (name == key) return &value;
  return nullptr;
}

Result<std::size_t> read_limit(const Query& query) {
  constexpr std::size_t kUsual = 20, kMost = 100;  // OpenAI's
  const std::string* text = find(query, "limit");
  if (text == nullptr) return kUsual;
  std::size_t limit = 0;
  const auto [end, failed] = std::from_chars(text->data(), text->data() + text->size(), limit);
  if (failed != std::errc() || end != text->data() + text->size() || limit < 1 || limit > kMost)
    return field_error("limit", "expected an integer from 1 to {}, got {}", kMost, shown(Json(*text)));
  return limit;
}

Result<bool> read_newest_first(const Query& query) {
  const std::string* order = find(query, "order");
  if (order != nullptr && *order != "asc" && *order != "desc") return field_error("order", "expected one of asc, desc; got {}", shown(Json(*order)));
  return order == nullptr || *order == "desc";
}

/// Oldest first. The texts in the store are our own.
std::vector<Json> items_of(const Conversation& conversation) {
  std::vector<Json> items;
  const auto append = [&](Json list) {
    for (Json& one : list) items.push_back(std::move(one));
  };
  for (std::size_t i = 0; i < conversation.size(); ++i) {
    append(Json::parse(conversation[i]->input_items));
    if (i + 1 < conversation.size()) append(std::move(Json::parse(conversation[i]->response)["output"]));
  }
  return items;
}

}  // namespace

Result<std::string> stored_response(const std::string& id, const Query& query, const RequestContext& context, ResponseStore& store) {
  if (const std::string* stream = find(query, "stream"); stream != nullptr && *stream != "false")
    return field_error("stream", "expected false: a stored response comes whole; got {}", shown(Json(*stream)));
  MILLRACE_TRY(found, find(id, context, store));
  return found.back()->response;
}

Result<std::string> remove_response(const std::string& id, const RequestContext& context, ResponseStore& store) {
  if (!store.remove(context.tenant->name, id, context.now_s)) return not_kept(id);
  return dump({{"id", id}, {"object", "response"}, {"deleted", true}});
}

Result<std::string> list_input_items(const std::string& id, const Query& query, const RequestContext& context, ResponseStore& store) {
  MILLRACE_TRY(limit, read_limit(query));
  MILLRACE_TRY(newest_first, read_newest_first(query));
  MILLRACE_TRY(found, find(id, context, store));
  std::vector<Json> items = items_of(found);
  if (newest_first) std::ranges::reverse(items);
  auto first = items.begin();
  if (const std::string* after = find(query, "after")) {
    first = std::ranges::find_if(items, [&](const Json& item) { return item["id"] == *after; });
    if (first == items.end()) return field_error("after", "no item {} belongs to this response", shown(Json(*after)));
    ++first;
  }
  const auto last = first + std::min<std::ptrdiff_t>(static_cast<std::ptrdiff_t>(limit), items.end() - first);
  const auto id_of = [](const Json& item) { return item["id"]; };
  return dump({{"object", "list"},
               {"data", Json(std::vector<Json>(first, last))},
               {"first_id", first == last ? Json(nullptr) : id_of(*first)},
               {"last_id", first == last ? Json(nullptr) : id_of(*std::prev(last))},
               {"has_more", last != items.end()}});
}

}  // namespace millrace::server
