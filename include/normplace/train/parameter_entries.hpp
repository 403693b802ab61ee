// SPDX-License-Identifier: BSD-3-Clause
//
// A parameter list as one long row of scalars, so that a loop over all of them is split over threads once, whatever
// the sizes of the tensors. Who keeps something for every scalar keeps it in one such row.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include <normplace/detail/check.hpp>
#include <normplace/detail/parallel.hpp>
#include <normplace/nn/parameter_list.hpp>

namespace normplace::detail {

template <class T>
std::size_t entry_count(const ParameterList<T>& parameters) {
    std::size_t count = 0;
    for (const Parameter<T>& parameter : parameters) count += parameter.value.size();
    return count;
}

/// For the entries [begin, end) of the row: calls `body(parameter, first, count, at)` for each parameter that has some
/// of them, `count` from its entry `first` on; in the row these begin at `at`.
template <class T, class Body>
void for_entries(const ParameterList<T>& parameters, std::size_t begin, std::size_t end, Body&& body) {
    std::size_t offset = 0;
    for (const Parameter<T>& parameter : parameters) {
        const std::size_t size = parameter.value.size();
        const std::size_t first = std::max(begin, offset), last = std::min(end, offset + size);
        if (first < last) body(parameter, first - offset, last - first, first);
        offset += size;
    }
}

/// The same for all entries, on several threads when there are enough of them for `work` scalar operations each.
template <class T, class Body>
void parallel_entries(const ParameterList<T>& parameters, double work, Body&& body) {
    const std::size_t count = entry_count(parameters);
    parallel_ranges(count, work * static_cast<double>(count), [&](std::size_t begin, std::size_t end, std::size_t) {
        for_entries(parameters, begin, end, body);
    });
}

template <class T>
void require_gradients(const char* who, const ParameterList<T>& parameters) {
    for (const Parameter<T>& parameter : parameters)
        require(parameter.value.size() == parameter.gradient.size(), who, [&] {
            return "parameter '" + parameter.name + "' has " + std::to_string(parameter.value.size()) +
                   " entries and its gradient " + std::to_string(parameter.gradient.size());
        });
}

/// A row as tensors with the parameters' shapes and names: "momentum.<parameter>".
template <class T>
void append_named(std::vector<NamedTensor<T>>& tensors, const std::string& prefix, const ParameterList<T>& parameters,
                  std::vector<T>& row) {
    for_entries(parameters, 0, row.size(),
                [&](const Parameter<T>& parameter, std::size_t, std::size_t count, std::size_t at) {
                    tensors.push_back({prefix + "." + parameter.name, parameter.shape, {row.data() + at, count}});
                });
}

}  // namespace normplace::detail
