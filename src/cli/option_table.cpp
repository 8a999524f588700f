#include "cli/option_table.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cmath>

#include "cli/bench_modes.h"
#include "cli/byte_size.h"
#include "cli/load_plan.h"
#include "device/topology.h"

namespace millrace::cli {

using namespace std::string_literals;

namespace {

constexpr Commands kRun = only(Command::run), kChat = only(Command::chat), kBench = only(Command::bench),
                   kInspect = only(Command::inspect), kTokenize = only(Command::tokenize),
                   kDetokenize = only(Command::detokenize), kLogits = only(Command::logits),
                   kPerplexity = only(Command::perplexity), kTemplate = only(Command::template_),
                   kFetch = only(Command::fetch), kServe = only(Command::serve);
constexpr Commands kGenerate = kRun | kChat;
constexpr Commands kCompute = kGenerate | kBench | kLogits | kPerplexity | kServe;
constexpr Commands kAll = kCompute | kInspect | kTokenize | kDetokenize | kTemplate | kFetch;

template <auto member>
std::string own_default(Command command) {
  return fmt::format("{}", defaults_of(command).*member);
}

std::string threads_default(Command) { return fmt::format("{}, one per core", device::default_threads()); }
std::string isa_default(Command) { return "the best of this CPU"; }
std::string context_default(Command command) {
  return command == Command::run ? "what the prompts need" : command == Command::serve ? "the model's" : "the model's, at most " + std::to_string(kContextCap);
}
std::string windows_default(Command) { return "all whole ones"; }
std::string speed_default(Command) { return "so that work waits; serve: 1"; }
std::string max_step_default(Command command) { return command == Command::serve ? "150" : command == Command::bench ? "100" : "0: no bound"; }
std::string requests_default(Command) { return "100; with --duration no bound"; }
std::string concurrency_default(Command) { return "8; with arrivals no bound"; }
std::string rate_default(Command) { return "as there is room"; }
std::string slo_default(Command) { return "none"; }
std::string trace_default(Command) { return "made from a seed"; }
std::string kv_memory_default(Command command) {
  return command == Command::serve ? "50%" : command == Command::chat ? "what --context needs" : command == Command::bench ? "what it measures" : "what the prompts need";
}
std::string now_default(Command) { return "the clock's"; }

std::string memory_amount_check(const std::string& text) {
  const auto parsed = parse_memory_amount(text);
  return parsed ? "" : parsed.error().message;
}

std::string lengths_check(const std::string& text) {
  const auto parsed = parse_lengths(text);
  return parsed ? "" : parsed.error().message;
}

std::string byte_size_check(const std::string& text) {
  const auto parsed = parse_byte_size(text);
  return parsed ? "" : parsed.error().message;
}

std::string name_check(const std::string& text) { return text.empty() ? "expected a name, got ''" : ""; }

constexpr std::string_view kModelHelp = "a .gguf file (the first of a split set stands for all), a folder with\n"
                                        "config.json, or a name that `millrace fetch` knows";

// Order: positionals, then groups as --help prints them.
const auto kTable = std::to_array<OptionRow>({
    {.name = "mode", .value = "<mode>", .field = &Options::mode, .commands = kBench,
     .help = "kv: what paging and sharing gain of the KV cache's bytes;\nschedule: serial, static and mixed on one trace; serve: what the\nclients of a server see; soak: random load in a tiny KV cache; stall:\nstreams beside a prompt of 4000 tokens. Without one: the model's speed",
     .choices = kBenchModeWords, .place = Place::positional},
    {.name = "model", .value = "<model>", .field = &Options::model,
     .commands = kAll & ~(kBench | kInspect | kFetch | kTemplate), .help = kModelHelp, .place = Place::positional,
     .presence = Presence::required},
    {.name = "model", .value = "<model>", .field = &Options::model, .commands = kBench,
     .help = "a .gguf file (the first of a split set stands for all), a folder with\nconfig.json, or a name that `millrace fetch` knows; serve: the URL of a\nserver that speaks the OpenAI API, http://127.0.0.1:8080",
     .place = Place::positional},
    {.name = "model", .value = "<model>", .field = &Options::model, .commands = kInspect, .help = kModelHelp,
     .place = Place::positional},
    {.name = "model", .value = "<model>", .field = &Options::model, .commands = kTemplate,
     .help = "a .jinja file, or a model as elsewhere", .place = Place::positional, .presence = Presence::required},
    {.name = "name", .value = "<name>", .field = &Options::model, .commands = kFetch,
     .help = "a known model; without one the known names are listed", .place = Place::positional},
    {.name = "text", .value = "<text>", .field = &Options::text, .commands = kTokenize,
     .help = "the text; standard input when absent", .place = Place::positional},
    {.name = "ids", .value = "<ids>", .field = &Options::text, .commands = kDetokenize,
     .help = "token ids with commas or blanks between; standard input when absent", .place = Place::positional},
    {.name = "file", .value = "<file>", .field = &Options::text, .commands = kPerplexity, .help = "a text file",
     .place = Place::positional, .presence = Presence::required},

    {.name = "prompt", .letter = 'p', .value = "<text>", .field = &Options::prompts, .commands = kRun,
     .help = "the prompt; may spell control tokens. Given several times, all run\nas one batch", .presence = Presence::required},
    {.name = "chat", .field = &Options::chat, .commands = kRun,
     .help = "each prompt is a user's message in the model's chat template;\nits text never becomes a control token"},
    {.name = "system", .value = "<text>", .field = &Options::system, .commands = kGenerate,
     .help = "a system message before the first one"},
    {.name = "max-tokens", .letter = 'n', .value = "<n>", .field = &Options::max_tokens, .commands = kGenerate,
     .help = "new tokens at most; the end token comes earlier if it comes.\n-1: until the context is full",
     .least = -1, .most = 1 << 30,
     .shown = [](Command c) { return c == Command::chat ? "-1"s : "512"s; }},
    {.name = "stop", .value = "<text>", .field = &Options::stop, .commands = kGenerate,
     .help = "end before this text; may be given several times"},
    {.name = "tokens", .value = "<ids>", .field = &Options::tokens, .commands = kLogits,
     .help = "the sequence: 1,2,3", .presence = Presence::required},
    {.name = "out", .value = "<file>", .field = &Options::out, .commands = kLogits,
     .help = "where the float32 [tokens, vocab] go, little endian", .presence = Presence::required},
    {.name = "batch-with", .value = "<k>", .field = &Options::batch_with, .commands = kLogits,
     .help = "run k random sequences in the same steps; the result is the same\nbits", .least = 0, .most = 256,
     .shown = own_default<&Options::batch_with>},
    {.name = "window", .value = "<tokens>", .field = &Options::window, .commands = kPerplexity,
     .help = "tokens per window; each starts empty", .least = 2, .most = 1 << 20, .shown = own_default<&Options::window>},
    {.name = "windows", .value = "<n>", .field = &Options::windows, .commands = kPerplexity,
     .help = "windows scored, from the start of the file", .least = 0, .most = 1 << 20, .shown = windows_default},
    {.name = "machine", .field = &Options::machine, .commands = kInspect, .help = "this machine: cores, caches, memory"},
    {.name = "kernels", .field = &Options::kernels, .commands = kInspect,
     .help = "this build on this CPU: the instruction set of each kernel; with a\n"
             "model also how each launch is split over the workers"},
    {.name = "long", .field = &Options::long_context, .commands = kBench,
     .help = "also prefill of 4096 tokens and decode behind 8192"},
    {.name = "trace", .value = "<file>", .field = &Options::trace, .commands = kBench,
     .help = "kv, schedule, serve: the requests, one JSON object a line: arrival_s,\nprompt_tokens, new_tokens, prefix_group, prefix_tokens, tenant",
     .shown = trace_default},
    {.name = "sweep", .field = &Options::sweep, .commands = kBench,
     .help = "kv: also with blocks of 8 to 256 tokens; the speed of attention is\nmeasured when a model is given"},
    {.name = "no-cache", .field = &Options::no_cache, .commands = kBench,
     .help = "kv: also what 1000 tokens behind a prompt of 1000 cost without any\ncache; needs a model"},
    {.name = "speed", .value = "<x>", .field = &Options::speed, .commands = kBench,
     .help = "schedule, serve: arrivals, x times as fast as in the trace", .least = 0, .most = 1e6, .shown = speed_default},
    {.name = "minutes", .value = "<n>", .field = &Options::minutes, .commands = kBench, .help = "soak: how long", .least = 0.01,
     .most = 1e5, .shown = own_default<&Options::minutes>},
    {.name = "special", .field = &Options::special, .commands = kTokenize,
     .help = "control tokens spelled in the text become control tokens"},
    {.name = "add-special", .field = &Options::add_special, .commands = kTokenize,
     .help = "add what the tokenizer adds around a text (BOS, EOS)"},
    {.name = "special", .field = &Options::special, .commands = kDetokenize, .help = "keep control tokens in the text"},
    {.name = "messages", .value = "<json>", .field = &Options::messages, .commands = kTemplate,
     .help = "the messages, [{\"role\": ..., \"content\": ...}, ...], or an object\nwith all variables"},
    {.name = "now", .value = "<time>", .field = &Options::now, .commands = kTemplate,
     .help = "what strftime_now sees: 2026-11-29T12:34:56", .shown = now_default},

    {.name = "scenario", .value = "<name>", .group = Group::load, .field = &Options::scenario, .commands = kBench,
     .help = "stall: 3 streams, then a prompt of 4000 words; shared: 24 requests, 8 at\na time, behind one system prompt of 1000 words; mixed: 32 requests, 2 a\nsecond, long-tailed lengths. --prompt-words (stall, mixed: the longest),\n--prefix-words (shared) and --rate (mixed) replace theirs",
     .choices = kLoadScenarios},
    {.name = "requests", .value = "<n>", .group = Group::load, .field = &Options::requests, .commands = kBench,
     .help = "how many are sent", .least = 0, .most = 1e9, .shown = requests_default},
    {.name = "duration", .value = "<s>", .group = Group::load, .field = &Options::duration_s, .commands = kBench,
     .help = "seconds after which none is sent; those that run are waited for", .least = 0, .most = 1e6,
     .shown = [](Command) { return "no bound"s; }},
    {.name = "concurrency", .value = "<n>", .group = Group::load, .field = &Options::concurrency, .commands = kBench,
     .help = "requests at a time at most; one that is due waits for room", .least = 0, .most = 1e5, .shown = concurrency_default},
    {.name = "rate", .value = "<r>", .group = Group::load, .field = &Options::rate, .commands = kBench,
     .help = "requests a second, sent whether or not others are answered", .least = 0, .most = 1e6, .shown = rate_default},
    {.name = "arrivals", .value = "<name>", .group = Group::load, .field = &Options::arrivals, .commands = kBench,
     .help = "of --rate: poisson, or even", .choices = "poisson|even", .shown = own_default<&Options::arrivals>},
    {.name = "burst", .value = "<k>", .group = Group::load, .field = &Options::burst, .commands = kBench,
     .help = "k requests arrive together, at the same rate", .least = 1, .most = 1e6, .shown = own_default<&Options::burst>},
    {.name = "prompt-words", .value = "<lengths>", .group = Group::load, .field = &Options::prompt_words, .commands = kBench,
     .help = "words of a prompt, each about a token: 128, uniform:16:512,\nlognormal:MEDIAN:SPREAD or lognormal:MEDIAN:SPREAD:LEAST:MOST", .check = lengths_check,
     .shown = [](Command) { return "128"s; }},
    {.name = "answer-tokens", .value = "<lengths>", .group = Group::load, .field = &Options::answer_tokens, .commands = kBench,
     .help = "tokens of an answer, in the same way", .check = lengths_check, .shown = [](Command) { return "64"s; }},
    {.name = "prefix-words", .value = "<n>", .group = Group::load, .field = &Options::prefix_words, .commands = kBench,
     .help = "words that all prompts of a group begin with (chat: a system message)", .least = 0, .most = 1 << 20,
     .shown = own_default<&Options::prefix_words>},
    {.name = "prefix-groups", .value = "<n>", .group = Group::load, .field = &Options::prefix_groups, .commands = kBench,
     .help = "how many such groups; each request is of a random one", .least = 1, .most = 1 << 20,
     .shown = own_default<&Options::prefix_groups>},
    {.name = "seed", .value = "<n>", .group = Group::load, .field = &Options::seed, .commands = kBench,
     .help = "the same seed asks the same at the same times", .shown = own_default<&Options::seed>},
    {.name = "warmup", .value = "<n>", .group = Group::load, .field = &Options::warmup, .commands = kBench,
     .help = "requests before the load, in other words; they are not counted", .least = 0, .most = 1e6,
     .shown = own_default<&Options::warmup>},
    {.name = "ttft-slo-ms", .value = "<ms>", .group = Group::load, .field = &Options::ttft_slo_ms, .commands = kBench,
     .help = "goodput counts answers whose first text comes within it,", .least = 0, .most = 1e9, .shown = slo_default},
    {.name = "tpot-slo-ms", .value = "<ms>", .group = Group::load, .field = &Options::tpot_slo_ms, .commands = kBench,
     .help = "whose further tokens take at most that on average,", .least = 0, .most = 1e9, .shown = slo_default},
    {.name = "e2e-slo-ms", .value = "<ms>", .group = Group::load, .field = &Options::e2e_slo_ms, .commands = kBench,
     .help = "and that end within this", .least = 0, .most = 1e9, .shown = slo_default},
    {.name = "api", .value = "<name>", .group = Group::load, .field = &Options::api, .commands = kBench,
     .help = "completions or chat", .choices = "completions|chat", .shown = own_default<&Options::api>},
    {.name = "model-name", .value = "<name>", .group = Group::load, .field = &Options::model_name, .commands = kBench,
     .help = "the model to ask for", .shown = [](Command) { return "the first of /v1/models"s; }},
    {.name = "api-key", .value = "<key>", .group = Group::load, .field = &Options::api_key, .commands = kBench,
     .help = "sent as Authorization: Bearer; better as MILLRACE_API_KEY"},
    {.name = "extra-body", .value = "<json>", .group = Group::load, .field = &Options::extra_body, .commands = kBench,
     .help = "fields added to each request: '{\"temperature\": 0.8}'"},
    {.name = "ignore-eos", .group = Group::load, .field = &Options::ignore_eos, .commands = kBench,
     .help = "ask for all tokens of an answer; --ignore-eos=false leaves the field\nout, for servers that do not know it", .shown = [](Command) { return "true"s; }},
    {.name = "timeout", .value = "<s>", .group = Group::load, .field = &Options::request_timeout_s, .commands = kBench,
     .help = "seconds until a request counts as failed", .least = 0.1, .most = 1e6, .shown = own_default<&Options::request_timeout_s>},
    {.name = "wait", .value = "<s>", .group = Group::load, .field = &Options::wait_s, .commands = kBench,
     .help = "seconds to wait for a server that is not up yet", .least = 0, .most = 1e6, .shown = own_default<&Options::wait_s>},

    {.name = "host", .value = "<address>", .group = Group::listen, .field = &Options::host, .commands = kServe,
     .help = "address or name to listen at; 0.0.0.0 is every IPv4 address of this\nmachine", .shown = own_default<&Options::host>},
    {.name = "port", .value = "<n>", .group = Group::listen, .field = &Options::port, .commands = kServe,
     .help = "0: a free one, which is printed", .least = 0, .most = 65535, .shown = own_default<&Options::port>},
    {.name = "unix-socket", .value = "<path>", .group = Group::listen, .field = &Options::unix_socket, .commands = kServe,
     .help = "listen there, too"},
    {.name = "metrics-port", .value = "<n>", .group = Group::listen, .field = &Options::metrics_port, .commands = kServe,
     .help = "/metrics at this port only, beside /health and /ready; 0: a free one,\n-1: with all the rest", .least = -1, .most = 65535,
     .shown = [](Command) { return "-1"s; }},
    {.name = "tls-cert", .value = "<file>", .group = Group::listen, .field = &Options::tls_cert, .commands = kServe,
     .help = "certificate chain, PEM: https instead of http"},
    {.name = "tls-key", .value = "<file>", .group = Group::listen, .field = &Options::tls_key, .commands = kServe,
     .help = "its private key, PEM"},
    {.name = "cors", .value = "<origin>", .group = Group::listen, .field = &Options::cors, .commands = kServe,
     .help = "let web pages of this origin ask; * for all", .shown = [](Command) { return "none"s; }},
    {.name = "served-model-name", .value = "<name>", .group = Group::listen, .field = &Options::served_model_name,
     .commands = kServe, .help = "what clients call the model; may be given several times, answers say\nthe first. Without it the file's or folder's name",
     .check = name_check},

    {.name = "api-keys", .value = "<file>", .group = Group::access, .field = &Options::api_keys, .commands = kServe,
     .help = "accept only these keys, one a line: KEY or sha256:HEX, then tenant=NAME,\nweight=N, rpm=N, tpm=N (requests and tokens a minute). Read again on\nSIGHUP",
     .shown = [](Command) { return "accept all"s; }},
    {.name = "api-key", .value = "<key>", .group = Group::access, .field = &Options::accept_keys, .commands = kServe,
     .help = "a key to accept; better as MILLRACE_API_KEY or in a file: others see\nthe command line"},
    {.name = "max-running", .value = "<n>", .group = Group::access, .field = &Options::max_running, .commands = kServe,
     .help = "answers that are made at once; others wait in line", .least = 1, .most = 1024, .shown = own_default<&Options::max_running>},
    {.name = "max-queued-requests", .value = "<n>", .group = Group::access, .field = &Options::max_queued_requests, .commands = kServe,
     .help = "how many may wait; more are told when to come again (429)", .least = 0, .most = 1 << 20, .shown = own_default<&Options::max_queued_requests>},
    {.name = "max-queued-tokens", .value = "<n>", .group = Group::access, .field = &Options::max_queued_tokens, .commands = kServe,
     .help = "and of how many prompt tokens", .least = 1, .most = 1 << 30, .shown = own_default<&Options::max_queued_tokens>},
    {.name = "max-body", .value = "<size>", .group = Group::access, .field = &Options::max_body, .commands = kServe,
     .help = "largest body of a request (413)", .check = byte_size_check, .shown = own_default<&Options::max_body>},
    {.name = "max-connections", .value = "<n>", .group = Group::access, .field = &Options::max_connections, .commands = kServe,
     .help = "clients at once", .least = 1, .most = 1 << 20, .shown = own_default<&Options::max_connections>},
    {.name = "header-timeout-s", .value = "<s>", .group = Group::access, .field = &Options::header_timeout_s, .commands = kServe,
     .help = "for the head of a request, from its first byte", .least = 0.05, .most = 3600, .shown = own_default<&Options::header_timeout_s>},
    {.name = "body-timeout-s", .value = "<s>", .group = Group::access, .field = &Options::body_timeout_s, .commands = kServe,
     .help = "without progress in its body (408)", .least = 0.05, .most = 3600, .shown = own_default<&Options::body_timeout_s>},
    {.name = "idle-timeout-s", .value = "<s>", .group = Group::access, .field = &Options::idle_timeout_s, .commands = kServe,
     .help = "between two requests of a connection", .least = 0.05, .most = 86400, .shown = own_default<&Options::idle_timeout_s>},
    {.name = "write-timeout-s", .value = "<s>", .group = Group::access, .field = &Options::write_timeout_s, .commands = kServe,
     .help = "that a client may leave its answer unread; then it is cancelled", .least = 0.05, .most = 3600, .shown = own_default<&Options::write_timeout_s>},
    {.name = "strict", .group = Group::access, .field = &Options::strict, .commands = kServe,
     .help = "refuse request fields that are not known (400) instead of naming them\nin a header of the answer"},
    {.name = "drain-seconds", .value = "<s>", .group = Group::access, .field = &Options::drain_seconds, .commands = kServe,
     .help = "after SIGTERM running answers may take that long; a second one ends\nat once", .least = 0, .most = 86400, .shown = own_default<&Options::drain_seconds>},

    {.name = "temperature", .value = "<t>", .group = Group::sampling, .field = &Options::temperature,
     .commands = kGenerate, .help = "0: always the most likely token. Higher: more variety", .least = 0, .most = 100,
     .shown = own_default<&Options::temperature>},
    {.name = "top-k", .value = "<n>", .group = Group::sampling, .field = &Options::top_k, .commands = kGenerate,
     .help = "draw from the n most likely tokens; 0: from all", .least = 0, .most = 1 << 30,
     .shown = own_default<&Options::top_k>},
    {.name = "top-p", .value = "<p>", .group = Group::sampling, .field = &Options::top_p, .commands = kGenerate,
     .help = "draw from the likeliest tokens that together have probability p", .least = 1e-9, .most = 1,
     .shown = own_default<&Options::top_p>},
    {.name = "min-p", .value = "<p>", .group = Group::sampling, .field = &Options::min_p, .commands = kGenerate,
     .help = "drop tokens below p times the likeliest one's probability", .least = 0, .most = 1,
     .shown = own_default<&Options::min_p>},
    {.name = "typical-p", .value = "<p>", .group = Group::sampling, .field = &Options::typical_p, .commands = kGenerate,
     .help = "draw from the tokens nearest to the expected surprise that\ntogether have probability p; 1: from all", .least = 1e-9, .most = 1,
     .shown = own_default<&Options::typical_p>},
    {.name = "repetition-penalty", .value = "<x>", .group = Group::sampling, .field = &Options::repetition_penalty,
     .commands = kGenerate, .help = "over 1: tokens of prompt and answer become less likely", .least = 1e-3, .most = 1e3,
     .shown = own_default<&Options::repetition_penalty>},
    {.name = "presence-penalty", .value = "<x>", .group = Group::sampling, .field = &Options::presence_penalty,
     .commands = kGenerate, .help = "taken off each token that the answer already has", .least = -2, .most = 2,
     .shown = own_default<&Options::presence_penalty>},
    {.name = "frequency-penalty", .value = "<x>", .group = Group::sampling, .field = &Options::frequency_penalty,
     .commands = kGenerate, .help = "taken off once for each time it has it", .least = -2, .most = 2,
     .shown = own_default<&Options::frequency_penalty>},
    {.name = "seed", .value = "<n>", .group = Group::sampling, .field = &Options::seed, .commands = kGenerate,
     .help = "the same seed gives the same text, alone or in a batch", .shown = own_default<&Options::seed>},

    {.name = "json", .group = Group::output, .field = &Options::json, .commands = kRun | kBench | kInspect | kPerplexity,
     .help = "one JSON object per result on standard output, nothing else"},
    {.name = "jsonl", .group = Group::output, .field = &Options::jsonl, .commands = kTokenize | kDetokenize | kTemplate,
     .help = "one JSON object per line of standard input, one per line of output"},

    {.name = "metrics-prefix", .value = "<text>", .group = Group::output, .field = &Options::metrics_prefix, .commands = kServe,
     .help = "in front of each metric's name; vllm: for boards that expect vLLM's", .shown = own_default<&Options::metrics_prefix>},
    {.name = "log-json", .group = Group::output, .field = &Options::log_json, .commands = kServe,
     .help = "events as one JSON object a line"},
    {.name = "log-prompts", .group = Group::output, .field = &Options::log_prompts, .commands = kServe,
     .help = "requests' bodies in the log, too"},

    {.name = "kv", .value = "<format>", .group = Group::memory, .field = &Options::kv, .commands = kCompute | kInspect,
     .help = "format of the KV cache: f32, f16, bf16 or int8", .choices = "f32|f16|bf16|int8", .shown = own_default<&Options::kv>},
    {.name = "block-tokens", .value = "<n>", .group = Group::memory, .field = &Options::block_tokens,
     .commands = kCompute | kInspect, .help = "tokens per block of the KV cache; results do not depend on it",
     .choices = "8|16|32|64|128|256", .shown = own_default<&Options::block_tokens>},
    {.name = "kv-memory", .value = "<size>", .group = Group::memory, .field = &Options::kv_memory, .commands = kGenerate | kBench | kServe,
     .help = "room for keys and values: 4GiB, 500MB, or 30% of what is free after\nthe weights", .check = memory_amount_check,
     .shown = kv_memory_default},
    {.name = "kv-disk", .value = "<folder>", .group = Group::memory, .field = &Options::kv_disk, .commands = kGenerate | kServe,
     .help = "keep keys and values of prompts there, also after the end: a later\ncall whose prompt starts alike need not compute them",
     .shown = [](Command) { return "nowhere"s; }},
    {.name = "kv-disk-size", .value = "<size>", .group = Group::memory, .field = &Options::kv_disk_size, .commands = kGenerate | kServe,
     .help = "room in that folder; the least recently used is removed", .check = byte_size_check,
     .shown = own_default<&Options::kv_disk_size>},
    {.name = "context", .value = "<tokens>", .group = Group::memory, .field = &Options::context,
     .commands = kGenerate | kInspect | kServe, .help = "room for prompt plus answer", .least = 1, .most = 1 << 30,
     .shown = context_default},

    {.name = "threads", .value = "<n>", .group = Group::speed, .field = &Options::threads, .commands = kCompute | kInspect,
     .help = "CPU threads for the model; results do not depend on it", .least = 1, .most = 1024,
     .shown = threads_default, .per_machine = true},
    {.name = "isa", .value = "<name>", .group = Group::speed, .field = &Options::isa, .commands = kCompute | kInspect,
     .help = "kernels of this instruction set and those it is built on: generic,\navx2, avx_vnni, avx512, avx512_bf16, amx, neon or neon_i8mm; the\nCPU must have it",
     .choices = "generic|avx2|avx_vnni|avx512|avx512_bf16|amx|neon|neon_i8mm", .shown = isa_default},
    {.name = "chunk", .value = "<tokens>", .group = Group::speed, .field = &Options::chunk,
     .commands = kGenerate | kLogits | kPerplexity | kServe,
     .help = "tokens per step at most: long prompts run in chunks of it; results\ndo not depend on it", .least = 1,
     .most = 4096, .shown = own_default<&Options::chunk>},

    {.name = "max-step-ms", .value = "<ms>", .group = Group::speed, .field = &Options::max_step_ms,
     .commands = kGenerate | kBench | kServe,
     .help = "milliseconds that a step may take: long prompts run in chunks that fit\nbeside the streams. Less: smoother streams, slower prompts. bench\nwithout a mode has no bound",
     .least = 0, .most = 1e6, .shown = max_step_default},
    {.name = "io-threads", .value = "<n>", .group = Group::speed, .field = &Options::io_threads, .commands = kServe,
     .help = "threads that talk to clients", .least = 1, .most = 64, .shown = own_default<&Options::io_threads>},
    {.name = "schedule", .value = "<name>", .group = Group::speed, .field = &Options::schedule, .commands = kRun | kLogits | kServe,
     .help = "who runs beside whom: serial, one after the other; static, a batch\nuntil all of it have ended; mixed, whoever fits joins any step.\nResults do not depend on it",
     .choices = "serial|static|mixed", .shown = own_default<&Options::schedule>},

    {.name = "log-level", .value = "<level>", .group = Group::other, .field = &Options::log_level, .commands = kAll,
     .help = "events on standard error: debug, info, warn, error or off", .choices = "debug|info|warn|error|off",
     .shown = own_default<&Options::log_level>},
});

template <class T>
bool parse_number(const std::string& text, T& out) {
  const char* end = text.data() + text.size();
  const auto [stop, failure] = std::from_chars(text.data(), end, out);
  if (failure != std::errc{} || stop != end) return false;
  if constexpr (std::is_floating_point_v<T>) return std::isfinite(out);
  return true;
}

template <class T>
std::string store_number(T& slot, const OptionRow& row, std::string_view spelled, const std::string& text) {
  T number{};
  const bool bounded = row.least < row.most;
  if (parse_number(text, number) &&
      (!bounded || (static_cast<double>(number) >= row.least && static_cast<double>(number) <= row.most))) {
    slot = number;
    return "";
  }
  if (!bounded) return fmt::format("{}: expected a {}number, got '{}'", spelled, std::is_unsigned_v<T> ? "whole positive " : "", text);
  return fmt::format("{}: expected {} to {}, got '{}'", spelled, row.least, row.most, text);
}

std::string store_switch(bool& slot, std::string_view spelled, const std::string& text) {
  for (const auto yes : {"1", "true", "yes", "on"}) if (text == yes) return slot = true, "";
  for (const auto no : {"0", "false", "no", "off", ""}) if (text == no) return slot = false, "";
  return fmt::format("{}: expected true or false, got '{}'", spelled, text);
}

}  // namespace

bool is_choice(std::string_view choices, std::string_view text) {
  while (!choices.empty()) {
    const auto bar = choices.find('|');
    if (choices.substr(0, bar) == text) return true;
    choices = bar == choices.npos ? "" : choices.substr(bar + 1);
  }
  return false;
}

std::string_view heading(Group group) {
  switch (group) {
    case Group::what: return "What to do";
    case Group::load: return "The load of bench serve";
    case Group::listen: return "Where it listens";
    case Group::access: return "Who may ask, and how much";
    case Group::sampling: return "How tokens are chosen";
    case Group::output: return "Output";
    case Group::memory: return "Memory";
    case Group::speed: return "Speed";
    case Group::other: return "Other";
  }
  return "";
}

std::span<const OptionRow> option_table() { return kTable; }

std::vector<const OptionRow*> rows_of(Command command) {
  std::vector<const OptionRow*> rows;
  for (const OptionRow& row : kTable)
    if (row.commands & only(command)) rows.push_back(&row);
  return rows;
}

Options defaults_of(Command command) {
  Options options;
  if (command != Command::bench && command != Command::serve) options.max_step_ms = 0;  // one client waits: nobody else's stream could stall
  if (command == Command::chat) options.temperature = 0.7, options.max_tokens = -1;
  if (command == Command::serve) options.kv_memory = "50%", options.log_level = "info", options.max_step_ms = 150;
  return options;
}

std::string store(Options& options, const OptionRow& row, std::string_view spelled, const std::string& text) {
  if (!row.choices.empty() && !is_choice(row.choices, text))
    return fmt::format("{}: expected one of {}, got '{}'", spelled, row.choices, text);
  if (row.check)
    if (const std::string sentence = row.check(text); !sentence.empty()) return fmt::format("{}: {}", spelled, sentence);
  return std::visit(
      [&](auto member) -> std::string {
        auto& slot = options.*member;
        using T = std::remove_reference_t<decltype(slot)>;
        if constexpr (std::is_same_v<T, bool>) return store_switch(slot, spelled, text);
        else if constexpr (std::is_arithmetic_v<T>) return store_number(slot, row, spelled, text);
        else if constexpr (std::is_same_v<T, std::vector<std::string>>) return slot.push_back(text), "";
        else return slot = text, "";
      },
      row.field);
}

std::string value_text(const Options& options, const OptionRow& row) {
  return std::visit(
      [&](auto member) -> std::string {
        const auto& slot = options.*member;
        using T = std::remove_cvref_t<decltype(slot)>;
        if constexpr (std::is_same_v<T, bool>) return slot ? "true" : "false";
        else if constexpr (std::is_arithmetic_v<T>) return fmt::format("{}", slot);
        else if constexpr (std::is_same_v<T, std::vector<std::string>>) {
          std::string all;
          for (const std::string& one : slot) all += fmt::format("{}'{}'", all.empty() ? "" : ", ", one);
          return all;
        } else if constexpr (std::is_same_v<T, std::optional<std::string>>) return slot ? fmt::format("'{}'", *slot) : "";
        else return slot.empty() ? "" : fmt::format("'{}'", slot);
      },
      row.field);
}

}  // namespace millrace::cli
