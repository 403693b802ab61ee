// SPDX-License-Identifier: BSD-3-Clause
//
// Parameters walked by name: `layers.3.attention.query.weight`. A layer lists its members once, in
// `Gradients::members(self)`, which serves the layer itself and its Gradients alike, since both have members of the
// same names. The walk goes through any number of such objects side by side, so a visitor sees a parameter's value, its
// gradient and whatever an optimizer keeps for it, together. Optimizers, checkpoints and reports see parameters only
// so.
#pragma once

#include <algorithm>
#include <stdexcept>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>

#include <normplace/detail/xtensor.hpp>

namespace normplace {

/// A member and its name. An empty name adds nothing to the path.
template <class Member>
struct Named {
    std::string name;
    Member& member;
};
template <class Member>
Named<Member> named(std::string name, Member& member) {
    return {std::move(name), member};
}

namespace detail {

template <class Object>
concept Tensor = requires {
    typename Object::storage_type;
};
template <class Object>
concept Sequence = !Tensor<Object> && requires(Object & object) {
    object.size();
    object[0];
};

template <class Object>
auto members_of(Object& object) {
    using Plain = std::remove_cv_t<Object>;
    if constexpr (requires { typename Plain::Gradients; }) return Plain::Gradients::members(object);
    else return Plain::members(object);
}

inline std::string joined_path(const std::string& path, const std::string& name) {
    if (path.empty() || name.empty()) return path + name;
    return path + "." + name;
}

/// Gives a sequence of gradients that has not been used yet as many elements as there are layers.
template <class First, class Other>
void match_size(const std::string& path, const First& first, Other& other) {
    if (other.size() == first.size()) return;
    if constexpr (requires { other.resize(first.size()); })
        if (other.size() == 0) return other.resize(first.size());
    throw std::invalid_argument("parameters: '" + path + "' has " + std::to_string(first.size()) +
                                " elements in one object and " + std::to_string(other.size()) + " in another");
}

template <class Visit, class First, class... Rest>
void walk(const std::string& path, Visit& visit, First& first, Rest&... rest) {
    if constexpr (Tensor<std::remove_cv_t<First>>) {
        visit(path, first, rest...);
    } else if constexpr (Sequence<First>) {
        (match_size(path, first, rest), ...);
        for (std::size_t i = 0; i < first.size(); ++i)
            walk(joined_path(path, std::to_string(i)), visit, first[i], rest[i]...);
    } else {
        const auto step = [&](const auto& member, const auto&... others) {
            walk(joined_path(path, member.name), visit, member.member, others.member...);
        };
        const auto lists = std::make_tuple(members_of(first), members_of(rest)...);
        constexpr std::size_t count = std::tuple_size_v<std::tuple_element_t<0, decltype(lists)>>;
        const auto each = [&]<std::size_t... i>(std::index_sequence<i...>) {
            [[maybe_unused]] const auto at = [&](auto index) {
                std::apply([&](const auto&... list) { step(std::get<index>(list)...); }, lists);
            };
            (at(std::integral_constant<std::size_t, i>{}), ...);
        };
        each(std::make_index_sequence<count>{});
    }
}

}  // namespace detail

/// Calls `visit(name, value, others...)` for every parameter of `layer`, with the tensors of the same name in `others`:
/// its gradients, say. Absent parameters (a layer without biases) are passed over.
template <class Visit, class Layer, class... Others>
void for_each_parameter(Visit&& visit, Layer& layer, Others&... others) {
    const auto present = [&](const std::string& name, auto& value, auto&... rest) {
        if (value.size() != 0) visit(name, value, rest...);
    };
    detail::walk(std::string(), present, layer, others...);
}

/// Gives every gradient the shape of its parameter and sets it to 0. `backward` adds to gradients: call this first.
template <class Layer, class Gradients>
void zero_gradients(const Layer& layer, Gradients& gradients) {
    const auto zero = [](const std::string&, const auto& value, auto& gradient) {
        detail::reshape(gradient, detail::shape_of(value));
        std::fill(gradient.data(), gradient.data() + gradient.size(), 0);
    };
    detail::walk(std::string(), zero, layer, gradients);
}

/// The number of scalars in all parameters of `layer`.
template <class Layer>
std::size_t parameter_count(const Layer& layer) {
    std::size_t count = 0;
    for_each_parameter([&](const std::string&, const auto& value) { count += value.size(); }, layer);
    return count;
}

/// What has no parameters.
struct NoParameters {
    using Gradients = NoParameters;
    template <class Self>
    static std::tuple<> members(Self&) {
        return {};
    }
};

}  // namespace normplace
