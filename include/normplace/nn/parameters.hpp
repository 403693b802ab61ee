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
#include <vector>

#include <normplace/detail/check.hpp>
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

/// A parameter: one of the two is set.
template <class M, class V>
struct Leaf {
    std::string name;
    M* matrix;
    V* vector;
};
template <class T, class Object>
using Leaves = std::vector<
    std::conditional_t<std::is_const_v<Object>, Leaf<const Matrix<T>, const Vector<T>>, Leaf<Matrix<T>, Vector<T>>>>;

/// A null pointer to an object's Scalar, or to that of its first parameter, found from its type.
template <class Object>
constexpr auto scalar_pointer() {
    using Plain = std::remove_cv_t<Object>;
    if constexpr (Tensor<Plain>) return static_cast<typename Plain::value_type*>(nullptr);
    else if constexpr (requires { typename Plain::Scalar; }) return static_cast<typename Plain::Scalar*>(nullptr);
    else if constexpr (Sequence<Plain>)
        return scalar_pointer<std::remove_cvref_t<decltype(std::declval<Plain&>()[0])>>();
    else {
        using First = std::tuple_element_t<0, decltype(members_of(std::declval<Plain&>()))>;
        return scalar_pointer<std::remove_reference_t<decltype(std::declval<First&>().member)>>();
    }
}
template <class Object>
using ScalarOf = std::remove_pointer_t<decltype(scalar_pointer<Object>())>;

inline std::string joined_path(const std::string& path, const std::string& name) {
    if (path.empty() || name.empty()) return path + name;
    return path + "." + name;
}

// The walk is made once for each type of object, not once for each visitor: it gathers pointers, and the visitors then
// run over those. That is what keeps it cheap to compile.

template <class List, class Object>
void gather(const std::string& path, Object& object, List& leaves) {
    if constexpr (Tensor<std::remove_cv_t<Object>>) {
        if constexpr (std::tuple_size_v<typename Object::shape_type> == 2) leaves.push_back({path, &object, nullptr});
        else leaves.push_back({path, nullptr, &object});
    } else if constexpr (Sequence<Object>) {
        for (std::size_t i = 0; i < object.size(); ++i) gather(joined_path(path, std::to_string(i)), object[i], leaves);
    } else {
        std::apply([&](const auto&... member) { (gather(joined_path(path, member.name), member.member, leaves), ...); },
                   members_of(object));
    }
}

/// Gives the sequences in `other` that are empty, as in gradients that have not been used yet, the sizes of those in
/// `object`.
template <class Object, class Other>
void match_sizes(const std::string& path, const Object& object, Other& other) {
    if constexpr (Tensor<Object>) {
        static_assert(Tensor<Other> && std::tuple_size_v<typename Object::shape_type> ==
                                           std::tuple_size_v<typename Other::shape_type>,
                      "normplace: these gradients belong to another kind of layer.");
    } else if constexpr (Sequence<Object>) {
        if constexpr (requires { other.resize(object.size()); })
            if (other.size() == 0) other.resize(object.size());
        if (object.size() != other.size())
            throw std::invalid_argument("parameters: '" + path + "' has " + std::to_string(object.size()) +
                                        " elements in one object and " + std::to_string(other.size()) + " in another");
        for (std::size_t i = 0; i < object.size(); ++i) match_sizes(path, object[i], other[i]);
    } else {
        std::apply(
            [&](const auto&... first) {
                std::apply(
                    [&](const auto&... second) {
                        (match_sizes(joined_path(path, first.name), first.member, second.member), ...);
                    },
                    members_of(other));
            },
            members_of(object));
    }
}

template <class T, class Object>
auto leaves_of(Object& object) {
    Leaves<T, Object> leaves;
    gather(std::string(), object, leaves);
    return leaves;
}

template <class Value, class Other>
void require_same_shape(const std::string& name, const Value& value, const Other& other) {
    if (shape_of(value) != shape_of(other))
        throw std::invalid_argument("parameters: '" + name + "' has shape " + shape_text(shape_of(value)) +
                                    " in one object and " + shape_text(shape_of(other)) +
                                    " in another; zero_gradients gives gradients their shapes");
}

template <class Visit, class List, class... Lists>
void visit_leaves(const Visit& visit, const List& first, const Lists&... others) {
    for (std::size_t i = 0; i < first.size(); ++i)
        if (first[i].matrix) visit(first[i].name, *first[i].matrix, *others[i].matrix...);
        else visit(first[i].name, *first[i].vector, *others[i].vector...);
}

}  // namespace detail

/// Calls `visit(name, value, others...)` for every parameter of `layer`, a Matrix or a Vector, with the tensors of the
/// same name in `others`: its gradients, say. Absent parameters (a layer without biases) are passed over.
/// @throws std::invalid_argument when the objects have not the same number of layers, or their tensors not the same
/// shapes
template <class Visit, class Layer, class... Others>
void for_each_parameter(Visit&& visit, Layer& layer, Others&... others) {
    using T = detail::ScalarOf<Layer>;
    (detail::match_sizes(std::string(), layer, others), ...);
    const auto present = [&](const std::string& name, auto& value, auto&... rest) {
        if (value.size() == 0) return;
        (detail::require_same_shape(name, value, rest), ...);
        visit(name, value, rest...);
    };
    detail::visit_leaves(present, detail::leaves_of<T>(layer), detail::leaves_of<T>(others)...);
}

/// Gives every gradient the shape of its parameter and sets it to 0. `backward` adds to gradients: call this first.
/// @throws std::invalid_argument when `gradients` are those of a layer of another size
template <class Layer, class Gradients>
void zero_gradients(const Layer& layer, Gradients& gradients) {
    using T = detail::ScalarOf<Layer>;
    detail::match_sizes(std::string(), layer, gradients);
    const auto zero = [](const std::string&, const auto& value, auto& gradient) {
        detail::reshape(gradient, detail::shape_of(value));
        std::fill(gradient.data(), gradient.data() + gradient.size(), T(0));
    };
    detail::visit_leaves(zero, detail::leaves_of<T>(layer), detail::leaves_of<T>(gradients));
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
