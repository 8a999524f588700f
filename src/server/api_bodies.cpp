#include "server/api_bodies.h"

namespace millrace::server {
namespace {

struct Row {
  std::string_view path;
  BodyOf body;
};

constexpr Row kRows[] = {
    {"/v1/chat/completions", kChat},   {"/v1/completions", kCompletion},        {"/v1/embeddings", kEmbedding},
    {"/v1/responses", kResponse},      {"/v1/messages", kMessage},              {"/v1/messages/count_tokens", kCountTokens},
    {"/tokenize", kTokenize},          {"/detokenize", kDetokenize},            {"/apply-template", kApplyTemplate},
};

}  // namespace

std::optional<BodyOf> body_of_endpoint(std::string_view method, std::string_view path) {
  for (const Row& row : kRows)
    if (row.path == path && method == "POST") return row.body;
  return std::nullopt;
}

}  // namespace millrace::server
