// Hostile templates end with an error: no hang, no overflow of the stack, no memory without bound.

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <string>

#include "text/chat_template.h"

namespace millrace::text {
namespace {

std::string repeat(const std::string& piece, int times) {
  std::string out;
  for (int i = 0; i < times; ++i) out += piece;
  return out;
}

Result<MarkedText> render(const std::string& source, const Json& variables = Json::object(), const RenderLimits& limits = {}) {
  MILLRACE_TRY(parsed, ChatTemplate::parse(source));
  return parsed.render(variables, {}, 0, limits);
}

std::string message(const Result<MarkedText>& result) { return result.ok() ? "rendered: " + result->text.substr(0, 200) : result.error().message; }

// Small enough to be over soon; what matters is that no operation escapes them.
constexpr RenderLimits kSmall = {.steps = 500'000, .depth = 200, .bytes = 4u << 20};

TEST(JinjaLimits, work_and_memory_without_end_are_exhausted) {
  const std::string kNs = "{% set ns = namespace(s='x', l=[], g=[1], t=()) %}";
  const std::vector<std::string> kSources = {
      kNs + "{% for i in range(60) %}{% set ns.s = ns.s + ns.s %}{% endfor %}",
      kNs + "{% for i in range(60) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}",
      kNs + "{% for i in range(60) %}{% set ns.s = ns.s|replace('x', 'xx') %}{% endfor %}",
      kNs + "{% for i in range(60) %}{% set ns.s %}{{ ns.s }}{{ ns.s }}{% endset %}{% endfor %}",
      kNs + "{% for i in range(60) %}{% set ns.l = ns.l + ns.l + [1] %}{% endfor %}",
      kNs + "{% for i in range(60) %}{% set ns.s = '%s%s' % (ns.s, ns.s) %}{% endfor %}",
      kNs + "{% for i in range(60) %}{% set ns.s = '{0}{0}'.format(ns.s) %}{% endfor %}",
      kNs + "{% for i in range(60) %}{% set ns.s = [ns.s, ns.s]|join %}{% endfor %}",
      kNs + "{% for i in range(60) %}{% set ns.s = [ns.s, ns.s]|tojson %}{% endfor %}",
      kNs + "{% for i in range(10000) %}{% set ns.l = ns.l + ['x' * 4000000] %}{% endfor %}",
      "{{ 'x' * 1000000000 }}", "{{ [0] * 1000000000 }}", "{{ 1000000000 * (1, 2) }}", "{{ 'a'.ljust(10 ** 12) }}",
      "{{ 'a'.center(9223372036854775807) }}", "{{ 'a'|center(10 ** 15) }}", "{{ 'a'.zfill(10 ** 15) }}", "{{ '%2000000000d' % 1 }}",
      "{{ '{:2000000000}'.format(1) }}", "{{ '%.2000000000f' % 1.5 }}", "{{ '{:.2000000000e}'.format(1.5) }}", "{{ 'a\nb'|indent(10 ** 15) }}",
      "{{ [1]|tojson(indent=10 ** 15) }}", "{{ [1]|batch(10 ** 15, 'x')|list }}", "{{ [1]|slice(10 ** 15)|list }}", "{{ '\t'.expandtabs(10 ** 15) }}",
      "{% for a in range(99999) %}{% for b in range(99999) %}{% for c in range(99999) %}{% endfor %}{% endfor %}{% endfor %}",
      "{% for a in range(99999) %}{{ 'x' * 60000 }}{% endfor %}",
      // Searching: strings chosen so that a simple search compares everything with everything.
      "{% set a = 'a' * 3000000 %}{% set b = 'a' * 1500000 ~ 'b' %}{% for i in range(9999) %}{{ a.rfind('b' ~ b) }}{% endfor %}",
      "{% set a = 'a' * 3000000 %}{% set b = 'a' * 1500000 ~ 'b' %}{% for i in range(99999) %}{{ b in a }}{% endfor %}",
      "{% set a = 'a' * 3000000 %}{% set b = 'a' * 3000000 %}{% for i in range(99999) %}{{ a == b }}{% endfor %}",
      "{% set a = 'é' * 1500000 %}{% for i in range(99999) %}{{ a[1400000] }}{% endfor %}",
      "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
      "{% macro f() %}{{ caller }}{% call f() %}{% endcall %}{% endmacro %}{{ f() }}",
      "{% macro f(a=f()) %}{% endmacro %}{{ f() }}",
      "{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}",
      kNs + "{% for i in range(5000) %}{% set ns.l = [ns.l] %}{% endfor %}{{ ns.l }}",
      kNs + "{% for i in range(5000) %}{% set ns.l = [ns.l] %}{% endfor %}{{ ns.l|tojson }}",
      kNs + "{% for i in range(5000) %}{% set ns.l = [ns.l] %}{% endfor %}{% set a = ns.l %}{% set ns.l = [] %}{% for i in range(5000) %}{% set ns.l = [ns.l] %}{% endfor %}{{ a == ns.l }}",
      kNs + "{% for i in range(5000) %}{% set ns.t = (ns.t,) %}{% endfor %}{{ {ns.t: 1} }}",
      kNs + "{% for i in range(5000) %}{% set ns.g = ns.g|map('string') %}{% endfor %}{{ ns.g|list }}",
      kNs + "{% set ns.l = [ns] %}{{ ns }}",
  };
  for (const std::string& source : kSources) {
    const auto rendered = render(source, Json::object(), kSmall);
    ASSERT_FALSE(rendered.ok()) << source << "\n" << message(rendered);
    EXPECT_EQ(rendered.error().code, Code::exhausted) << source << "\n" << message(rendered);
  }
}

TEST(JinjaLimits, what_python_refuses_is_refused_here) {
  const std::pair<const char*, const char*> kCases[] = {
      {"{{ range(1000000000)|list }}", "Range too big"},
      {"{{ 2 ** 100 }}", "does not fit into 64 bits"},
      {"{{ 9223372036854775807 + 1 }}", "does not fit into 64 bits"},
      {"{{ -9223372036854775807 - 2 }}", "does not fit into 64 bits"},
      {"{{ (-9223372036854775807 - 1) // -1 }}", "does not fit into 64 bits"},
      {"{{ -(-9223372036854775807 - 1) }}", "does not fit into 64 bits"},
      {"{{ 3037000500 * 3037000500 }}", "does not fit into 64 bits"},
      {"{{ '99999999999999999999'|int }}", "does not fit into 64 bits"},
      {"{{ 1e300|int }}", "does not fit into 64 bits"},
      {"{{ 99999999999999999999 }}", "does not fit into 64 bits"},
      {"{% set ns = namespace(l=none) %}{% for x in [1, 2] if ns.l is none or ns.l.length %}{% set ns.l = loop %}{% endfor %}", "generator already executing"},
      {"{{ [].append(1) }}", "is unsafe"},
      {"{{ ''.__class__.__mro__ }}", "is unsafe"},
      {"{{ '{0.__class__.__mro__}'.format(1) }}", "is unsafe"},
  };
  for (const auto& [source, part] : kCases) {
    const auto rendered = render(source);
    ASSERT_FALSE(rendered.ok()) << source << "\n" << message(rendered);
    EXPECT_NE(rendered.error().message.find(part), std::string::npos) << source << "\n" << message(rendered);
  }
}

TEST(JinjaLimits, numbers_at_the_edge_compute) {
  EXPECT_EQ(message(render("{{ 9223372036854775807 }} {{ -9223372036854775807 - 1 }} {{ (-9223372036854775807 - 1) % -1 }} {{ 'abc'[::9223372036854775807] }} "
                           "{{ 'abc'[::-9223372036854775807] }} {{ range(0, 9223372036854775807, 4611686018427387904)[1:] }}")),
            "rendered: 9223372036854775807 -9223372036854775808 0 a c range(4611686018427387904, -9223372036854775808, 4611686018427387904)");
}

TEST(JinjaLimits, nesting_in_the_source_is_bounded_in_the_parser) {
  const int n = 20000;
  const std::vector<std::string> kSources = {
      "{{ " + repeat("(", n), "{{ " + repeat("[", n), "{{ " + repeat("{1:", n), "{{ " + repeat("-", n) + "1 }}", "{{ " + repeat("not ", n) + "1 }}",
      repeat("{% if 1 %}", n), repeat("{% for a in b %}", n), repeat("{% set a %}", n), repeat("{% macro a() %}", n), "{{ a" + repeat(".b", n) + " }}",
      "{{ a" + repeat("[0]", n) + " }}", "{{ a" + repeat("()", n) + " }}", "{{ a" + repeat("|upper", n) + " }}", "{{ a" + repeat("(a", n), "{{ a" + repeat("[a", n),
      "{{ a" + repeat(" if a else a", n) + " }}", "{{ a" + repeat(" if a", n) + " }}", "{{ a" + repeat(" is defined", n) + " }}",
      "{% set " + repeat("(", n), "{% set x" + repeat("|upper", n) + " %}{% endset %}", "{{ a|f" + repeat("(a|f", n)};
  for (const std::string& source : kSources) {
    const auto parsed = ChatTemplate::parse(source);
    ASSERT_FALSE(parsed.ok()) << source.substr(0, 40);
    EXPECT_EQ(parsed.error().code, Code::corrupt_data) << source.substr(0, 40);
  }
}

TEST(JinjaLimits, long_is_not_deep) {
  const int n = 20000;
  EXPECT_EQ(message(render("{{ 0" + repeat("+1", n) + " }}")), "rendered: 20000");
  EXPECT_EQ(message(render("{{ (''" + repeat(" ~ 'a'", n) + ")|length }}")), "rendered: 20000");
  EXPECT_EQ(message(render("{% if 0 %}" + repeat("{% elif 0 %}", n) + "{% else %}e{% endif %}")), "rendered: e");
  EXPECT_EQ(message(render("{{ [" + repeat("1,", n) + "]|length }}")), "rendered: 20000");
  EXPECT_EQ(message(render("{{ 1" + repeat(" and 1", n) + " }}")), "rendered: 1");
}

TEST(JinjaLimits, deep_json_from_the_caller_is_exhausted_and_shallow_json_is_not) {
  const auto nested = [](int depth) {
    Json json = 1;
    for (int i = 0; i < depth; ++i) json = Json::array({std::move(json)});
    return Json{{"x", std::move(json)}};
  };
  EXPECT_EQ(render("{{ x }}", nested(100000)).error().code, Code::exhausted);
  EXPECT_EQ(message(render("{{ x|tojson|length }}", nested(500))), "rendered: 1001");
}

TEST(JinjaLimits, recursion_near_the_limit_fits_the_stack) {
  const std::string source =
      "{% macro f(n) %}{% if n %}{% for x in [1] %}{% set y %}{{ [(f(n - 1)|upper ~ '')|lower][0] }}{% endset %}{{ y }}{% endfor %}{% else %}end{% endif %}{% endmacro %}";
  EXPECT_EQ(message(render(source + "{{ f(100) }}")), "rendered: end");
  EXPECT_EQ(render(source + "{{ f(100000) }}").error().code, Code::exhausted);
}

TEST(JinjaLimits, each_limit_can_be_set_and_is_named_in_the_error) {
  EXPECT_EQ(render("{% for i in range(100) %}x{% endfor %}", Json::object(), {.steps = 50}).error().message,
            "chat template line 1: rendering takes more than 50 steps");
  EXPECT_EQ(render("{{ 'x' * 11 }}", Json::object(), {.bytes = 10}).error().message, "chat template line 1: a text of 11 bytes exceeds the limit of 10");
  EXPECT_EQ(render("{% for i in range(11) %}x{% endfor %}", Json::object(), {.bytes = 10}).error().message,
            "chat template line 1: a text of 11 bytes exceeds the limit of 10");
  EXPECT_EQ(render("{% set l = ['x'] * 60000 %}{% set k = l + l %}", Json::object(), {.bytes = 1000}).error().message,
            "chat template line 1: a repeated list exceeds the limit of 1000 bytes");
  EXPECT_EQ(render("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", Json::object(), {.depth = 20}).error().message,
            "chat template line 1: calls nested more than 20 deep");
}

}  // namespace
}  // namespace millrace::text
