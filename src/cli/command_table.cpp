#include "cli/command_table.h"

#include <array>

#include "base/check.h"
#include "cli/commands.h"

namespace millrace::cli {
namespace {

constexpr auto kCommands = std::to_array<CommandInfo>({
    {Command::run, "run", "Answer one prompt, or several as one batch.",
     "Text goes to standard output as it is made, one line about speed to standard error.\n"
     "--json prints one object per prompt, in order: text, ids, prompt_ids, finish_reason, prompt_tokens,\n"
     "completion_tokens, ttft_ms, prefill_tokens_per_s, decode_tokens_per_s, cache: prompt tokens cached, and computed\n"
     "by cause. The end token counts in ids and completion_tokens and is left out of text.",
     "millrace run smollm2-135m-instruct --chat -p \"Why is the sky blue?\"\n"
     "millrace run model.gguf -p \"The capital of France is\" -n 48\n"
     "millrace run model.gguf -p \"One\" -p \"Two\" -n 16 --json",
     run_run},
    {Command::chat, "chat", "Talk with a model in the terminal.",
     "Ctrl-C stops the answer, twice leaves; Ctrl-D leaves.",
     "millrace chat smollm2-135m-instruct\n"
     "millrace chat model.gguf --system \"Answer in one sentence.\" --temperature 0",
     run_chat},
    {Command::bench, "bench", "Measure a model's speed beside what this machine could reach, or a server.",
     "Prefill of 512 tokens and decode of 1, 8 and 32 streams with 128-token prompts, medians of three. The roof is\n"
     "measured in the same run: memory reads, INT8, BF16 and f32 arithmetic. roof_share is the share of the roof that\n"
     "bounds the row.\n\n"
     "bench schedule runs one trace serial, static and mixed: tokens per second from the first arrival to the last token,\n"
     "time to first token, gaps between tokens. utilisation: the time from handing a step to the workers to its end, of the\n"
     "time in which a request is open. padding_waste: slots of a static batch whose sequence has ended, of all.\n\n"
     "bench stall lets three streams decode, then a prompt of 4000 tokens arrive: the largest gap between two tokens, and\n"
     "the prompt's first token beside the time that it takes alone.\n\n"
     "bench serve sends a load to a server that speaks the OpenAI API over http, this one or another, and prints what the\n"
     "clients saw. TTFT: from sending to the first chunk with text. TPOT: from there to the last text, for each further\n"
     "token. gap: between two chunks with text of one answer. e2e: to the stream's end. late: how much after its time a\n"
     "request was sent. goodput: answers that keep all SLOs, of all that ended. Percentiles are exact. Ctrl-C prints what\n"
     "there is so far.\n\n"
     "bench soak runs random requests in a KV cache that holds four of the longest: waves of arrivals, cancels, deadlines,\n"
     "priorities, several answers. It fails when a request or a block is not accounted for at the end, or when a text that\n"
     "is asked for again and again changes; the memory of the process is printed at each tenth of the time.\n\n"
     "bench kv replays a trace on the same KV bytes, handed out in blocks that prefixes share, and in one piece per\n"
     "request that has room for the longest answer. utilisation: of the token slots reserved, those that hold a token, a\n"
     "shared one counted once; the mean over the steps in which requests wait. max_batch: most sequences in one step.",
     "millrace bench smollm2-135m-instruct\n"
     "millrace bench model.gguf --json\n"
     "millrace bench schedule smollm2-135m-instruct --trace chat.jsonl\n"
     "millrace bench stall smollm2-135m-instruct --max-step-ms 50\n"
     "millrace bench serve http://127.0.0.1:8080 --concurrency 32 --requests 500\n"
     "millrace bench serve http://127.0.0.1:8080 --rate 4 --burst 2 --duration 60 --ttft-slo-ms 500 --tpot-slo-ms 50\n"
     "millrace bench serve http://127.0.0.1:8080 --scenario mixed --rate 16 --json\n"
     "millrace bench soak smollm2-135m-instruct --minutes 30 --threads 1\n"
     "millrace bench kv model.gguf --trace requests.jsonl --json\n"
     "millrace bench kv model.gguf --sweep --no-cache",
     run_bench},
    {Command::inspect, "inspect", "Show what is in a model file, this machine or this build, without loading.",
     "Sizes, formats, tokenizer, chat template, the memory that a run will take, and what is not supported.",
     "millrace inspect model.gguf --context 4096\n"
     "millrace inspect --machine --kernels",
     run_inspect},
    {Command::tokenize, "tokenize", "Turn text into token ids.",
     "By default control tokens in the text are text and nothing is added. The model may be a GGUF without tensors, of\n"
     "any architecture. With --jsonl each line {\"text\": ...} gives a line {\"ids\": [...]}.",
     "millrace tokenize model.gguf \"Hello world\"\n"
     "millrace tokenize model.gguf --jsonl < texts.jsonl",
     run_tokenize},
    {Command::detokenize, "detokenize", "Turn token ids into text.",
     "Control tokens are left out unless --special. With --jsonl each line {\"ids\": [...]} gives a line {\"text\": ...}.",
     "millrace detokenize model.gguf 9906,1917\n"
     "millrace detokenize model.gguf --jsonl < ids.jsonl",
     run_detokenize},
    {Command::logits, "logits", "Write the logits of every position of a sequence to a file.",
     "The kernels are those that run uses. The same bits for every --chunk, --threads and --batch-with.",
     "millrace logits model.gguf --tokens 1,2,3 --out logits.f32\n"
     "millrace logits model.gguf --tokens 1,2,3 --out logits.f32 --kv f32 --chunk 1 --batch-with 5",
     run_logits},
    {Command::perplexity, "perplexity", "Measure how well a model predicts a text.",
     "The file is cut into windows; each starts empty, and its positions 0 to n-2 predict 1 to n-1.",
     "millrace perplexity model.gguf text.txt --window 512 --windows 4",
     run_perplexity},
    {Command::template_, "template", "Render a chat template.",
     "With --jsonl each line holds all variables of the template and gives a line {\"output\": ...} or {\"error\": ...}.",
     "millrace template model.gguf --messages '[{\"role\": \"user\", \"content\": \"Hello\"}]'\n"
     "millrace template chat.jinja --jsonl < conversations.jsonl",
     run_template},
    {Command::fetch, "fetch", "Get a known model by name, checked by its hash.",
     "Models lie in $XDG_CACHE_HOME/millrace/models, or ~/.cache/millrace/models. A model that is there is not fetched\n"
     "again.",
     "millrace fetch smollm2-135m-instruct",
     run_fetch},
});

}  // namespace

std::span<const CommandInfo> command_table() { return kCommands; }

const CommandInfo* find_command(std::string_view name) {
  for (const CommandInfo& info : kCommands)
    if (info.name == name) return &info;
  return nullptr;
}

const CommandInfo& info_of(Command command) {
  for (const CommandInfo& info : kCommands)
    if (info.command == command) return info;
  check_failed(__FILE__, __LINE__, "command has a row", "command_table.cpp");
}

}  // namespace millrace::cli
