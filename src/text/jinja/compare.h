#pragma once

// Truth, equality, order, membership, hashing, length and iteration, with Python's rules and Python's complaints.

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "text/jinja/workspace.h"

namespace millrace::text::jinja {

bool truth(const Value& value);
bool equal(Workspace& ws, const Value& a, const Value& b);

/// a < b; `op` is what the message names. Raises when the types have no order.
bool less(Workspace& ws, const Value& a, const Value& b, const char* op = "<");

/// needle in haystack.
bool contains(Workspace& ws, const Value& haystack, const Value& needle);

/// len(); raises for what has none.
std::int64_t length_of(const Value& value);
bool has_length(const Value& value);

bool is_iterable(const Value& value);

/// Held while a generator computes its next item.
class Running {
 public:
  explicit Running(bool& flag) : flag_(flag) {
    if (flag_) raise("generator already executing");
    flag_ = true;
  }
  ~Running() { flag_ = false; }
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;

 private:
  bool& flag_;
};

/// A pull iterator over anything iterable; raises at construction for what is not.
class Items {
 public:
  Items(Workspace& ws, const Value& over);
  bool next(Value& item);

 private:
  Workspace* ws_;
  Value over_;
  std::size_t at_ = 0;  // items given; for a string, bytes
};

/// All items of an iterable, each paid for.
std::vector<Value> items_of(Workspace& ws, const Value& over);

/// The value under `key`, or nullptr. Raises for an unhashable key.
const Value* find(Workspace& ws, const Dict& dict, const Value& key);
const Value* find_text(const Dict& dict, std::string_view key);

/// Replaces the value of an equal key, which keeps its place and its first spelling, or adds one at the end.
void put(Workspace& ws, Dict& dict, const Value& key, const Value& value);

}  // namespace millrace::text::jinja
