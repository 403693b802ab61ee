// SPDX-License-Identifier: BSD-3-Clause
//
// The parameters of a model as a plain list, each with its gradient. What has nothing to do with the kind of model
// (optimizers, clipping, checkpoints) works on this list, and is compiled once.
#pragma once

#include <span>
#include <string>
#include <vector>

#include <normplace/nn/parameters.hpp>

namespace normplace {

/// A tensor by its name, row-major, wherever it lies.
template <class T>
struct NamedTensor {
    std::string name;
    std::vector<std::size_t> shape;
    std::span<T> entries;
};

/// One parameter of a model and its gradient, which have the same shape.
template <class T>
struct Parameter {
    std::string name;  ///< as for_each_parameter gives it: `layers.0.attention.query.weight`
    std::vector<std::size_t> shape;
    std::span<T> value, gradient;
};

template <class T>
using ParameterList = std::vector<Parameter<T>>;

/// Every parameter of `model` with its gradient, in the order of for_each_parameter. The list points into both and is
/// good as long as they live and neither is resized, assigned to or moved.
/// @throws std::invalid_argument when the gradients have not the model's shapes: call zero_gradients first
template <class Model, class Gradients>
ParameterList<detail::ScalarOf<Model>> parameter_list(Model& model, Gradients& gradients) {
    ParameterList<detail::ScalarOf<Model>> list;
    for_each_parameter(
        [&](const std::string& name, auto& value, auto& gradient) {
            const auto shape = detail::shape_of(value);
            list.push_back(
                {name, {shape.begin(), shape.end()}, {value.data(), value.size()}, {gradient.data(), gradient.size()}});
        },
        model, gradients);
    return list;
}

}  // namespace normplace
