#pragma once

// text_completion, whole and in chunks.

#include <string>
#include <vector>

#include "server/choice_writer.h"
#include "server/told_prompt.h"

namespace millrace::server {

/// What answers say of the prompt that they belong to.
struct EchoedPrompt : ToldPrompt {
  std::string echo;             // stands before each answer, or empty
  bool tells_logprobs = false;  // as "prompt_logprobs"; they are also there for an echo
};

class CompletionWriter : public ChoiceWriter {
 public:
  /// `prompts`: one for each; each has style.answers / prompts.size() answers.
  CompletionWriter(AnswerStyle style, std::vector<EchoedPrompt> prompts, bool echo, bool keep_special);

  std::string begin() override { return ""; }
  std::string piece(int index, const Piece& piece) override;
  std::string end(int index, const Ending& ending) override;
  std::string whole(std::span<const Answer> answers, const Totals& totals) override;

 private:
  struct Told {
    bool echoed = false;
    int characters = 0;
  };
  const EchoedPrompt& prompt_of(std::size_t index) const { return prompts_[index / (static_cast<std::size_t>(style_.answers) / prompts_.size())]; }
  bool is_first_of_prompt(std::size_t index) const { return index % (static_cast<std::size_t>(style_.answers) / prompts_.size()) == 0; }
  /// Of the prompt where it is echoed and `with_prompt`, then of `tokens`; "null" where nobody asked.
  std::string logprobs(std::size_t index, bool with_prompt, std::span<const engine::TokenEvent> tokens);
  std::string echo(std::size_t index);  // a chunk, the first time

  std::vector<EchoedPrompt> prompts_;
  bool echo_, keep_special_;
  std::vector<Told> told_;  // by index
};

}  // namespace millrace::server
