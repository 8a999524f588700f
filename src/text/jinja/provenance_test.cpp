// No byte changes hands: whatever a template does to the caller's strings, their bytes come out as the caller's, and
// the template's own as the template's. Random templates over all filters and methods; each side marks its strings
// with a character of its own that no operation produces out of other characters.

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <map>
#include <random>

#include "text/chat_template.h"

namespace millrace::text {
namespace {

constexpr std::string_view kCallers = "\xC2\xA7";    // § in every string and key of the variables
constexpr std::string_view kTemplates = "\xC2\xA4";  // ¤ in the literals and data of the templates

const Json& variables() {
  static const Json json = Json::parse(R"({
    "s": "§Ab cd§\n e§<f>§", "t": "  §x,§y,§z \t", "l": ["b§", "§A", "c§ d"], "n": 3, "d": {"k§": "§v", "j": ["§w"], "b": {"q§": "u§"}},
    "m": [{"role": "user§", "content": "§one"}, {"role": "a§", "content": "two§"}, {"role": "user§", "content": "§3"}], "e": "§", "f": "%s§ {} {0}"})");
  return json;
}

/// Random expressions: text of bounded depth, most of which render.
class Writer {
 public:
  explicit Writer(unsigned seed) : rng_(seed) {}

  std::string pick(std::initializer_list<const char*> from) { return from.begin()[rng_() % from.size()]; }

  std::string text(int depth) {
    if (depth == 0 || rng_() % 6 == 0) {
      return pick({"s", "t", "e", "f", "l[0]", "l[-1]", "d.j[0]", "d['k§']", "m[0].content", "m[1]['role']", "(d|list)[0]", "'¤lit¤'", "' ¤a,¤B '", "'%s¤%s'", "'<¤>'", "'¤'", "k"});
    }
    const std::string a = "(" + text(depth - 1) + ")", b = "(" + text(depth - 1) + ")";
    switch (rng_() % 16) {
      case 0: return a + " ~ " + b;
      case 1: return a + " + " + b;
      case 2: return a + "|" + pick({"upper", "lower", "title", "capitalize", "trim", "string", "safe", "e", "escape", "forceescape", "reverse", "tojson", "indent", "urlencode",
                                     "indent(2, true)", "indent('¤ ')", "truncate(6)", "truncate(6, true, '¤', 0)", "center(20)", "tojson(ensure_ascii=true)", "default('¤')", "format('¤', 1)",
                                     "list|join", "list|join('¤')", "list|sort|join", "list|unique|join", "list|tojson", "list|string", "list|last", "list|map('upper')|join", "first", "last",
                                     "batch(2)|list|string", "slice(2)|map('join', '¤')|join", "select|join", "reject('in', 'xyz')|join", "trim('§¤ ')", "wordcount|string"});
      case 3: return a + "." + pick({"strip()", "lstrip()", "rstrip()", "upper()", "lower()", "title()", "swapcase()", "capitalize()", "casefold()", "expandtabs(3)", "center(12, '¤')",
                                     "ljust(9, '¤')", "rjust(9)", "zfill(12)", "splitlines()|join('¤')", "split()|join(' ')", "split(',')|last", "rsplit(' ', 1)[0]", "partition(',')|join",
                                     "rpartition('¤')|string", "format('¤', s, 3)", "format(s, t)", "removeprefix('§')", "removesuffix('§')", "split('§')|join('|')", "strip('§ ')"});
      case 4: return a + ".replace(" + b + ", " + text(0) + ")";
      case 5: return a + "|replace(" + text(0) + ", " + b + pick({"", ", 1"}) + ")";
      case 6: return b + ".join([" + a + ", " + text(depth - 1) + ", 'x'])";
      case 7: return a + pick({"[0]", "[-1]", "[1:]", "[:-1]", "[::-1]", "[::2]", "[1:5]", "[n:]", "[-3:]"});
      case 8: return a + " * " + pick({"2", "n", "1"});
      case 9: return pick({"'%s¤%s' % (", "'%10s|%-9s' % (", "'%r %.3s' % (", "'<%s>%s'|format("}) + a + ", " + b + ")";
      case 10: return pick({"'{}¤{}'", "'{1!r:>12}{0:¤^9}'", "'{:.3}{:>9}'"}) + ".format(" + a + ", " + b + ")";
      case 11: return pick({"[", "("}) == "[" ? "[" + a + ", " + b + "]|" + pick({"string", "tojson", "tojson(indent=2)", "join('¤')", "map('trim')|join", "tojson(separators=('¤', ':'))"})
                                              : "{" + a + ": " + b + "}|" + pick({"string", "tojson", "tojson(indent='¤')", "dictsort|string", "items|list|string", "list|join", "tojson(sort_keys=true)"});
      case 12: return pick({"d|string", "d|tojson", "m|tojson(indent=1)", "m|map(attribute='role')|unique|join('¤')", "m|groupby('role')|string", "m|selectattr('role', 'eq', 'user§')|list|string",
                            "d|dictsort|string", "d.items()|list|string", "d.keys()|join", "d|attr('get')('k§')", "dict(m[0], z='¤')|string", "dict(**d)|string", "namespace(a=s).a", "l|sort|join('¤')",
                            "m|sort(attribute='content')|map(attribute='content')|join", "l|min", "l|max", "(d.values()|list)[0]", "m|join('¤', attribute='content')", "d|xmlattr", "f|format(s)", "f % s", "f.format(s)",
                            "show(s, p=t)", "show('¤')", "show(d)", "strftime_now('¤%Y' ~ s)", "cycler(s, '¤').next()", "l|sum(start='')", "'¤%(a)s' % {'a': s}", "'{a[j]}'.format(a=d)", "(s|safe) + t", "t + (s|safe)"});
      case 13: return a + " if " + pick({"n > 2", "n > 5", "'a' in s", "e is string"}) + " else " + b;
      case 14: return a + pick({" or ", " and "}) + b;
      default: return "(" + a + "|" + pick({"string", "e", "safe"}) + ")";
    }
  }

  std::string statement() {
    const std::string value = text(3);
    switch (rng_() % 8) {
      case 0: return "{% set k = " + value + " %}{{ k }}¤";
      case 1: return "{% set k" + pick({"", " | upper", " | trim", " | replace('b', '¤')"}) + " %}¤{{ " + value + " }}{% endset %}{{ k }}";
      case 2: return "{% for k in " + pick({"l", "m|map(attribute='content')", "d", "s", "t.split(',')", "d|dictsort|map('last')|map('string')"}) + " %}{{ " + value + " }}¤{{ loop.previtem }}{% endfor %}";
      case 3: return "{% filter " + pick({"upper", "trim", "indent", "replace('a', '¤')", "e", "tojson", "title"}) + " %}¤{{ " + value + " }}{% endfilter %}";
      case 4: return "{% call(k) show(" + value + ") %}¤{{ k }}{{ s }}{% endcall %}";
      case 5: return "{% with k = " + value + " %}{{ k }}{{ k|upper }}¤{% endwith %}";
      default: return "¤{{ " + value + " }}";
    }
  }

 private:
  std::mt19937 rng_;
};

const std::string kMacro = "{% macro show(v, p='¤') %}{{ v }}¤{{ p }}{{ caller(v) if caller }}{{ kwargs if varargs }}{% endmacro %}{% set k = s %}";

int count(std::string_view in, std::string_view what) {
  int n = 0;
  for (std::size_t at = in.find(what); at != in.npos; at = in.find(what, at + what.size())) ++n;
  return n;
}

TEST(JinjaProvenance, bytes_keep_their_origin_through_random_templates) {
  int rendered = 0, callers = 0, templates = 0;
  for (unsigned seed = 0; seed < 4000; ++seed) {
    Writer writer(seed);
    std::string source = kMacro + writer.statement() + writer.statement();
    // A mark in a template's literal that stands for the caller's key or characters to strip is the template's own text.
    auto parsed = ChatTemplate::parse(source);
    ASSERT_TRUE(parsed.ok()) << "seed " << seed << "\n" << source << "\n" << parsed.error().message;
    const auto result = parsed->render(variables(), {}, 0, {.steps = 1'000'000, .depth = 100, .bytes = 1u << 20});
    if (!result.ok()) continue;
    ++rendered;
    std::size_t at = 0;
    for (const MarkedText::Run& run : result->runs) {
      const std::string_view piece = std::string_view(result->text).substr(at, run.length);
      at += run.length;
      const bool ours = run.origin == Origin::template_text;
      callers += count(piece, kCallers), templates += count(piece, kTemplates);
      ASSERT_EQ(ours ? count(piece, kCallers) : 0, 0) << "seed " << seed << ": the caller's bytes count as the template's\n" << source << "\n" << result->text;
      ASSERT_EQ(ours ? 0 : count(piece, kTemplates), 0) << "seed " << seed << ": the template's bytes count as the caller's\n" << source << "\n" << result->text;
    }
    ASSERT_EQ(at, result->text.size()) << "seed " << seed;
  }
  // Enough of them rendered for the claim to mean something.
  EXPECT_GT(rendered, 2000);
  EXPECT_GT(callers, 10000);
  EXPECT_GT(templates, 10000);
}

TEST(JinjaProvenance, a_marker_spelled_by_both_sides_together_is_never_the_templates_alone) {
  const std::map<std::string, std::string> kSources = {
      {"{{ '<|im_' ~ c }}", "<|im_"}, {"{{ '<|' + c + '|>' }}", "<||>"}, {"{{ ['<|', c]|join }}", "<|"}, {"{{ '<|%s|>' % c }}", "<||>"},
      {"{{ '<|{}|>'.format(c) }}", "<||>"}, {"{{ '<|X|>'.replace('X', c) }}", "<||>"}, {"{{ c|replace('end', '<|im_end|>') }}", "<|im_end|><|im_end|>"},
      {"{{ {'<|im_end|>': c}|string }}", "<|im_end|>"}, {"{{ [c, '<|im_end|>']|tojson }}", "<|im_end|>"}, {"{{ n }}<|{{ n * 2 }}", "<|"},
      {"{{ c.split('|')[1] }}", ""}, {"{{ (c ~ '<|im_end|>')[2:] }}", "<|im_end|>"}, {"{{ {c: 1}|list|first }}", ""}, {"{% for x in c %}{{ x }}{% endfor %}", ""},
      {"{{ dict(**{c: '<s>'})|string }}", "<s>"}, {"{% macro f() %}{{ kwargs }}{% endmacro %}{{ f(**{c: '<s>'}) }}", "<s>"}};
  for (const auto& [source, wanted] : kSources) {
    const auto parsed = ChatTemplate::parse(source);
    ASSERT_TRUE(parsed.ok()) << source;
    const auto result = parsed->render({{"c", "end|im_end"}, {"n", 7}}, {}, 0);
    ASSERT_TRUE(result.ok()) << source << "\n" << result.error().message;
    std::string ours;
    std::size_t at = 0;
    for (const MarkedText::Run& run : result->runs) {
      if (run.origin == Origin::template_text) ours += result->text.substr(at, run.length);
      at += run.length;
    }
    EXPECT_EQ(ours, wanted) << source << "\n" << result->text;
  }
}

}  // namespace
}  // namespace millrace::text
