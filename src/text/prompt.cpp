#include "text/prompt.h"

#include <array>
#include <ctime>
#include <nlohmann/json.hpp>
#include <string>

namespace millrace::text {

Json special_token_variables(const Tokenizer& tokenizer) {
  Json variables = Json::object();
  if (const auto bos = tokenizer.bos()) variables["bos_token"] = std::string(tokenizer.spelling(*bos).value_or(""));
  if (const auto eos = tokenizer.eos()) variables["eos_token"] = std::string(tokenizer.spelling(*eos).value_or(""));
  return variables;
}

std::vector<TokenId> encode_prompt(const Tokenizer& tokenizer, std::string_view text) {
  const auto plain = tokenizer.encode(text, Specials::as_control);
  auto full = tokenizer.add_special(plain);
  const auto bos = tokenizer.bos();
  if (bos && !plain.empty() && plain[0] == *bos && full.size() > plain.size() && full[0] == *bos && full[1] == *bos) full.erase(full.begin());
  return full;
}

std::int64_t local_time(std::int64_t since_epoch_s) {
  const auto now = static_cast<std::time_t>(since_epoch_s);
  std::tm local{};
  localtime_r(&now, &local);
  return since_epoch_s + local.tm_gmtoff;
}

Result<MarkedText> render_chat(const Tokenizer& tokenizer, const ChatTemplate& chat_template, Json variables, std::int64_t now) {
  variables.update(special_token_variables(tokenizer));
  for (const char* absent : {"tools", "documents"})
    if (!variables.contains(absent)) variables[absent] = nullptr;
  static const std::array<std::string, 2> kTrusted = {"bos_token", "eos_token"};
  return chat_template.render(variables, kTrusted, now);
}

Result<std::vector<TokenId>> encode_chat(const Tokenizer& tokenizer, const ChatTemplate& chat_template, const Json& messages) {
  Json variables = {{"messages", messages}, {"add_generation_prompt", true}};
  MILLRACE_TRY(rendered, render_chat(tokenizer, chat_template, std::move(variables), local_time(std::time(nullptr))));
  return tokenizer.encode(rendered);
}

}  // namespace millrace::text
