#include "io/tensor_table.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>

namespace millrace::io {

Result<tensor::TensorDesc> checked_desc(std::string_view name, tensor::DType dtype,
                                        std::span<const std::uint64_t> dims) {
  constexpr std::uint64_t kMost = std::numeric_limits<std::int64_t>::max();
  if (dims.size() > 4)
    return error(Code::unsupported, "tensor '{}' has {} dimensions, at most 4 are read", name, dims.size());
  tensor::TensorDesc desc{dtype, {}};
  std::uint64_t elements = 1;
  for (const std::uint64_t dim : dims) {
    if (dim == 0) return error(Code::corrupt_data, "tensor '{}' has a dimension of 0", name);
    if (dim > kMost / elements)
      return error(Code::corrupt_data, "tensor '{}' has dimensions whose product exceeds {}", name, kMost);
    elements *= dim;
    desc.shape.push_back(static_cast<std::int64_t>(dim));
  }
  const auto block = layout_of(dtype);
  if (desc.shape.last() % block.elements != 0)
    return error(Code::corrupt_data, "tensor '{}' has rows of {} values, expected a multiple of {} for {}", name,
                 desc.shape.last(), block.elements, to_string(dtype));
  if (elements / static_cast<std::uint64_t>(block.elements) > kMost / static_cast<std::uint64_t>(block.bytes))
    return error(Code::corrupt_data, "tensor '{}' has {} values, which exceed {} bytes", name, elements, kMost);
  return desc;
}

Result<TensorTable> TensorTable::make(std::vector<NamedTensor> tensors) {
  TensorTable table;
  table.tensors_ = std::move(tensors);
  const auto& all = table.tensors_;
  std::vector<std::uint32_t> order(all.size());
  std::iota(order.begin(), order.end(), 0u);

  std::ranges::sort(order, std::less<>{}, [&](std::uint32_t i) { return all[i].view.data; });
  for (std::size_t k = 1; k < order.size(); ++k) {
    const NamedTensor &low = all[order[k - 1]], &high = all[order[k]];
    if (std::less<>{}(high.view.data, low.view.data + low.view.desc.bytes()))
      return error(Code::corrupt_data, "tensors '{}' and '{}' overlap", low.name, high.name);
  }

  std::ranges::sort(order, std::less<>{}, [&](std::uint32_t i) -> const std::string& { return all[i].name; });
  const auto twice =
      std::ranges::adjacent_find(order, {}, [&](std::uint32_t i) -> const std::string& { return all[i].name; });
  if (twice != order.end()) return error(Code::corrupt_data, "tensor '{}' is there twice", all[*twice].name);
  table.by_name_ = std::move(order);
  return table;
}

const tensor::ConstTensorView* TensorTable::find(std::string_view name) const {
  const auto found = std::ranges::lower_bound(by_name_, name, std::less<>{},
                                              [&](std::uint32_t i) { return std::string_view(tensors_[i].name); });
  if (found == by_name_.end() || tensors_[*found].name != name) return nullptr;
  return &tensors_[*found].view;
}

std::vector<std::string_view> TensorTable::names() const {
  std::vector<std::string_view> out;
  out.reserve(tensors_.size());
  for (const NamedTensor& t : tensors_) out.push_back(t.name);
  return out;
}

}  // namespace millrace::io
