// docs/fields.md is the field table for people. MILLRACE_UPDATE_GOLDEN=1 writes it anew.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "server/field_table.h"

namespace millrace::server {
namespace {

struct Page { BodyOf body; const char* heading; };
constexpr Page kPages[] = {{kChat, "POST /v1/chat/completions"}, {kCompletion, "POST /v1/completions"}, {kResponse, "POST /v1/responses"},
                           {kMessage, "POST /v1/messages"},      {kCountTokens, "POST /v1/messages/count_tokens"},
                           {kEmbedding, "POST /v1/embeddings"},  {kTokenize, "POST /tokenize"},
                           {kDetokenize, "POST /detokenize"},    {kApplyTemplate, "POST /apply-template"}};

/// A bar would end the cell.
std::string cell(std::string text) {
  for (std::size_t at = 0; (at = text.find('|', at)) != text.npos; at += 2) text.insert(at, 1, '\\');
  return text;
}

std::string document() {
  std::string out =
      "# Fields of requests\n\n"
      "Made from the table that checks them (`src/server/field_rows_*.cpp`); a test holds this page against it. *Applied*: it does what it says.\n"
      "*Ignored*: it is accepted and changes nothing, for the reason given. *Refused*: 400 that names it, unless it asks for nothing.\n"
      "A field that is not here is named in the header `X-Millrace-Unknown-Fields` of the answer, or refused with `--strict`.\n";
  for (const Page& page : kPages) {
    out += fmt::format("\n## {}\n\n| field | | expected | |\n|---|---|---|---|\n", page.heading);
    for (const Field& field : fields()) {
      if (!(field.bodies & page.body)) continue;
      const char* treatment = field.treatment == Treatment::applied ? "applied" : field.treatment == Treatment::ignored ? "ignored" : "refused";
      out += fmt::format("| `{}` | {} | {} | {} |\n", field.name, treatment, cell(expectation(field)), cell(field.doc));
    }
  }
  return out;
}

TEST(FieldDocs, the_page_says_what_the_table_says) {
  const char* const path = MILLRACE_SOURCE_DIR "/docs/fields.md";
  const std::string now = document();
  if (std::getenv("MILLRACE_UPDATE_GOLDEN")) std::ofstream(path) << now;
  std::stringstream there;
  there << std::ifstream(path).rdbuf();
  EXPECT_TRUE(there.str() == now) << "docs/fields.md is older than the field table: MILLRACE_UPDATE_GOLDEN=1 build/release/server_test --gtest_filter='FieldDocs.*'";
}

}  // namespace
}  // namespace millrace::server
