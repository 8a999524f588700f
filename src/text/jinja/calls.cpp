#include <algorithm>

#include "text/jinja/access.h"
#include "text/jinja/globals.h"
#include "text/jinja/interpreter.h"

namespace millrace::text::jinja {
namespace {

/// Takes the argument `name` out of `args.named`.
std::optional<Value> take(Args& args, std::string_view name) {
  const auto found = std::ranges::find_if(args.named, [&](const auto& arg) { return arg.first.bytes() == name; });
  if (found == args.named.end()) return std::nullopt;
  Value value = found->second;
  args.named.erase(found);
  return value;
}

}  // namespace

Args Interpreter::arguments(const CallArguments* given, Scope& scope) {
  Args args;
  if (given == nullptr) return args;
  for (const ExpressionPtr& expression : given->positional) args.positional.push_back(eval(*expression, scope));
  if (given->star) {
    for (Value& value : items_of(ws_, eval(*given->star, scope))) args.positional.push_back(std::move(value));
    ws_.hold(0);
  }
  for (const auto& [name, expression] : given->named) args.named.emplace_back(name, eval(*expression, scope));
  if (given->star_star) {
    const Value more = eval(*given->star_star, scope);
    if (!defined(more).is(Kind::dict)) raise("argument after ** must be a mapping, not {}", type_name(more));
    Dict named;  // finds doubles without comparing every pair
    for (const auto& [key, value] : args.named) put(ws_, named, key, value);
    for (const auto& [key, value] : more.as<Dict>().items) {
      if (!key.is_string()) raise("keywords must be strings");
      if (find(ws_, named, key) != nullptr) raise("got multiple values for keyword argument '{}'", key.bytes());
      args.named.emplace_back(key, value);
    }
  }
  return args;
}

Value Interpreter::eval_call(const Expression& expression, Scope& scope, const Value* caller) {
  const Value callee = eval(*expression.parts[0], scope);
  Args args = arguments(expression.arguments.get(), scope);
  if (caller != nullptr) args.named.emplace_back(ws_.text("caller", Origin::template_text), *caller);
  return call(callee, args);
}

Value Interpreter::call(const Value& callee, Args& args) {
  switch (callee.kind()) {
    case Kind::undefined: raise("{}", callee.as<Undefined>().why);
    case Kind::method: {
      const Method& method = callee.as<Method>();
      return method.run(ws_, method.self, args);
    }
    case Kind::function: {
      const Function& function = callee.as<Function>();
      if (function.run == nullptr) raise("the function '{}' exists in Jinja2 but not in this engine", function.name);
      return function.run(ws_, callee, args);
    }
    case Kind::macro: return call_macro(callee.as<Macro>(), args);
    case Kind::joiner: return call_joiner(ws_, callee.as<Joiner>());
    case Kind::loop: {
      const Loop& loop = callee.as<Loop>();
      if (loop.statement == nullptr) raise("The loop must have the 'recursive' marker to be called recursively.");
      if (args.positional.size() != 1 || !args.named.empty()) raise("loop() takes one argument");
      const Workspace::Call level(ws_);
      TextBuilder out(ws_);
      run_loop(*loop.statement, args.positional[0], loop.depth0 + 1, *loop.scope, out);
      return out.value();
    }
    default: raise("'{}' object is not callable", type_name(callee));
  }
}

Value Interpreter::call_macro(const Macro& macro, Args& args) {
  const Workspace::Call level(ws_);
  const MacroDefinition& definition = *macro.definition;
  const auto& parameters = definition.parameters;
  Scope& scope = inner(*macro.scope);
  const std::size_t positional = std::min(args.positional.size(), parameters.size());
  std::vector<std::size_t> missing;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (i < positional) scope.set(parameters[i], args.positional[i]);
    else if (auto named = take(args, parameters[i])) scope.set(parameters[i], *named);
    else missing.push_back(i);
  }
  if (definition.uses_caller && std::ranges::find(parameters, "caller") == parameters.end()) {
    const auto caller = take(args, "caller");
    scope.set("caller", caller ? *caller : ws_.undefined("No caller defined"));
  }
  if (definition.uses_kwargs) {
    Dict& kwargs = ws_.dict();
    for (const auto& [name, value] : args.named) put(ws_, kwargs, name, value);
    scope.set("kwargs", Value(&kwargs));
  } else if (!args.named.empty()) {
    raise("macro '{}' takes no keyword argument '{}'", definition.name, args.named[0].first.bytes());
  }
  if (definition.uses_varargs) {
    scope.set("varargs", ws_.tuple({args.positional.begin() + static_cast<std::ptrdiff_t>(positional), args.positional.end()}));
  } else if (args.positional.size() > parameters.size()) {
    raise("macro '{}' takes not more than {} argument(s)", definition.name, parameters.size());
  }
  const std::size_t without_default = parameters.size() - definition.defaults.size();
  for (const std::size_t i : missing) {  // in order, so that a default may use the parameters before it
    scope.set(parameters[i], i < without_default ? ws_.undefined("parameter '{}' was not provided", parameters[i])
                                                 : eval(*definition.defaults[i - without_default], scope));
  }
  TextBuilder out(ws_);
  run_block(definition.body, scope, out);
  return out.value();
}

std::string describe_macro(const Macro& macro) {
  return macro.definition->name.empty() ? "<Macro anonymous>" : "<Macro '" + macro.definition->name + "'>";
}

std::optional<Value> macro_attribute(Workspace& ws, const Macro& macro, std::string_view name) {
  const MacroDefinition& definition = *macro.definition;
  if (name == "name") return definition.name.empty() ? Value() : ws.text(definition.name, Origin::template_text);
  if (name == "arguments") {
    std::vector<Value> names;
    for (const std::string& parameter : definition.parameters) names.push_back(ws.text(parameter, Origin::template_text));
    return ws.tuple(std::move(names));
  }
  if (name == "catch_kwargs") return Value(definition.uses_kwargs);
  if (name == "catch_varargs") return Value(definition.uses_varargs);
  if (name == "caller") return Value(definition.uses_caller);
  return std::nullopt;
}

}  // namespace millrace::text::jinja
